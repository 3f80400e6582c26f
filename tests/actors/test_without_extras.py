"""What a plain installation can do: the assistant over DuckDB files needs no extra."""

import subprocess
import sys
from pathlib import Path

from tests.kit.pipeline_world import duckdb_folder

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_EXTRAS = f"""
import sys

sys.path.insert(0, {str(ROOT)!r})
EXTRAS = {{"asyncmy", "cryptography", "dashscope", "pymysql", "tiktoken", "trio_asyncio", "vl_convert"}}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def without_extras(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_EXTRAS + code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_the_embedded_assistant_its_executor_and_its_commands_import_without_extras() -> None:
    modules = (
        "actors.executor_serve",
        "actors.assistant",
        "actors.assistant_serve",
        "actors.cli.ask",
        "actors.cli.assistant",
        "actors.cli.audit",
        "actors.cli.evaluate",
        "actors.cli.semantic",
        "actors.cli.sql_run",
        "actors.cli.token",
        "actors.cli.verified",
        "actors.cli.warehouse",
    )

    done = without_extras("\n".join(f"import {name}" for name in modules))

    assert done.returncode == 0, done.stderr


def test_queries_of_duckdb_files_are_run_without_extras() -> None:
    # the sample is written by a module of the extra: it is made here, and read there
    code = f"""
import trio
from actors.sql_configuration import parse_sql_config
from sqlassist.catalog import Dialect
from sqlassist.execute.sources import open_sources
from sqlassist.sample import sample_config
from sqlassist.sources import check_for

config = parse_sql_config(sample_config(Dialect.DUCKDB, 'folder = "{duckdb_folder()}"', tenants=2).encode(), "sql.toml")
choice = check_for(config, "tenant1", "SELECT COUNT(*) AS n FROM players", "")

async def main():
    async with open_sources(config) as sources:
        print(len((await sources.execute(choice.source, "tenant1", choice.query)).rows))

trio.run(main)
"""
    done = without_extras(code)

    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_a_server_without_its_extra_is_told_what_to_install() -> None:
    code = """
import importlib.util
from actors import executor_serve
from sqlassist.catalog import Dialect

class Source:
    dialect = Dialect.MARIADB

class Config:
    sources = {"game": Source()}

importlib.util.find_spec = lambda name: None
print(executor_serve._missing_extra(Config()))
"""
    done = without_extras(code)

    assert done.stdout == (
        "source game is a server, which needs more packages: pip install 'corral[sql]' (trio_asyncio is missing)\n"
    ), done.stderr
