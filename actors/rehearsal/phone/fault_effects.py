"""What the faults of the moment do to a simulated phone's pictures, its output and its input."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import attrs
import numpy as np
import trio

from actors.rehearsal.apps.base import Canvas
from actors.rehearsal.phone.faults import (
    Banner,
    Black,
    Crlf,
    DeafInput,
    Fault,
    PartBlack,
    Rotate,
    Secure,
    SlowInput,
    Stamped,
    Trickle,
    Truncate,
)

F = TypeVar("F", bound=Fault)
Write = Callable[[bytes | memoryview], Awaitable[None]]
TRICKLE_SECONDS = 0.1  # a slow line still sends ten times a second


class CutShort(Exception):
    """A service ends here, in the middle of what it had to say."""


@attrs.define(eq=False)
class FaultEffects:
    """The faults that last now, as the inside of the phone asks for them. They survive a reboot."""

    active: tuple[Fault, ...] = ()
    captures: int = 0
    """Captures that were taken, to their end."""
    on_capture: Callable[[], None] = attrs.field(default=lambda: None)
    """Told after each."""

    def find(self, kind: type[F]) -> F | None:
        """The latest fault of that kind, if there is one now."""
        return next((fault for fault in reversed(self.active) if isinstance(fault, kind)), None)

    def captured(self) -> None:
        """One more capture has been taken."""
        self.captures += 1
        self.on_capture()

    # -- the screen

    @property
    def is_secure(self) -> bool:
        """The window in front is protected."""
        return self.find(Secure) is not None

    @property
    def is_stamped(self) -> bool:
        """The clock stands in the pictures."""
        return self.find(Stamped) is not None

    @property
    def quarters(self) -> int:
        """How far the screen is turned against the app's wish."""
        turned = self.find(Rotate)
        return 0 if turned is None else turned.quarters

    def turned(self, canvas: Canvas) -> Canvas:
        """The picture as the turned screen shows it: an app that does not turn is squeezed in."""
        return np.ascontiguousarray(np.rot90(canvas, self.quarters)) if self.quarters else canvas

    def darkened(self, canvas: Canvas) -> Canvas:
        """The picture, or what is left of it; a canvas that is changed is a copy."""
        if self.is_secure or self.find(Black) is not None:
            return np.zeros_like(canvas)
        partly = self.find(PartBlack)
        if partly is None:
            return canvas
        canvas = canvas.copy()
        canvas[round(len(canvas) * (1 - partly.share)) :] = 0
        return canvas

    # -- what captures print

    def around(self, parts: Iterable[bytes | memoryview]) -> list[bytes | memoryview]:
        """What a capture prints, with the text that stands before and behind it."""
        banner = self.find(Banner)
        if banner is None:
            return list(parts)
        return [banner.text.encode(), *parts, banner.behind.encode()]

    def output(self, write: Write) -> Write:
        """The output of a service that captures the screen, as the line leaves of it."""
        for change in (self._trickled, self._cut, self._mangled):
            write = change(write)
        return write

    def _mangled(self, write: Write) -> Write:
        if self.find(Crlf) is None:
            return write

        async def mangled(data: bytes | memoryview) -> None:
            await write(bytes(data).replace(b"\n", b"\r\n"))

        return mangled

    def _cut(self, write: Write) -> Write:
        cut = self.find(Truncate)
        if cut is None:
            return write
        left = cut.at_byte

        async def cut_off(data: bytes | memoryview) -> None:
            nonlocal left
            piece = memoryview(data)[:left]
            left -= len(piece)
            if piece:
                await write(piece)
            if len(piece) < len(data) or not left:
                raise CutShort

        return cut_off

    def _trickled(self, write: Write) -> Write:
        slow = self.find(Trickle)
        if slow is None:
            return write
        size = max(1, round(slow.bytes_per_second * TRICKLE_SECONDS))
        pause = size / slow.bytes_per_second

        async def trickled(data: bytes | memoryview) -> None:
            view = memoryview(data)
            for start in range(0, len(view), size):
                await trio.sleep(pause)
                await write(view[start : start + size])

        return trickled

    # -- input

    @property
    def is_deaf(self) -> bool:
        """Input does nothing."""
        return self.find(DeafInput) is not None

    @property
    def input_delay_seconds(self) -> float:
        """How long `input` takes to start."""
        slow = self.find(SlowInput)
        return 0.0 if slow is None else slow.delay_seconds
