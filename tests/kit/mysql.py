"""A private MySQL for tests: its packages unpacked in a cache folder, beside the system; own data, socket and port.

The packages are Debian sid's, as no stable Debian has MySQL. They run under sid's own loader and libraries, so the
system's do not matter. sid moves: no version is pinned, and where none can be had the tests are skipped.
"""

import atexit
import contextlib
import os
import pwd
import shutil
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
from tests.kit.debian_packages import CannotBeHad, unpacked
from tests.kit.ports import free_port

PACKAGES = ("mysql-server-core",)
SERVER_USER = "nobody"  # mysqld refuses to run as root, and this user exists everywhere
START_SECONDS = 60.0

mysql_marks: list[pytest.MarkDecorator] = [
    pytest.mark.mysql,
    pytest.mark.xdist_group("mysql"),
    pytest.mark.timeout(600),  # the first run downloads and unpacks
]
"""`pytestmark = mysql_marks` in a module whose tests use `mysql()`."""


@attrs.frozen
class MySql:
    """A running server. Its `root` has no password."""

    folder: Path
    socket: Path
    port: int
    pid: int

    def admin(self, database: str | None = None) -> "pymysql.connections.Connection[Any]":
        """A new connection as root; the caller closes it."""
        return pymysql.connect(
            unix_socket=str(self.socket), user="root", database=database, autocommit=True, charset="utf8mb4"
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
            "SELECT info FROM performance_schema.processlist"
            f" WHERE user = '{user}' AND command IN ('Query', 'Execute') AND info IS NOT NULL"
        )
        return [str(row[0]) for row in rows]


def mysql() -> MySql:
    """The session's server, started at the first call; it ends with the test process. Skips where it cannot be had."""
    return _started(mysql_root())


@cache
def _started(root: Path) -> MySql:
    stack = contextlib.ExitStack()
    server = stack.enter_context(open_mysql(root))
    atexit.register(stack.close)
    return server


def mysql_root() -> Path:
    """The unpacked packages, for `open_mysql`. Skips the test where they cannot be had."""
    found = _installed_once()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@cache
def _installed_once() -> Path | str:
    try:
        return installed(_cache_folder())
    except CannotBeHad as error:
        return f"MySQL cannot be had: {error}"


def _cache_folder() -> Path:
    """Root's home is closed to the server's user, so root has another place."""
    base = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    return base / "corral-tests" / "mysql"


def installed(folder: Path) -> Path:
    """The folder that the packages are unpacked in; downloads them if that was never done.

    Raises:
        CannotBeHad: this machine has not what it takes, the download failed, or Debian has changed.
    """
    root = unpacked(folder, "sid", *PACKAGES)
    loader_of(root)
    return root


def loader_of(root: Path) -> Path:
    """The dynamic loader among the unpacked packages; its folder holds their libraries.

    Raises:
        CannotBeHad: it is not where Debian puts it, or there is no server beside it.
    """
    found = sorted(root.glob("usr/lib/*/ld-linux-*.so.*"))
    if not found or not (root / "usr/sbin/mysqld").exists():
        raise CannotBeHad(f"{root} holds no loader or no mysqld: Debian has changed; remove the folder to try again")
    return found[0]


@contextlib.contextmanager
def open_mysql(root: Path, *options: str) -> Iterator[MySql]:
    """A server of its own for the time of the block, from unpacked packages."""
    folder = Path(tempfile.mkdtemp(prefix="corral-mysql-"))
    data = folder / "data"
    data.mkdir()
    user: int | None = None
    group: int | None = None
    if os.geteuid() == 0:
        account = pwd.getpwnam(SERVER_USER)
        for path in (folder, data):
            os.chown(path, account.pw_uid, account.pw_gid)
        user, group = account.pw_uid, account.pw_gid
    loader, log = loader_of(root), folder / "error.log"
    environ = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder)}
    command: list[str | Path] = [
        loader,
        "--library-path",
        loader.parent,
        root / "usr/sbin/mysqld",
        "--no-defaults",
        f"--basedir={root}/usr",
        f"--lc-messages-dir={root}/usr/share/mysql",
        f"--character-sets-dir={root}/usr/share/mysql/charsets",
        f"--plugin-dir={root}/usr/lib/mysql/plugin",
        f"--datadir={data}",
        f"--log-error={log}",
        "--innodb-redo-log-capacity=32M",
        "--innodb-buffer-pool-size=64M",
    ]
    process: subprocess.Popen[bytes] | None = None
    try:
        made = subprocess.run(
            [*command, "--initialize-insecure"],
            capture_output=True,
            env=environ,
            cwd=folder,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
            timeout=240,
            check=False,
        )
        assert made.returncode == 0, f"mysqld --initialize-insecure: {made.stderr.decode()[-300:]} {_said(log)}"
        port = free_port(3500)
        process = subprocess.Popen(
            [
                *command,
                f"--socket={folder / 's'}",
                f"--port={port}",
                "--bind-address=127.0.0.1",
                f"--pid-file={folder / 'pid'}",
                "--mysqlx=OFF",
                "--secure-file-priv=",  # so that files are kept from accounts by their missing privilege alone
                "--skip-log-bin",
                "--skip-name-resolve",
                "--innodb-flush-log-at-trx-commit=0",  # tests lose nothing in a crash
                "--max-connections=100",
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
        server = MySql(folder, folder / "s", port, process.pid)
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


def _wait_answers(server: MySql, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _takes_connections(server.socket):
        assert process.poll() is None, f"mysqld ended with {process.returncode}: {_said(log)}"
        assert time.monotonic() < deadline, f"mysqld does not answer: {_said(log)}"
        time.sleep(0.05)


def _said(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:] if log.exists() else "(nothing)"


def _takes_connections(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
