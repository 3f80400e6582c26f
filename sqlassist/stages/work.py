"""What one question has come to so far, and how it ends."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

import attrs

from inference.messages import Completion
from sqlassist.audit import AuditEntry
from sqlassist.conversation import Choice, Conversation, Turn
from sqlassist.decision import Decision
from sqlassist.generate import Shot
from sqlassist.guard.checked import CheckedQuery
from sqlassist.guard.difference import rewrite_diff
from sqlassist.messages import Emit, Event, Question, Refusal, Stage
from sqlassist.metric_compile import compiled
from sqlassist.metric_query import MetricQuery
from sqlassist.ports import Ports, Subject
from sqlassist.result import ResultSet
from sqlassist.route import Complexity, Route
from sqlassist.wording import say, says


@attrs.define(eq=False)
class Work:
    """One question on its way. Stages fill it in order."""

    question: Question
    conversation: Conversation
    ports: Ports
    emit: Emit
    language: str
    begun: float
    subjects: tuple[Subject, ...] = ()
    text: str = ""
    """The standalone question."""
    route: Route = Route.NOT_ANSWERABLE
    why: str = ""
    complexity: Complexity = Complexity.SIMPLE
    subject: Subject | None = None
    decision: Decision | None = None
    tables: tuple[str, ...] = ()
    rollup_days: Mapping[str, Mapping[str, dt.date]] = attrs.field(factory=dict)
    """Source → rollup → its last day."""
    shots: tuple[Shot, ...] = ()
    values: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    broken_sql: str = ""
    """To be mended by a model."""
    nearest: tuple[tuple[Subject, MetricQuery], ...] = ()
    """What the semantic layer alone makes of it: offered where a model fails."""
    attempt: int = 0
    """Texts of SQL that were made for this question."""
    checked: CheckedQuery | None = None
    result: ResultSet | None = None
    is_cached: bool = False
    notes: str = ""
    """Stands before the summary."""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    is_audited: bool = False
    leans: bool = False
    """Its words mean something else after another question: they are neither looked up nor kept by them."""
    _days: dict[str, dt.date] = attrs.field(factory=dict, init=False)

    @property
    def tenant(self) -> Any:
        """Whose rows may be seen."""
        return self.conversation.asker.tenant

    def today(self, subject: Subject) -> dt.date:
        """The business day at a source; the same to the end of the question, though midnight may pass meanwhile."""
        conventions = subject.layer.conventions
        rule = f"{conventions.zone}|{conventions.day_start}"
        if rule not in self._days:
            self._days[rule] = self.ports.today(rule)
        return self._days[rule]

    def one_day(self) -> dt.date | None:
        """The business day of all sources; None while one of them has begun it and another has not."""
        days = {self.today(subject) for subject in self.subjects}
        return days.pop() if len(days) == 1 else None

    def compiled(self, subject: Subject, query: MetricQuery) -> str | Refusal:
        """A metric query as SQL of a source, from rollups as far as they go."""
        return compiled(query, subject.layer, subject.catalog, self.rollup_days.get(subject.source, {}))

    async def tell(self, stage: Stage, **data: Any) -> None:
        """Emit an event."""
        await self.emit(Event(stage, data))

    def charge(self, completion: Completion) -> None:
        """Count a completion's tokens."""
        self.input_tokens += completion.usage.prompt_tokens
        self.cached_tokens += completion.usage.cached_tokens
        self.output_tokens += completion.usage.output_tokens

    def tokens(self) -> Mapping[str, int]:
        """For the last event."""
        return {"input": self.input_tokens, "cached": self.cached_tokens, "output": self.output_tokens}

    def milliseconds(self) -> float:
        """Since the question came."""
        return round((self.ports.now() - self.begun) * 1000, 3)

    async def audit(self, verdict: str, code: str, rows: int = 0) -> None:
        """Put this question on record. Raises `AuditError`."""
        self.is_audited = True
        asker, decision, checked = self.conversation.asker, self.decision, self.checked
        sql = checked.sql if checked is not None else ""
        draft = self.broken_sql if decision is None else decision.sql
        plan = self.result.plan if self.result is not None else None
        await self.ports.audit(
            AuditEntry(
                tenant=asker.tenant,
                user=asker.user,
                question=self.text or self.question.text,
                draft=draft,
                verdict=verdict,
                code=code,
                source=decision.source if decision is not None else "",
                sql=sql,
                diff=rewrite_diff(draft, sql) if sql and verdict == "pass" else "",
                plan={} if plan is None else dict(plan.as_json()),
                rows=rows,
                ms=self.milliseconds(),
                retries=max(0, self.attempt - 1),
            )
        )

    def answered(self, text: str) -> Event:
        """The end with an answer."""
        rows = 0 if self.result is None else len(self.result.rows)
        sql = "" if self.checked is None else self.checked.sql
        return Event(
            Stage.ANSWER,
            {
                "route": self.route,
                "sql": sql,
                "source": "" if self.decision is None else self.decision.source,
                "rows": rows,
                "ms": self.milliseconds(),
                "retries": max(0, self.attempt - 1),
                "tokens": dict(self.tokens()),
                "cached": self.is_cached,
                "text": text,
            },
        )

    def refused(self, refusal: Refusal, text: str = "", *, needs_model: bool = False) -> Event:
        """The end with a refusal."""
        if not text:
            text = say(refusal.code, self.language) if says(refusal.code) else refusal.hint
        return Event(
            Stage.REFUSAL,
            {
                "code": refusal.code,
                "text": text,
                "needs_model": needs_model,
                "where": refusal.where,
                "retries": max(0, self.attempt - 1),
                "tokens": dict(self.tokens()),
            },
        )

    def failed(self, code: str, text: str, retry_after: float | None = None) -> Event:
        """The end by no fault of the question's."""
        data: dict[str, Any] = {"code": code, "text": text, "tokens": dict(self.tokens())}
        if retry_after is not None:
            data["retry_after"] = retry_after
        return Event(Stage.FAILED, data)

    def remembered(self, last: Event, choices: tuple[Choice, ...] = ()) -> Turn:
        """The turn that the conversation keeps."""
        is_answer = last.stage is Stage.ANSWER
        return Turn(
            id=self.question.id,
            question=self.question.text,
            standalone=self.text or self.question.text,
            language=self.language,
            stage=last.stage,
            route=self.route,
            sql=self.decision.sql if self.decision is not None else self.question.sql,
            source=self.decision.source if self.decision is not None else "",
            query=self.decision.query if self.decision is not None and is_answer else None,
            rows=0 if self.result is None else len(self.result.rows),
            text=str(last.data.get("text", "")),
            choices=choices,
        )


@attrs.frozen
class Ended:
    """A stage's last word: the event that ends the question, with what may be chosen next."""

    event: Event
    choices: tuple[Choice, ...] = ()
