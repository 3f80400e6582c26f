"""How commands and pictures pass between a phone and us: natively, or through the library adbutils in threads."""

import socket
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import attrs
import trio

from actors.devices.adb.capture import (
    COMPLAINT_SIZE,
    SCREENCAP_METHODS,
    Picture,
    WireBuffer,
    capture_screen,
    refuse_display_complaint,
)
from actors.devices.adb.client import HOST, AdbClient, phone_timeout, total_deadline
from actors.devices.adb.errors import AdbServerLost, refusal_for
from actors.devices.adb.shell import run_shell
from actors.devices.base import CaptureMethod, DeviceLost, ShellResult
from policies.geometry import Geometry

LIBRARY_RECEIVE_SECONDS = 5.0  # of one receive: the library has no deadline for a whole call
LIBRARY_CONNECT_SECONDS = 2.0
T = TypeVar("T")


class Link(Protocol):
    """The two things that a driver does."""

    async def shell(self, command: str, *, timeout_seconds: float) -> ShellResult:
        """Run a command on the phone, as `run_shell`."""
        ...

    async def picture(
        self, method: CaptureMethod, *, max_side: int | None, expected: Geometry | None, display: str | None = None
    ) -> Picture:
        """Capture the screen, as `capture_screen`."""
        ...


@attrs.frozen
class NativeLink:
    """Our own client: exact deadlines, exact cancellation."""

    client: AdbClient
    serial: str
    framed: bool
    """The phone has `shell_v2`."""
    buffer: WireBuffer = attrs.field(init=False, factory=WireBuffer)

    async def shell(self, command: str, *, timeout_seconds: float) -> ShellResult:
        """Run a command."""
        return await run_shell(self.client, self.serial, command, timeout_seconds=timeout_seconds, framed=self.framed)

    async def picture(
        self, method: CaptureMethod, *, max_side: int | None, expected: Geometry | None, display: str | None = None
    ) -> Picture:
        """Capture the screen."""
        return await capture_screen(
            self.client,
            self.serial,
            framed=self.framed,
            max_side=max_side,
            expected=expected,
            method=method,
            display=display,
            buffer=self.buffer,
        )


class _Abandoned(Exception):
    """Nobody waits for the call any more."""


@attrs.define(eq=False)
class AdbutilsLink:
    """adbutils, one thread a call. A call that is cancelled has its connection cut, so that its thread ends."""

    client: AdbClient
    serial: str
    threads: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(4))
    """Of this phone: a capture, an action, and what is just ending."""

    async def shell(self, command: str, *, timeout_seconds: float) -> ShellResult:
        """Run a command; the library's `shell:` has no exit code and no error output apart."""
        with total_deadline(timeout_seconds, lambda: phone_timeout(self.serial, f"shell {command!r}", timeout_seconds)):
            return ShellResult(await self._read(f"shell:{command}"), b"", None)

    async def picture(
        self, method: CaptureMethod, *, max_side: int | None, expected: Geometry | None, display: str | None = None
    ) -> Picture:
        """Capture the screen; the same checks as for the native client hold."""
        del expected  # the library has no buffer that could be prepared
        way = SCREENCAP_METHODS[method]
        output = await self._read(f"exec:{way.command_for(display)}")
        received_at = trio.current_time()

        def convert() -> Any:
            refuse_display_complaint(output[:COMPLAINT_SIZE], display, phone=self.serial)
            return way.decode(memoryview(output), max_side, self.serial)

        pixels, width, height = await trio.to_thread.run_sync(convert, limiter=self.client.limiter)
        return Picture(pixels, width, height, len(output), received_at)

    async def _read(self, service: str) -> bytes:
        call = _LibraryCall(self.client.port, self.serial, service)
        try:
            return await trio.to_thread.run_sync(call.run, limiter=self.threads, abandon_on_cancel=True)
        finally:
            call.cut()


class _LibraryCall:
    """One service opened and read to its end by adbutils, in a worker thread."""

    def __init__(self, port: int, serial: str, service: str) -> None:
        self._port = port
        self._serial = serial
        self._service = service
        self._lock = threading.Lock()
        self._connection: Any = None
        self._is_cut = False

    def run(self) -> bytes:
        """Raises what the native client would."""
        return self._typed(self._run)

    def cut(self) -> None:
        """Let the thread end; called from any thread, at any time."""
        with self._lock:
            self._is_cut = True
            if self._connection is not None and not self._connection.closed:
                try:
                    self._connection.conn.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # it was closed already, which is what we want

    def _run(self) -> bytes:
        import adbutils  # noqa: PLC0415  only who chooses this driver pays for it

        # without a server the library would start one of its own choice, on another port perhaps
        with socket.create_connection((HOST, self._port), timeout=LIBRARY_CONNECT_SECONDS):
            pass
        library = adbutils.AdbClient(host=HOST, port=self._port, socket_timeout=LIBRARY_RECEIVE_SECONDS)
        # not `open_transport`: where the phone is unknown, that leaves its socket to the garbage collector
        with library.make_connection(timeout=LIBRARY_RECEIVE_SECONDS) as connection:
            with self._lock:
                if self._is_cut:
                    raise _Abandoned
                self._connection = connection
            for request in (f"host:transport:{self._serial}", self._service):
                connection.send_command(request)
                connection.check_okay()
            output = connection.read_until_close(encoding=None)
        assert isinstance(output, bytes), "no encoding was asked for"
        return output

    def _typed(self, run: Callable[[], T]) -> T:
        import adbutils  # noqa: PLC0415

        try:
            return run()
        except (adbutils.AdbTimeout, TimeoutError) as error:
            raise phone_timeout(self._serial, self._service, LIBRARY_RECEIVE_SECONDS) from error
        except adbutils.AdbError as error:
            raise refusal_for(str(error), phone=self._serial) from error
        except ConnectionRefusedError as error:
            raise AdbServerLost(f"no adb server on port {self._port}: {error}", phone=self._serial) from error
        except OSError as error:
            raise DeviceLost(f"the connection was cut: {error}", phone=self._serial) from error
