"""One phone driven through the adb server: implements `Device`."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import attrs
import trio

from actors.devices.adb.attach import Attach, attach
from actors.devices.adb.capture import Picture, parse_geometry_output
from actors.devices.adb.choosing import REFERENCE, SAFE_CHOICE, choose
from actors.devices.adb.client import AdbClient, phone_timeout, total_deadline
from actors.devices.adb.display import GEOMETRY_COMMAND
from actors.devices.adb.display_choice import DisplayChoice
from actors.devices.adb.errors import DisplayUnsettled, GeometryUnsettled, StreamBroken
from actors.devices.adb.identity import read_identity
from actors.devices.adb.input import command_for, refuse_off_screen
from actors.devices.adb.input_turns import InputTurns
from actors.devices.adb.install import install_apks
from actors.devices.adb.link import AdbutilsLink, Link, NativeLink
from actors.devices.adb.method_memory import MethodMemory, memory_key
from actors.devices.adb.scrcpy import ScrcpyConfig, ScrcpyStream, StreamPicture
from actors.devices.adb.scrcpy_input import can_touch, perform, shows
from actors.devices.adb.shell import SHELL_V2, run_shell
from actors.devices.adb.stream_keeper import StreamKeeper
from actors.devices.adb.trials import run_trials
from actors.devices.base import (
    CaptureFailed,
    CaptureMethod,
    DeviceError,
    DeviceInfo,
    DeviceStatistics,
    Driver,
    ShellResult,
)
from policies.action import Action, Wait, duration_of
from policies.frame import Frame, Pixels
from policies.geometry import Geometry
from policies.verdict import Agreement, Verdict, compare, judge_pixels
from runtime.nursery import open_bare_nursery
from runtime.telemetry import emit, histogram

MAX_GEOMETRY_READS = 3  # a turn takes one; who turns at every capture gets an error
GEOMETRY_AGE_SECONDS = 2.0  # of a stream's pictures: asking proves that the phone lives, and sees turns by 180 degrees
FIRST_PICTURE_SECONDS = 0.5  # a static screen sends its first picture late: meanwhile a screencap does
STREAM_LAG_SECONDS = 0.1  # draw to decoded is below 60 ms: a picture of the stream is taken for this old
CATCH_UP_SECONDS = 1.0  # what has just changed on the screen is still on its way through the encoder
BLACK_IN_A_ROW = 3  # loading screens are black for a moment; then another method is asked
TRIAL_SECONDS = 60.0


_INPUT_LAG = histogram(
    "actors_input_lag_seconds", "From an action's turn until the phone had it, without the gesture's time.", ["through"]
)


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


@attrs.frozen(eq=False)
class _Taken:
    """A picture with everything that a frame says of it; times as `trio.current_time`."""

    pixels: Pixels
    method: CaptureMethod
    requested_at: float
    received_at: float
    geometry: Geometry
    received_bytes: int
    is_unchanged: bool = False


@attrs.define(eq=False)
class AdbDevice:
    """Made by `open_adb_device`; of no use after that block."""

    client: AdbClient
    info: DeviceInfo
    features: frozenset[str]
    max_side: int | None
    clock: Callable[[], float]
    deadlines: AdbDeadlines
    link: Link
    method: CaptureMethod = CaptureMethod.RAW
    """How pictures come now; never `AUTO`."""
    keeper: StreamKeeper | None = None
    """Where a scrcpy server may be used."""
    turns: InputTurns = attrs.field(init=False)
    display: DisplayChoice = attrs.field(init=False)
    """Which display is captured where the phone has several."""
    is_method_ours: bool = attrs.field(init=False, default=False)
    """It was chosen here, and may be changed here."""
    memory: MethodMemory | None = attrs.field(init=False, default=None)
    _geometry: Geometry | None = attrs.field(init=False, default=None)
    _proved_at: float = attrs.field(init=False, default=float("-inf"))
    """When the phone and its encoder were last asked whether they live."""
    _epoch: int = attrs.field(init=False, default=0)
    _next_seq: int = attrs.field(init=False, default=0)
    _shown: StreamPicture | None = attrs.field(init=False, default=None)
    _stream_bytes: int = attrs.field(init=False, default=0)
    _black_in_a_row: int = attrs.field(init=False, default=0)
    _captures: int = attrs.field(init=False, default=0)
    _captures_failed: int = attrs.field(init=False, default=0)
    _captures_unchanged: int = attrs.field(init=False, default=0)
    _captured_bytes: int = attrs.field(init=False, default=0)
    _actions: int = attrs.field(init=False, default=0)
    _actions_failed: int = attrs.field(init=False, default=0)
    _last_success_at: float | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.turns = InputTurns(self.info.address)
        self.display = DisplayChoice(self.address, partial(self.link.shell, timeout_seconds=self.deadlines.identify))

    @property
    def address(self) -> str:
        """What adb knows the phone by."""
        return self.info.address

    @property
    def framed(self) -> bool:
        """True when the phone has `shell_v2`."""
        return SHELL_V2 in self.features

    @property
    def stream(self) -> ScrcpyStream | None:
        """The video stream, where there is one now."""
        return self.keeper.stream if self.keeper is not None else None

    async def capture(self) -> Frame:
        """A new frame, its geometry read with it.

        Of a video stream it is the newest picture; while the stream has none of this screen, a screencap.

        Raises:
            CaptureFailed: (or `TruncatedCapture`, `GeometryUnsettled`) no usable picture this time.
            DeviceLost: the phone or the adb server is gone, or silent past the deadline (`DeviceTimeout`).
        """
        seq = self._take_seq()
        taken = await self._counted(self.method, may_fall_back=True)
        if self.is_method_ours:
            await self._watch_black(taken)
        return self._frame(taken, seq)

    async def capture_by(self, method: CaptureMethod) -> Frame:
        """A frame by that method and no other; raises as `capture`."""
        seq = self._take_seq()
        return self._frame(await self._counted(method, may_fall_back=False), seq)

    async def act(self, action: Action) -> None:
        """Do one action, after those before it; returns when the phone has taken it, the fingers lifted.

        Raises:
            ActionRefused: a point off the screen, or text that cannot be typed; the phone was not touched.
            ActionExpired: too many actions are before it; the phone was not touched.
            Unsupported: this driver has no such action: two fingers need a scrcpy server.
            DeviceLost: as `capture`.
            DeviceError: the phone's `input` failed.
        """
        try:
            if isinstance(action, Wait):
                await trio.sleep(action.seconds)
            else:
                refuse_off_screen(action, await self.geometry(), phone=self.address)
                async with self.turns.turn(duration_of(action)):
                    await self._act(action)
                _INPUT_LAG.labels("scrcpy" if self.stream is not None else "input").observe(self.turns.last_seconds)
        except DeviceError:
            self._actions_failed += 1
            raise
        self._actions += 1

    async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:
        """Run a command; as `Device.shell` says."""
        result = await self.link.shell(command, timeout_seconds=timeout_seconds)
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
            capture_method=self.method.value,
            captures_unchanged=self._captures_unchanged,
            actions_expired=self.turns.expired,
            input_wait_seconds=self.turns.longest_wait_seconds,
            input_seconds=self.turns.last_seconds,
        )

    # -- pictures

    async def _counted(self, method: CaptureMethod, *, may_fall_back: bool) -> _Taken:
        seconds = self.deadlines.capture
        try:
            with total_deadline(seconds, lambda: phone_timeout(self.address, "a capture", seconds)):
                taken = await self._taken(method, may_fall_back=may_fall_back)
        except DeviceError:
            self._captures_failed += 1
            raise
        self._captures += 1
        self._captures_unchanged += taken.is_unchanged
        self._captured_bytes += taken.received_bytes
        self._last_success_at = self.clock()
        return taken

    async def _taken(self, method: CaptureMethod, *, may_fall_back: bool) -> _Taken:
        if method is CaptureMethod.SCRCPY:
            taken = await self._streamed()
            if taken is not None:
                return taken
            if not may_fall_back:
                why = self.keeper.failure if self.keeper is not None else "no scrcpy server is at hand"
                raise CaptureFailed(f"the video stream shows nothing yet: {why}", phone=self.address)
            method = SAFE_CHOICE
        requested_at, picture, geometry = await self._settled_picture(method)
        return _Taken(picture.pixels, method, requested_at, picture.received_at, geometry, picture.received_bytes)

    def _take_seq(self) -> int:
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        return seq

    def _frame(self, taken: _Taken, seq: int) -> Frame:
        self._remember(taken.geometry)
        offset = self.clock() - trio.current_time()
        return Frame(
            taken.pixels,
            seq,
            taken.requested_at + offset,
            taken.received_at + offset,
            taken.geometry,
            self._epoch,
            taken.method.value,
            taken.is_unchanged,
        )

    async def _streamed(self) -> _Taken | None:
        """The stream's newest picture; None while it has none of this screen."""
        stream = self.stream
        if stream is None or self.keeper is None:
            return None
        called_at = trio.current_time()
        if called_at - self._proved_at > GEOMETRY_AGE_SECONDS:
            # a clock of its own: geometry is read at each capture while a hung encoder shows another screen
            self._proved_at = called_at
            self._remember(await self._read_geometry())
            with suppress(StreamBroken):  # it has ended meanwhile: its keeper knows
                await stream.prove_alive()
            if stream.should_compare() and not await self._shows_the_screen(stream):
                stream.give_up("the screen has changed, and nothing came")
                return None
        picture = stream.newest
        if picture is None:
            with trio.move_on_after(FIRST_PICTURE_SECONDS):
                picture = await stream.wait_picture()
        if picture is None:
            with suppress(StreamBroken):  # a version that cannot be asked; its first picture comes by itself
                await stream.reset_video()
            return None
        if not shows(picture.frame.width, picture.frame.height, await self.geometry()):
            self._remember(await self._read_geometry())
            if not shows(picture.frame.width, picture.frame.height, await self.geometry()):
                return None
        pixels = await stream.pixels_of(picture, self.max_side)
        total = stream.statistics().received_bytes
        new_bytes, self._stream_bytes = max(0, total - self._stream_bytes), total
        is_unchanged, self._shown = picture is self._shown, picture
        # nothing newer has come: the screen still looked like this a moment ago, less what the encoder may hold back
        held_back = STREAM_LAG_SECONDS + 1 / self.keeper.config.max_fps
        requested_at = max(called_at - held_back, picture.received_at - STREAM_LAG_SECONDS)
        received_at = max(requested_at, called_at if is_unchanged else picture.received_at)
        geometry = await self.geometry()
        return _Taken(
            pixels, CaptureMethod.SCRCPY, requested_at, received_at, geometry, new_bytes, is_unchanged=is_unchanged
        )

    async def _shows_the_screen(self, stream: ScrcpyStream) -> bool:
        """The stream's newest picture is what a screencap shows, or a newer one has come."""
        picture = stream.newest
        assert picture is not None, "a stream without a picture is not compared"
        _, screen, _ = await self._settled_picture(SAFE_CHOICE)
        shown = await stream.pixels_of(picture, self.max_side)
        if compare(shown, screen.pixels, screen.pixels) is Agreement.SAME:
            return True
        with trio.move_on_after(CATCH_UP_SECONDS):
            await stream.wait_picture(after=picture.number)
            return True
        return False

    async def _watch_black(self, taken: _Taken) -> None:
        """A method that shows black where another shows a picture is not used again."""
        if judge_pixels(taken.pixels) is not Verdict.BLACK:
            self._black_in_a_row = 0
            return
        self._black_in_a_row += 1
        if self._black_in_a_row != BLACK_IN_A_ROW:
            return
        for other in (SAFE_CHOICE, REFERENCE):
            if other is taken.method:
                continue
            picture = (await self._counted(other, may_fall_back=False)).pixels
            if judge_pixels(picture) is not Verdict.BLACK:
                emit(
                    "actors.capture.method_changed",
                    level="warning",
                    phone=self.address,
                    was=self.method.value,
                    now=other.value,
                    why="black where another method shows a picture",
                )
                if self.memory is not None:
                    await self.memory.forget(await self._memory_key())
                self.method = other
                return

    async def choose_method(self, memory: MethodMemory) -> None:
        """Use what was best for this model; measured now where that is not known.

        Raises:
            DeviceLost: the phone went away meanwhile.
        """
        self.memory, self.is_method_ours = memory, True
        key = await self._memory_key()
        async with memory.measuring(key):
            known = await memory.get(key)
            if known is not None:
                self.method = known
                emit("actors.capture.method_chosen", phone=self.address, method=known.value, why="remembered")
                return
            seconds = TRIAL_SECONDS
            with total_deadline(seconds, lambda: phone_timeout(self.address, "measuring the capture methods", seconds)):
                choice = choose(await run_trials(self.capture_by, self.candidates, keeper=self.keeper))
            self.method = choice.method
            if choice.is_sure:
                await memory.put(key, choice.method)
            emit("actors.capture.method_chosen", phone=self.address, method=choice.method.value, why=choice.why)

    @property
    def candidates(self) -> tuple[CaptureMethod, ...]:
        """The methods that this phone may have, the reference first."""
        methods = [REFERENCE, CaptureMethod.RAW, CaptureMethod.RAW_GZIP]
        if self.framed and isinstance(self.link, NativeLink):
            methods.append(CaptureMethod.RAW_EXEC)  # without shell_v2, raw is the same
        if self.keeper is not None:
            methods.append(CaptureMethod.SCRCPY)
        return tuple(methods)

    async def _memory_key(self) -> str:
        return memory_key(self.info, await self.geometry(), has_stream=self.keeper is not None)

    async def _settled_picture(self, method: CaptureMethod) -> tuple[float, Picture, Geometry]:
        """A picture with the geometry that it was drawn in; read again when the screen turned in between."""
        reads = 0
        while True:
            requested_at = trio.current_time()
            reads += 1
            try:
                picture, geometry = await self._picture_and_geometry(method)
            except DisplayUnsettled:
                if reads == MAX_GEOMETRY_READS:
                    raise
                await self.display.choose(warned=True)
                continue
            if (picture.width, picture.height) == (geometry.width, geometry.height):
                return requested_at, picture, geometry
            if reads == MAX_GEOMETRY_READS:
                raise GeometryUnsettled(
                    f"the picture is {picture.width}x{picture.height}, the screen {geometry.width}x"
                    f"{geometry.height}, {reads} times in a row",
                    phone=self.address,
                )
            if self.display.display:
                await self.display.choose()  # a foldable that was opened or closed shows its app on another one

    async def _picture_and_geometry(self, method: CaptureMethod) -> tuple[Picture, Geometry]:
        pictures: list[Picture] = []
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
                picture = await self.link.picture(
                    method, max_side=self.max_side, expected=self._geometry, display=self.display.display
                )
                pictures.append(picture)
            except DeviceError as error:
                failures.append(error)
                nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]
        return pictures[0], geometries[0]

    async def _read_geometry(self) -> Geometry:
        result = await self.link.shell(GEOMETRY_COMMAND, timeout_seconds=self.deadlines.capture)
        return parse_geometry_output(result.stdout, phone=self.address)

    def _remember(self, geometry: Geometry) -> None:
        if self._geometry is not None and geometry != self._geometry:
            self._epoch += 1
        self._geometry = geometry

    # -- input

    async def _act(self, action: Action) -> None:
        geometry = await self.geometry()
        stream = self.stream
        if stream is not None and can_touch(stream, geometry):
            seconds = duration_of(action) + self.deadlines.action
            with total_deadline(seconds, lambda: phone_timeout(self.address, "an action", seconds)):
                await perform(stream, action, geometry, phone=self.address)
            return
        command = command_for(action, geometry, phone=self.address)
        assert command is not None, "a wait needs no phone"
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
    method: CaptureMethod = CaptureMethod.RAW,
    scrcpy: ScrcpyConfig | None = None,
    memory: MethodMemory | None = None,
    driver: Driver = Driver.NATIVE,
    attached: Attach = attach,
) -> AsyncIterator[AdbDevice]:
    """A phone that adb lists as `device` and that has said who it is.

    When the block ends no call is in flight, and a phone that was connected here is disconnected.

    Args:
        client: the adb server.
        address: a serial, or host:port, which is connected (and healed) as needed.
        max_side: reduce frames so that the longer side is at most this many pixels.
        clock: seconds of the run's clock.
        deadlines: limits of the calls.
        method: how pictures are taken; `AUTO` measures, unless `memory` knows the model.
        scrcpy: the server to run for `SCRCPY`, or to try for `AUTO`. While it runs, input goes through it.
        memory: what was measured before; shared by all phones.
        driver: which client captures and acts; attaching and installing are native always.
        attached: how the phone is connected; a fleet keeps its connections itself.

    Raises:
        DeviceLost: not to be had: `DeviceUnauthorized`, `DeviceOffline`, `DeviceNotFound`, `AdbServerLost`, ...
    """
    deadlines = deadlines or AdbDeadlines()
    connected = await attached(client, address, timeout_seconds=deadlines.attach)
    try:
        features = await client.features(address)
        framed = SHELL_V2 in features
        info = await read_identity(client, address, framed=framed, timeout_seconds=deadlines.identify)
        native = driver is Driver.NATIVE
        link: Link = NativeLink(client, address, framed) if native else AdbutilsLink(client, address)
        device = AdbDevice(client, info, features, max_side, clock, deadlines, link)
        await device.display.choose()
        async with AsyncExitStack() as stack:
            if scrcpy is not None and method in (CaptureMethod.AUTO, CaptureMethod.SCRCPY):
                await _keep_stream(stack, device, attrs.evolve(scrcpy, max_side=max_side))
            if method is CaptureMethod.AUTO:
                await device.choose_method(memory or MethodMemory())
                await _drop_unused(device, stack)
            else:
                device.method = method
            yield device
    finally:
        if connected:
            # the phone or the server may be gone, and then nothing is left to disconnect
            with trio.CancelScope(shield=True), suppress(DeviceError):
                await client.disconnect(address, timeout_seconds=deadlines.detach)


async def _keep_stream(stack: AsyncExitStack, device: AdbDevice, config: ScrcpyConfig) -> None:
    nursery = await stack.enter_async_context(open_bare_nursery())
    stack.callback(nursery.cancel_scope.cancel)
    device.keeper = StreamKeeper(device.client, device.address, config, device.features)
    nursery.start_soon(device.keeper.run)
    await device.keeper.wait_settled()


async def _drop_unused(device: AdbDevice, stack: AsyncExitStack) -> None:
    """A stream that nobody looks at is not paid for."""
    if device.keeper is not None and device.method is not CaptureMethod.SCRCPY:
        await stack.pop_all().aclose()
        device.keeper = None
