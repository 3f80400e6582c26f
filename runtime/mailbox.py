"""A bounded queue between tasks, with a stated overflow.

Data flows from `put` to `get`, first in first out. A value is handed straight to a waiting reader, and a waiting
writer's value takes the place that a reader frees, so that nobody who came later gets ahead and a cancelled task
loses nothing: a cancelled `get` took no value, a cancelled `put` left none behind.
"""

from collections import OrderedDict, deque
from enum import Enum
from typing import Generic, TypeVar

import attrs
import outcome
import trio

T = TypeVar("T")


class Overflow(Enum):
    """What happens to a value that finds the mailbox full."""

    WAIT = "wait"
    """`put` waits; `put_nowait` raises `trio.WouldBlock`."""
    DROP_OLDEST = "drop_oldest"
    """The oldest value is dropped and counted. With capacity 1 this is the slot for the latest frame."""
    REJECT = "reject"
    """Both raise `MailboxFull`: the writer is told at once."""


class MailboxFull(Exception):
    """The mailbox refuses when full, and is. Try later, or do without."""


class MailboxClosed(Exception):
    """The mailbox was closed: nothing can be put, and everything put before has been read."""


@attrs.frozen
class MailboxStatistics:
    """Counts since the mailbox was made; `put == got + dropped + depth` always holds."""

    capacity: int
    depth: int
    """Values waiting to be read."""
    put: int
    """Values accepted."""
    got: int
    """Values read."""
    dropped: int
    """Accepted values that nobody will read."""
    rejected: int
    """Values refused with `MailboxFull`."""
    waiting_puts: int
    waiting_gets: int
    closed: bool


class Mailbox(Generic[T]):
    """A bounded queue; any number of tasks may write and read.

    Args:
        capacity: values held at most, 1 or more.
        overflow: what happens to a value that finds the mailbox full.
    """

    def __init__(self, capacity: int, overflow: Overflow = Overflow.WAIT) -> None:
        if capacity < 1:
            raise ValueError(f"a mailbox holds at least 1 value, not {capacity}")
        self.capacity = capacity
        self.overflow = overflow
        self._items: deque[T] = deque()
        self._writers: OrderedDict[trio.lowlevel.Task, T] = OrderedDict()  # {waiting task: its value}
        self._readers: OrderedDict[trio.lowlevel.Task, None] = OrderedDict()
        self._closed = False
        self._put = self._got = self._dropped = self._rejected = 0

    def put_nowait(self, item: T) -> None:
        """Put a value without waiting.

        Raises:
            trio.WouldBlock: full, and the overflow is `WAIT`.
            MailboxFull: full, and the overflow is `REJECT`.
            MailboxClosed: closed.
        """
        if self._closed:
            raise MailboxClosed("the mailbox is closed, nothing more can be put")
        if self._readers:
            task, _ = self._readers.popitem(last=False)
            self._put += 1
            self._got += 1
            trio.lowlevel.reschedule(task, outcome.Value(item))
            return
        if len(self._items) >= self.capacity:
            if self.overflow is Overflow.WAIT:
                raise trio.WouldBlock
            if self.overflow is Overflow.REJECT:
                self._rejected += 1
                raise MailboxFull(f"the mailbox holds {self.capacity} values and refuses more")
            self._items.popleft()
            self._dropped += 1
        self._put += 1
        self._items.append(item)

    async def put(self, item: T) -> None:
        """Put a value; waits for a free place if the overflow is `WAIT`. Always a checkpoint.

        Raises:
            MailboxFull: full, and the overflow is `REJECT`.
            MailboxClosed: closed, before or while waiting; the value was not accepted.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self.put_nowait(item)
        except trio.WouldBlock:
            task = trio.lowlevel.current_task()
            self._writers[task] = item

            def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
                del self._writers[task]
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()

    def get_nowait(self) -> T:
        """The oldest value, without waiting.

        Raises:
            trio.WouldBlock: empty.
            MailboxClosed: empty and closed.
        """
        if not self._items:
            if self._closed:
                raise MailboxClosed("the mailbox is closed and empty")
            raise trio.WouldBlock
        item = self._items.popleft()
        self._got += 1
        if self._writers:
            task, waiting = self._writers.popitem(last=False)
            self._items.append(waiting)
            self._put += 1
            trio.lowlevel.reschedule(task)
        return item

    async def get(self) -> T:
        """The oldest value; waits for one. Always a checkpoint.

        Raises:
            MailboxClosed: empty and closed, before or while waiting.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            item = self.get_nowait()
        except trio.WouldBlock:
            task = trio.lowlevel.current_task()
            self._readers[task] = None

            def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
                del self._readers[task]
                return trio.lowlevel.Abort.SUCCEEDED

            received: T = await trio.lowlevel.wait_task_rescheduled(abort)
            return received
        await trio.lowlevel.cancel_shielded_checkpoint()
        return item

    def close(self) -> None:
        """Accept nothing more. What is inside can still be read; waiting tasks get `MailboxClosed`. Idempotent."""
        self._closed = True
        for task in [*self._writers, *self._readers]:
            error = MailboxClosed("the mailbox was closed while this task waited")
            trio.lowlevel.reschedule(task, outcome.Error(error))
        self._writers.clear()
        self._readers.clear()

    def clear(self) -> int:
        """Drop everything inside, and count it as dropped; returns how many values that were.

        Values of writers that wait move in afterwards.
        """
        dropped = len(self._items)
        self._items.clear()
        self._dropped += dropped
        while self._writers and len(self._items) < self.capacity:
            task, waiting = self._writers.popitem(last=False)
            self._items.append(waiting)
            self._put += 1
            trio.lowlevel.reschedule(task)
        return dropped

    def __aiter__(self) -> "Mailbox[T]":
        return self

    async def __anext__(self) -> T:
        try:
            return await self.get()
        except MailboxClosed:
            raise StopAsyncIteration from None

    def __len__(self) -> int:
        return len(self._items)

    def statistics(self) -> MailboxStatistics:
        """Counts so far."""
        return MailboxStatistics(
            capacity=self.capacity,
            depth=len(self._items),
            put=self._put,
            got=self._got,
            dropped=self._dropped,
            rejected=self._rejected,
            waiting_puts=len(self._writers),
            waiting_gets=len(self._readers),
            closed=self._closed,
        )
