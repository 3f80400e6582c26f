"""The assistant as one object: the pipeline with everything that it needs, for a websocket, a terminal or a test."""

import datetime as dt
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import trio

from actors.assistant_caches import LayeredCaches
from actors.assistant_config import AssistantConfig, SqlFile, StateConfig
from actors.assistant_library import AssistantLibrary
from actors.assistant_models import open_models
from actors.assistant_subjects import subjects_of, watermark_of
from actors.assistant_values import SampledValues
from actors.configuration import Problem, ScenarioError
from actors.executor_wire import ExecuteRequest
from actors.kept_executor import KeptExecutor, open_kept_executor
from actors.sql_configuration import load_sql_config
from actors.warehouse.databases import CONFIG_FILE
from inference.messages import CompleteStreaming
from runtime.ids import TenantId
from sqlassist.audit import AuditEntry, AuditTrail, open_audit
from sqlassist.business_days import DayRule
from sqlassist.config import SqlConfig
from sqlassist.conversation import Conversation
from sqlassist.messages import Asker, Emit, Event, Question, Refusal
from sqlassist.pipeline import answer, review_refusal
from sqlassist.ports import PipelineSettings, Ports, Subject
from sqlassist.result import ResultSet
from sqlassist.sources import SourceChoice

RUNS = Path("runs")
WAREHOUSE = "warehouse"


class Assistant:
    """Answers for every tenant of one configuration. Made by `open_assistant`; see `actors.answering.Answering`."""

    def __init__(self, ports: Ports, library: AssistantLibrary) -> None:
        self.ports = ports
        self.library = library

    def conversation(self, asker: Asker) -> Conversation:
        """What is remembered of one session."""
        return Conversation(asker, routing_key=f"assistant-{secrets.token_hex(8)}")

    def versions(self, asker: Asker) -> Mapping[str, str]:
        """Of the schema and of the semantic layer that the asker is answered from."""
        subjects = self.ports.subjects(asker.tenant)
        return {
            "schema": "-".join(subject.catalog.version for subject in subjects),
            "layer": "-".join(subject.layer_version for subject in subjects),
        }

    async def answer(self, question: Question, conversation: Conversation, emit: Emit) -> Event:
        """See `sqlassist.pipeline.answer`."""
        return await answer(question, conversation, self.ports, emit)

    async def review(
        self, asker: Asker, conversation: Conversation, question_id: str, comment: str, correction_sql: str
    ) -> str | Refusal:
        """Put the answer to a question of this conversation before the reviewers; returns the id of the review."""
        refusal = review_refusal(conversation, question_id)
        if refusal is not None:
            return refusal
        turn = conversation.turn(question_id)
        assert turn is not None
        return await self.library.request_review(asker, turn, comment, correction_sql)


def business_day(rule: str) -> dt.date:
    """Today by `zone|HH:MM`, where the day begins."""
    zone, _, start = rule.partition("|")
    return DayRule(zone, dt.time.fromisoformat(start)).day_of(dt.datetime.now(dt.UTC))


@asynccontextmanager
async def open_assistant(
    config: SqlConfig,
    config_file: Path,
    state: Path,
    *,
    trail: AuditTrail,
    models: Sequence[CompleteStreaming] = (),
    settings: PipelineSettings | None = None,
    caches: LayeredCaches | None = None,
    today: Callable[[str], dt.date] = business_day,
) -> AsyncIterator[Assistant]:
    """An assistant with an executor of its own, for the time of the block.

    Args:
        config: Of the databases.
        config_file: Where it was read from: the executor reads it again, and the credentials that it names.
        state: A folder for verified queries and the executor's log.
        trail: Every question is put on record there.
        models: The smallest first; see `open_models`.
        settings: How questions are answered.
        caches: By default exact and result, and no semantic one.
        today: The business day of a zone.

    Raises:
        ProcessError: the executor did not start.
        LibraryError: the verified queries cannot be read.
    """
    by_tenant: dict[TenantId, tuple[Subject, ...]] = {}

    def subjects(tenant: TenantId) -> tuple[Subject, ...]:
        if tenant not in by_tenant:
            by_tenant[tenant] = subjects_of(config, tenant, with_grammar=bool(models))
        return by_tenant[tenant]

    async with open_kept_executor(config_file, state / "executor.log") as executor:
        run = partial(_run, executor)
        library = AssistantLibrary.opened(state)
        layers = caches if caches is not None else LayeredCaches()
        layers.library_version = library.version
        try:
            sampled = SampledValues(subjects, run)
            ports = Ports(
                config=config,
                subjects=subjects,
                values=sampled,
                rollup_days=sampled.rollup_days,
                run=run,
                audit=partial(audited, trail, trio.Lock()),
                library=library,
                caches=attrs.evolve(caches or LayeredCaches(), library_version=library.version),
                watermark=partial(_watermark, config),
                models=tuple(models),
                today=today,
                now=trio.current_time,
                new_id=lambda: f"ask-{secrets.token_hex(8)}",
                settings=settings if settings is not None else PipelineSettings(),
            )
            yield Assistant(ports, library)
        finally:
            library.close()


async def _run(executor: KeptExecutor, tenant: TenantId, choice: SourceChoice) -> ResultSet | Refusal:
    """The executor checks the text again, by its own reading of the configuration."""
    query = choice.query
    return await executor.execute(ExecuteRequest(tenant, choice.source, query.source, query.catalog_version))


async def audited(trail: AuditTrail, lock: trio.Lock, entry: AuditEntry) -> None:
    """Put an entry on record, in a thread."""
    async with lock:  # the trail has one writer
        await trio.to_thread.run_sync(trail.append, entry)


async def _watermark(config: SqlConfig, source: str, tenant: TenantId) -> str:
    return watermark_of(config, source, tenant)


def default_config(runs: Path = RUNS) -> AssistantConfig:
    """Without any configuration: the fleet's own metrics, as the latest runs here have published them, and no model.

    Raises:
        ScenarioError: there are none.
    """
    file = (runs / WAREHOUSE / CONFIG_FILE).absolute()
    if not file.is_file():
        text = f"there are no metrics of runs in ./{runs}: run a scenario first, or give --config"
        raise ScenarioError([Problem(text, "$", str(file))])
    return AssistantConfig(SqlFile(str(file)), state=StateConfig(str(file.parent / "assistant")))


@asynccontextmanager
async def open_answering(
    config: AssistantConfig, models: Sequence[CompleteStreaming] | None = None
) -> AsyncIterator[Assistant]:
    """The assistant that a configuration describes, for the time of the block.

    Args:
        config: It.
        models: To be asked, the smallest first, instead of the engines that it names; their errors are `ModelFailed`.

    Raises:
        ScenarioError: the databases' configuration is wrong.
        AuditError: the audit trail cannot be opened.
        LibraryError: the verified queries cannot be read.
        ProcessError: the executor did not start.
    """
    sql_file = Path(config.sql.file)
    databases = load_sql_config(sql_file)
    state = Path(config.state.folder)
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)  # noqa: ASYNC240  # once, before anybody is served
    except OSError as error:
        raise ScenarioError([Problem(f"{state} cannot be made: {error.strerror}", "$.state.folder")]) from error
    async with AsyncExitStack() as stack:
        trail = open_audit(state / "audit")
        stack.callback(trail.close)
        if models is None:
            models = await stack.enter_async_context(open_models(config))
        opened = open_assistant(
            databases,
            sql_file,
            state,
            trail=trail,
            models=models,
            settings=config.pipeline,
            caches=config.caches.opened(),
        )
        yield await stack.enter_async_context(opened)
