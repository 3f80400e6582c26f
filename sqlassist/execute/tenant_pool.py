"""The few connections of one account: a bounded number of queries at a time, a bounded number that wait, and kills.

A session goes back only when its query has ended well. Any other is closed, and its query is killed on the server over
a fresh connection of the same account; its place is given on when the server says that the thread is gone.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from runtime.telemetry import counter, emit
from sqlassist.execute.errors import DatabaseError
from sqlassist.execute.session import QueryFailed, Session

KILL_SECONDS = 2.0  # measured: 2-6 ms until a KILL is acknowledged, 60-80 ms until the thread is gone
GONE_EVERY_SECONDS = 0.01

_KILLS = counter("sqlassist_execute_killed_requests_total", "Queries ended on the server before their end.", ["why"])


class Full(Exception):
    """More queries wait than may."""


class TenantPool:
    """Sessions of one account. `open_one` connects."""

    def __init__(self, open_one: Callable[[], Awaitable[Session]], *, size: int, waiting: int, account: str) -> None:
        self.account = account
        self.killed = self.lost_kills = 0
        self._open_one = open_one
        self._places = trio.Semaphore(size, max_value=size)
        self._max_waiting = waiting
        self._waiting = 0
        self._idle: list[Session] = []
        self._busy = 0

    @property
    def connections(self) -> int:
        """Open now."""
        return len(self._idle) + self._busy

    @property
    def waiting(self) -> int:
        """Queries that wait for a place now."""
        return self._waiting

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One of the pool's places, for the time of the block.

        Raises:
            Full: too many wait already.
        """
        try:
            self._places.acquire_nowait()
        except trio.WouldBlock:
            if self._waiting >= self._max_waiting:
                raise Full from None
            self._waiting += 1
            try:
                await self._places.acquire()
            finally:
                self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[tuple[Session, bool]]:
        """A session, and whether it was used before; only for who holds a place.

        If the block is left by an exception other than the server's own refusal, or the session was closed, the query
        is killed.
        """
        while self._idle and not self._idle[-1].is_usable:
            self._idle.pop().close()
        was_used = bool(self._idle)
        session = self._idle.pop() if self._idle else await self._open_one()
        self._busy += 1
        ended, why = False, "cancelled"
        try:
            yield session, was_used
            ended = session.is_usable
            why = "capped"
        except QueryFailed:
            ended = session.is_usable
            raise
        except DatabaseError:
            why = "lost"
            raise
        finally:
            if ended:
                self._idle.append(session)
            else:
                session.close()
                await self._kill(session.thread_id, why)
            self._busy -= 1

    async def _kill(self, thread_id: int, why: str) -> None:
        """End a thread of this account on the server and wait until it is gone; shielded, bounded."""
        _KILLS.labels(why=why).inc()
        with trio.move_on_after(KILL_SECONDS, shield=True) as patience:
            try:
                await self._kill_and_wait(thread_id)
            except (DatabaseError, QueryFailed) as error:
                self.lost_kills += 1
                emit("sqlassist.kill.failed", level="warning", account=self.account, error=str(error))
                return
        if patience.cancelled_caught:
            self.lost_kills += 1
            emit("sqlassist.kill.failed", level="warning", account=self.account, error="the thread is still there")
            return
        self.killed += 1

    async def _kill_and_wait(self, thread_id: int) -> None:
        killer = await self._open_one()
        try:
            try:
                await killer.rows(f"KILL {thread_id}")
            except QueryFailed as error:
                if error.code != 1094:  # no such thread: it has ended by itself
                    raise
            there = f"SELECT id FROM information_schema.processlist WHERE id = {thread_id}"
            while await killer.rows(there):  # noqa: ASYNC110  # the server can be asked only by polling
                await trio.sleep(GONE_EVERY_SECONDS)
        finally:
            if killer.is_usable and len(self._idle) < 1:
                self._idle.append(killer)  # the killed session's successor
            else:
                killer.close()

    async def aclose(self) -> None:
        """Close every session that is not in use."""
        while self._idle:
            session = self._idle.pop()
            with trio.move_on_after(KILL_SECONDS):
                await session.aclose()
            session.close()
