"""One websocket connection, whichever server it came in through; and how it is written to and ended."""

from typing import Protocol

import attrs
import trio

GOING_AWAY, POLICY, TRY_LATER = 1001, 1008, 1013  # RFC 6455 section 7.4.1, and IANA's registry for 1013
NORMAL, BROKEN = 1000, 1011
REPLACED, SLOW_READER, SILENT = 4000, 4001, 4002  # 4000 to 4999 are an application's own
CLOSE_SECONDS = 2.0  # for a peer to answer the close; one that reads nothing does not


class LineClosed(Exception):
    """The connection is over.

    Attributes:
        code: What the other side closed it with; 1006 where it just went away.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


class Line(Protocol):
    """A websocket that was accepted."""

    @property
    def peer(self) -> str:
        """The address of whoever is at the other end, without the port."""
        ...

    async def send(self, text: str) -> None:
        """Send one message; waits while the other side does not read. Raises `LineClosed`."""
        ...

    async def receive(self) -> str:
        """The next text message; raises `LineClosed`."""
        ...

    async def close(self, code: int, reason: str) -> None:
        """Close it, if it is not closed. Never raises; may wait for the other side."""
        ...

    async def abort(self) -> None:
        """Close it without a word, as half a message is under way. Never raises, never waits."""
        ...


@attrs.frozen
class Farewell:
    """Why a connection is ended by us."""

    code: str
    """Stable, for the client's program."""
    message: str
    close_code: int
    retry_after: float | None = None


@attrs.define(eq=False)
class Wire:
    """A line that one session writes to. Messages are written whole, one at a time, each within a time."""

    line: Line
    slow_seconds: float
    """Longest that one message may wait for the other side to read."""
    farewell: Farewell | None = None
    """Set when it is to be ended by us."""
    serving: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """What reads from the line; cancelled when it is to end."""
    is_greeted: bool = False
    """The welcome is out, and events may follow."""
    is_broken: bool = False
    """A message was cut off half way, or the other side is gone: nothing more can be sent."""
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _sending: trio.CancelScope | None = attrs.field(default=None, init=False)

    async def send(self, text: str) -> None:
        """Send one message. A cancellation from outside waits until it is out, or its time is over.

        Raises:
            LineClosed: the other side is gone, or too slow; then `farewell` says so.
        """
        async with self._lock:
            if self.is_broken:
                raise LineClosed(1006)
            # half a message would make nonsense of every later one
            with trio.move_on_after(self.slow_seconds, shield=True) as scope:
                self._sending = scope
                try:
                    await self.line.send(text)
                except LineClosed:
                    self.is_broken = True
                    raise
                finally:
                    self._sending = None
            if scope.cancelled_caught:
                self.is_broken = True
                self.end(
                    Farewell("slow_reader", f"what was sent was not read within {self.slow_seconds:g} s", SLOW_READER)
                )
                raise LineClosed(SLOW_READER)

    def end(self, farewell: Farewell, *, cut: bool = False) -> None:
        """Have the connection ended; the first reason stays.

        Args:
            farewell: Why.
            cut: Do not wait for what is being sent.
        """
        if self.farewell is None:
            self.farewell = farewell
        self.serving.cancel()
        if cut and self._sending is not None:
            self._sending.cancel()
