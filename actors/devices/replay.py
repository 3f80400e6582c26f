"""Recorded pictures as a phone: what was seen is seen again at its own pace, and nothing that is done changes it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import cv2
import numpy as np
import trio

from actors.devices.base import (
    ActionRefused,
    CaptureFailed,
    DeviceError,
    DeviceInfo,
    DeviceStatistics,
    ShellResult,
    Unsupported,
)
from policies.action import Action, duration_of, points_of
from policies.frame import Frame, Pixels
from policies.geometry import Geometry
from runtime.ids import PhoneId

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
SOURCE = "replay"
DECODING = trio.CapacityLimiter(2)  # pure CPU work: more threads than cores show no picture sooner


class NothingToReplay(DeviceError):
    """The folder holds no picture, or cannot be read."""


@attrs.define(eq=False)
class ReplayDevice:
    """Implements `Device`; made by `open_replay`.

    Picture n is shown from `n * every_seconds` after the first capture; the last one stays, unless `loops`. A capture
    that finds the picture of the one before is unchanged, as of a video stream.
    """

    pictures: Sequence[Path]
    info: DeviceInfo
    every_seconds: float
    loops: bool = False
    max_side: int | None = None
    clock: Callable[[], float] = trio.current_time
    actions: list[Action] = attrs.field(init=False, factory=list)
    """What was done, which changed nothing."""
    _began_at: float | None = attrs.field(init=False, default=None)
    _shown: tuple[int, Pixels, Geometry] | None = attrs.field(init=False, default=None)
    _epoch: int = attrs.field(init=False, default=0)
    _next_seq: int = attrs.field(init=False, default=0)
    _captures: int = attrs.field(init=False, default=0)
    _failed: int = attrs.field(init=False, default=0)
    _unchanged: int = attrs.field(init=False, default=0)
    _bytes: int = attrs.field(init=False, default=0)
    _actions_failed: int = attrs.field(init=False, default=0)
    _last_success_at: float | None = attrs.field(init=False, default=None)

    async def capture(self) -> Frame:
        """The picture of this moment.

        Raises:
            CaptureFailed: its file is gone, or no picture.
        """
        requested_at = self.clock()
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        index = self._index(requested_at)
        is_unchanged = self._shown is not None and self._shown[0] == index
        if not is_unchanged:
            try:
                pixels, geometry, size = await trio.to_thread.run_sync(
                    _decoded, self.pictures[index], self.max_side, limiter=DECODING
                )
            except (OSError, ValueError) as error:
                self._failed += 1
                raise CaptureFailed(f"{self.pictures[index]}: {error}", phone=self.info.phone) from error
            if self._shown is not None and self._shown[2] != geometry:
                self._epoch += 1
            self._shown = (index, pixels, geometry)
            self._bytes += size
        assert self._shown is not None
        await trio.lowlevel.checkpoint()
        self._captures += 1
        self._unchanged += is_unchanged
        self._last_success_at = self.clock()
        _, pixels, geometry = self._shown
        return Frame(pixels, seq, requested_at, self.clock(), geometry, self._epoch, SOURCE, is_unchanged)

    async def act(self, action: Action) -> None:
        """Takes as long as the gesture would; it is noted, and changes nothing.

        Raises:
            ActionRefused: a point off the screen that is shown.
        """
        geometry = self._shown[2] if self._shown is not None else None
        off = [point for point in points_of(action) if geometry is not None and not geometry.contains(*point)]
        if geometry is not None and off:
            self._actions_failed += 1
            raise ActionRefused(f"{off[0]} is off the {geometry.width}x{geometry.height} screen", phone=self.info.phone)
        await trio.sleep(duration_of(action))
        self.actions.append(action)

    async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:  # noqa: ARG002
        """There is no shell: every command is one that is not found, exit code 127."""
        await trio.lowlevel.checkpoint()
        return ShellResult(b"", f"sh: {command.split(' ', 1)[0]}: not found\n".encode(), 127)

    async def install(self, apks: Sequence[Path]) -> None:  # noqa: ARG002
        """There is no package manager."""
        raise Unsupported("recorded pictures install nothing", phone=self.info.phone)

    def statistics(self) -> DeviceStatistics:
        """Counts so far."""
        return DeviceStatistics(
            captures=self._captures,
            captures_failed=self._failed,
            captured_bytes=self._bytes,
            actions=len(self.actions),
            actions_failed=self._actions_failed,
            last_success_at=self._last_success_at,
            capture_method=SOURCE,
            captures_unchanged=self._unchanged,
        )

    def _index(self, now: float) -> int:
        if self._began_at is None:
            self._began_at = now
        number = int((now - self._began_at) / self.every_seconds)
        return number % len(self.pictures) if self.loops else min(number, len(self.pictures) - 1)


def _decoded(path: Path, max_side: int | None) -> tuple[Pixels, Geometry, int]:
    """Raises `OSError`, or `ValueError` where the file is no picture."""
    content = path.read_bytes()
    pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR) if content else None
    if pixels is None:
        raise ValueError("it is no picture")
    height, width = pixels.shape[:2]
    geometry = Geometry(width, height, rotation=int(width > height))
    longest = max(width, height)
    if max_side is not None and longest > max_side:
        size = (max(1, round(width * max_side / longest)), max(1, round(height * max_side / longest)))
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return np.asarray(pixels, np.uint8), geometry, len(content)


@asynccontextmanager
async def open_replay(
    source: Path | Sequence[Path],
    *,
    phone: PhoneId | None = None,
    every_seconds: float = 0.2,
    loops: bool = False,
    max_side: int | None = None,
    clock: Callable[[], float] = trio.current_time,
) -> AsyncIterator[ReplayDevice]:
    """The pictures of a folder, by name, or a single one.

    Args:
        source: the folder or file, or the pictures in their order.
        phone: who the phone is; None: called after the source.
        every_seconds: between two pictures.
        loops: begin again after the last.
        max_side: reduce them so that the longer side is at most this many pixels.
        clock: seconds of the run's clock.

    Raises:
        NothingToReplay: there is no picture.
    """
    if every_seconds <= 0:
        raise ValueError(f"every_seconds must be above 0: {every_seconds}")
    if isinstance(source, Path):
        pictures, shown = await trio.to_thread.run_sync(_pictures_in, source), source
    else:
        pictures, shown = list(source), source[0] if source else Path("nothing")
    if not pictures:
        raise NothingToReplay("there are no pictures")
    info = DeviceInfo(phone or PhoneId(f"replay-{shown.name}"), str(shown), "replay", "")
    yield ReplayDevice(pictures, info, every_seconds, loops, max_side, clock)


def _pictures_in(source: Path) -> list[Path]:
    try:
        if source.is_file():
            return [source]
        found = sorted(path for path in source.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())
    except OSError as error:
        raise NothingToReplay(f"{source} cannot be read: {error.strerror}") from error
    if not found:
        raise NothingToReplay(f"{source} holds no picture ({', '.join(sorted(SUFFIXES))})")
    return found
