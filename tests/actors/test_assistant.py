"""The assistant with its real executor: files that are replaced, processes and servers that die and come back."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.assistant import Assistant, default_config, open_answering
from actors.assistant_config import load_assistant_config
from actors.configuration import ScenarioError
from actors.sql_configuration import parse_sql_config
from runtime.ids import TenantId
from sqlassist.audit import read_audit, verify_audit
from sqlassist.catalog import Dialect
from sqlassist.conversation import Conversation
from sqlassist.messages import Asker, Event, Question, Stage
from sqlassist.sample import make_sample, sample_config, sample_semantic_layer
from sqlassist.sample_load import load_duckdb, load_server
from tests.kit.mariadb import killed, mariadb_marks, open_mariadb
from tests.kit.pipeline_world import rows_of
from tests.kit.processes import find
from tests.kit.sql_world import provision, world_settings

ALPHA, BETA = TenantId("tenant1"), TenantId("tenant2")
PATIENCE_SECONDS = 60.0


def write_config(folder: Path, dialect: Dialect, settings: str) -> Path:
    """An assistant's configuration over the sample data, with no model and no result cache."""
    layer = sample_semantic_layer(with_rollups=dialect is not Dialect.DUCKDB)
    (folder / "game.semantic.toml").write_text(layer)
    (folder / "sql.toml").write_text(sample_config(dialect, settings, tenants=2, semantic_file="game.semantic.toml"))
    path = folder / "assistant.toml"
    path.write_text('[sql]\nfile = "sql.toml"\n[state]\nfolder = "state"\n')
    return path


@asynccontextmanager
async def open_duckdb(folder: Path) -> AsyncIterator[Assistant]:
    """Over DuckDB files in the folder."""
    load_duckdb(folder / "data", make_sample(3000, tenants=2, seed=3), 2)
    config = write_config(folder, Dialect.DUCKDB, f'folder = "{folder / "data"}"')
    async with open_answering(load_assistant_config(config)) as assistant:
        yield assistant


async def ask(assistant: Assistant, text: str, tenant: TenantId = ALPHA, name: str = "q1") -> list[Event]:
    """Every event of a question in a session of its own."""
    events: list[Event] = []

    async def emit(event: Event) -> None:
        events.append(event)

    conversation: Conversation = assistant.conversation(Asker("someone", tenant))
    with trio.fail_after(PATIENCE_SECONDS):
        last = await assistant.answer(Question(name, text), conversation, emit)
    assert events[-1] is last
    return events


async def ask_until_answered(assistant: Assistant, text: str) -> list[Event]:
    """Ask again and again, as the failure says that one may."""
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            events = await ask(assistant, text)
            if events[-1].stage is Stage.ANSWER:
                return events
            assert (events[-1].stage, events[-1].data["code"]) == (Stage.FAILED, "database_failed")
            assert events[-1].data["retry_after"] > 0
            await trio.sleep(0.1)


async def test_a_replaced_file_is_seen_at_once_also_where_rows_were_kept(tmp_path: Path) -> None:
    async with open_duckdb(tmp_path) as assistant:
        before = rows_of(await ask(assistant, "number of payments in May 2026"))
        again = await ask(assistant, "number of payments in May 2026")
        assert again[-1].data["cached"]
        load_duckdb(tmp_path / "data", make_sample(6000, tenants=2, seed=4), 2)
        after = await ask(assistant, "number of payments in May 2026")

        assert not after[-1].data["cached"]
        assert rows_of(after) != before


async def test_a_killed_executor_is_started_again(tmp_path: Path) -> None:
    async with open_duckdb(tmp_path) as assistant:
        await ask(assistant, "revenue in May 2026")
        os.kill(find("actors.executor_serve"), signal.SIGKILL)

        events = await ask_until_answered(assistant, "revenue in April 2026")

        assert float(rows_of(events)[0][0]) > 0


async def test_every_question_is_on_record_in_a_whole_trail(tmp_path: Path) -> None:
    async with open_duckdb(tmp_path) as assistant:
        await ask(assistant, "revenue in May 2026")
        await ask(assistant, "drop the table of all players please", name="q2")
        await ask(assistant, "2026年5月的收入", BETA, name="q3")

    found = verify_audit(tmp_path / "state" / "audit")
    assert (found.records, found.problems) == (3, ())
    entries = [record.entry for record in read_audit(tmp_path / "state" / "audit")]
    assert [entry["verdict"] for entry in entries] == ["pass", "refuse", "pass"]
    assert [entry["tenant"] for entry in entries] == ["tenant1", "tenant1", "tenant2"]
    assert entries[2]["question"] == "2026年5月的收入"


async def test_without_any_run_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="run a scenario first"):
        default_config(tmp_path)


async def test_a_wrong_layer_stops_the_start_with_every_mistake(tmp_path: Path) -> None:
    path = write_config(tmp_path, Dialect.DUCKDB, f'folder = "{tmp_path}"')
    layer = tmp_path / "game.semantic.toml"
    layer.write_text(layer.read_text().replace("SUM(amount)", "SUM(amnt)").replace("servers.region", "servers.area"))

    with pytest.raises(ScenarioError) as caught:
        async with open_answering(load_assistant_config(path)):
            pass

    assert len(caught.value.problems) >= 2
    assert all("game.semantic.toml" in str(problem) for problem in caught.value.problems)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mark", [pytest.param(None, marks=mariadb_marks)])
async def test_a_database_that_dies_fails_typed_and_is_used_again_when_it_is_back(tmp_path: Path, mark: Any) -> None:
    with open_mariadb() as server:
        path = write_config(tmp_path, Dialect.MARIADB, world_settings(server, schema="core", prefix="corral"))
        text = (tmp_path / "sql.toml").read_bytes()
        layer = (tmp_path / "game.semantic.toml").read_bytes()
        databases = parse_sql_config(text, "sql.toml", lambda name: (layer, name))
        with contextlib.closing(server.admin()) as connection:
            load_server(connection, "core", make_sample(2000, tenants=2, seed=7))
        provision(server, databases)
        async with open_answering(load_assistant_config(path)) as assistant:
            before = rows_of(await ask(assistant, "number of payments in May 2026"))
            with killed(server):
                results: list[list[Event]] = []

                async def failed(tenant: TenantId, month: str) -> None:
                    results.append(await ask(assistant, f"number of payments in {month} 2026", tenant))

                async with trio.open_nursery() as nursery:
                    for tenant, month in ((ALPHA, "January"), (BETA, "February"), (ALPHA, "March")):
                        nursery.start_soon(partial(failed, tenant, month))
                for events in results:
                    assert (events[-1].stage, events[-1].data["code"]) == (Stage.FAILED, "database_failed")
                assert (await ask(assistant, "hello"))[-1].stage is Stage.ANSWER  # the others are still served

            after = rows_of(await ask_until_answered(assistant, "number of payments in May 2026"))

        assert after == before
    codes = [record.entry["code"] for record in read_audit(tmp_path / "state" / "audit")]
    assert codes.count("database_failed") >= 3
