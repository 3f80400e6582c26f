"""One phone's input, one action at a time: a short queue in which nothing waits longer than it is worth."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from actors.devices.base import ActionExpired

QUEUE_CAPACITY = 8  # actions; a phone that is further behind does not catch up, it does old things
WAIT_SECONDS = 2.0  # an action that is older acts on a screen that is gone


@attrs.define(eq=False)
class InputTurns:
    """Who may touch the screen now, first come first served."""

    phone: str
    capacity: int = QUEUE_CAPACITY
    wait_seconds: float = WAIT_SECONDS
    expired: int = attrs.field(init=False, default=0)
    """Actions that were not begun: the queue was full, or their deadline had passed."""
    longest_wait_seconds: float = attrs.field(init=False, default=0.0)
    last_seconds: float = attrs.field(init=False, default=0.0)
    """From an action's turn until the phone had it, the gesture's own time not counted."""
    _lock: trio.Lock = attrs.field(init=False, factory=trio.Lock)

    @asynccontextmanager
    async def turn(self, gesture_seconds: float) -> AsyncIterator[None]:
        """Wait for those before; then the block has the screen for itself.

        Args:
            gesture_seconds: how long the action itself takes.

        Raises:
            ActionExpired: the queue is full, or the wait took too long; the phone was not touched.
        """
        if self._lock.statistics().tasks_waiting >= self.capacity:
            self.expired += 1
            raise ActionExpired(f"{self.capacity} actions are waiting already: not begun", phone=self.phone)
        asked_at = trio.current_time()
        with trio.move_on_after(self.wait_seconds):
            await self._lock.acquire()
        if self._lock.statistics().owner is not trio.lowlevel.current_task():
            self.expired += 1
            raise ActionExpired(
                f"it waited {self.wait_seconds:g} s for the actions before it: not begun", phone=self.phone
            )
        began_at = trio.current_time()
        self.longest_wait_seconds = max(self.longest_wait_seconds, began_at - asked_at)
        try:
            yield
            self.last_seconds = max(0.0, trio.current_time() - began_at - gesture_seconds)
        finally:
            self._lock.release()
