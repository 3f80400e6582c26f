"""Backups of a farm: state and findings, whole or refused, and nothing outside the farm's folder."""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from actors.cli.farm import farm
from actors.farm import backups
from actors.farm.backups import TABLE, back_up, restore
from actors.farm.database import Database, StoreError, open_database, open_folder
from actors.farm.store import Store
from actors.farm.work import RunState, Work
from actors.results.finding_words import FindingKind, FindingState
from actors.results.findings import Sighting
from actors.results.findings_store import Findings, ScannedRun, load_findings, save_findings
from runtime.ids import TenantId

WORK = Work(TenantId("games"), "ann", "quickstart", 2)


def judged(note: str = "", state: FindingState = FindingState.KNOWN) -> Findings:
    """One finding that somebody has judged."""
    sighting = Sighting(FindingKind.CRASH, "battler", "it broke", "k", "r1", "e1", "P0")
    found = Findings(screens=("0" * 16,)).with_run("r1", ScannedRun("quick", 7), [sighting])
    return found.marked(sighting.signature, state, note)


def write(folder: Path, tenant: str, found: Findings) -> Path:
    """As the daemon does."""
    (folder / "findings").mkdir(parents=True, exist_ok=True)
    file = folder / "findings" / f"{tenant}.json"
    save_findings(file, found)
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "farm"


@pytest.fixture
def database(folder: Path) -> Iterator[Database]:
    opened = open_database(folder / "state.sqlite3")
    yield opened
    opened.close()


def runs_of(state: Path) -> list[str]:
    with closing(sqlite3.connect(state)) as opened:
        return [row[0] for row in opened.execute("SELECT run FROM runs ORDER BY number")]


def tables_of(state: Path) -> set[str]:
    with closing(sqlite3.connect(state)) as opened:
        return {row[0] for row in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_what_people_said_of_findings_is_restored_with_the_state(
    folder: Path, database: Database, tmp_path: Path
) -> None:
    Store(database).submit(WORK, "r1", 0.0)
    write(folder, "games", judged("build 7"))
    write(folder, ".other", judged(state=FindingState.IGNORED))
    (folder / "findings" / ".games.json.77").write_text("{half")
    target = tmp_path / "kept.sqlite3"
    assert back_up(database, folder, target) == {}
    Store(database).submit(WORK, "r2", 0.0)
    with pytest.raises(StoreError, match="there already"):
        back_up(database, folder, target)
    again = tmp_path / "again"
    again.mkdir()
    done = restore(target, again / "state.sqlite3")

    assert (done.kept_state, done.kept_findings, done.has_findings, done.lacking) == (None, None, True, ())
    assert runs_of(again / "state.sqlite3") == ["r1"]
    assert TABLE not in tables_of(again / "state.sqlite3")
    assert sorted(file.name for file in (again / "findings").iterdir()) == [".other.json", "games.json"]
    assert load_findings(again / "findings" / "games.json") == judged("build 7")
    assert {file.name for file in again.iterdir()} == {"state.sqlite3", "findings"}
    assert not list(tmp_path.glob(".kept*"))


def test_what_was_there_before_is_kept(folder: Path, database: Database, tmp_path: Path) -> None:
    Store(database).submit(WORK, "r1", 0.0)
    write(folder, "games", judged())
    target = tmp_path / "kept"
    back_up(database, folder, target)
    Store(database).submit(WORK, "r2", 0.0)
    database.close()
    write(folder, "games", judged("later"))
    write(folder, "new", judged())
    state = folder / "state.sqlite3"
    done = restore(target, state)
    twice = restore(target, state)

    assert done.kept_state is not None
    assert done.kept_findings is not None
    assert runs_of(state) == ["r1"]
    assert load_findings(folder / "findings" / "games.json") == judged()
    assert not (folder / "findings" / "new.json").exists()
    assert load_findings(done.kept_findings / "games.json") == judged("later")
    assert (done.kept_findings / "new.json").exists()
    assert twice.kept_findings is None  # nothing to put back, and what was kept is there still


def test_an_old_backup_restores_and_leaves_the_findings(folder: Path, database: Database, tmp_path: Path) -> None:
    Store(database).submit(WORK, "r1", 0.0)
    file = write(folder, "games", judged())
    database.back_up(tmp_path / "old")
    database.close()
    done = restore(tmp_path / "old", folder / "state.sqlite3")

    assert (done.has_findings, done.kept_findings) == (False, None)
    assert load_findings(file) == judged()


def test_a_damaged_file_is_left_out_and_told(folder: Path, database: Database, tmp_path: Path) -> None:
    write(folder, "games", judged())
    write(folder, "other", judged()).write_text("{")
    write(folder, "odd", judged("x").with_run("../../r", ScannedRun("quick", 7), []))
    damaged = back_up(database, folder, tmp_path / "kept")
    done = restore(tmp_path / "kept", tmp_path / "state.sqlite3")

    assert sorted(damaged) == ["odd", "other"]
    assert damaged["other"].startswith("other.json is no file of findings")
    assert "which is no run" in damaged["odd"]
    assert done.lacking == ("odd", "other")
    assert [file.name for file in (tmp_path / "findings").iterdir()] == ["games.json"]


def good() -> bytes:
    return json.dumps({"version": 1}).encode()


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("../outside", good())], "no tenant"),
        ([("/etc/cron", good())], "no tenant"),
        ([("..", good())], "no tenant"),
        ([("a\nb", good())], "no tenant"),
        ([("", good())], "no tenant"),
        ([(7, good())], "no tenant"),
        ([("games", good()), ("games", good())], "no tenant"),
        ([("games", b"\x00")], "cannot be used"),
        ([("games", b'{"version": 99}')], "version 99"),
        ([("games", "text")], "cannot be read"),
        ([("games", b'{"runs": {"../r": {"scenario": "s", "seed": 1}}}')], "no run"),
        ([("games", b'{"a\\n\\u001b": 1}')], "cannot be used"),
        ([("fine", good()), ("games", b"[" * 100_000)], "cannot be used"),
    ],
)
def test_wrong_findings_are_refused_and_nothing_is_changed(
    folder: Path, database: Database, tmp_path: Path, rows: list[tuple[Any, Any]], says: str
) -> None:
    Store(database).submit(WORK, "r1", 0.0)
    file = write(folder, "games", judged())
    target = tmp_path / "wrong"
    back_up(database, folder, target)
    with closing(sqlite3.connect(target)) as opened, opened:
        opened.execute(f"DROP TABLE {TABLE}")
        opened.execute(f"CREATE TABLE {TABLE} (tenant, content)")
        opened.executemany(f"INSERT INTO {TABLE} VALUES (?, ?)", rows)
        opened.execute("DELETE FROM runs")
    database.close()
    before = {path.name for path in (*tmp_path.iterdir(), *folder.iterdir())}
    with pytest.raises(StoreError, match=says) as refused:
        restore(target, folder / "state.sqlite3")

    assert all(ord(character) >= 32 for character in str(refused.value))
    assert runs_of(folder / "state.sqlite3") == ["r1"]
    assert load_findings(file) == judged()
    assert {path.name for path in (*tmp_path.iterdir(), *folder.iterdir())} <= before


@pytest.mark.parametrize("columns", ["tenant TEXT", "content BLOB, tenant TEXT, more TEXT"])
def test_another_table_of_that_name_is_refused_or_read(
    folder: Path, database: Database, tmp_path: Path, columns: str
) -> None:
    target = tmp_path / "wrong"
    back_up(database, folder, target)
    with closing(sqlite3.connect(target)) as opened, opened:
        opened.execute(f"DROP TABLE {TABLE}")
        opened.execute(f"CREATE TABLE {TABLE} ({columns})")
        opened.execute(f"INSERT INTO {TABLE} (tenant) VALUES ('games')")
    place = tmp_path / "again" / "state.sqlite3"
    place.parent.mkdir()
    if columns == "tenant TEXT":
        with pytest.raises(StoreError, match=f"^{target} cannot be read"):
            restore(target, place)
    else:
        assert restore(target, place).lacking == ("games",)


def test_a_failed_restore_puts_the_findings_back(
    folder: Path, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(database).submit(WORK, "r1", 0.0)
    write(folder, "games", judged())
    back_up(database, folder, tmp_path / "kept")
    database.close()
    file = write(folder, "games", judged("later"))

    def fails(*_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(backups, "_swap_state", fails)
    with pytest.raises(StoreError, match="Input/output error"):
        restore(tmp_path / "kept", folder / "state.sqlite3")
    assert load_findings(file) == judged("later")
    assert {path.name for path in folder.iterdir()} == {"state.sqlite3", "findings"}


def test_a_file_that_is_written_meanwhile_is_taken_whole(folder: Path, database: Database, tmp_path: Path) -> None:
    large = judged("x" * 100_000)
    write(folder, "games", large)
    ends = threading.Event()

    def keep_writing() -> None:
        number = 0
        while not ends.is_set():
            number += 1
            write(folder, "games", judged(str(number % 10) * 100_000))

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        damaged = [back_up(database, folder, tmp_path / f"kept{number}") for number in range(20)]
    finally:
        ends.set()
        writer.join()

    assert damaged == [{}] * 20


def test_what_is_no_backup_is_refused_and_the_state_stays(folder: Path, database: Database, tmp_path: Path) -> None:
    Store(database).submit(WORK, "r1", 0.0)
    bad = tmp_path / "bad"
    bad.write_bytes(b"no database at all" * 100)

    for source in (bad, tmp_path / "missing"):
        with pytest.raises(StoreError):
            restore(source, folder / "state.sqlite3")
    assert Store(database).run("r1").state is RunState.QUEUED
    assert {path.name for path in folder.iterdir()} <= {"state.sqlite3", "state.sqlite3-wal", "state.sqlite3-shm"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "scenarios").mkdir()
    file = tmp_path / "farm.toml"
    file.write_text('[[phones]]\nname = "sim"\nkind = "simulated"\ncount = 2\n')
    return file


@pytest.mark.parametrize("made", ["", "CREATE TABLE notes (x)", "CREATE TABLE notes (x); PRAGMA user_version = 4"])
def test_another_programs_database_is_no_backup(folder: Path, database: Database, tmp_path: Path, made: str) -> None:
    Store(database).submit(WORK, "r1", 0.0)
    database.close()
    backup = tmp_path / "backup"
    with closing(sqlite3.connect(backup)) as opened:
        opened.executescript(made)
    with pytest.raises(StoreError, match="backup is no state of a farm"):
        restore(backup, folder / "state.sqlite3")
    assert runs_of(folder / "state.sqlite3") == ["r1"]


def test_a_backup_that_does_not_fit_into_memory_is_one_line(
    folder: Path, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(database).submit(WORK, "r1", 0.0)
    back_up(database, folder, tmp_path / "backup")
    database.close()

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(backups, "_taken", fail)
    with pytest.raises(StoreError, match="does not fit into memory"):
        restore(tmp_path / "backup", folder / "state.sqlite3")
    assert runs_of(folder / "state.sqlite3") == ["r1"]


def test_a_state_that_somebody_reads_is_not_replaced(
    folder: Path, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(database).submit(WORK, "r1", 0.0)
    back_up(database, folder, tmp_path / "backup")
    with closing(sqlite3.connect(folder / "state.sqlite3", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchall()
        Store(database).submit(WORK, "r2", 0.0)
        monkeypatch.setattr(backups, "BUSY_SECONDS", 0.1)
        with pytest.raises(StoreError, match="read by another process"):
            restore(tmp_path / "backup", folder / "state.sqlite3")
    assert runs_of(folder / "state.sqlite3") == ["r1", "r2"]


@pytest.fixture
def command(config: Path, tmp_path: Path) -> Callable[[str, str], Result]:
    return lambda does, name: CliRunner().invoke(farm, [does, str(config), str(tmp_path / name)])


def test_the_commands_and_their_exit_codes(
    folder: Path, database: Database, tmp_path: Path, command: Callable[[str, str], Result]
) -> None:
    write(folder, "games", judged())
    first = command("backup", "first")
    assert (first.exit_code, first.output) == (0, f"{tmp_path / 'first'}\n")
    write(folder, "other", judged()).write_bytes(os.urandom(64))
    partly = command("backup", "partly")
    assert (partly.exit_code, partly.stdout) == (3, f"{tmp_path / 'partly'}\n")
    assert partly.stderr.count("\n") == 1
    assert "is written, but without the findings of other: other.json" in partly.stderr
    database.back_up(tmp_path / "old")
    database.close()

    with open_folder(folder):
        runs = command("restore", "first")
        assert (runs.exit_code, "stop it first" in runs.stderr) == (3, True)
    old = command("restore", "old")
    assert (old.exit_code, "holds no findings" in old.output) == (0, True)
    whole = command("restore", "first")
    assert (whole.exit_code, str(folder / "findings.before-restore-2") in whole.output) == (0, True)
    assert {one.name for one in folder.glob("*.before-restore*")} == {
        *("state.sqlite3.before-restore", "state.sqlite3.before-restore-2", "findings.before-restore-2")
    }
    lacking = command("restore", "partly")
    assert (lacking.exit_code, "findings of other were damaged" in lacking.output) == (0, True)
    assert load_findings(folder / "findings" / "games.json") == judged()
    with closing(sqlite3.connect(tmp_path / "first")) as opened, opened:
        opened.execute(f"UPDATE {TABLE} SET tenant = '../games'")
    wrong = command("restore", "first")
    assert (wrong.exit_code, wrong.stderr.count("\n"), "no tenant" in wrong.stderr) == (3, 1, True)
