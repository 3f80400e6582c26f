"""Starts a scrcpy server on a phone: pushed, run by `app_process`, and connected to, its sockets in their order.

They are reached as `localabstract:` services through the adb server, as `adb forward` does inside: there is no port to
take and no forward to take back.
"""

import hashlib
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trio

from actors.devices.adb.client import AdbClient, AdbSocket, phone_timeout, total_deadline
from actors.devices.adb.errors import ServiceClosed, StreamUnavailable
from actors.devices.adb.files import push_file, stat_file
from actors.devices.adb.scrcpy import ScrcpyConfig, ScrcpyStream
from actors.devices.adb.scrcpy_wire import ScrcpyVersion, ScrcpyWireError, parse_version
from actors.devices.adb.shell import SHELL_V2
from actors.devices.adb.wire import SHELL_EXIT, ShellReader, WireError
from actors.devices.base import DeviceError
from runtime.nursery import open_bare_nursery

REMOTE_FOLDER = "/data/local/tmp"
SERVER_CLASS = "com.genymobile.scrcpy.Server"
START_SECONDS = 8.0  # app_process is a Java start: 1 s on a quick phone
SOCKET_RETRY_SECONDS = 0.1
LOG_KEPT = 2000  # bytes of what the server said last
UNKNOWN_VERSION = "0.0"  # no server takes it, and each says in its refusal which it is
_IN_NAME = re.compile(r"scrcpy-server-?v?(\d+\.\d+(?:\.\d+)?)")
_MISMATCH = re.compile(r"server version \((\d+\.\d+(?:\.\d+)?)\) does not match")


def version_in_name(jar: Path) -> str:
    """The version that a server's file name tells, as scrcpy's releases do."""
    found = _IN_NAME.search(jar.name)
    return found.group(1) if found else UNKNOWN_VERSION


def server_command(remote: str, version: str, scid: str, config: ScrcpyConfig) -> str:
    """The line for the phone's shell."""
    options = ["tunnel_forward=true", "audio=false", "control=true", "cleanup=false", "clipboard_autosync=false"]
    options += [f"scid={scid}", f"max_fps={config.max_fps:g}", f"video_bit_rate={config.bit_rate}"]
    if config.max_side is not None:
        options.append(f"max_size={config.max_side}")
    return f"CLASSPATH={remote} app_process / {SERVER_CLASS} {version} {' '.join(options)}"


class _Refused(Exception):
    """The server did not start; `said` is what it printed."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


@asynccontextmanager
async def open_scrcpy(
    client: AdbClient, serial: str, config: ScrcpyConfig, *, features: frozenset[str]
) -> AsyncIterator[ScrcpyStream]:
    """A server that runs and has taken our connections; `run` it. It ends with the block.

    Raises:
        StreamUnavailable: no such file, or the server does not start; the text is its own.
        DeviceLost: the phone or the adb server is gone.
    """
    framed = SHELL_V2 in features
    remote = await _pushed(client, serial, config.jar)
    version = version_in_name(config.jar)
    for is_last in (False, True):
        async with AsyncExitStack() as stack:
            try:
                stream = await _start(stack, client, serial, remote, version, config, framed=framed)
            except _Refused as refused:
                found = _MISMATCH.search(refused.said)
                if is_last or found is None or found.group(1) == version:
                    raise StreamUnavailable(
                        f"the scrcpy server did not start: {refused.said or 'it said nothing'}", phone=serial
                    ) from None
                version = found.group(1)
                continue
            yield stream
            return


async def _pushed(client: AdbClient, serial: str, jar: Path) -> str:
    """The server's path on the phone, pushed unless the same is there; named by content, so that versions coexist."""
    try:
        content = await trio.Path(jar).read_bytes()
    except OSError as error:
        raise StreamUnavailable(f"scrcpy_server {jar}: {error.strerror or error}", phone=serial) from error
    remote = f"{REMOTE_FOLDER}/corral-scrcpy-{hashlib.sha256(content).hexdigest()[:12]}.jar"
    there = await stat_file(client, serial, remote, timeout_seconds=START_SECONDS)
    if there is None or there.size != len(content):
        await push_file(client, serial, content, remote)
    return remote


async def _start(
    stack: AsyncExitStack,
    client: AdbClient,
    serial: str,
    remote: str,
    version: str,
    config: ScrcpyConfig,
    *,
    framed: bool,
) -> ScrcpyStream:
    """Start the server and connect, video first.

    Raises:
        _Refused: it ended at once, or did not listen in time.
    """
    scid = f"{secrets.randbits(31):08x}"  # an id of the connection, not a secret
    command = server_command(remote, version, scid, config)
    service = f"shell,v2,raw:{command}" if framed else f"shell:{command} 2>&1"
    with total_deadline(START_SECONDS, lambda: phone_timeout(serial, "the start of scrcpy", START_SECONDS)):
        socket = await stack.enter_async_context(client.open_service(serial, service))
    nursery = await stack.enter_async_context(open_bare_nursery())
    stack.callback(nursery.cancel_scope.cancel)
    log = _ServerLog(socket, framed=framed)
    nursery.start_soon(log.run)
    known = parse_version_for(version, serial) if version != UNKNOWN_VERSION else None
    with trio.move_on_after(START_SECONDS):
        video = await _connected(stack, client, serial, scid, log)
        control = await _connected(stack, client, serial, scid, log)
        if known is None:
            raise StreamUnavailable("the scrcpy server takes any version: name its file after its own", phone=serial)
        return ScrcpyStream(client, serial, known, config, video, control)
    raise _Refused(log.text or f"no connection within {START_SECONDS:g} s")


def parse_version_for(version: str, serial: str) -> ScrcpyVersion:
    """A version that we speak. Raises `StreamUnavailable`."""
    try:
        return parse_version(version)
    except ScrcpyWireError as error:
        raise StreamUnavailable(str(error), phone=serial) from error


async def _connected(stack: AsyncExitStack, client: AdbClient, serial: str, scid: str, log: "_ServerLog") -> AdbSocket:
    while True:
        try:
            return await stack.enter_async_context(client.open_service(serial, f"localabstract:scrcpy_{scid}"))
        except ServiceClosed:
            # it does not listen yet, or never will
            with trio.move_on_after(SOCKET_RETRY_SECONDS):
                await log.ended.wait()
                raise _Refused(log.text) from None


class _ServerLog:
    """Reads what the server prints, so that it never blocks on that, and keeps the end of it."""

    def __init__(self, socket: AdbSocket, *, framed: bool) -> None:
        self._socket = socket
        self._pieces = ShellReader() if framed else None
        self._kept = b""
        self.ended = trio.Event()

    @property
    def text(self) -> str:
        """The last of it."""
        return " ".join(self._kept.decode("utf-8", "replace").split())

    async def run(self) -> None:
        try:
            while data := await self._socket.receive_some():
                self._keep(data)
        except (DeviceError, WireError) as error:
            self._kept += f" ({error})".encode()
        finally:
            self.ended.set()

    def _keep(self, data: bytes) -> None:
        printed = data
        if self._pieces is not None:
            printed = b"".join(piece for kind, piece in self._pieces.feed(data) if kind != SHELL_EXIT)
        self._kept = (self._kept + printed)[-LOG_KEPT:]
