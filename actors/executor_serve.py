"""The SQL executor's process: it alone opens database credentials, and it talks to nobody but its owner.

    python -m actors.executor_serve CONFIG FD

It checks every statement itself, with its own catalog. It ends when its owner closes the socketpair.
"""

import importlib.util
import socket
import sys
from functools import partial
from pathlib import Path

import trio

from actors.configuration import ScenarioError
from actors.executor_lines import read_lines
from actors.executor_wire import (
    MAX_REQUEST_BYTES,
    READY,
    ExecuteRequest,
    decode_request,
    encode_answer,
    encode_failure,
)
from actors.sql_configuration import load_sql_config
from runtime.secret import SecretMissing, redact
from runtime.telemetry import configure, emit
from sqlassist.catalog import Dialect
from sqlassist.config import SqlConfig
from sqlassist.credentials import CredentialError
from sqlassist.execute.errors import DatabaseError
from sqlassist.execute.sources import Sources, open_sources
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet
from sqlassist.sources import check_for

EXIT_WRONG = 2
RETRY_SECONDS = 10.0
EXTRA_MODULES = ("trio_asyncio", "asyncmy")
MAX_OPEN_REQUESTS = 1000  # the pools refuse long before


async def serve_executor(config: SqlConfig, stream: trio.SocketStream, sources: Sources) -> None:
    """Answer requests until the other end closes; those under way are then cancelled, and killed on their servers.

    Raises:
        WireError: the other end does not speak our language, which is a bug of ours.
    """
    send_lock = trio.Lock()
    scopes: dict[int, trio.CancelScope] = {}

    async def send(lines: list[bytes]) -> None:
        for line in lines:  # the lock is let go between lines, so a long answer does not stop short ones
            async with send_lock:
                await stream.send_all(line)

    async def answer(number: int, request: ExecuteRequest) -> None:
        with trio.CancelScope() as scope:
            scopes[number] = scope
            try:
                lines = await _lines_for(config, sources, number, request)
                await send(lines)
            except trio.BrokenResourceError:
                emit("sqlassist.executor.closed", level="debug")  # the reader sees it as well, and ends everything
            finally:
                scopes.pop(number, None)

    async with trio.open_nursery() as nursery:
        async for line in read_lines(stream, MAX_REQUEST_BYTES):
            number, request = decode_request(line)
            if request is None:
                if number in scopes:
                    scopes[number].cancel()
            elif len(scopes) >= MAX_OPEN_REQUESTS:
                busy = Refusal("overloaded", "", "too many queries are under way: ask again in a moment")
                await send(list(encode_answer(number, busy)))
            else:
                nursery.start_soon(answer, number, request)
        nursery.cancel_scope.cancel()


async def _lines_for(config: SqlConfig, sources: Sources, number: int, request: ExecuteRequest) -> list[bytes]:
    try:
        return list(encode_answer(number, await execute_request(config, sources, request)))
    except (DatabaseError, CredentialError, SecretMissing) as error:
        source = getattr(error, "source", request.source)
        emit("sqlassist.executor.failed", level="warning", source=source, error=redact(str(error)))
        return [encode_failure(number, type(error).__name__, redact(getattr(error, "reason", str(error))), source)]


async def execute_request(config: SqlConfig, sources: Sources, request: ExecuteRequest) -> ResultSet | Refusal:
    """Check a request with the guard, and run what it makes of it.

    Raises:
        DatabaseError: the database cannot be used.
    """
    choice = check_for(config, request.tenant, request.sql, request.source)
    if isinstance(choice, Refusal):
        return choice
    if request.catalog_version and choice.query.catalog_version != request.catalog_version:
        return Refusal("catalog_changed", "", "the tables have changed since the query was written: ask again")
    return await sources.execute(choice.source, request.tenant, choice.query)


async def run_executor(config: SqlConfig, connection: socket.socket) -> None:
    """The whole process: sources, their watchdogs, and the door."""
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(connection))
    async with stream, open_sources(config) as sources, trio.open_nursery() as nursery:
        for name, source in config.sources.items():
            if source.dialect is not Dialect.DUCKDB and source.watchdog:
                nursery.start_soon(_watch, config, name)
        print(READY, flush=True)  # noqa: T201  # the sign that our owner waits for
        await serve_executor(config, stream, sources)
        nursery.cancel_scope.cancel()


async def _watch(config: SqlConfig, name: str) -> None:
    """A watchdog that keeps trying: its server may come later than we do."""
    from sqlassist.watchdog import run_watchdog  # noqa: PLC0415  # an extra: DuckDB needs none

    while True:
        try:
            await run_watchdog(config, name)
        except (DatabaseError, CredentialError, SecretMissing) as error:
            emit("sqlassist.watchdog.failed", level="warning", source=name, error=redact(str(error)))
        await trio.sleep(RETRY_SECONDS)


def _missing_extra(config: SqlConfig) -> str:
    """What to install for the servers of a configuration; empty where nothing is missing."""
    servers = [name for name, source in config.sources.items() if source.dialect is not Dialect.DUCKDB]
    missing = [name for name in EXTRA_MODULES if importlib.util.find_spec(name) is None] if servers else []
    if not missing:
        return ""
    needed = f"pip install 'corral[sql]' ({missing[0]} is missing)"
    return f"source {servers[0]} is a server, which needs more packages: {needed}"


def main(arguments: list[str]) -> int:
    """Run until the owner closes the connection."""
    configure(json=True, level="info")
    try:
        config = load_sql_config(Path(arguments[0]))
    except ScenarioError as error:
        for problem in error.problems:
            sys.stderr.write(f"{problem}\n")
        return EXIT_WRONG
    missing = _missing_extra(config)
    if missing:
        sys.stderr.write(f"{missing}\n")
        return EXIT_WRONG
    trio.run(partial(run_executor, config, socket.socket(fileno=int(arguments[1]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
