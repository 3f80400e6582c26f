"""A private MySQL for tests: its packages unpacked in a cache folder, beside the system; own data, socket and port.

The packages are Debian sid's, as no stable Debian has MySQL. They run under sid's own loader and libraries, so the
system's do not matter. sid moves: no version is pinned, and where none can be had the tests are skipped.
"""

import atexit
import contextlib
import fcntl
import os
import pwd
import shutil
import socket
import subprocess
import sys
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

PACKAGES = ("mysql-server-core",)
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"  # signed, so plain HTTP will do
SERVER_USER = "nobody"  # mysqld refuses to run as root, and this user exists everywhere
FIRST_PORT, LAST_PORT = 20000, 32767
DOWNLOAD_SECONDS = 120.0
START_SECONDS = 60.0

mysql_marks: list[pytest.MarkDecorator] = [
    pytest.mark.mysql,
    pytest.mark.xdist_group("mysql"),
    pytest.mark.timeout(600),  # the first run downloads and unpacks
]
"""`pytestmark = mysql_marks` in a module whose tests use `mysql()`."""


class CannotBeHad(Exception):
    """There is no MySQL for this machine, or not now."""


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


def missing() -> str | None:
    """What this machine lacks for unpacking the packages, or None."""
    if not sys.platform.startswith("linux"):
        return "its packages are for Linux"
    for name in ("apt-get", "dpkg"):
        if shutil.which(name) is None:
            return f"no {name}: its packages are Debian's"
    return None if KEYRING.exists() else f"no {KEYRING}: install the package debian-archive-keyring"


def installed(folder: Path) -> Path:
    """The folder that the packages are unpacked in; downloads them if that was never done.

    Raises:
        CannotBeHad: this machine has not what it takes, or the download failed.
    """
    if (reason := missing()) is not None:
        raise CannotBeHad(reason)
    root = folder / "root"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not root.exists():
                _download_and_unpack(folder, root)
    except OSError as error:
        raise CannotBeHad(f"{folder} cannot be filled: {error}") from error
    return root


def _download_and_unpack(folder: Path, root: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=folder) as made:
        work, fresh = Path(made), Path(made) / "root"
        for name in ("lists/partial", "cache/archives/partial", "root"):
            (work / name).mkdir(parents=True)
        (work / "status").touch()
        (work / "sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} sid main\n")
        config = work / "apt.conf"
        # nothing of the system's apt is written, and neither its hooks nor its lists are read
        config.write_text(
            f'Dir::Etc::main "/dev/null"; Dir::Etc::parts "/dev/null"; Dir::Etc::preferencesparts "/dev/null";\n'
            f'Dir::Etc::sourcelist "{work}/sources.list"; Dir::Etc::sourceparts "/dev/null";\n'
            f'Dir::State "{work}"; Dir::State::lists "{work}/lists"; Dir::State::status "{work}/status";\n'
            f'Dir::Cache "{work}/cache"; Dir::Log "{work}";\n'
            'APT::Sandbox::User ""; APT::Install-Recommends "false"; Acquire::Languages "none";\n'
            'Acquire::http::Timeout "10"; Acquire::Retries "1"; APT::Update::Error-Mode "any";\n' + _ways_out()
        )
        _apt(config, "update")
        _apt(config, "--yes", "--download-only", "install", *PACKAGES)
        for package in sorted((work / "cache/archives").glob("*.deb")):
            unpacked = subprocess.run(["dpkg", "-x", package, fresh], capture_output=True, check=False)
            if unpacked.returncode != 0:
                raise CannotBeHad(f"{package.name} cannot be unpacked: {unpacked.stderr.decode()[-300:]}")
        loader_of(fresh)
        fresh.chmod(0o755)
        fresh.rename(root)


def _ways_out() -> str:
    """The machine's own settings about proxies, and about the dates of mirrors that stand still."""
    dumped = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    kept = ("Acquire::http::", "Acquire::https::", "Acquire::Check-")
    return "\n".join(line for line in dumped.splitlines() if line.startswith(kept)) + "\n"


def _apt(config: Path, *arguments: str) -> None:
    try:
        done = subprocess.run(
            ["apt-get", "-q", *arguments],
            env={**os.environ, "APT_CONFIG": str(config), "LC_ALL": "C"},
            capture_output=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotBeHad(f"apt-get {arguments[0]} took more than {DOWNLOAD_SECONDS:g} s") from error
    if done.returncode != 0:
        raise CannotBeHad(f"apt-get {' '.join(arguments)}: {done.stderr.decode(errors='replace')[-300:].strip()}")


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
        port = _free_port()
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


def _free_port() -> int:
    start = FIRST_PORT + 1500 + (os.getpid() * 7) % 9000  # processes of one machine rarely try the same first
    for port in range(start, LAST_PORT):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port for MySQL")
