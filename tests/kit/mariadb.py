"""A private MariaDB for tests: own data folder, socket and port, never the system's, gone when the session ends."""

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pymysql
import pytest

from runtime.lifeline import die_with_parent
from tests.kit.ports import free_port

SERVER_USER = "nobody"  # mariadbd refuses to run as root, and this user exists everywhere
START_SECONDS = 30.0


@attrs.frozen
class MariaDb:
    """A running server. Its `root` has no password and answers on the socket alone."""

    folder: Path
    socket: Path
    port: int
    pid: int

    def admin(
        self, database: str | None = None, *, local_infile: bool = False
    ) -> "pymysql.connections.Connection[Any]":
        """A new connection as root; the caller closes it."""
        return pymysql.connect(
            unix_socket=str(self.socket),
            user="root",
            database=database,
            autocommit=True,
            charset="utf8mb4",
            local_infile=local_infile,
        )

    def run(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements as root; returns the rows of the last."""
        rows: list[tuple[Any, ...]] = []
        with contextlib.closing(self.admin(database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
        return rows

    def queries_of(self, user: str) -> list[str]:
        """What the server is executing for an account at this moment."""
        rows = self.run(
            "SELECT info FROM information_schema.processlist"
            f" WHERE user = '{user}' AND command IN ('Query', 'Execute') AND info IS NOT NULL"
        )
        return [str(row[0]) for row in rows]

    def connections_of(self, user: str) -> int:
        """How many connections of an account the server has."""
        return int(self.run(f"SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{user}'")[0][0])


def missing_binaries() -> str | None:
    """Why there can be no server, or None."""
    for name in ("mariadbd", "mariadb-install-db"):
        if _binary(name) is None:
            return f"no {name}: install the package mariadb-server (its service need not run)"
    return None


def _binary(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def _marks() -> list[pytest.MarkDecorator]:
    missing = missing_binaries()
    marks: list[pytest.MarkDecorator] = [pytest.mark.mariadb, pytest.mark.xdist_group("mariadb")]
    if missing is not None and not os.environ.get("CI"):
        marks.append(pytest.mark.skip(reason=missing))
    return marks


mariadb_marks = _marks()
"""`pytestmark = mariadb_marks` in a module whose tests use `mariadb()`; skipped with its reason, required under CI."""


@cache
def mariadb() -> MariaDb:
    """The session's server, started at the first call. It ends with the test process."""
    missing = missing_binaries()
    assert missing is None, f"CI needs MariaDB: {missing}"
    stack = contextlib.ExitStack()
    server = stack.enter_context(open_mariadb())
    atexit.register(stack.close)
    return server


@contextlib.contextmanager
def open_mariadb(*options: str) -> Iterator[MariaDb]:
    """A server of its own for the time of the block."""
    install, daemon = _binary("mariadb-install-db"), _binary("mariadbd")
    assert install is not None
    assert daemon is not None
    folder = Path(tempfile.mkdtemp(prefix="corral-mariadb-"))
    data = folder / "data"
    data.mkdir()
    user: int | None = None
    group: int | None = None
    if os.geteuid() == 0:
        account = pwd.getpwnam(SERVER_USER)
        for path in (folder, data):
            os.chown(path, account.pw_uid, account.pw_gid)
        user, group = account.pw_uid, account.pw_gid
    environ = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder)}
    process: subprocess.Popen[bytes] | None = None
    try:
        subprocess.run(
            [
                install,
                "--no-defaults",
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ],
            check=True,
            capture_output=True,
            env=environ,
            cwd=folder,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
        )
        port = free_port(3000)
        log = folder / "error.log"
        process = subprocess.Popen(
            [
                daemon,
                "--no-defaults",
                f"--datadir={data}",
                f"--socket={folder / 's'}",
                f"--port={port}",
                "--bind-address=127.0.0.1",
                f"--pid-file={folder / 'pid'}",
                f"--log-error={log}",
                "--skip-log-bin",
                "--skip-name-resolve",
                "--local-infile=1",
                "--innodb-buffer-pool-size=64M",
                "--innodb-flush-log-at-trx-commit=0",  # tests lose nothing in a crash
                "--max-connections=200",
                *options,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd=folder,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # a killed test run leaves no server behind
            user=user,
            group=group,
            extra_groups=None if user is None else [],
        )
        server = MariaDb(folder, folder / "s", port, process.pid)
        _wait_answers(server, process, log)
        yield server
    finally:
        if process is not None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_answers(server: MariaDb, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _takes_connections(server.socket):
        said = log.read_text(errors="replace")[-2000:] if log.exists() else "(nothing)"
        assert process.poll() is None, f"mariadbd ended with {process.returncode}: {said}"
        assert time.monotonic() < deadline, f"mariadbd does not answer: {said}"
        time.sleep(0.05)


def _takes_connections(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@contextlib.contextmanager
def killed(server: MariaDb) -> Iterator[None]:
    """The server is dead for the time of the block; then another process takes over its data, port and socket."""
    argv = Path(f"/proc/{server.pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    os.kill(server.pid, signal.SIGKILL)
    while _takes_connections(server.socket):
        time.sleep(0.02)
    yield
    user = pwd.getpwnam(SERVER_USER).pw_uid if os.geteuid() == 0 else None
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=server.folder,
        preexec_fn=die_with_parent,  # noqa: PLW1509  # a killed test run leaves no server behind
        user=user,
    )
    atexit.register(process.kill)
    _wait_answers(server, process, server.folder / "error.log")
