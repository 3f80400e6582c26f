"""While questions run, generations are renamed into place: each answer is of one generation, and none fails."""

import shutil
import sys
from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing

from actors.sql_configuration import load_sql_config
from actors.warehouse.databases import SOURCE
from runtime.ids import DEFAULT_TENANT
from sqlassist.execute.embedded import open_embedded_backend
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.result import ResultSet
from tests.kit.sql_world import unguarded

GENERATIONS = 8
ROWS_A_GENERATION = 50
READERS = 4
PATIENT: dict[str, Any] = {"plan_gate": False, "statement_seconds": 60.0, "deadline_seconds": 60.0}


LOADER = f"""
import sys
from pathlib import Path
from actors.warehouse.config import LoaderConfig
from actors.warehouse.load import load_once
from actors.warehouse.spool import SpoolWriter
folder = Path(sys.argv[1])
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    run = f"r{{number:03d}}"
    writing = SpoolWriter(folder / "spool" / "default", run, dict(tenant="default", run_id=run, scenario="s"))
    rows = [dict(t="steps", at_ms=number, step=n, latency_ms=1.0) for n in range({ROWS_A_GENERATION})]
    writing.append(rows, 0.0)
    writing.seal()
    load_once(LoaderConfig(str(folder)))
"""


async def publish_generations(folder: Path, first: int, end: int) -> None:
    """In a process of its own, as the loader is: DuckDB opens a file in one process with one configuration alone."""
    await trio.run_process([sys.executable, "-c", LOADER, str(folder), str(first), str(end)])


async def test_queries_go_on_over_renames(tmp_path: Path) -> None:
    await publish_generations(tmp_path, 0, 1)
    config = load_sql_config(tmp_path / "databases.toml")
    query = check("SELECT COUNT(*), MAX(at_ms), SUM(latency_ms) FROM steps", config.catalog(SOURCE, DEFAULT_TENANT))
    assert isinstance(query, CheckedQuery)
    seen: list[list[int]] = [[] for _ in range(READERS)]
    over = trio.Event()

    async with open_embedded_backend(config, SOURCE) as backend:

        async def read(generations: list[int]) -> None:
            while not over.is_set():
                result = await backend.execute(DEFAULT_TENANT, query)
                assert isinstance(result, ResultSet), result
                ((count, newest, total),) = result.rows
                assert isinstance(newest, int)
                assert count == total == (newest + 1) * ROWS_A_GENERATION, "a generation is whole"
                generations.append(newest)

        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                for generations in seen:
                    nursery.start_soon(read, generations)
                await publish_generations(tmp_path, 1, GENERATIONS)
                newest = await backend.execute(DEFAULT_TENANT, query)
                over.set()

    assert isinstance(newest, ResultSet)
    assert newest.rows[0][1] == GENERATIONS - 1, "the newest is seen at once"
    assert all(generations == sorted(generations) for generations in seen), "nobody goes back"
    assert len({generation for generations in seen for generation in generations}) > 2


async def test_a_query_under_way_ends_on_the_generation_that_it_began_with(tmp_path: Path) -> None:
    await publish_generations(tmp_path, 0, 1)
    path, kept = tmp_path / "default.duckdb", tmp_path / "kept"
    shutil.copy(path, kept)
    await publish_generations(tmp_path, 1, 2)
    newer = path.rename(tmp_path / "newer")
    kept.rename(path)
    config = load_sql_config(tmp_path / "databases.toml")
    source = config.sources[SOURCE]
    ungated = attrs.evolve(source, limits=attrs.evolve(source.limits, **PATIENT))
    config = attrs.evolve(config, sources={SOURCE: ungated})
    tables = ", ".join(f"steps t{number}" for number in range(4))
    results: dict[str, object] = {}

    async with open_embedded_backend(config, SOURCE) as backend:

        async def ask(name: str, sql: str) -> None:
            results[name] = await backend.execute(DEFAULT_TENANT, unguarded(sql))

        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                long = f"SELECT MAX(t0.at_ms), COUNT(*) FROM {tables} WHERE t0.step + t1.step > t2.step + t3.step"
                nursery.start_soon(ask, "long", long)
                await trio.testing.wait_all_tasks_blocked(0.05)
                newer.rename(path)
                nursery.start_soon(ask, "short", "SELECT MAX(at_ms) FROM steps")

    long_result, short_result = results["long"], results["short"]
    assert isinstance(long_result, ResultSet), long_result
    assert isinstance(short_result, ResultSet), short_result
    assert long_result.rows[0][0] == 0
    assert short_result.rows == ((1,),)
