"""From a question to an answer: six stages in a straight list, each of which tells what it does.

Whatever happens, exactly one last event ends a question: an answer, a clarification, a refusal, or a failure that is
not the question's.
"""

import math
from collections.abc import Awaitable, Callable

import attrs
import trio

from sqlassist.audit import AuditError
from sqlassist.conversation import Conversation
from sqlassist.execute.errors import DatabaseError
from sqlassist.language import language_of
from sqlassist.messages import Emit, Event, Question, Refusal, Stage
from sqlassist.ports import ModelFailed, Ports
from sqlassist.route import Route
from sqlassist.scope import TableChoice, area_of, tables_of
from sqlassist.stages import executing
from sqlassist.stages.generating import model_subject, schema_slice
from sqlassist.stages.routing import route
from sqlassist.stages.work import Ended, Work
from sqlassist.wording import say

RETRY_AFTER_SECONDS = 5.0  # what a restarting database or engine mostly needs
AUDIT_GRACE_SECONDS = 2.0  # for putting on record that nobody waits for a question any more


async def scope(work: Work) -> Ended | None:
    """Stage 2: which source, subject area and tables, and why."""
    if work.route is Route.EXPLAIN:
        return await executing.explain(work)
    if work.route is Route.FIX_SQL:
        ended = await executing.mend(work)
        if ended is not None:
            return ended
    if work.subject is None and work.decision is None:
        work.subject = model_subject(work)
    subject, decision = work.subject, work.decision
    if subject is None:
        return None  # SQL of a person with several sources: the guard finds out whose tables they are
    if decision is not None and decision.query is not None:
        tables = tables_of(decision.query, subject.layer)
    elif decision is not None:
        words = decision.sql.lower()
        tables = tuple(
            TableChoice(name, "named in the SQL") for name in subject.catalog.table_names() if name.lower() in words
        )
    else:
        named = schema_slice(work, subject)
        why = "the whole schema" if named is None else "named in the question, or referred to"
        tables = tuple(TableChoice(name, why) for name in (named or subject.catalog.table_names()))
        work.tables = () if named is None else named
    await work.tell(
        Stage.SCOPE,
        source=subject.source,
        area=area_of(tables, subject.layer),
        tables=[attrs.asdict(table) for table in tables],
    )
    return None


async def retrieve(work: Work) -> Ended | None:
    """Stage 3: what a model is shown. Nothing is retrieved where the SQL is decided."""
    subject = work.subject
    if work.decision is not None or subject is None:
        return None
    settings = work.ports.settings.models
    if settings.examples:
        work.shots = work.ports.library.examples(work.tenant, work.text, settings.examples)
    if settings.values:
        known = (await work.ports.values(work.tenant)).get(subject.source, {})
        kept = {name: subject.layer.dimensions[name] for name in known if name in subject.layer.dimensions}
        work.values = {
            dimension.column: known[name]
            for name, dimension in kept.items()
            if not work.tables or dimension.column.partition(".")[0] in work.tables
        }
    await work.tell(
        Stage.RETRIEVED,
        examples=[shot.question for shot in work.shots],
        values=sorted(work.values),
        schema="slice" if work.tables else "whole",
        terms=len(subject.document),
    )
    return None


async def generate(work: Work) -> Ended | None:
    """Stage 4: the SQL, where it is not decided yet."""
    return None if work.decision is not None else await executing.generated(work)


STAGES: tuple[Callable[[Work], Awaitable[Ended | None]], ...] = (
    route,
    scope,
    retrieve,
    generate,
    executing.checked,
    executing.execute,
    executing.summarized,
)
"""In order; each may end the question. The last one always does."""


async def answer(question: Question, conversation: Conversation, ports: Ports, emit: Emit) -> Event:
    """Answer one question of a session.

    Args:
        question: From the asker of the conversation.
        conversation: Is added to.
        ports: See there.
        emit: Gets every event in order, the last one exactly once; nothing after a cancellation.

    Returns:
        The last event.
    """
    work = Work(
        question,
        conversation,
        ports,
        emit,
        language_of(question.text),
        begun=ports.now(),
        subjects=ports.subjects(conversation.asker.tenant),
    )
    ended = await _ended(work)
    if not work.is_audited:
        try:
            ended = await _on_record(work, ended)
        except trio.Cancelled:  # taken back before it was written: it is on record all the same
            with trio.CancelScope(shield=True), trio.move_on_after(AUDIT_GRACE_SECONDS):
                await _on_record(work, ended)
            raise
    conversation.remember(work.remembered(ended.event, ended.choices))
    await emit(ended.event)
    return ended.event


async def _ended(work: Work) -> Ended:
    try:
        for stage in STAGES:
            ended = await stage(work)
            if ended is not None:
                return ended
    except DatabaseError:
        work.is_audited = False
        return Ended(work.failed("database_failed", say("database_failed", work.language), RETRY_AFTER_SECONDS))
    except ModelFailed as error:
        work.is_audited = False
        return Ended(work.failed(error.code, error.text, error.retry_after_seconds))
    except AuditError:
        work.is_audited = True  # it was tried
        return Ended(work.failed("audit_failed", say("audit_failed", work.language)))
    except BaseException:  # taken back mostly, else a bug of ours: on record in any case, and then on its way
        is_cancelled = trio.current_effective_deadline() == -math.inf
        with trio.CancelScope(shield=True), trio.move_on_after(AUDIT_GRACE_SECONDS):
            await _on_record(work, Ended(work.failed("cancelled" if is_cancelled else "internal", "")))
        raise
    raise AssertionError("the last stage ends every question")


async def _on_record(work: Work, ended: Ended) -> Ended:
    """Every attempt is on record, refused and failed ones too, and those that read no rows."""
    is_answer = ended.event.stage is Stage.ANSWER
    code = str(ended.event.data.get("code", work.route if is_answer else ended.event.stage))
    try:
        await work.audit("pass" if is_answer else "refuse", code)
    except AuditError:
        return Ended(work.failed("audit_failed", say("audit_failed", work.language)))
    return ended


def review_refusal(conversation: Conversation, question_id: str) -> Refusal | None:
    """Why the answer to a question cannot be put before reviewers, or None."""
    turn = conversation.turn(question_id)
    if turn is None:
        return Refusal("no_such_question", question_id[:80], "this session has had no such question")
    return None if turn.sql else Refusal("nothing_to_explain", "", "that question led to no SQL")
