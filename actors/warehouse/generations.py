"""Publishes DuckDB generations: a tenant's file is copied, gets what is new, and is renamed into place, never changed.

The ledger of loaded segments is in the file itself, so a kill at any moment leaves rows and ledger of one generation.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import duckdb

from actors.warehouse.rows import Row
from actors.warehouse.spool import SHARED, read_header, read_rows
from actors.warehouse.tables import DAY, LOSSES, MOMENT, RUNS, TABLES, THINGS, all_columns, askable_tables
from sqlassist.catalog import ColumnType

LEDGER = "loaded_segments"
MEMORY = "512MB"  # of the loader process; a segment holds 8 MB
DAY_MS = 86_400_000
_TYPES = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.NUMBER: "DOUBLE",
    ColumnType.TEXT: "VARCHAR",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATETIME: "TIMESTAMP",
    ColumnType.DATE: "DATE",
}


class PublicationFailed(Exception):
    """A generation could not be made; the one before stays. The text says which, why, and what to do."""


@attrs.frozen
class Published:
    """What one publication of a tenant did."""

    tenant: str
    segments: int
    """That were new."""
    rows: int
    damaged: int
    """Lines that could not be read; they are rows of `losses`."""
    done: frozenset[str]
    """Names of all segments that the file holds."""


def publish(folder: Path, tenant: str, segments: Sequence[Path], *, now_ms: int, keep_days: int = 0) -> Published:
    """Bring a tenant's file up to date. Blocks; the caller sees to it that nobody else publishes there meanwhile.

    Args:
        folder: Gets `<tenant>.duckdb`.
        tenant: Whose.
        segments: That can be loaded, in order.
        now_ms: Epoch milliseconds.
        keep_days: Older rows are left out; 0 keeps all.

    Raises:
        PublicationFailed: a file cannot be read or written.
    """
    path = folder / f"{tenant}.duckdb"
    try:
        return _publish(path, tenant, segments, now_ms, keep_days)
    except duckdb.Error as error:
        text = " ".join(str(error).split())
        hint = "move it away, and what the spool still holds is loaded into a new one"
        raise PublicationFailed(f"{path}: {text}; where that stays, {hint}") from error
    except OSError as error:
        raise PublicationFailed(f"{error.filename or path}: {error.strerror or error}") from error


def _publish(path: Path, tenant: str, segments: Sequence[Path], now_ms: int, keep_days: int) -> Published:
    known = _ledger_of(path) if path.exists() else None
    new = [one for one in segments if known is None or one.stem not in known]
    if not new:
        return Published(tenant, 0, 0, 0, frozenset(known or ()))
    fresh = path.with_name(f"{path.name}.new")
    for left_over in (fresh, fresh.with_name(f"{fresh.name}.wal")):
        left_over.unlink(missing_ok=True)
    if known is not None:
        shutil.copyfile(path, fresh)
    rows = damaged = 0
    done = set(known or ())
    with contextlib.closing(_connect(fresh)) as file:
        fresh.chmod(0o600)
        _prepare(file)
        for segment in new:
            loaded, bad = _load(file, segment, now_ms)
            rows, damaged = rows + loaded, damaged + bad
            done.add(segment.stem)
        if keep_days:
            for name in TABLES:
                file.execute(f"DELETE FROM {name} WHERE at_ms < ?", [now_ms - keep_days * DAY_MS])  # noqa: S608  # a name of ours
        file.execute("CHECKPOINT")
    _put_in_place(fresh, path)
    return Published(tenant, len(new), rows, damaged, frozenset(done))


def _connect(path: Path, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(path), read_only=read_only, config={"memory_limit": MEMORY, "threads": "1"})


def _ledger_of(path: Path) -> set[str]:
    with contextlib.closing(_connect(path, read_only=True)) as file:
        return {str(row[0]) for row in file.execute(f"SELECT segment FROM {LEDGER}").fetchall()}  # noqa: S608


def _prepare(file: duckdb.DuckDBPyConnection) -> None:
    """Every table and column is there; a file of an earlier version gets what is new."""
    file.execute(f"CREATE TABLE IF NOT EXISTS {LEDGER} (segment VARCHAR PRIMARY KEY, loaded_rows BIGINT, at_ms BIGINT)")
    for name, types in askable_tables().items():
        columns = ", ".join(f"{column} {_TYPES[kind]}" for column, kind in types.items())
        file.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
        there = {str(row[0]) for row in file.execute(f"DESCRIBE {name}").fetchall()}
        for column, kind in types.items():
            if column not in there:
                file.execute(f"ALTER TABLE {name} ADD COLUMN {column} {_TYPES[kind]}")


def _load(file: duckdb.DuckDBPyConnection, segment: Path, now_ms: int) -> tuple[int, int]:
    """(rows, damaged lines) of one segment, in one transaction with its line in the ledger."""
    about = read_header(segment)
    tables: dict[str, int] = {}
    damaged = 0
    with tempfile.TemporaryDirectory(prefix="corral-load-") as folder:
        clean = Path(folder) / "rows.jsonl"
        with clean.open("w", encoding="utf-8") as out:
            for row in read_rows(segment):
                if row is None:
                    damaged += 1
                    continue
                tables[row["t"]] = tables.get(row["t"], 0) + 1
                out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
            if damaged:
                tables[LOSSES] = tables.get(LOSSES, 0) + 1
                out.write(json.dumps(damage_row(damaged, now_ms)) + "\n")
        file.execute(f"CREATE OR REPLACE TEMP TABLE batch AS SELECT * FROM {_ROWS}", [str(clean)])  # noqa: S608
        file.execute("BEGIN")
        for name in tables:
            _insert(file, name, about)
        for things, key in THINGS.items():
            _insert_things(file, things, key, about["tenant"])
        file.execute(f"INSERT INTO {LEDGER} VALUES (?, ?, ?)", [segment.stem, sum(tables.values()), now_ms])  # noqa: S608
        file.execute("COMMIT")
    return sum(tables.values()), damaged


def damage_row(lines: int, now_ms: int) -> Row:
    """What is told of lines that a loader could not read."""
    return {"t": LOSSES, "at_ms": now_ms, "kind": "line", "lost_rows": lines, "reason": "damaged in the spool"}


_SHAPE = ", ".join(f"{column}: '{_TYPES[kind]}'" for column, kind in {"t": ColumnType.TEXT, **all_columns()}.items())
_ROWS = f"read_json(?, format = 'newline_delimited', columns = {{{_SHAPE}}})"


def _insert_things(file: duckdb.DuckDBPyConnection, things: str, key: str, tenant: str) -> None:
    file.execute(
        f"INSERT INTO {things} (tenant, {key}, first_ms) SELECT ?, {key}, MIN(at_ms) FROM batch"  # noqa: S608
        f" WHERE {key} IS NOT NULL AND {key} NOT IN (SELECT {key} FROM {things}) GROUP BY {key}",
        [tenant],
    )


def _insert(file: duckdb.DuckDBPyConnection, name: str, about: Mapping[str, str]) -> None:
    own = [column for column in TABLES[name].columns if column not in SHARED]
    file.execute(
        f"INSERT INTO {name} ({', '.join([*SHARED, *own, MOMENT, DAY])})"  # noqa: S608  # names of ours
        f" SELECT ?, ?, ?, {', '.join(own)}, epoch_ms(at_ms), CAST(epoch_ms(at_ms) AS DATE)"
        " FROM batch WHERE t = ?",
        [*(about[column] for column in SHARED), name],
    )
    if name == RUNS:  # written when it begins and when it ends; segments may come in any order
        best = f"SELECT rowid FROM {RUNS} WHERE run_id = ? ORDER BY ended_ms DESC NULLS LAST LIMIT 1"  # noqa: S608
        file.execute(f"DELETE FROM {RUNS} WHERE run_id = ? AND rowid NOT IN ({best})", [about["run_id"]] * 2)  # noqa: S608


def _put_in_place(fresh: Path, path: Path) -> None:
    _sync(fresh)
    fresh.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
