"""The loader on MariaDB: each row once whatever is killed, and a server that is away loses nothing."""

import contextlib
import gc
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors.warehouse.config import LoaderConfig, ServerTarget
from actors.warehouse.load import LoadFailed, TargetAway, follow, load_once
from actors.warehouse.rows import Row, row_for
from actors.warehouse.spool import SpoolWriter
from tests.kit.mariadb import MariaDb, mariadb, mariadb_marks

pytestmark = mariadb_marks
NOW = 1_796_083_199_999


@attrs.frozen
class Place:
    """A schema of its own, an account that may write there alone, and a spool."""

    server: MariaDb
    schema: str
    folder: Path
    config: LoaderConfig

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.server.run(sql, database=self.schema)

    def spool(self, run: str, *rows: Row, tenant: str = "default") -> None:
        about = {"tenant": tenant, "run_id": run, "scenario": "s"}
        writing = SpoolWriter(self.folder / "spool" / tenant, run, about)
        writing.append(rows, 0.0)
        writing.seal()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    server = mariadb()
    schema = f"farm_{secrets.token_hex(4)}"
    password = tmp_path / "loader.password"
    password.write_text("pass-" + secrets.token_hex(8) + "\n")
    password.chmod(0o600)
    server.run(
        f"CREATE DATABASE {schema} CHARACTER SET utf8mb4",
        f"CREATE USER {schema}@localhost IDENTIFIED BY '{password.read_text().strip()}'",
        f"GRANT SELECT, INSERT, DELETE, CREATE, ALTER, INDEX ON {schema}.* TO {schema}@localhost",
    )
    folder = tmp_path / "warehouse"
    target = ServerTarget(schema, schema, socket=str(server.socket), password_file=str(password))
    return Place(server, schema, folder, LoaderConfig(str(folder), target))


def step(number: int, phone: str = "P") -> Row:
    return row_for("steps", NOW, {"step": number, "phone": phone, "app": "game", "latency_ms": 1.5})


def test_rows_are_loaded_once_and_tenants_stand_beside_each_other(place: Place) -> None:
    place.spool("r1", step(1), step(2, "Q"), row_for("runs", NOW, {"state": "running"}))
    place.spool("r2", step(3), tenant="beta")
    first = load_once(place.config)
    again = load_once(place.config)
    place.spool("r1b", row_for("faults", NOW, {"fault": "crash", "cause": "崩溃 💥"}))
    load_once(place.config)

    assert (first.rows, again.rows) == (4, 0)
    assert place.rows("SELECT tenant, run_id, step FROM steps ORDER BY step") == [
        ("default", "r1", 1),
        ("default", "r1", 2),
        ("beta", "r2", 3),
    ]
    ((moment, day),) = place.rows("SELECT DISTINCT happened_at, day FROM steps")
    assert (moment.isoformat(), day.isoformat()) == ("2026-11-30T23:59:59.999000", "2026-11-30")
    assert place.rows("SELECT tenant, phone FROM phones ORDER BY tenant, phone") == [
        ("beta", "P"),
        ("default", "P"),
        ("default", "Q"),
    ]
    assert place.rows("SELECT cause FROM faults") == [("崩溃 💥",)]
    assert not list(place.folder.glob("*.duckdb")), "the server is the target"


def test_a_runs_row_is_its_latest(place: Place) -> None:
    begun, ended = row_for("runs", NOW, {"state": "running"}), row_for("runs", NOW, {"state": "ended", "ended_ms": NOW})
    for run, rows in (("r1", (ended,)), ("r2", (begun, ended))):
        place.spool(run, *rows)
        load_once(place.config)

    assert place.rows("SELECT run_id, state FROM runs ORDER BY run_id") == [("r1", "ended"), ("r2", "ended")]


def test_tables_of_an_earlier_version_get_the_new_columns(place: Place) -> None:
    place.spool("r1", step(1))
    load_once(place.config)
    place.rows("ALTER TABLE steps DROP COLUMN latency_ms")
    place.spool("r2", step(2))

    load_once(place.config)

    assert place.rows("SELECT step, latency_ms FROM steps ORDER BY step") == [(1, None), (2, 1.5)]


def test_a_wrong_password_is_told_without_it(place: Place) -> None:
    assert place.config.server is not None
    Path(place.config.server.password_file).write_text("hunter2-wrong\n")
    place.spool("r1", step(1))

    with pytest.raises(LoadFailed, match="Access denied") as told:
        load_once(place.config)

    assert "hunter2" not in str(told.value)


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PyMySQL forgets one that could not connect
def test_what_a_server_away_missed_is_loaded_when_it_is_back(place: Place) -> None:
    place.spool("r1", step(1))
    assert place.config.server is not None
    real = Path(place.config.server.socket)
    link = place.folder / "sock"
    away = attrs.evolve(place.config, server=attrs.evolve(place.config.server, socket=str(link)))
    with pytest.raises(TargetAway):
        load_once(away)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            link.symlink_to(real)

    loaded = next(follow(away, sleep=sleep))

    gc.collect()
    assert (loaded.rows, len(pauses)) == (1, 3)
    assert place.rows("SELECT COUNT(*) FROM steps") == [(1,)]


def test_two_loaders_at_once_double_nothing(place: Place) -> None:
    load_once(place.config)
    for number in range(20):
        place.spool(f"r{number}", *(step(n) for n in range(50)))
    loaders = [threading.Thread(target=load_once, args=(place.config,)) for _ in range(3)]
    for loader in loaders:
        loader.start()
    for loader in loaders:
        loader.join()
    load_once(place.config)

    assert place.rows("SELECT COUNT(*), COUNT(DISTINCT run_id, step) FROM steps") == [(1000, 1000)]


LOADER = """
import sys
from pathlib import Path
from actors.warehouse.config import parse_loader_config
from actors.warehouse.load import load_once
config = parse_loader_config(Path(sys.argv[1]).read_bytes(), "loader.toml")
print("ready", flush=True)
while True:
    load_once(config)
"""


@pytest.mark.slow
def test_a_loader_that_is_killed_again_and_again_loses_and_doubles_nothing(place: Place, tmp_path: Path) -> None:
    server = place.config.server
    assert server is not None
    file = tmp_path / "loader.toml"
    file.write_text(
        f'folder = "{place.folder}"\nkeep_loaded_hours = 0\n'
        f'[server]\nuser = "{server.user}"\nschema = "{server.schema}"\n'
        f'socket = "{server.socket}"\npassword_file = "{server.password_file}"\n'
    )
    chance = random.Random(3)
    for kill in range(3):
        for number in range(15):
            place.spool(f"r{kill}-{number}", *(step(n) for n in range(300)))
        loader = subprocess.Popen([sys.executable, "-c", LOADER, str(file)], stdout=subprocess.PIPE)
        with contextlib.closing(loader.stdout) as output:  # type: ignore[type-var]
            assert output is not None
            output.readline()
            time.sleep(chance.uniform(0.0, 0.5))  # when the kill falls is the point
            os.kill(loader.pid, signal.SIGKILL)
            loader.wait()
    done = subprocess.run(
        [sys.executable, "-m", "actors.cli.main", "warehouse", "load", str(file)],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    total = 3 * 15 * 300
    assert place.rows("SELECT COUNT(*), COUNT(DISTINCT run_id, step) FROM steps") == [(total, total)]
    assert not list(place.folder.glob("spool/default/*.jsonl")), "what is loaded may go"
