"""Generations: each row once, whatever is loaded again and in which order; a tenant's file holds him alone."""

import contextlib
from pathlib import Path
from typing import Any

import duckdb
import pytest

from actors.warehouse.generations import DAY_MS, PublicationFailed, publish
from actors.warehouse.rows import Row, row_for
from actors.warehouse.spool import SpoolWriter, loadable_segments

NOW = 1_800_000_000_000


def spooled(folder: Path, *rows: Row, tenant: str = "default", run: str = "r1") -> list[Path]:
    about = {"tenant": tenant, "run_id": run, "scenario": "s"}
    writing = SpoolWriter(folder / "spool" / tenant, run, about)
    writing.append(rows, 0.0)
    writing.seal()
    return loadable_segments(folder / "spool" / tenant)


def ask(folder: Path, sql: str, tenant: str = "default") -> list[tuple[Any, ...]]:
    with contextlib.closing(duckdb.connect(str(folder / f"{tenant}.duckdb"), read_only=True)) as file:
        return file.execute(sql).fetchall()


def step(number: int, phone: str = "P", at_ms: int = NOW) -> Row:
    return row_for("steps", at_ms, {"step": number, "phone": phone, "app": "game", "latency_ms": 1.5 * number})


def test_a_second_publication_adds_only_what_is_new(tmp_path: Path) -> None:
    first = publish(tmp_path, "default", spooled(tmp_path, step(1), step(2)), now_ms=NOW)
    generation = (tmp_path / "default.duckdb").stat().st_ino
    again = publish(tmp_path, "default", loadable_segments(tmp_path / "spool/default"), now_ms=NOW)
    assert (tmp_path / "default.duckdb").stat().st_ino == generation, "nothing new, nothing renamed"
    later = publish(tmp_path, "default", spooled(tmp_path, step(3), run="r2"), now_ms=NOW)

    assert [(one.segments, one.rows) for one in (first, again, later)] == [(1, 2), (0, 0), (1, 1)]
    assert ask(tmp_path, "SELECT run_id, step FROM steps ORDER BY step") == [("r1", 1), ("r1", 2), ("r2", 3)]
    assert (tmp_path / "default.duckdb").stat().st_ino != generation
    assert (tmp_path / "default.duckdb").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["default.duckdb", "spool"]


def test_moments_and_days_are_derived_in_utc(tmp_path: Path) -> None:
    publish(tmp_path, "default", spooled(tmp_path, step(1, at_ms=1_796_083_199_999)), now_ms=NOW)

    ((moment, day),) = ask(tmp_path, "SELECT happened_at, day FROM steps")
    assert (moment.isoformat(), day.isoformat()) == ("2026-11-30T23:59:59.999000", "2026-11-30")


def test_a_runs_row_is_its_latest_in_whatever_order_segments_come(tmp_path: Path) -> None:
    begun, ended = row_for("runs", NOW, {"state": "running"}), row_for("runs", NOW, {"state": "ended", "ended_ms": NOW})
    publish(tmp_path, "default", spooled(tmp_path, ended), now_ms=NOW)
    publish(tmp_path, "default", spooled(tmp_path, begun), now_ms=NOW)
    publish(tmp_path, "default", spooled(tmp_path, begun, ended, run="r2"), now_ms=NOW)

    assert ask(tmp_path, "SELECT run_id, state FROM runs ORDER BY run_id") == [("r1", "ended"), ("r2", "ended")]


def test_tenants_have_files_of_their_own(tmp_path: Path) -> None:
    publish(tmp_path, "alpha", spooled(tmp_path, step(1), tenant="alpha"), now_ms=NOW)
    publish(tmp_path, "beta", spooled(tmp_path, step(2), tenant="beta"), now_ms=NOW)

    assert ask(tmp_path, "SELECT tenant, step FROM steps", "alpha") == [("alpha", 1)]
    assert ask(tmp_path, "SELECT tenant, step FROM steps", "beta") == [("beta", 2)]


def test_damaged_lines_are_rows_of_losses(tmp_path: Path) -> None:
    (segment,) = spooled(tmp_path, step(1))
    with segment.open("ab") as file:
        file.write(b"\x00\x00\n{}\n")

    done = publish(tmp_path, "default", [segment], now_ms=NOW)

    assert done.damaged == 2
    assert ask(tmp_path, "SELECT COUNT(*) FROM steps") == [(1,)]
    assert ask(tmp_path, "SELECT kind, lost_rows FROM losses") == [("line", 2)]


def test_everything_that_rows_name_is_a_thing_once(tmp_path: Path) -> None:
    plan = row_for("plans", NOW, {"engine": "e0", "phone": "Q"})
    episode = row_for("episodes", NOW, {"phone": "R", "engine_list": "e0,e1"})
    publish(tmp_path, "default", spooled(tmp_path, step(1), step(2), plan, episode), now_ms=NOW)
    publish(tmp_path, "default", spooled(tmp_path, step(3), step(3, phone="S"), run="r2"), now_ms=NOW)

    assert [row[0] for row in ask(tmp_path, "SELECT phone FROM phones ORDER BY phone")] == ["P", "Q", "R", "S"]
    assert ask(tmp_path, "SELECT engine FROM engines") == [("e0",)]


def test_old_rows_are_left_out_where_a_bound_is_set(tmp_path: Path) -> None:
    rows = spooled(tmp_path, step(1, at_ms=NOW - 8 * DAY_MS), step(2, at_ms=NOW - 6 * DAY_MS))

    publish(tmp_path, "default", rows, now_ms=NOW, keep_days=7)

    assert ask(tmp_path, "SELECT step FROM steps") == [(2,)]


def test_a_file_of_an_earlier_version_gets_the_new_columns(tmp_path: Path) -> None:
    publish(tmp_path, "default", spooled(tmp_path, step(1)), now_ms=NOW)
    with contextlib.closing(duckdb.connect(str(tmp_path / "default.duckdb"))) as file:
        file.execute("ALTER TABLE steps DROP COLUMN latency_ms")
        file.execute("DROP TABLE phones")

    publish(tmp_path, "default", spooled(tmp_path, step(2), run="r2"), now_ms=NOW)

    assert ask(tmp_path, "SELECT step, latency_ms FROM steps ORDER BY step") == [(1, None), (2, 3.0)]
    assert ask(tmp_path, "SELECT phone FROM phones") == [("P",)]


def test_a_file_that_is_none_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "default.duckdb").write_text("no database" * 1000)

    with pytest.raises(PublicationFailed, match="move it away") as told:
        publish(tmp_path, "default", spooled(tmp_path, step(1)), now_ms=NOW)

    assert "\n" not in str(told.value)
    assert (tmp_path / "default.duckdb").read_text().startswith("no database")


def test_what_a_killed_loader_left_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "default.duckdb.new").write_text("half")
    (tmp_path / "default.duckdb.new.wal").write_text("half")

    publish(tmp_path, "default", spooled(tmp_path, step(1)), now_ms=NOW)

    assert ask(tmp_path, "SELECT COUNT(*) FROM steps") == [(1,)]
