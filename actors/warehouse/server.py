"""Loads segments into MariaDB or MySQL: rows and their line in the ledger in one transaction, so none is doubled."""

import contextlib
import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pymysql

from actors.warehouse.config import ServerTarget
from actors.warehouse.generations import LEDGER, damage_row
from actors.warehouse.rows import Row
from actors.warehouse.spool import SHARED, read_header, read_rows
from actors.warehouse.tables import DAY, LOSSES, MOMENT, RUNS, TABLES, THINGS, WarehouseTable, things_columns
from runtime.secret import Secret, redact, take_from_environment
from sqlassist.administration import open_connection
from sqlassist.catalog import ColumnType, Dialect
from sqlassist.config import SourceConfig
from sqlassist.credentials import read_secret_file
from sqlassist.execute.errors import ServerUnavailable
from sqlassist.naming import quoted

TEXT_CHARACTERS = 320  # of a VARCHAR; the longest text of a row has 300
ROWS_AN_INSERT = 500
DUPLICATE_KEY = 1062
LOST_CODES = (1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1205, 1213, 2006, 2013, 2014, 2055, 4031)
_TYPES = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.NUMBER: "DOUBLE",
    ColumnType.TEXT: f"VARCHAR({TEXT_CHARACTERS})",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATETIME: "DATETIME(3)",
    ColumnType.DATE: "DATE",
}


class ServerAway(Exception):
    """The server does not answer, or hung up. Nothing is lost: what was not committed is loaded again."""


class ServerRefused(Exception):
    """The server refuses what must be done. The text says what; trying again does not help."""


@attrs.frozen
class ServerLoaded:
    """What one visit did."""

    segments: int
    rows: int
    damaged: int
    done: frozenset[str]
    """Of the segments that were given: those that the server holds now."""


def load_segments(target: ServerTarget, segments: Sequence[Path], *, now_ms: int) -> ServerLoaded:
    """Load what the server does not hold yet. Blocks.

    Args:
        target: Where.
        segments: Sealed ones.
        now_ms: Epoch milliseconds.

    Raises:
        ServerAway: it is not there, or went; what was committed stays.
        ServerRefused: it refuses.
        CredentialError: the password's file is not fit.
        SecretMissing: the password's variable is not set.
        OSError: a segment cannot be read.
    """
    source = SourceConfig(
        Dialect.MARIADB,
        {},
        host=target.host,
        port=target.port,
        socket=target.socket,
        tls_ca=target.tls_ca,
        schema=target.schema,
    )
    with _errors_mapped(), open_connection(source, target.user, _password(target), database=target.schema) as server:
        with server.cursor() as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'")
            _prepare(cursor, target.schema)
            cursor.execute(f"SELECT segment FROM {LEDGER}")  # noqa: S608  # a name of ours
            known = {str(row[0]) for row in cursor.fetchall()}
            count = rows = damaged = 0
            for segment in segments:
                if segment.stem in known:
                    continue
                loaded = _load(cursor, segment, now_ms)
                if loaded is not None:
                    count, rows, damaged = count + 1, rows + loaded[0], damaged + loaded[1]
        return ServerLoaded(count, rows, damaged, frozenset(segment.stem for segment in segments))


def _password(target: ServerTarget) -> Secret:
    if target.password_env:
        return take_from_environment(target.password_env)
    return read_secret_file(Path(target.password_file))


@contextlib.contextmanager
def _errors_mapped() -> Iterator[None]:
    try:
        yield
    except ServerUnavailable as error:
        cause = error.__cause__
        code = cause.args[0] if isinstance(cause, pymysql.err.MySQLError) and cause.args else None
        if code in (1044, 1045, 1049):  # a wrong account, password or schema does not mend itself
            raise ServerRefused(str(error)) from error
        raise ServerAway(str(error)) from error
    except pymysql.err.MySQLError as error:
        code, text = error.args[0] if error.args else None, redact(str(error.args[-1] if error.args else error))
        if isinstance(error, pymysql.err.InterfaceError) or code in LOST_CODES:
            raise ServerAway(text) from error
        raise ServerRefused(f"the server refuses: {text} ({code})") from error


def _prepare(cursor: Any, schema: str) -> None:
    """Every table and column is there; tables of an earlier version get what is new."""
    cursor.execute(
        f"CREATE TABLE IF NOT EXISTS {LEDGER} (segment VARCHAR(160) CHARACTER SET ascii PRIMARY KEY,"
        " loaded_rows BIGINT NOT NULL, at_ms BIGINT NOT NULL) ENGINE=InnoDB"
    )
    cursor.execute("SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s", [schema])
    there = {(str(table), str(column)) for table, column in cursor.fetchall()}
    tables = {table for table, _ in there}
    _prepare_things(cursor, tables)
    for name, table in TABLES.items():
        if name not in tables:
            cursor.execute(_definition(name, table))
            continue
        for column, kind in table.loaded.items():
            if (name, column) not in there:
                cursor.execute(f"ALTER TABLE {quoted(name)} ADD COLUMN {quoted(column)} {_TYPES[kind]}")


def _prepare_things(cursor: Any, tables: Collection[str]) -> None:
    for things, key in THINGS.items():
        if things not in tables:
            columns = ", ".join(f"{quoted(c)} {_TYPES[kind]} NOT NULL" for c, kind in things_columns(key).items())
            unique = f"UNIQUE INDEX by_key (tenant(100), {quoted(key)}(160))"
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {quoted(things)} ({columns}, {unique}) ENGINE=InnoDB CHARACTER SET utf8mb4"
            )


def _insert_things(cursor: Any, rows: Iterable[Row], tenant: str) -> None:
    first: dict[tuple[str, str], int] = {}
    for row in rows:
        for things, key in THINGS.items():
            if key in row:
                place = things, row[key][:TEXT_CHARACTERS]
                first[place] = min(first.get(place, row["at_ms"]), row["at_ms"])
    for (things, value), at_ms in first.items():
        statement = f"INSERT IGNORE INTO {quoted(things)} (tenant, {quoted(THINGS[things])}, first_ms)"
        cursor.execute(f"{statement} VALUES (%s, %s, %s)", [tenant, value, at_ms])


def _definition(name: str, table: WarehouseTable) -> str:
    columns = [f"{quoted(column)} {_TYPES[kind]}" for column, kind in table.loaded.items()]
    columns.append(f"INDEX by_day ({quoted('tenant')}(100), {quoted(DAY)})")
    if table.key is not None:
        columns.append(f"UNIQUE INDEX by_key ({quoted(table.key)}(160))")
    return f"CREATE TABLE IF NOT EXISTS {quoted(name)} ({', '.join(columns)}) ENGINE=InnoDB CHARACTER SET utf8mb4"


def _load(cursor: Any, segment: Path, now_ms: int) -> tuple[int, int] | None:
    """(rows, damaged lines); None where another loader was first."""
    about = read_header(segment)
    rows: dict[str, list[Row]] = {}
    damaged = 0
    for row in read_rows(segment):
        if row is None:
            damaged += 1
        else:
            rows.setdefault(row["t"], []).append(row)
    if damaged:
        rows.setdefault(LOSSES, []).append(damage_row(damaged, now_ms))
    total = sum(len(some) for some in rows.values())
    cursor.execute("START TRANSACTION")
    try:
        # first, so that a second loader waits here, and finds it done
        cursor.execute(f"INSERT INTO {LEDGER} VALUES (%s, %s, %s)", [segment.stem, total, now_ms])  # noqa: S608
    except pymysql.err.IntegrityError as error:
        if error.args[0] != DUPLICATE_KEY:
            raise
        cursor.execute("ROLLBACK")
        return None
    for name, some in rows.items():
        _insert(cursor, name, some, about)
    _insert_things(cursor, (row for some in rows.values() for row in some), about["tenant"])
    cursor.execute("COMMIT")
    return total, damaged


def _insert(cursor: Any, name: str, rows: Sequence[Row], about: Mapping[str, str]) -> None:
    table = TABLES[name]
    names = list(table.loaded)
    holes = ", ".join(["%s"] * len(names))
    columns = ", ".join(quoted(column) for column in names)
    for begin in range(0, len(rows), ROWS_AN_INSERT):
        part = rows[begin : begin + ROWS_AN_INSERT]
        if name == RUNS:  # written when it begins and when it ends; segments may come in any order
            for row in part:
                verb = "INSERT IGNORE" if row.get("ended_ms") is None else "REPLACE"
                cursor.execute(f"{verb} INTO {quoted(name)} ({columns}) VALUES ({holes})", _values(names, row, about))
            continue
        cursor.executemany(
            f"INSERT INTO {quoted(name)} ({columns}) VALUES ({holes})",  # noqa: S608
            [_values(names, row, about) for row in part],
        )


def _values(names: Sequence[str], row: Row, about: Mapping[str, str]) -> list[Any]:
    moment = dt.datetime.fromtimestamp(row["at_ms"] / 1000, dt.UTC).replace(tzinfo=None)
    made = {**row, **{name: about[name] for name in SHARED}, MOMENT: moment, DAY: moment.date()}
    values = (made.get(name) for name in names)
    return [value[:TEXT_CHARACTERS] if isinstance(value, str) else value for value in values]
