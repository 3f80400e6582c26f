"""What the pipeline is handed: everything outside it that it needs, so that any of it can be another one in a test."""

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import attrs

from inference.messages import CompleteStreaming
from runtime.ids import TenantId
from sqlassist.audit import AuditEntry
from sqlassist.catalog import Catalog
from sqlassist.config import SqlConfig
from sqlassist.decision import Decision
from sqlassist.generate import GenerationLimits, Shot
from sqlassist.grammar import SqlGrammar
from sqlassist.messages import Asker, Refusal
from sqlassist.result import ResultSet
from sqlassist.semantic import SemanticLayer
from sqlassist.sources import SourceChoice


class ModelFailed(Exception):
    """No model answered, and no question is to blame."""

    def __init__(self, code: str, text: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.retry_after_seconds = retry_after_seconds


@attrs.frozen(eq=False)
class Subject:
    """One source as one tenant sees it."""

    source: str
    catalog: Catalog
    layer: SemanticLayer
    """Without what he may not see."""
    document: str
    """The layer as text for a model."""
    grammar: SqlGrammar | None
    """None where no model is configured: compiling it takes a while."""
    layer_version: str
    phrases: tuple[str, ...] = ()
    """Folded names of metrics, dimensions and values."""


@attrs.frozen
class ModelSettings:
    """How models are used. Each switch can be turned off by `corral evaluate --ablate`."""

    grammar: bool = True
    """Decoding is constrained to the tenant's tables and columns."""
    think: bool = True
    """Complex questions are thought about first."""
    examples: int = attrs.field(default=4, metadata={"min": 0, "max": 20})
    """Verified questions that a prompt shows."""
    whole_schema: bool = False
    """Show every table instead of those of the subject."""
    values: bool = True
    """Show frequent values of the columns concerned."""
    summary: bool = False
    """Let the smallest model put the rows into words; what it says must hold no number that is not in the rows."""
    limits: GenerationLimits = attrs.field(factory=GenerationLimits)


@attrs.frozen
class PipelineSettings:
    """How questions are answered."""

    metric: bool = True
    """Metric questions are compiled without a model."""
    models: ModelSettings = attrs.field(factory=ModelSettings)
    rows_an_event: int = attrs.field(default=200, metadata={"min": 1, "max": 1000})


class Library(Protocol):
    """Verified queries, as the pipeline uses them."""

    def match(
        self,
        tenant: TenantId,
        text: str,
        subjects: tuple[Subject, ...],
        today: dt.date,
        values: Mapping[str, Mapping[str, tuple[str, ...]]],
    ) -> Decision | None:
        """An approved query whose question, or one of its wordings, is this one."""
        ...

    def examples(self, tenant: TenantId, text: str, count: int) -> tuple[Shot, ...]:
        """Approved questions that are like this one, the likest first."""
        ...

    async def used(self, tenant: TenantId, verified_id: str) -> None:
        """Count a use."""
        ...

    async def fell_back(self, asker: Asker, text: str, decision: Decision) -> None:
        """A model answered: what is asked often is proposed as a verified query."""
        ...


class Caches(Protocol):
    """The layers of caches, as the pipeline uses them. Keys hold tenant, roles, source and versions."""

    def decision(self, asker: Asker, subjects: tuple[Subject, ...], text: str, today: dt.date) -> Decision | None:
        """What the same question was found to ask today."""
        ...

    def keep_decision(
        self, asker: Asker, subjects: tuple[Subject, ...], text: str, today: dt.date, decision: Decision
    ) -> None:
        """Remember it."""
        ...

    def result(self, asker: Asker, subject: Subject, sql: str, watermark: str, now: float) -> ResultSet | None:
        """Rows of the same statement over the same data, not too old."""
        ...

    def keep_result(
        self, asker: Asker, subject: Subject, sql: str, watermark: str, now: float, result: ResultSet
    ) -> None:
        """Remember them."""
        ...


@attrs.frozen(eq=False)
class Ports:
    """Everything together."""

    config: SqlConfig
    subjects: Callable[[TenantId], tuple[Subject, ...]]
    """Every source of a tenant, in the configuration's order."""
    values: Callable[[TenantId], Awaitable[Mapping[str, Mapping[str, tuple[str, ...]]]]]
    """Source → dimension → frequent values of what may be sampled."""
    rollup_days: Callable[[TenantId], Awaitable[Mapping[str, Mapping[str, dt.date]]]]
    """Source → rollup → its last day; what is not named is not read."""
    run: Callable[[TenantId, SourceChoice], Awaitable[ResultSet | Refusal]]
    """Runs a checked query in the executor. Raises `DatabaseError`."""
    audit: Callable[[AuditEntry], Awaitable[None]]
    """On disk when it returns. Raises `AuditError`: then no answer may be given out."""
    library: Library
    caches: Caches
    watermark: Callable[[str, TenantId], Awaitable[str]]
    """Changes when a source's data has changed; empty where nothing tells."""
    models: tuple[CompleteStreaming, ...]
    """The smallest first; none where questions are answered without a model. They raise `ModelFailed`."""
    today: Callable[[str], dt.date]
    """The business day of a zone and a day's begin, written `zone|HH:MM`."""
    now: Callable[[], float]
    """Seconds of the run's clock."""
    new_id: Callable[[], str]
    settings: PipelineSettings = attrs.field(factory=PipelineSettings)
