"""Our own adb server: started by us as a child on a port of its own, watched by us, stopped by us and nobody else."""

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO

import attrs
import trio

from actors.devices.adb.client import HOST, AdbClient
from actors.devices.adb.errors import AdbServerLost, AdbServerUnavailable, AdbServerUnresponsive
from actors.devices.adb.keys import announce, find_keys
from actors.devices.base import DeviceError
from runtime.lifeline import leader_command
from runtime.nursery import open_bare_nursery

FIRST_PORT, LAST_PORT = 25037, 25337  # below 32768, where Linux takes ports for outgoing connections
FOREIGN = "somebody else has the port"
START_SECONDS = 15.0  # adb 36 makes a key at its first start, which takes seconds on a loaded machine
VERSION_SECONDS = 3.0  # it takes milliseconds, and asks nobody
POLL_SECONDS = 0.05
ASK_SECONDS = 1.0
ALIVE_EVERY_SECONDS = 10.0
ALIVE_SECONDS = 5.0  # it answers from memory; a loaded machine needs a second
ALIVE_TRIES = 3  # in a row: half a minute of silence
GRACE_SECONDS = 2.0
FIRST_ROBUST_VERSION = 36  # of those tried: 29 dies now and then of connects that overlap, 36 of none in 300 times 64
LOG_TAIL_BYTES = 2000
_VERSION = re.compile(rb"^Version (\d{1,4})\.", re.MULTILINE)
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp

# read by adb: it would otherwise look for emulators on ports 5555 to 5585 and list them beside our phones,
# and talk to the local network in search of more
_ONLY_WHAT_WE_CONNECT = {"ADB_LOCAL_TRANSPORT_MAX_PORT": "0", "ADB_MDNS": "0"}
_NO_USB = {"ADB_USB": "0"}


def find_adb(environ: Mapping[str, str] = os.environ) -> Path:
    """The adb binary: $ADB, else the one in PATH, else the one in the adbutils wheel.

    Raises:
        AdbServerUnavailable: there is none, or $ADB names something that cannot be run.
    """
    wanted = environ.get("ADB")
    if wanted:
        found = shutil.which(wanted)
        if found is None:
            raise AdbServerUnavailable(f"$ADB is {wanted!r}, which is no program that can be run")
        return Path(found)
    found = shutil.which("adb", path=environ.get("PATH"))
    if found is not None:
        return Path(found)
    bundled = bundled_adb()
    if bundled is None:
        raise AdbServerUnavailable("no adb found: set $ADB, or install adb, or the Python package adbutils")
    return bundled


def bundled_adb() -> Path | None:
    """The adb binary inside the adbutils wheel, if that is installed and has one for this system."""
    spec = importlib.util.find_spec("adbutils")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "binaries" / "adb"
    return path if os.access(path, os.X_OK) else None


@attrs.frozen(kw_only=True)
class AdbServerConfig:
    """How to start an adb server."""

    binary: Path | None = None
    """None: as `find_adb` says."""
    port: int | None = None
    """None: a free one from FIRST_PORT on."""
    home: Path | None = None
    """HOME of the server, where it keeps its key; None: the user's own, so that phones know the key."""
    usb: bool = False
    """Look for phones on USB too. Two adb servers fight for a USB phone, and adb 36 then starts 3 s later."""
    environ: Mapping[str, str] = attrs.field(factory=dict)
    """More environment, e.g. ADB_VENDOR_KEYS or ADB_BURST_MODE."""
    start_seconds: float = START_SECONDS
    grace_seconds: float = GRACE_SECONDS


@attrs.define(eq=False)
class AdbServer:
    """A running server that is ours."""

    process: trio.Process
    """Leads the process group that the server is in."""
    port: int
    client: AdbClient
    lifeline_fd: int
    log: IO[bytes]
    """What the server said."""

    async def wait_exited(self) -> int:
        """Wait until the server has ended; returns its exit code (negative: the signal that ended it)."""
        return await self.process.wait()


@asynccontextmanager
async def open_adb_server(config: AdbServerConfig | None = None) -> AsyncIterator[AdbServer]:
    """An adb server that answers, and is gone when the block has ended.

    Raises:
        AdbServerUnavailable: no binary, no free port, or a server that did not come up in time.
    """
    config = config or AdbServerConfig()
    binary = config.binary or find_adb()
    with tempfile.TemporaryFile() as log:
        server = await _start(config, binary, log)
        try:
            yield server
        finally:
            with trio.CancelScope(shield=True):  # bounded by the grace, then by SIGKILL
                await _stop(server, config.grace_seconds)


async def run_adb_server(
    config: AdbServerConfig | None = None,
    *,
    task_status: trio.TaskStatus[AdbServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Keep an adb server until cancelled; started, with the server, once it answers.

    Raises:
        AdbServerUnavailable: it did not come up.
        AdbServerLost: it ended by itself. All TCP phones must then be connected again.
        AdbServerUnresponsive: it ran on and answered nothing.
    """
    async with open_adb_server(config) as server:
        task_status.started(server)
        async with open_bare_nursery() as nursery:
            nursery.start_soon(_watch_answers, server)
            code = await server.wait_exited()
            said = _tail(server.log)
            raise AdbServerLost(f"our adb server on port {server.port} ended with {code}{': ' + said if said else ''}")


async def _watch_answers(server: AdbServer) -> None:
    """A server that hangs looks alive to whoever waits for its end. Raises `AdbServerUnresponsive`."""
    silent = 0
    while True:
        await trio.sleep(ALIVE_EVERY_SECONDS)
        try:
            await server.client.version(timeout_seconds=ALIVE_SECONDS)
        except AdbServerUnresponsive:
            silent += 1
            if silent >= ALIVE_TRIES:
                raise
        except DeviceError:
            silent = 0  # it hung up: if it has ended, its exit says so
        else:
            silent = 0


async def _start(config: AdbServerConfig, binary: Path, log: IO[bytes]) -> AdbServer:
    candidates = _ports_from(os.getpid()) if config.port is None else [config.port]
    reason = FOREIGN
    is_robust = await _is_robust(binary)
    for port in filter(_is_free, candidates):
        keys = find_keys(environ_for(config, port))
        process, lifeline_fd = await _spawn(config, binary, port, log)
        server = AdbServer(process, port, AdbClient(port, connects_in_turn=not is_robust), lifeline_fd, log)
        trouble: str | None = "cancelled"
        try:
            trouble = await _wait_ready(server, config.start_seconds)
        finally:
            if trouble is not None:
                with trio.CancelScope(shield=True):
                    await _stop(server, config.grace_seconds)
        if trouble is None:
            announce(keys)
            return server
        reason = _tail(log) or trouble
        if trouble != FOREIGN and _is_free(port):
            break  # nobody was faster than we were: the binary is the trouble, and another port no cure
    where = f"{config.port}" if config.port is not None else f"{FIRST_PORT} to {LAST_PORT}"
    raise AdbServerUnavailable(f"{binary} did not come up on port {where}: {reason}")


async def _is_robust(binary: Path) -> bool:
    """True when the server of that binary bears connects that overlap. One that does not say its version may not."""
    said = b""
    with trio.move_on_after(VERSION_SECONDS), suppress(OSError):  # one that cannot be run is told of when it is started
        said = (
            await trio.run_process([str(binary), "version"], capture_stdout=True, capture_stderr=True, check=False)
        ).stdout
    found = _VERSION.search(said)
    return found is not None and int(found[1]) >= FIRST_ROBUST_VERSION


def _ports_from(start: int) -> list[int]:
    """All our ports, from one that differs between processes, as several may look for one at the same moment."""
    ports = range(FIRST_PORT, LAST_PORT + 1)
    turn = start % len(ports)
    return [*ports[turn:], *ports[:turn]]


def environ_for(config: AdbServerConfig, port: int) -> dict[str, str]:
    """The whole environment of a server."""
    environ = os.environ | _ONLY_WHAT_WE_CONNECT | ({} if config.usb else _NO_USB) | dict(config.environ)
    environ["ANDROID_ADB_SERVER_PORT"] = str(port)
    environ.pop("ADB_SERVER_SOCKET", None)  # it would win over the port, and may be somebody else's server
    if config.home is not None:
        environ["HOME"] = str(config.home)
    return environ


async def _spawn(config: AdbServerConfig, binary: Path, port: int, log: IO[bytes]) -> tuple[trio.Process, int]:
    """The leader of the server's process group, and our end of its lifeline: a kill -9 of us ends the server too."""
    environ = environ_for(config, port)
    theirs, ours = os.pipe()
    try:
        process = await trio.lowlevel.open_process(
            leader_command(theirs, config.grace_seconds, [str(binary), "-P", str(port), "nodaemon", "server"]),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environ,
            pass_fds=(theirs,),
            start_new_session=True,  # Ctrl-C at our terminal must not kill it before the phones are left in order
        )
    except BaseException as error:
        os.close(ours)
        if isinstance(error, OSError):
            raise AdbServerUnavailable(f"{binary} cannot be started: {error}") from error
        raise
    finally:
        os.close(theirs)
    return process, ours


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


async def _wait_ready(server: AdbServer, seconds: float) -> str | None:
    """None once our child answers; else what is wrong: it has ended, the time is up, or somebody else answers."""
    with trio.move_on_after(seconds):
        while server.process.returncode is None:
            try:
                await server.client.version(timeout_seconds=ASK_SECONDS)
            except DeviceError:
                await trio.sleep(POLL_SECONDS)
            else:
                return None if _listens(server.process.pid, server.port) else FOREIGN
        return f"it ended with {server.process.returncode}"
    return f"no answer within {seconds:g} s"


def _listens(leader: int, port: int) -> bool:
    """True when a process of the leader's group listens on that port: an answer alone may come from somebody else."""
    held: set[str] = set()
    tables = ""
    for pid in _group_of(leader):
        with suppress(FileNotFoundError):  # it has ended
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(FileNotFoundError):  # it closed that descriptor while we looked
                    held.add(str(link.readlink()))
    with suppress(FileNotFoundError):
        tables = "".join(Path(f"/proc/{leader}/net/{table}").read_text("ascii") for table in ("tcp", "tcp6"))
    return any(
        line[3] == _LISTEN and int(line[1].rpartition(":")[2], 16) == port and f"socket:[{line[9]}]" in held
        for line in map(str.split, tables.splitlines())
    )


def _group_of(leader: int) -> list[int]:
    """The processes whose group the leader leads; those that have ended are left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                fields = (entry / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
                if int(fields[2]) == leader and fields[0] != "Z":
                    found.append(int(entry.name))
    return found


async def _stop(server: AdbServer, grace_seconds: float) -> None:
    """SIGTERM, wait, SIGKILL, to the server's process group; returns when its leader is gone.

    Signals go to our own children and to nothing else, while `host:kill` would go to whoever has the port.
    """
    process = server.process
    try:
        if process.poll() is None:
            _signal_group(process, signal.SIGTERM)
            with trio.move_on_after(grace_seconds):
                await process.wait()
        _signal_group(process, signal.SIGKILL)  # also where only the leader has ended: the port must become free
        await process.wait()
        with trio.move_on_after(grace_seconds):
            while _group_of(process.pid):  # noqa: ASYNC110  # the kernel tells nobody but the group's parents
                await trio.sleep(POLL_SECONDS)
    finally:
        os.close(server.lifeline_fd)


def _signal_group(process: trio.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.killpg(process.pid, number)


def _tail(log: IO[bytes]) -> str:
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - LOG_TAIL_BYTES))
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return " / ".join(lines[-5:])
