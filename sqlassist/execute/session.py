"""One connection to MariaDB or MySQL, through asyncmy under trio-asyncio: the only module that imports either.

Needs `trio_asyncio.open_loop()` round it. A session that was cancelled in a query is closed and never used again; the
server goes on with that query until somebody kills it, which takes another session of the same account.
"""

import base64
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import asyncmy
import asyncmy.errors
import attrs
import trio
import trio_asyncio
from asyncmy.constants import CLIENT, FIELD_TYPE
from asyncmy.cursors import Cursor, SSCursor

from runtime.secret import Secret
from sqlassist.catalog import Dialect
from sqlassist.config import SourceConfig, SqlLimits
from sqlassist.execute.errors import (
    ACCESS_DENIED,
    CANNOT_CONNECT,
    CONNECTION_LOST,
    NO_ANSWER,
    DatabaseDenied,
    DatabaseLost,
)
from sqlassist.result import MAX_SAFE_INTEGER, Cell, ResultColumn, ValueType

CONNECT_SECONDS = 5
ROWS_A_FETCH = 500  # decoded between two looks at the caps
_BINARY = 63  # the character set of bytes
_TEXT_TYPES = {
    FIELD_TYPE.VARCHAR,
    FIELD_TYPE.VAR_STRING,
    FIELD_TYPE.STRING,
    FIELD_TYPE.TINY_BLOB,
    FIELD_TYPE.BLOB,
    FIELD_TYPE.MEDIUM_BLOB,
    FIELD_TYPE.LONG_BLOB,
}
_TYPES = {
    FIELD_TYPE.TINY: ValueType.INTEGER,
    FIELD_TYPE.SHORT: ValueType.INTEGER,
    FIELD_TYPE.INT24: ValueType.INTEGER,
    FIELD_TYPE.LONG: ValueType.INTEGER,
    FIELD_TYPE.LONGLONG: ValueType.INTEGER,
    FIELD_TYPE.YEAR: ValueType.INTEGER,
    FIELD_TYPE.DECIMAL: ValueType.DECIMAL,
    FIELD_TYPE.NEWDECIMAL: ValueType.DECIMAL,
    FIELD_TYPE.FLOAT: ValueType.FLOAT,
    FIELD_TYPE.DOUBLE: ValueType.FLOAT,
    FIELD_TYPE.DATE: ValueType.DATE,
    FIELD_TYPE.NEWDATE: ValueType.DATE,
    FIELD_TYPE.DATETIME: ValueType.DATETIME,
    FIELD_TYPE.TIMESTAMP: ValueType.DATETIME,
    FIELD_TYPE.TIME: ValueType.TIME,
    FIELD_TYPE.BIT: ValueType.BYTES,
    FIELD_TYPE.GEOMETRY: ValueType.BYTES,
    FIELD_TYPE.JSON: ValueType.TEXT,
}


_Connection: Any = asyncmy.Connection  # its stubs know neither all arguments nor all attributes


class QueryFailed(Exception):
    """The server refused the query itself. Only its code is kept."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


@attrs.frozen
class Answer:
    """What a query gave."""

    columns: tuple[ResultColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_truncated: bool
    """A cap was reached: the session cannot be used again."""


@attrs.frozen
class SessionPlan:
    """How to connect: one value an account and use."""

    source: str
    host: str
    port: int
    socket: str
    tls_ca: str
    user: str
    password: Secret
    schema: str | None
    settings: str
    """One SET statement, run before anything else."""


def tenant_settings(source: SourceConfig, limits: SqlLimits) -> str:
    """What is pinned on a connection that runs tenants' queries."""
    rows = f"sql_big_selects=0, max_join_size={limits.max_join_size}" if limits.max_join_size else "sql_big_selects=1"
    shared = (
        "sql_mode='STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',"
        f" time_zone='{source.time_zone}', autocommit=1, group_concat_max_len=65536, lock_wait_timeout=5, {rows}"
    )
    if source.dialect is Dialect.MARIADB:
        memory = 256 << 20  # far above any answer that fits our caps
        return (
            f"SET SESSION {shared}, tx_read_only=1, max_statement_time={limits.statement_seconds:g},"
            f" max_session_mem_used={memory}"
        )
    return f"SET SESSION {shared}, transaction_read_only=1, max_execution_time={int(limits.statement_seconds * 1000)}"


def service_settings(source: SourceConfig, seconds: float) -> str:
    """What is pinned on connections of our own accounts."""
    if source.dialect is Dialect.MARIADB:
        return f"SET SESSION autocommit=1, tx_read_only=1, max_statement_time={seconds:g}"
    return f"SET SESSION autocommit=1, transaction_read_only=1, max_execution_time={int(seconds * 1000)}"


class Session:
    """Made by `open_session`."""

    def __init__(self, plan: SessionPlan, connection: Any) -> None:
        self.plan = plan
        self.thread_id = int(connection.thread_id())
        """What KILL calls this connection."""
        self._connection = connection

    @property
    def is_usable(self) -> bool:
        """False once it was closed, by us, by a cancellation or by the server."""
        return bool(self._connection.connected) and not self._connection._stream_broken  # noqa: SLF001

    async def query(self, sql: str, *, max_rows: int, max_bytes: int) -> Answer:
        """Run one statement and read its rows, up to the caps.

        Raises:
            QueryFailed: the server refused it.
            DatabaseLost: the connection broke.
            DatabaseDenied: the account may not do this.
        """
        try:
            answer = await trio_asyncio.aio_as_trio(_query)(self._connection, sql, max_rows, max_bytes)
        except asyncmy.errors.Error as error:
            raise self._ours(error) from None  # the server's text stays here
        assert isinstance(answer, Answer)
        return answer

    async def rows(self, sql: str, schema: str | None = None) -> list[dict[str, Any]]:
        """Run one statement of our own; returns rows by column name, as text. Raises as `query`."""
        try:
            found = await trio_asyncio.aio_as_trio(_named_rows)(self._connection, sql, schema)
        except asyncmy.errors.Error as error:
            raise self._ours(error) from None
        assert isinstance(found, list)
        return found

    def close(self) -> None:
        """Close the socket at once. The server may go on with what it was asked."""
        self._connection.close()

    async def aclose(self) -> None:
        """Say goodbye and close."""
        await trio_asyncio.aio_as_trio(self._connection.ensure_closed)()

    def _ours(self, error: asyncmy.errors.Error) -> Exception:
        return our_error(error, self.plan)


async def open_session(plan: SessionPlan) -> Session:
    """Connect and pin the settings.

    Raises:
        DatabaseLost: the server does not answer within `CONNECT_SECONDS`, or takes no more connections.
        DatabaseDenied: it does not let the account in.
    """
    try:
        with trio.fail_after(CONNECT_SECONDS):
            connection = await trio_asyncio.aio_as_trio(_connect)(plan)
    except asyncmy.errors.Error as error:
        raise our_error(error, plan) from None
    except trio.TooSlowError as error:
        raise DatabaseLost(f"it did not let {plan.user} in within {CONNECT_SECONDS} s", source=plan.source) from error
    except OSError as error:
        raise DatabaseLost(f"it cannot be reached: {error}", source=plan.source) from error
    return Session(plan, connection)


def our_error(error: asyncmy.errors.Error, plan: SessionPlan) -> Exception:
    """The foreign error as ours."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    if code in ACCESS_DENIED:
        return DatabaseDenied(f"{plan.user} was denied something it needs (error {code})", source=plan.source)
    if code in CONNECTION_LOST or code in CANNOT_CONNECT or isinstance(error, asyncmy.errors.InterfaceError):
        return DatabaseLost(f"the connection of {plan.user} is lost (error {code})", source=plan.source)
    return QueryFailed(code)


# From here on: inside asyncio


async def _connect(plan: SessionPlan) -> Any:
    context = ssl.create_default_context(cafile=plan.tls_ca) if plan.tls_ca else None
    connection: Any = _Connection(
        user=plan.user,
        password=plan.password.reveal(),
        host=plan.host,
        port=plan.port,
        unix_socket=plan.socket or None,
        database=plan.schema,
        charset="utf8mb4",
        init_command=plan.settings,
        autocommit=None,
        connect_timeout=CONNECT_SECONDS,
        conv={},  # no decoding: text keeps what floats and Python's dates would lose
        ssl=context,
    )
    # asyncmy sets it always; without it the server takes one statement a request, whatever the text holds
    connection._client_flag &= ~CLIENT.MULTI_STATEMENTS  # noqa: SLF001
    await connection.connect()
    return connection


class _Warnings:
    """Nobody asks for the server's warnings: the driver would log their texts.

    They quote rows, and MySQL's EXPLAIN puts the whole query in one, base tables and tenant's filter included.
    """

    async def _show_warnings(self, _connection: Any) -> None:
        """In place of the driver's, which sends SHOW WARNINGS."""


class _StreamingCursor(_Warnings, SSCursor):
    """Rows as they come."""


class _WholeCursor(_Warnings, Cursor):
    """All rows at once."""


async def _query(connection: Any, sql: str, max_rows: int, max_bytes: int) -> Answer:
    cursor = _StreamingCursor(connection)
    await cursor.execute(sql)
    if not cursor.description:
        connection.close()  # it may have changed the settings that are pinned
        raise QueryFailed(NO_ANSWER)
    fields = connection._result.fields  # noqa: SLF001  # the cursor's description has no character set
    columns = tuple(ResultColumn(field.name, _type_of(field)) for field in fields)
    decoders = [_DECODERS.get(column.type) for column in columns]
    rows: list[tuple[Cell, ...]] = []
    size = 0
    while chunk := await cursor.fetchmany(ROWS_A_FETCH):
        for raw in chunk:
            size += sum(8 if value is None else len(value) for value in raw)
            if len(rows) == max_rows or size > max_bytes:
                connection.close()  # the rest is on its way: the connection is of no use
                return Answer(columns, tuple(rows), is_truncated=True)
            rows.append(_decoded(raw, decoders))
    await cursor.close()
    return Answer(columns, tuple(rows), is_truncated=False)


async def _named_rows(connection: Any, sql: str, schema: str | None) -> list[dict[str, Any]]:
    if schema is not None:
        await connection.select_db(schema)
    cursor = _WholeCursor(connection)
    await cursor.execute(sql)
    rows = await cursor.fetchall() if cursor.description else []
    names = [column[0] for column in cursor.description or ()]
    await cursor.close()
    return [dict(zip(names, row, strict=True)) for row in rows]


def _type_of(field: Any) -> ValueType:
    if field.type_code in _TEXT_TYPES:
        return ValueType.BYTES if field.charsetnr == _BINARY else ValueType.TEXT
    return _TYPES.get(field.type_code, ValueType.OTHER)


def _decoded(raw: Sequence[Any], decoders: Sequence["Callable[[Any], Cell] | None"]) -> tuple[Cell, ...]:
    return tuple(
        value if value is None or decode is None else decode(value) for value, decode in zip(raw, decoders, strict=True)
    )


def _integer(text: Any) -> Cell:
    number = int(text)
    return number if -MAX_SAFE_INTEGER <= number <= MAX_SAFE_INTEGER else str(number)


def _datetime(text: Any) -> Cell:
    return str(text).replace(" ", "T")


def _bytes(value: Any) -> Cell:
    raw = value.encode() if isinstance(value, str) else bytes(value)
    return base64.b64encode(raw).decode()


_DECODERS: Mapping[ValueType, "Callable[[Any], Cell]"] = {
    ValueType.INTEGER: _integer,
    ValueType.FLOAT: float,
    ValueType.DATETIME: _datetime,
    ValueType.BYTES: _bytes,
}
