"""One phone driven through the adb server: implements `Device`."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import attrs
import trio

from actors.devices.adb.attach import attach
from actors.devices.adb.capture import BYTES_PER_PIXEL, RawPicture, capture_raw, read_geometry
from actors.devices.adb.client import AdbClient, phone_timeout, total_deadline
from actors.devices.adb.errors import GeometryUnsettled
from actors.devices.adb.identity import read_identity
from actors.devices.adb.input import command_for
from actors.devices.adb.install import install_apks
from actors.devices.adb.shell import SHELL_V2, run_shell
from actors.devices.base import DeviceError, DeviceInfo, DeviceStatistics, ShellResult
from policies.action import Action, duration_of
from policies.frame import Frame
from policies.geometry import Geometry

MAX_GEOMETRY_READS = 3  # a turn takes one; who turns at every capture gets an error


@attrs.frozen(kw_only=True)
class AdbDeadlines:
    """Total wall-clock limits of each kind of call, in seconds."""

    attach: float = 20.0
    """adb itself gives a silent phone 10 s; a second try must fit."""
    identify: float = 5.0
    capture: float = 5.0
    action: float = 5.0
    """Beside the time that the gesture itself takes."""
    lift: float = 2.0
    """To lift the finger of a gesture that was cancelled."""
    detach: float = 2.0


@attrs.define(eq=False)
class AdbDevice:
    """Made by `open_adb_device`; of no use after that block."""

    client: AdbClient
    info: DeviceInfo
    features: frozenset[str]
    max_side: int | None
    clock: Callable[[], float]
    deadlines: AdbDeadlines
    _geometry: Geometry | None = attrs.field(init=False, default=None)
    _epoch: int = attrs.field(init=False, default=0)
    _next_seq: int = attrs.field(init=False, default=0)
    _captures: int = attrs.field(init=False, default=0)
    _captures_failed: int = attrs.field(init=False, default=0)
    _captured_bytes: int = attrs.field(init=False, default=0)
    _actions: int = attrs.field(init=False, default=0)
    _actions_failed: int = attrs.field(init=False, default=0)
    _last_success_at: float | None = attrs.field(init=False, default=None)

    @property
    def address(self) -> str:
        """What adb knows the phone by."""
        return self.info.address

    @property
    def framed(self) -> bool:
        """True when the phone has `shell_v2`."""
        return SHELL_V2 in self.features

    async def capture(self) -> Frame:
        """A new frame, its geometry read with it.

        Raises:
            CaptureFailed: (or `TruncatedCapture`, `GeometryUnsettled`) no usable picture this time.
            DeviceLost: the phone or the adb server is gone, or silent past the deadline (`DeviceTimeout`).
        """
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        seconds = self.deadlines.capture
        try:
            with total_deadline(seconds, lambda: phone_timeout(self.address, "a capture", seconds)):
                requested_at, picture, geometry = await self._settled_picture()
        except DeviceError:
            self._captures_failed += 1
            raise
        received_at = self.clock() - (trio.current_time() - picture.received_at)
        self._remember(geometry)
        self._captures += 1
        self._captured_bytes += picture.received_bytes
        self._last_success_at = self.clock()
        return Frame(picture.pixels, seq, requested_at, received_at, geometry, self._epoch)

    async def act(self, action: Action) -> None:
        """Do one action; returns when the phone has taken it, for gestures when the finger is lifted.

        Raises:
            ActionRefused: a point off the screen, or text that cannot be typed; the phone was not touched.
            Unsupported: this driver has no such action.
            DeviceLost: as `capture`.
            DeviceError: the phone's `input` failed.
        """
        try:
            await self._act(action)
        except DeviceError:
            self._actions_failed += 1
            raise
        self._actions += 1

    async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:
        """Run a command; as `Device.shell` says."""
        result = await run_shell(
            self.client, self.address, command, timeout_seconds=timeout_seconds, framed=self.framed
        )
        self._last_success_at = self.clock()
        return result

    async def install(self, apks: Sequence[Path]) -> None:
        """Install APKs that belong together, as `install_apks` says."""
        await install_apks(self.client, self.address, apks, framed=self.framed)
        self._last_success_at = self.clock()

    async def geometry(self) -> Geometry:
        """The screen as the last frame or action saw it, asked of the phone if there was none."""
        if self._geometry is None:
            self._remember(await self._read_geometry())
        assert self._geometry is not None
        return self._geometry

    def statistics(self) -> DeviceStatistics:
        """Counts since the device was opened."""
        return DeviceStatistics(
            captures=self._captures,
            captures_failed=self._captures_failed,
            captured_bytes=self._captured_bytes,
            actions=self._actions,
            actions_failed=self._actions_failed,
            last_success_at=self._last_success_at,
        )

    # -- inside

    async def _settled_picture(self) -> tuple[float, RawPicture, Geometry]:
        """A picture with the geometry that it was drawn in; read again when the screen turned in between."""
        reads = 0
        while True:
            requested_at = self.clock()
            picture, geometry = await self._picture_and_geometry()
            if (picture.width, picture.height) == (geometry.width, geometry.height):
                return requested_at, picture, geometry
            reads += 1
            if reads == MAX_GEOMETRY_READS:
                raise GeometryUnsettled(
                    f"the picture is {picture.width}x{picture.height}, the screen {geometry.width}x"
                    f"{geometry.height}, {reads} times in a row",
                    phone=self.address,
                )

    async def _picture_and_geometry(self) -> tuple[RawPicture, Geometry]:
        expected = self._geometry
        pictures: list[RawPicture] = []
        geometries: list[Geometry] = []
        failures: list[DeviceError] = []

        async def read(nursery: trio.Nursery) -> None:
            try:
                geometries.append(await self._read_geometry())
            except DeviceError as error:
                failures.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, nursery)
            try:
                pictures.append(
                    await capture_raw(
                        self.client,
                        self.address,
                        framed=self.framed,
                        max_side=self.max_side,
                        expected_bytes=BYTES_PER_PIXEL * expected.width * expected.height if expected else 0,
                    )
                )
            except DeviceError as error:
                failures.append(error)
                nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]
        return pictures[0], geometries[0]

    async def _read_geometry(self) -> Geometry:
        return await read_geometry(
            self.client, self.address, framed=self.framed, timeout_seconds=self.deadlines.capture
        )

    def _remember(self, geometry: Geometry) -> None:
        if self._geometry is not None and geometry != self._geometry:
            self._epoch += 1
        self._geometry = geometry

    async def _act(self, action: Action) -> None:
        command = command_for(action, await self.geometry(), phone=self.address)
        if command is None:
            await trio.sleep(duration_of(action))
            return
        done = False
        try:
            result = await self.shell(command.line, timeout_seconds=command.seconds + self.deadlines.action)
            done = True
        finally:
            if not done and command.lift is not None:
                await self._lift(command.lift)
        if result.exit_code not in (0, None):
            reason = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
            raise DeviceError(f"{command.line!r} exited with {result.exit_code}: {reason}", phone=self.address)

    async def _lift(self, line: str) -> None:
        """No finger stays down on a phone that can still be reached; on one that cannot, there is nothing to lift."""
        with trio.CancelScope(shield=True), suppress(DeviceError):
            await run_shell(self.client, self.address, line, timeout_seconds=self.deadlines.lift, framed=self.framed)


@asynccontextmanager
async def open_adb_device(
    client: AdbClient,
    address: str,
    *,
    max_side: int | None = None,
    clock: Callable[[], float] = trio.current_time,
    deadlines: AdbDeadlines | None = None,
) -> AsyncIterator[AdbDevice]:
    """A phone that adb lists as `device` and that has said who it is.

    When the block ends no call is in flight, and a phone that was connected here is disconnected.

    Args:
        client: the adb server.
        address: a serial, or host:port, which is connected (and healed) as needed.
        max_side: reduce frames so that the longer side is at most this many pixels.
        clock: seconds of the run's clock.
        deadlines: limits of the calls.

    Raises:
        DeviceLost: not to be had: `DeviceUnauthorized`, `DeviceOffline`, `DeviceNotFound`, `AdbServerLost`, ...
    """
    deadlines = deadlines or AdbDeadlines()
    connected = await attach(client, address, timeout_seconds=deadlines.attach)
    try:
        features = await client.features(address)
        info = await read_identity(client, address, framed=SHELL_V2 in features, timeout_seconds=deadlines.identify)
        yield AdbDevice(client, info, features, max_side, clock, deadlines)
    finally:
        if connected:
            # the phone or the server may be gone, and then nothing is left to disconnect
            with trio.CancelScope(shield=True), suppress(DeviceError):
                await client.disconnect(address, timeout_seconds=deadlines.detach)
