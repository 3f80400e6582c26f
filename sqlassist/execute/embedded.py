"""DuckDB: one read-only file a tenant, nothing outside it reachable, memory and threads bounded, interrupted on cancel.

Views in a file are no boundary, as DuckDB has no accounts; the file is.
"""

import base64
import datetime as dt
import decimal
import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import duckdb
import trio

from runtime.ids import TenantId
from runtime.nursery import open_bare_nursery
from sqlassist.config import SqlConfig, SqlLimits
from sqlassist.execute.backend import BackendStatistics
from sqlassist.execute.errors import OVERLOADED, TOO_SLOW, DatabaseLost
from sqlassist.execute.plan import judge_plan, judge_row_gate
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.result import MAX_SAFE_INTEGER, Cell, PlanNumbers, ResultColumn, ResultSet, ValueType

ROWS_A_FETCH = 500
INTERRUPT_EVERY_SECONDS = 0.05  # one is enough nearly always; a single long function call notices it after up to 4 s

_TYPES = {
    "BOOLEAN": ValueType.BOOLEAN,
    "DATE": ValueType.DATE,
    "TIME": ValueType.TIME,
    "BLOB": ValueType.BYTES,
    "VARCHAR": ValueType.TEXT,
    "FLOAT": ValueType.FLOAT,
    "DOUBLE": ValueType.FLOAT,
}
_REFUSALS: tuple[tuple[type[Exception], Refusal], ...] = (
    (duckdb.InterruptException, TOO_SLOW),
    (duckdb.OutOfMemoryException, Refusal("too_much_memory", "", "the query needs too much memory: group fewer rows")),
    (
        duckdb.CatalogException,
        Refusal("unknown_table", "", "the database knows no such table: the catalog is out of date"),
    ),
    (
        duckdb.BinderException,
        Refusal("unknown_column", "", "the database does not take a column: the catalog is out of date"),
    ),
    (
        duckdb.ConversionException,
        Refusal("conversion", "", "a value cannot be converted to the type that is asked for"),
    ),
    (duckdb.OutOfRangeException, Refusal("out_of_range", "", "a number in the query became too large")),
)


class EmbeddedBackend:
    """Made by `open_embedded_backend`."""

    def __init__(self, config: SqlConfig, name: str) -> None:
        self.name = name
        self._source = config.sources[name]
        self._databases: dict[TenantId, _Database] = {}
        self._queries = self._refused = self._killed = 0

    async def execute(self, tenant: TenantId, query: CheckedQuery) -> ResultSet | Refusal:
        """See `Backend.execute`."""
        begun = trio.current_time()
        self._queries += 1
        limits = self._source.limits
        unbounded = judge_row_gate(query, plan_gate=limits.plan_gate, max_join_size=0)  # DuckDB has no such setting
        if unbounded is not None:
            self._refused += 1
            return unbounded
        database = await self._current(tenant)
        outcome = OVERLOADED if database is None else await self._run(database, query)
        if isinstance(outcome, Refusal):
            self._refused += 1
            return outcome
        read, numbers = outcome
        is_part = read.is_truncated or (query.is_clamped and len(read.rows) >= query.max_rows)
        return ResultSet(read.columns, read.rows, is_part, trio.current_time() - begun, numbers, self.name)

    def statistics(self) -> BackendStatistics:
        """See `Backend.statistics`."""
        databases = self._databases.values()
        return BackendStatistics(
            queries=self._queries,
            refused=self._refused,
            killed=self._killed + sum(database.killed for database in databases),
            lost_kills=0,
            connections=len(self._databases),
            waiting=sum(database.waiting for database in databases),
        )

    def close(self) -> None:
        """Close every file."""
        for database in self._databases.values():
            database.connection.close()

    async def _run(self, database: "_Database", query: CheckedQuery) -> "tuple[_Read, PlanNumbers | None] | Refusal":
        limits = self._source.limits
        try:
            database.places.acquire_nowait()
        except trio.WouldBlock:
            if database.waiting >= limits.waiting:
                database.leave()
                return OVERLOADED
            database.waiting += 1
            try:
                await database.places.acquire()
            except BaseException:
                database.leave()
                raise
            finally:
                database.waiting -= 1
        try:
            seconds = min(limits.deadline_seconds, limits.statement_seconds)
            return await database.run(query, limits=limits, seconds=seconds)
        finally:
            database.places.release()
            database.leave()

    async def _current(self, tenant: TenantId) -> "_Database | None":
        """The tenant's file as it is now, entered; None where too many wait for it already.

        DuckDB gives out what it has open under a path, whatever is there now. So a file that was replaced is closed
        first, when its last query has ended.
        """
        path = Path(self._source.folder) / f"{tenant}.duckdb"
        while (old := self._databases.get(tenant)) is not None and old.identity != _identity(path):
            if old.users == 0:
                old.connection.close()
                self._killed += old.killed
                del self._databases[tenant]
            elif old.waiting >= self._source.limits.waiting:
                return None
            else:
                old.waiting += 1
                try:
                    await old.idle.wait()
                finally:
                    old.waiting -= 1
        database = self._database(tenant, path)
        database.enter()
        return database

    def _database(self, tenant: TenantId, path: Path) -> "_Database":
        if tenant not in self._databases:
            identity = _identity(path)  # before it is opened: a file that comes in between is found by the next query
            bounds = self._source.duckdb
            settings = {
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "memory_limit": f"{bounds.memory_megabytes}MB",
                "threads": str(bounds.threads),
                "max_temp_directory_size": "0KB",
                "lock_configuration": "true",
            }
            try:
                connection = duckdb.connect(str(path), read_only=True, config=dict(settings))
            except duckdb.Error as error:
                raise DatabaseLost(f"{path.name} cannot be opened: {type(error).__name__}", source=self.name) from error
            self._databases[tenant] = _Database(connection, self._source.limits.pool, identity)
        return self._databases[tenant]


class _Database:
    def __init__(
        self, connection: duckdb.DuckDBPyConnection, places: int, identity: tuple[int, int, int] | None
    ) -> None:
        self.connection = connection
        self.places = trio.Semaphore(places)
        self.identity = identity
        self.waiting = self.killed = self.users = 0
        self.idle = trio.Event()

    def enter(self) -> None:
        """One more query uses it."""
        self.users += 1
        if self.users == 1:
            self.idle = trio.Event()

    def leave(self) -> None:
        """The query has ended."""
        self.users -= 1
        if self.users == 0:
            self.idle.set()

    async def run(
        self, query: CheckedQuery, *, limits: SqlLimits, seconds: float
    ) -> "tuple[_Read, PlanNumbers | None] | Refusal":
        """Run it in a worker thread; cancelled or late, it is interrupted, and has ended when this returns."""
        cursor = self.connection.cursor()
        done = trio.Event()
        outcome: list[tuple[_Read, PlanNumbers | None] | Refusal | duckdb.Error] = []

        async def work() -> None:
            with trio.CancelScope(shield=True):  # the interrupt ends it
                try:
                    outcome.append(await trio.to_thread.run_sync(_run, cursor, query, limits))
                except duckdb.Error as error:
                    outcome.append(error)
            done.set()

        async with open_bare_nursery() as nursery:
            nursery.start_soon(work)
            try:
                with trio.move_on_after(seconds):
                    await done.wait()
            finally:
                if not done.is_set():
                    self.killed += 1
                    await _interrupt(cursor, done)
        cursor.close()
        (got,) = outcome
        if isinstance(got, duckdb.Error):
            return _refusal_for(got)
        return got


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


async def _interrupt(cursor: duckdb.DuckDBPyConnection, done: trio.Event) -> None:
    with trio.CancelScope(shield=True):
        while not done.is_set():  # an interrupt that falls between two statements is lost, so it is repeated
            cursor.interrupt()
            with trio.move_on_after(INTERRUPT_EVERY_SECONDS):
                await done.wait()


# From here on: in a worker thread


@attrs.frozen
class _Read:
    columns: tuple[ResultColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_truncated: bool


def _run(
    cursor: duckdb.DuckDBPyConnection, query: CheckedQuery, limits: SqlLimits
) -> "tuple[_Read, PlanNumbers | None] | Refusal":
    numbers = None
    if limits.plan_gate:
        numbers = _plan_numbers(cursor, query.sql)
        refusal = judge_plan(numbers, limits)
        if refusal is not None:
            return refusal
    cursor.execute(query.sql)
    description: Sequence[Any] = cursor.description or ()
    columns = tuple(ResultColumn(str(column[0]), _type_of(str(column[1]))) for column in description)
    max_rows = min(limits.max_rows, query.max_rows)
    rows: list[tuple[Cell, ...]] = []
    size = 0
    while chunk := cursor.fetchmany(ROWS_A_FETCH):
        for raw in chunk:
            row = tuple(_cell(value, column.type) for value, column in zip(raw, columns, strict=True))
            size += sum(len(cell) if isinstance(cell, str) else 8 for cell in row)
            if len(rows) == max_rows or size > limits.max_result_bytes:
                return _Read(columns, tuple(rows), is_truncated=True), numbers
            rows.append(row)
    return _Read(columns, tuple(rows), is_truncated=False), numbers


def _plan_numbers(cursor: duckdb.DuckDBPyConnection, sql: str) -> PlanNumbers:
    """Sum of the estimated cardinalities of a plan's nodes; those of scans apart."""
    rows = cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}").fetchall()
    scans: list[int] = []
    examined = sum(_cardinality(node, scans)[1] for node in json.loads(rows[0][1]))
    return PlanNumbers(examined, max(scans, default=0), len(scans))


def _cardinality(node: Any, scans: list[int]) -> tuple[int, int]:
    """(rows that come out of a node, rows in it and below it)."""
    below = [_cardinality(child, scans) for child in node.get("children", ())]
    extra = node.get("extra_info") or {}
    stated = extra.get("Estimated Cardinality")
    count = int(str(stated).lstrip("~").replace(",", "")) if stated is not None else math.prod(n for n, _ in below)
    if not below and "SCAN" in str(node.get("name", "")).upper():
        scans.append(count)
    return count, count + sum(total for _, total in below)


def _type_of(name: str) -> ValueType:
    if name.startswith("DECIMAL"):
        return ValueType.DECIMAL
    if name.startswith("TIMESTAMP"):
        return ValueType.DATETIME
    if name.endswith(("INT", "INTEGER")):  # HUGEINT and unsigned ones too
        return ValueType.INTEGER
    return _TYPES.get(name, ValueType.OTHER)


def _cell(value: Any, kind: ValueType) -> Cell:
    match value:
        case None | bool():
            return value
        case int():
            return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else str(value)
        case float():
            return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case decimal.Decimal():
            return format(value, "f") if kind is ValueType.DECIMAL else str(value)
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case _:
            return str(value)


def _refusal_for(error: duckdb.Error) -> Refusal:
    """DuckDB's texts stay here: they quote values and definitions."""
    for kind, refusal in _REFUSALS:
        if isinstance(error, kind):
            return refusal
    return Refusal("database_refused", "", f"the database does not take this query ({type(error).__name__})")


@asynccontextmanager
async def open_embedded_backend(config: SqlConfig, name: str) -> AsyncIterator[EmbeddedBackend]:
    """The backend of one folder of files, for the time of the block. Files are opened when they are needed."""
    backend = EmbeddedBackend(config, name)
    try:
        yield backend
    finally:
        backend.close()
