"""Asks an assistant every wording of a question set, each in a session of its own, and grades what comes of it.

Nothing of it reaches the assistant's own state: verified queries are read and never written, caches are off, and the
audit trail is a temporary one. A question is taken out of retrieval before it is asked, in all its wordings.
"""

import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import trio

from actors.assistant import open_assistant
from actors.assistant_caches import LayeredCaches
from actors.assistant_config import AssistantConfig
from actors.assistant_library import AssistantLibrary, Values
from actors.assistant_models import open_models
from actors.configuration import Problem, ScenarioError
from actors.evaluation_report import Graded
from actors.sql_configuration import load_sql_config
from runtime.ids import TenantId
from runtime.nursery import open_bare_nursery
from sqlassist.audit import open_audit
from sqlassist.conversation import Conversation
from sqlassist.decision import Decision
from sqlassist.evaluate import Outcome, QuestionSet, SetQuestion, Table, judged, outcome_of, table_of
from sqlassist.generate import Shot
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.language import folded
from sqlassist.messages import Asker, Event, Question, Refusal
from sqlassist.pipeline import answer
from sqlassist.ports import PipelineSettings, Ports, Subject
from sqlassist.result import ResultSet
from sqlassist.sources import SourceChoice
from sqlassist.verified_store import FILE

Ask = Callable[[SetQuestion, str], Awaitable[Outcome]]
"""Ask one wording of a question."""
Tell = Callable[[int, int], None]
"""How many of how many were asked."""

LEFT_IN = "left-in"
ABLATIONS: Mapping[str, str] = {
    "examples": "prompts show no verified questions",
    "slice": "prompts show the whole schema",
    "think": "models never think first",
    "grammar": "models write without a grammar",
    "values": "prompts show no frequent values",
    "metric": "metric questions are compiled by no rule: models answer them",
    LEFT_IN: "questions stay in retrieval while they are asked: what a memory of the test is worth",
}


def ablated(settings: PipelineSettings, name: str) -> PipelineSettings:
    """Settings without one part; `left-in` is none of them."""
    models = settings.models
    match name:
        case "examples":
            return attrs.evolve(settings, models=attrs.evolve(models, examples=0))
        case "slice":
            return attrs.evolve(settings, models=attrs.evolve(models, whole_schema=True))
        case "think":
            return attrs.evolve(settings, models=attrs.evolve(models, think=False))
        case "grammar":
            return attrs.evolve(settings, models=attrs.evolve(models, grammar=False))
        case "values":
            return attrs.evolve(settings, models=attrs.evolve(models, values=False))
        case "metric":
            return attrs.evolve(settings, metric=False)
        case _:
            return settings


@attrs.frozen(eq=False)
class ReadLibrary:
    """Verified queries that are read and never written; without those that a question itself is."""

    library: AssistantLibrary | None
    hidden: tuple[str, ...] | None
    """Folded wordings of the question that is asked; None hides nothing."""

    def match(
        self, tenant: TenantId, text: str, subjects: tuple[Subject, ...], today: dt.date, values: Values
    ) -> Decision | None:
        """A verified query that matches a question of the set holds this very question."""
        if self.library is None or self.hidden is not None:
            return None
        return self.library.match(tenant, text, subjects, today, values)

    def examples(self, tenant: TenantId, text: str, count: int) -> tuple[Shot, ...]:
        """See `Library`."""
        if self.library is None:
            return ()
        return self.library.examples_without(tenant, text, count, self.hidden or ())

    async def used(self, tenant: TenantId, verified_id: str) -> None:
        """Nobody used it."""

    async def fell_back(self, asker: Asker, text: str, decision: Decision) -> None:
        """Nobody asked it."""


@attrs.frozen(eq=False)
class UnderTest:
    """An assistant that questions are asked of. Made by `open_under_test`."""

    ports: Ports
    """Its library and caches are replaced for each question."""
    tenant: TenantId
    library: AssistantLibrary | None

    def ask(self, settings: PipelineSettings, *, left_in: bool = False) -> Ask:
        """A way to ask it, with these settings."""
        return partial(self._ask, settings, left_in)

    async def _ask(self, settings: PipelineSettings, left_in: bool, question: SetQuestion, wording: str) -> Outcome:
        hidden = None if left_in else tuple(map(folded, question.wordings))
        library, caches = ReadLibrary(self.library, hidden), LayeredCaches(None, None, None)
        ports = attrs.evolve(self.ports, settings=settings, library=library, caches=caches)
        events: list[Event] = []

        async def keep(event: Event) -> None:
            events.append(event)

        asker = Asker("evaluation", self.tenant, frozenset({"viewer"}))
        conversation = Conversation(asker, f"evaluation-{question.id}")
        begun = trio.current_time()
        await answer(Question("q1", wording), conversation, ports, keep)
        return outcome_of(events, trio.current_time() - begun)

    async def gold(self, questions: Sequence[SetQuestion]) -> dict[str, tuple[Table, ...]]:
        """The rows of all right answers, by the questions' ids.

        Raises:
            ScenarioError: with every answer that the guard or the database does not take: the set is for other data.
        """
        found: dict[str, tuple[Table, ...]] = {}
        problems = []
        for question in questions:
            is_mysql_like = any(one.catalog.dialect.is_mysql_like for one in self.ports.subjects(self.tenant))
            tables = []
            for number, sql in enumerate(question.gold(is_mysql_like=is_mysql_like)):
                rows = await self._rows(sql)
                if isinstance(rows, Refusal):
                    problems.append(Problem(str(rows), f"{question.id}.answers[{number}]"))
                elif rows.is_truncated:
                    problems.append(Problem("more rows than are ever given", f"{question.id}.answers[{number}]"))
                else:
                    tables.append(table_of(rows))
            found[question.id] = tuple(tables)
        if problems:
            raise ScenarioError(problems)
        return found

    async def _rows(self, sql: str) -> ResultSet | Refusal:
        refusal = Refusal("no_data", "", f"the tenant {self.tenant} has no database")
        for subject in self.ports.subjects(self.tenant):
            query = check(sql, subject.catalog)
            if isinstance(query, CheckedQuery):
                return await self.ports.run(self.tenant, SourceChoice(subject.source, "gold", query))
            refusal = query
        return refusal


@asynccontextmanager
async def open_under_test(config: AssistantConfig, tenant: TenantId, today: dt.date) -> AsyncIterator[UnderTest]:
    """An assistant as configured, on a given day, for the time of the block.

    Raises:
        ScenarioError: the databases' configuration is wrong.
        LibraryError: the verified queries cannot be read.
        ProcessError: the executor did not start.
    """
    sql_file = Path(config.sql.file)
    databases = load_sql_config(sql_file)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="corral-evaluate-")))
        trail = open_audit(folder / "audit")
        stack.callback(trail.close)
        models = await stack.enter_async_context(open_models(config))
        library = None
        if (Path(config.state.folder) / FILE).is_file():  # once, before anything is asked
            library = AssistantLibrary.opened(Path(config.state.folder))
            stack.callback(library.close)
        opened = open_assistant(
            databases,
            sql_file,
            folder,
            trail=trail,
            models=models,
            today=lambda _: today,
        )
        assistant = await stack.enter_async_context(opened)
        yield UnderTest(assistant.ports, tenant, library)


async def evaluated(
    questions: Sequence[SetQuestion],
    ask: Ask,
    gold: Mapping[str, Sequence[Table]],
    *,
    repeats: int = 1,
    parallel: int = 1,
    tell: Tell = lambda _done, _all: None,
) -> tuple[Graded, ...]:
    """Ask every wording and grade the answers; in the order of the set, run after run.

    Args:
        questions: Which.
        ask: How.
        gold: Rows of the right answers, by the questions' ids.
        repeats: How often the whole set is asked.
        parallel: How many at a time. Latencies are only meaningful with 1.
        tell: Hears of progress.
    """
    planned = [
        (run, question, number)
        for run in range(repeats)
        for question in questions
        for number in range(len(question.wordings))
    ]
    graded: dict[int, Graded] = {}
    waiting = iter(enumerate(planned))

    async def work() -> None:
        for place, (run, question, number) in waiting:
            outcome = await ask(question, question.wordings[number])
            graded[place] = Graded(question, number, run, judged(question, outcome, gold[question.id]), outcome)
            tell(len(graded), len(planned))

    async with open_bare_nursery() as nursery:
        for _ in range(parallel):
            nursery.start_soon(work)
    return tuple(graded[place] for place in range(len(planned)))


def chosen(questions: QuestionSet, kinds: Sequence[str]) -> tuple[SetQuestion, ...]:
    """The questions of some kinds; none named is all.

    Raises:
        ScenarioError: there are none of them.
    """
    found = tuple(one for one in questions.questions if not kinds or one.kind in kinds)
    if not found:
        raise ScenarioError([Problem(f"there is no question of kind {', '.join(kinds)}", "$.questions")])
    return found
