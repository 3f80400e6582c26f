"""The seats at one engine, and the bounded queue of those who wait for one: earliest deadline first."""

import heapq
import itertools

import attrs
import trio

from inference.errors import EngineTooSlow, Overloaded


class SlotsClosed(Exception):
    """Whoever waited shall look for another engine: this one drains or is not healthy any more."""


@attrs.define(eq=False)
class _Waiter:
    woken: trio.Event = attrs.field(factory=trio.Event)
    granted: bool = False
    evicted: bool = False
    left: bool = False  # it gave up; its place in the heap is skipped


class EngineSlots:
    """Admission to one engine.

    Args:
        engine: id, for errors.
        max_in_flight: seats.
        max_waiting: places in the queue.
    """

    def __init__(self, engine: str, max_in_flight: int, max_waiting: int) -> None:
        self._engine = engine
        self._max_in_flight = max_in_flight
        self._max_waiting = max_waiting
        self._queue: list[tuple[float, int, _Waiter]] = []
        self._order = itertools.count()  # equal deadlines: first come, first served
        self._changed = trio.Event()
        self.in_flight = 0
        self.waiting = 0

    async def acquire(self, deadline: float) -> None:
        """Take a seat; `release` must follow. A checkpoint only if it has to wait.

        Raises:
            Overloaded: as many as may wait do so already.
            EngineTooSlow: no seat was free until the deadline.
            SlotsClosed: `evict` was called meanwhile.
        """
        if deadline <= trio.current_time():
            raise EngineTooSlow("the deadline had passed before the request could be sent", engine=self._engine)
        if self.in_flight < self._max_in_flight and not self.waiting:
            self.in_flight += 1
            return
        if self.waiting >= self._max_waiting:
            raise Overloaded(
                f"{self.in_flight} requests are at the engine and {self.waiting} wait for it", engine=self._engine
            )
        waiter = _Waiter()
        heapq.heappush(self._queue, (deadline, next(self._order), waiter))
        self.waiting += 1
        try:
            with trio.move_on_at(deadline):
                await waiter.woken.wait()
        except trio.Cancelled:
            if waiter.granted:
                self.release()
            raise
        finally:
            self._leave(waiter)
        if waiter.granted:
            return
        if waiter.evicted:
            raise SlotsClosed
        raise EngineTooSlow("no seat was free until the deadline; nothing was sent", engine=self._engine)

    def release(self) -> None:
        """Give a seat back; the earliest deadline that waits gets it."""
        self.in_flight -= 1
        while self._queue and self.in_flight < self._max_in_flight:
            _, _, waiter = heapq.heappop(self._queue)
            if not waiter.left:
                waiter.granted = True
                self.in_flight += 1
                self._leave(waiter)
                waiter.woken.set()
        self._changed.set()
        self._changed = trio.Event()

    def evict(self) -> None:
        """Send everybody who waits away, with `SlotsClosed`."""
        queue, self._queue = self._queue, []
        for _, _, waiter in queue:
            if not waiter.left:
                waiter.evicted = True
                self._leave(waiter)
                waiter.woken.set()

    async def wait_empty(self) -> None:
        """Wait until nobody has a seat."""
        while self.in_flight:
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    def _leave(self, waiter: _Waiter) -> None:
        if not waiter.left:
            waiter.left = True
            self.waiting -= 1
        if len(self._queue) > 2 * self._max_waiting + 16:  # many gave up while no seat became free
            self._queue = [entry for entry in self._queue if not entry[2].left]
            heapq.heapify(self._queue)
