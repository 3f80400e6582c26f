"""A real small model through a real server, by the engine door: what it writes passes the guard, cancel stops it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from actors.assistant_models import model_of
from actors.sql_configuration import parse_sql_config
from inference.config import Dialect as EngineDialect
from inference.config import EngineConfig
from inference.pool import EnginePool, open_pool
from runtime.ids import EngineId, TenantId
from sqlassist.config import SqlConfig
from sqlassist.generate import GenerationLimits
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Stage
from sqlassist.ports import ModelSettings, PipelineSettings
from tests.kit.llama_server import llama_url
from tests.kit.pipeline_world import ALPHA, data_of, duckdb_folder, open_world

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("llama"), pytest.mark.timeout(600)]
SECONDS = 240.0  # a busy machine writes a few tokens a second


def small_config() -> SqlConfig:
    """Two tables and no layer: a prompt of a few hundred tokens, which this machine can read in seconds."""
    text = f"""
[sources.game]
dialect = "duckdb"
folder = "{duckdb_folder()}"
joins = [["payments.server_id", "servers.server_id"]]
[sources.game.tables.payments]
columns = {{ day = "date", amount = "number", server_id = "integer" }}
filter = {{ kind = "everyone" }}
[sources.game.tables.servers]
columns = {{ server_id = "integer", name = "text", region = "text" }}
filter = {{ kind = "everyone" }}
[tenants.{ALPHA}]
keys = {{}}
"""
    return parse_sql_config(text.encode(), "sql.toml")


def settings() -> PipelineSettings:
    models = ModelSettings(values=False, limits=GenerationLimits(sql_tokens=80, thought_tokens=24, seconds=SECONDS))
    return PipelineSettings(metric=False, models=models)


@asynccontextmanager
async def open_small_model() -> AsyncIterator[EnginePool]:
    """The engine door with llama.cpp behind it."""
    url = await trio.to_thread.run_sync(llama_url)
    config = EngineConfig(
        EngineId("smollm"), url=url, model="smollm2", dialect=EngineDialect.LLAMACPP, total_seconds=SECONDS
    )
    async with open_pool([config]) as pool:
        yield pool


def open_small_world(pool: EnginePool) -> open_world:
    """The pipeline with that model and no metric questions."""
    return open_world(model_of(pool), config=small_config(), settings=settings())


@pytest.mark.parametrize("question", ["How many payments were there?", "哪个服务器的付费最多"])
async def test_what_a_real_model_writes_by_the_grammar_passes_and_streams(question: str) -> None:
    async with open_small_model() as pool, open_small_world(pool) as world:
        events = await world.ask(question)

        pieces = [event.data["text"] for event in events if event.stage is Stage.DELTA]
        assert len(pieces) > 3
        subject = world.ports.subjects(TenantId(ALPHA))[0]
        written = [event for event in events if event.stage is Stage.SQL]
        for event in written:  # none where the limit cut it: then it is no statement, and says so
            assert isinstance(check(event.data["sql"], subject.catalog), CheckedQuery)
        if not written:
            assert data_of(events, Stage.CHECK)["code"] == "model_overran"
        assert events[-1].is_last


async def test_a_thought_stays_in_its_budget_and_the_statement_follows_it() -> None:
    async with open_small_model() as pool, open_small_world(pool) as world:
        events = await world.ask("How many payments were there?", think=True)

        channels = [event.data["channel"] for event in events if event.stage is Stage.DELTA]
        assert channels[0] == "thought"
        for event in events:
            if event.stage is Stage.SQL:
                assert "think" not in event.data["sql"]


async def test_a_cancelled_question_stops_the_model() -> None:
    async with open_small_model() as pool, open_small_world(pool) as world:
        first = trio.Event()
        ports = world.ports
        assert ports.models
        with trio.fail_after(SECONDS):
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    await world.ask("List every payment of every server by day")

                async def watch() -> None:
                    while not any(engine.in_flight for engine in pool.statistics().engines):
                        await trio.sleep(0.05)
                    first.set()

                nursery.start_soon(ask)
                nursery.start_soon(watch)
                await first.wait()
                nursery.cancel_scope.cancel()
        assert world.entries[-1].code == "cancelled"
        assert not any(engine.in_flight for engine in pool.statistics().engines)
        again = await world.ask("How many payments were there?")  # the engine is free at once
        assert again[-1].is_last


async def test_without_the_engine_nothing_hangs() -> None:
    config = EngineConfig(EngineId("away"), url="http://127.0.0.1:9", model="x", dialect=EngineDialect.LLAMACPP)
    async with open_pool([config]) as pool, open_small_world(pool) as world:
        with trio.fail_after(60):
            events = await world.ask("How many payments were there?")

        assert (events[-1].stage, events[-1].data["code"]) == (Stage.FAILED, "engine_failed")
