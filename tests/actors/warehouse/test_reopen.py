"""While questions run, generations are renamed into place: each answer is of one generation, and none fails."""

import sys
from pathlib import Path

import trio

from actors.sql_configuration import load_sql_config
from actors.warehouse.databases import SOURCE
from runtime.ids import DEFAULT_TENANT
from sqlassist.execute.embedded import open_embedded_backend
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.result import ResultSet

GENERATIONS = 12
ROWS_A_GENERATION = 50
READERS = 4


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

        with trio.fail_after(60):
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
