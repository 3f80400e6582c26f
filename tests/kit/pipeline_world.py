"""The whole pipeline over the sample data in DuckDB files, in this process, with models by script."""

import datetime as dt
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import attrs
import trio

from actors.assistant_caches import LayeredCaches
from actors.assistant_subjects import subjects_of, watermark_of
from actors.assistant_values import SampledValues
from actors.sql_configuration import parse_sql_config
from inference.messages import CompleteStreaming, Completion, Delta, OnDelta, Prompt, Usage
from runtime.ids import EngineId, TenantId
from sqlassist.audit import AuditEntry
from sqlassist.catalog import Dialect
from sqlassist.config import SqlConfig
from sqlassist.conversation import Conversation
from sqlassist.decision import Decision
from sqlassist.execute.sources import Sources, open_sources
from sqlassist.generate import Shot
from sqlassist.messages import Asker, Event, Question, Refusal, Stage
from sqlassist.pipeline import answer
from sqlassist.ports import PipelineSettings, Ports, Subject
from sqlassist.result import ResultSet
from sqlassist.sample import make_sample, sample_config
from sqlassist.sample_load import load_duckdb
from sqlassist.sources import SourceChoice

ROWS = 6000
TODAY = dt.date(2026, 6, 30)
ALPHA, BETA = TenantId("tenant1"), TenantId("tenant2")


@cache
def duckdb_folder() -> Path:
    """The session's files, made at the first call."""
    folder = Path(mkdtemp(prefix="corral-sample-"))
    load_duckdb(folder, make_sample(ROWS, tenants=2, seed=7), 2)
    return folder


@cache
def duckdb_config() -> SqlConfig:
    """Their configuration."""
    text = sample_config(Dialect.DUCKDB, f'folder = "{duckdb_folder()}"', tenants=2)
    return parse_sql_config(text.encode(), "sql.toml")


@attrs.define(eq=False)
class ScriptedModel:
    """Answers with its texts, one a request, then with the last for ever."""

    texts: list[str]
    prompts: list[Prompt] = attrs.field(factory=list, init=False)
    pieces_told: int = attrs.field(default=0, init=False)
    cancelled: int = attrs.field(default=0, init=False)

    async def __call__(self, prompt: Prompt, *, deadline: float, on_delta: OnDelta | None = None) -> Completion:
        """Write the next text, word by word."""
        self.prompts.append(prompt)
        text = self.texts[min(len(self.prompts), len(self.texts)) - 1]
        try:
            for piece in text.split(" "):
                await trio.lowlevel.checkpoint()
                self.pieces_told += 1
                if on_delta is not None:
                    on_delta(Delta(f"{piece} "))
        except trio.Cancelled:
            self.cancelled += 1
            raise
        tokens = len(text.split(" "))
        reason = "length" if tokens > prompt.max_tokens else "stop"
        return Completion(text, reason, Usage(100, 40, tokens), EngineId("e"), "scripted", "born", 0.0, 0.0, 0.0)


class EmptyLibrary:
    """No verified queries."""

    def __init__(self) -> None:
        self.fallbacks: list[str] = []

    def match(
        self,
        tenant: TenantId,
        text: str,
        subjects: tuple[Subject, ...],
        today: dt.date,
        values: Mapping[str, Mapping[str, tuple[str, ...]]],
    ) -> Decision | None:
        """None."""
        return None

    def examples(self, tenant: TenantId, text: str, count: int) -> tuple[Shot, ...]:
        """None."""
        return ()

    async def used(self, tenant: TenantId, verified_id: str) -> None:
        """Nothing to count."""

    async def fell_back(self, asker: Asker, text: str, decision: Decision) -> None:
        """Kept for tests."""
        self.fallbacks.append(text)


@attrs.define(eq=False)
class World:
    """The pipeline with its surroundings."""

    ports: Ports
    entries: list[AuditEntry]
    conversations: dict[TenantId, Conversation] = attrs.field(factory=dict)
    _number: int = 0

    def conversation(self, tenant: TenantId = ALPHA) -> Conversation:
        """One a tenant."""
        if tenant not in self.conversations:
            self.conversations[tenant] = Conversation(Asker("someone", tenant, frozenset({"viewer"})), f"k-{tenant}")
        return self.conversations[tenant]

    async def ask(self, text: str = "", tenant: TenantId = ALPHA, **fields: Any) -> list[Event]:
        """Every event of one question."""
        self._number += 1
        question = Question(id=fields.pop("id", f"q{self._number}"), text=text, **fields)
        events: list[Event] = []

        async def emit(event: Event) -> None:
            events.append(event)

        last = await answer(question, self.conversation(tenant), self.ports, emit)
        assert events[-1] is last
        assert [event.is_last for event in events].count(True) == 1
        return events


def data_of(events: list[Event], stage: Stage) -> Mapping[str, Any]:
    """The data of the first event of a stage."""
    return next(event.data for event in events if event.stage is stage)


def rows_of(events: list[Event]) -> list[list[Any]]:
    """All rows that were told."""
    return [row for event in events if event.stage is Stage.ROWS for row in event.data["rows"]]


class open_world:  # noqa: N801  # used like the function that it stands for
    """A world for the time of the block."""

    def __init__(
        self,
        *models: CompleteStreaming,
        config: SqlConfig | None = None,
        settings: PipelineSettings | None = None,
        run: Callable[[TenantId, SourceChoice], Any] | None = None,
        caches: LayeredCaches | None = None,
        library: Any = None,
    ) -> None:
        self._config = config if config is not None else duckdb_config()
        self._models = models
        self._settings = settings if settings is not None else PipelineSettings()
        self._run = run
        self._caches = caches if caches is not None else LayeredCaches()
        self._library = library if library is not None else EmptyLibrary()

    async def __aenter__(self) -> World:
        config = self._config
        self._manager = open_sources(config)
        sources: Sources = await self._manager.__aenter__()
        by_tenant: dict[TenantId, tuple[Subject, ...]] = {}
        entries: list[AuditEntry] = []

        def subjects(tenant: TenantId) -> tuple[Subject, ...]:
            if tenant not in by_tenant:
                by_tenant[tenant] = subjects_of(config, tenant, with_grammar=bool(self._models))
            return by_tenant[tenant]

        async def run(tenant: TenantId, choice: SourceChoice) -> ResultSet | Refusal:
            return await sources.execute(choice.source, tenant, choice.query)

        async def audit(entry: AuditEntry) -> None:
            entries.append(entry)

        async def watermark(source: str, tenant: TenantId) -> str:
            return watermark_of(config, source, tenant)

        chosen = self._run if self._run is not None else run
        numbers = iter(range(10**9))
        sampled = SampledValues(subjects, run, today=lambda: TODAY)
        ports = Ports(
            config=config,
            subjects=subjects,
            values=sampled,
            rollup_days=sampled.rollup_days,
            run=chosen,
            audit=audit,
            library=self._library,
            caches=self._caches,
            watermark=watermark,
            models=tuple(self._models),
            today=lambda _: TODAY,
            now=trio.current_time,
            new_id=lambda: f"id-{next(numbers)}",
            settings=self._settings,
        )
        return World(ports, entries)

    async def __aexit__(self, *error: object) -> None:
        await self._manager.__aexit__(*error)  # type: ignore[arg-type]
