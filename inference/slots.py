"""The seats at one engine, and the bounded queue of those who wait for one (`inference.fairness`)."""

import attrs
import trio

from inference.errors import EngineTooSlow, Overloaded
from inference.fairness import FairQueue, TenantKey, Ticket
from runtime.ids import DEFAULT_TENANT, TenantId

NOBODY: TenantKey = ("bots", DEFAULT_TENANT)


class SlotsClosed(Exception):
    """Whoever waited shall look for another engine: this one drains or is not healthy any more."""


@attrs.define(eq=False)
class _Waiter:
    woken: trio.Event = attrs.field(factory=trio.Event)
    granted: bool = False
    evicted: bool = False


class EngineSlots:
    """Admission to one engine, or to one of its scarce parts.

    Args:
        engine: id, for errors.
        limit: seats; `set_limit` changes it.
        max_waiting: places in the queue.
        weights: of tenants.
    """

    def __init__(self, engine: str, limit: int, max_waiting: int, weights: dict[TenantId, float] | None = None) -> None:
        self._engine = engine
        self._max_waiting = max_waiting
        self._queue = FairQueue({} if weights is None else weights)
        self._waiters: dict[Ticket, _Waiter] = {}
        self._changed = trio.Event()
        self._area = 0.0  # seats taken x seconds
        self._area_at = 0.0
        self.limit = limit
        self.in_flight = 0

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return self._queue.waiting

    def charged(self, tenant: TenantKey) -> float:
        """What the tenant was charged here: tokens over weight."""
        return self._queue.charged(tenant)

    def seat_seconds(self, now: float) -> float:
        """The integral of the seats taken over time: its differences give mean concurrency."""
        self._area += self.in_flight * (now - self._area_at)
        self._area_at = now
        return self._area

    def set_limit(self, limit: int) -> None:
        """Change the number of seats; those who have one keep it."""
        self.limit = limit
        self._grant()

    async def acquire(self, deadline: float, tenant: TenantKey = NOBODY, cost: float = 1.0) -> None:
        """Take a seat; `release` must follow. A checkpoint only if it has to wait.

        Args:
            deadline: on the run's clock.
            tenant: who asks.
            cost: weighted tokens, estimated.

        Raises:
            Overloaded: as many as may wait do so already.
            EngineTooSlow: no seat was free until the deadline.
            SlotsClosed: `evict` was called meanwhile.
        """
        now = trio.current_time()
        if deadline <= now:
            raise EngineTooSlow("the deadline had passed before the request could be sent", engine=self._engine)
        queue = self._queue
        if self.in_flight < self.limit and not queue.waiting_of(tenant) and queue.may_hold(tenant, self.limit, now):
            queue.admit(tenant, cost, now)
            self._count(+1, now)
            return
        if self.waiting >= self._max_waiting:
            raise Overloaded(
                f"{self.in_flight} requests are at the engine and {self.waiting} wait for it", engine=self._engine
            )
        ticket = queue.push(tenant, deadline, cost, now)
        waiter = self._waiters[ticket] = _Waiter()
        try:
            with trio.move_on_at(deadline):
                await waiter.woken.wait()
        except trio.Cancelled:
            if waiter.granted:
                self.release(tenant, cost, 0.0)
            raise
        finally:
            queue.leave(ticket)
            self._waiters.pop(ticket, None)
        if waiter.granted:
            return
        if waiter.evicted:
            raise SlotsClosed
        raise EngineTooSlow("no seat was free until the deadline; nothing was sent", engine=self._engine)

    def release(self, tenant: TenantKey = NOBODY, cost: float = 1.0, actual: float | None = None) -> None:
        """Give a seat back; whoever is next gets it.

        Args:
            tenant: as in `acquire`.
            cost: as in `acquire`.
            actual: weighted tokens that the request really cost; None: as estimated.
        """
        now = trio.current_time()
        self._queue.ended(tenant, cost, cost if actual is None else actual, now)
        self._count(-1, now)
        self._grant()
        self._changed.set()
        self._changed = trio.Event()

    def evict(self) -> None:
        """Send everybody who waits away, with `SlotsClosed`."""
        for ticket in self._queue.clear():
            waiter = self._waiters.pop(ticket)
            waiter.evicted = True
            waiter.woken.set()

    async def wait_empty(self) -> None:
        """Wait until nobody has a seat."""
        while self.in_flight:
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    def _grant(self) -> None:
        now = trio.current_time()
        while self.waiting and self.in_flight < self.limit:
            ticket = self._queue.pop(self.limit, now)
            if ticket is None:
                return
            self._count(+1, now)
            waiter = self._waiters.pop(ticket)
            waiter.granted = True
            waiter.woken.set()

    def _count(self, change: int, now: float) -> None:
        self.seat_seconds(now)
        self.in_flight += change
