"""The connections to one scrcpy server: its video decoded into a slot for the newest picture, and input sent.

On a screen that stands still nothing is sent, so silence says nothing: that the phone lives is for another probe to
find out, and that the encoder lives is asked for by a key frame.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import trio
from av.video.frame import VideoFrame

from actors.devices.adb.client import AdbClient, AdbSocket, phone_timeout, total_deadline
from actors.devices.adb.errors import AdbServerLost, StreamBroken
from actors.devices.adb.scrcpy_control import (
    RESET_VIDEO,
    ClipboardSet,
    ControlWireError,
    DeviceMessageReader,
    VideoSize,
)
from actors.devices.adb.scrcpy_decoder import Decoded, DecodeFailed, ScreenDecoder, pixels_of
from actors.devices.adb.scrcpy_wire import (
    Packet,
    ScrcpyVersion,
    ScrcpyWireError,
    Session,
    VideoReader,
)
from actors.devices.base import DeviceError
from policies.frame import Pixels
from runtime.telemetry import counter, emit

RESET_PAUSE_SECONDS = 1.0  # a key frame takes a moment; asking again meanwhile only makes more of them
SILENCE_SECONDS = 10.0  # a key frame each 10 s of a static screen is nothing beside its captures
PROOF_SECONDS = 5.0
SEND_SECONDS = 2.0
QUEUED_PACKETS = 120  # four seconds at 30 fps: a decoder that is further behind starts again at a key frame

_RESETS = counter("actors_video_reset_requests_total", "Key frames asked of scrcpy servers after broken video.")


@attrs.frozen(kw_only=True)
class ScrcpyConfig:
    """How to run a server."""

    jar: Path
    """The server's file; its version is read from its name, else asked of itself."""
    max_side: int | None = None
    """The phone reduces the picture so that its longer side is at most this many pixels."""
    max_fps: float = 5.0
    bit_rate: int = 4_000_000


@attrs.frozen(eq=False)
class StreamPicture:
    """The newest picture of the stream."""

    frame: VideoFrame = attrs.field(repr=False)
    number: int
    """Counts pictures since the stream began."""
    pts_us: int
    """The phone's clock, in microseconds."""
    received_at: float
    """`trio.current_time` when its last byte had come."""
    decoded_at: float


@attrs.frozen
class StreamStatistics:
    """Counts since the stream began."""

    packets: int
    received_bytes: int
    pictures: int
    errors: int
    """Times that the decoder had to begin again."""
    resets: int
    """Key frames that were asked for."""
    last_received_at: float | None


@attrs.define(eq=False)
class ScrcpyStream:
    """Made by `open_scrcpy`; of no use after that block."""

    client: AdbClient
    serial: str
    version: ScrcpyVersion
    config: ScrcpyConfig
    _video: AdbSocket
    _control: AdbSocket
    _newest: StreamPicture | None = attrs.field(init=False, default=None)
    _video_size: VideoSize | None = attrs.field(init=False, default=None)
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)
    _packets: list[tuple[Packet | Session, float]] = attrs.field(init=False, factory=list)
    _arrived: trio.Event = attrs.field(init=False, factory=trio.Event)
    _decoder: ScreenDecoder = attrs.field(init=False, factory=ScreenDecoder)
    _sending: trio.Lock = attrs.field(init=False, factory=trio.Lock)
    _hung: trio.Event = attrs.field(init=False, factory=trio.Event)
    _hung_why: str = attrs.field(init=False, default="")
    _compared_at: float = attrs.field(init=False, default=float("-inf"))
    _acknowledged: int = attrs.field(init=False, default=0)
    _next_sequence: int = attrs.field(init=False, default=1)
    _reset_at: float = attrs.field(init=False, default=float("-inf"))
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(("packets", "bytes", "pictures", "errors", "resets"), 0)
    )
    _last_received_at: float | None = attrs.field(init=False, default=None)
    _pixels: tuple[int, int | None, Pixels] | None = attrs.field(init=False, default=None)

    # -- pictures

    @property
    def newest(self) -> StreamPicture | None:
        """The newest decoded picture of the present session; None before its first."""
        return self._newest

    @property
    def video_size(self) -> VideoSize | None:
        """The size that touches must name."""
        return self._video_size

    async def wait_picture(self, *, after: int = -1) -> StreamPicture:
        """The newest picture, once there is one numbered above `after`. Put a deadline around it."""
        while self._newest is None or self._newest.number <= after:
            await self._changed.wait()
        return self._newest

    async def pixels_of(self, picture: StreamPicture, max_side: int | None) -> Pixels:
        """A picture as BGR, converted once, in a worker thread, when somebody wants to look at it."""
        if self._pixels is None or self._pixels[:2] != (picture.number, max_side):
            pixels = await trio.to_thread.run_sync(pixels_of, picture.frame, max_side, limiter=self.client.limiter)
            self._pixels = (picture.number, max_side, pixels)
        return self._pixels[2]

    async def prove_alive(self) -> None:
        """A screen that stands still and an encoder that hangs say the same: nothing. A key frame tells them apart.

        It is asked for after `SILENCE_SECONDS` without a byte; where none comes the stream ends, to be begun anew.
        A version that cannot be asked is for `should_compare`.
        """
        if not self.version.can_reset_video or self._last_received_at is None:
            return
        now = trio.current_time()
        silent_seconds = now - self._last_received_at
        if silent_seconds < SILENCE_SECONDS:
            return
        if self._reset_at <= self._last_received_at:
            await self.reset_video()
        elif now - self._reset_at >= PROOF_SECONDS:
            self.give_up(f"no key frame came within {PROOF_SECONDS:g} s of asking")

    def should_compare(self) -> bool:
        """A server that cannot be asked for a key frame has been silent for long: its picture must be compared.

        True once each `SILENCE_SECONDS` of silence.
        """
        if self.version.can_reset_video or self._last_received_at is None or self._newest is None:
            return False
        now = trio.current_time()
        if now - max(self._last_received_at, self._compared_at) < SILENCE_SECONDS:
            return False
        self._compared_at = now
        return True

    def give_up(self, why: str) -> None:
        """End the stream, to be begun anew: its encoder hangs."""
        self._hung_why = why
        self._hung.set()

    async def reset_video(self) -> None:
        """Ask for a key frame, at most one each `RESET_PAUSE_SECONDS`.

        Raises:
            StreamBroken: this version cannot; the stream must be begun anew.
        """
        if not self.version.can_reset_video:
            raise StreamBroken(f"scrcpy {self.version.text} cannot be asked for a key frame", phone=self.serial)
        if trio.current_time() - self._reset_at >= RESET_PAUSE_SECONDS:
            self._reset_at = trio.current_time()
            self._counts["resets"] += 1
            _RESETS.inc()
            await self.send(RESET_VIDEO)

    # -- input

    def next_sequence(self) -> int:
        """A number for a clipboard message, unique on this stream."""
        number, self._next_sequence = self._next_sequence, self._next_sequence + 1
        return number

    async def send(self, message: bytes) -> None:
        """Send a control message. Cancelled in the middle of one it would garble all that follow, so it is not.

        Raises:
            DeviceTimeout: the phone takes no input.
            StreamBroken: the connection is gone; the phone may be well.
        """
        async with self._sending:
            with (
                trio.CancelScope(shield=True),
                total_deadline(SEND_SECONDS, lambda: phone_timeout(self.serial, "input", SEND_SECONDS)),
            ):
                try:
                    await self._control.send(message)
                except AdbServerLost as error:
                    raise StreamBroken(f"the scrcpy server takes no more input: {error}", phone=self.serial) from error

    async def wait_acknowledged(self, sequence: int) -> None:
        """Return once the server has set the clipboard of that sequence. Put a deadline around it."""
        while self._acknowledged < sequence:
            await self._changed.wait()

    def statistics(self) -> StreamStatistics:
        """Counts so far."""
        counts = self._counts
        return StreamStatistics(
            packets=counts["packets"],
            received_bytes=counts["bytes"],
            pictures=counts["pictures"],
            errors=counts["errors"],
            resets=counts["resets"],
            last_received_at=self._last_received_at,
        )

    # -- tasks; each ends by an error alone

    async def run(self) -> None:
        """Receive and decode until the stream ends.

        Raises:
            StreamBroken: the server ended, or what it sends cannot be understood.
            DeviceLost: the phone or the adb server is gone.
        """
        failures: list[DeviceError] = []  # a server that dies fails several at once; the first says why

        async def guarded(task: Callable[[], Awaitable[None]], nursery: trio.Nursery) -> None:
            try:
                await task()
            except DeviceError as error:
                failures.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for task in (self._receive_video, self._receive_control, self._decode_packets, self._wait_hung):
                nursery.start_soon(guarded, task, nursery)
        raise failures[0]

    async def _wait_hung(self) -> None:
        await self._hung.wait()
        raise StreamBroken(self._hung_why, phone=self.serial)

    async def _receive_video(self) -> None:
        reader = VideoReader(self.version)
        while data := await self._video.receive_some():
            now = trio.current_time()
            self._last_received_at = now
            self._counts["bytes"] += len(data)
            try:
                for event in reader.feed(data):
                    if isinstance(event, Packet | Session):
                        self._packets.append((event, now))
                        self._counts["packets"] += 1
            except ScrcpyWireError as error:
                raise StreamBroken(f"the video stream is not understood: {error}", phone=self.serial) from error
            self._arrived.set()
        raise StreamBroken("the scrcpy server ended the video", phone=self.serial)

    async def _receive_control(self) -> None:
        reader = DeviceMessageReader()
        while data := await self._control.receive_some():
            try:
                for message in reader.feed(data):
                    self._take(message)
            except ControlWireError as error:
                raise StreamBroken(f"the control stream is not understood: {error}", phone=self.serial) from error
        raise StreamBroken("the scrcpy server ended the control connection", phone=self.serial)

    def _take(self, message: ClipboardSet) -> None:
        self._acknowledged = max(self._acknowledged, message.sequence)
        self._tell()

    async def _decode_packets(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived = trio.Event()
            batch, self._packets = self._packets, []
            if len(batch) > QUEUED_PACKETS:
                batch = [entry for entry in batch if isinstance(entry[0], Session) or entry[0].is_config]
                self._decoder.reset()
                await self._begin_again("the decoder cannot keep up")
            run: list[Packet] = []
            received_at = 0.0
            for event, at in batch:
                if isinstance(event, Session):
                    await self._decode_run(run, received_at)
                    run = []
                    self._begin_session(event)
                else:
                    run.append(event)
                    received_at = at
            await self._decode_run(run, received_at)

    def _begin_session(self, session: Session) -> None:
        """What is shown from now on has another size: the old picture is of a screen that is gone."""
        size = VideoSize(session.width, session.height)
        if self._video_size is not None:
            self._decoder.reset()
        if size != self._video_size:
            self._newest = None
        self._video_size = size

    async def _decode_run(self, packets: list[Packet], received_at: float) -> None:
        if not packets:
            return
        try:
            decoded = await trio.to_thread.run_sync(self._decoder.decode, packets, limiter=self.client.limiter)
        except DecodeFailed as error:
            self._counts["errors"] += 1
            await self._begin_again(str(error))
            return
        if decoded is not None:
            self._show(decoded, received_at)
        elif self._decoder.needs_key and not all(packet.is_config for packet in packets):
            await self.reset_video()

    async def _begin_again(self, why: str) -> None:
        emit("actors.video.broken", level="warning", phone=self.serial, error=why)
        await self.reset_video()

    def _show(self, decoded: Decoded, received_at: float) -> None:
        self._counts["pictures"] += decoded.count
        # servers before 4 tell a rotation by nothing but the size of the pictures
        self._video_size = VideoSize(decoded.width, decoded.height)
        self._newest = StreamPicture(
            frame=decoded.frame,
            number=self._counts["pictures"] - 1,
            pts_us=decoded.pts_us,
            received_at=received_at,
            decoded_at=trio.current_time(),
        )
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
