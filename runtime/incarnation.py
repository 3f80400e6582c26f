"""One life of one child: started, watched, asked to finish, cancelled, and its end classified.

The child's exceptions end here. What passes through is what is not the child's to raise: the cancellation of
whoever runs the supervisor, KeyboardInterrupt and SystemExit.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import attrs
import trio

from runtime.child import ChildContext, ChildNotReady, ChildSilent, ChildSpec, Expected


class Cause(StrEnum):
    """Why a life ended."""

    FINISHED = "finished"
    """The body returned, or raised `Expected`."""
    STOPPED = "stopped"
    """It was cancelled after its grace, as it had been asked to finish."""
    CRASHED = "crashed"
    """The body raised something else."""
    SILENT = "silent"
    """No heartbeat."""
    NOT_READY = "not_ready"
    """Not ready in time, or ended before it was."""


@attrs.frozen
class Ending:
    """How a life ended."""

    cause: Cause
    error: Exception | None
    ran_seconds: float
    """From readiness; 0 if it never came to that."""
    asked: bool
    """True when it had been asked to finish before it ended."""

    @property
    def failed(self) -> bool:
        """True unless it finished, or was stopped on request."""
        return self.cause not in {Cause.FINISHED, Cause.STOPPED}


class Incarnation:
    """One life. Made and run once; `halt` may be called by anybody, any number of times."""

    def __init__(self, spec: ChildSpec, start: int) -> None:
        self.spec = spec
        self.context = ChildContext(spec.name, start)
        self.ready_at: float | None = None
        self.was_cancelled = False
        self._scope = trio.CancelScope()
        self._watch_scope = trio.CancelScope()
        self._ended = trio.Event()
        self._returned = self._asked = False
        self._verdict: Cause | None = None  # set by whoever cancels the scope

    async def run(self, on_ready: Callable[[Any], None]) -> Ending:
        """Run the body to its end; `on_ready` is called with the value that it was ready with.

        When this returns, no code of this life runs any more.
        """
        error: Exception | None = None
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    await self._start(nursery, on_ready)
        except BaseException as raised:  # what is not the child's own is raised again just below
            foreign, error = split_error(raised)
            if foreign is not None:
                if error is None:
                    raise
                raise foreign from error
        finally:
            self._ended.set()
        ran_seconds = 0.0 if self.ready_at is None else trio.current_time() - self.ready_at
        return self._ending(error, ran_seconds)

    async def _start(self, nursery: trio.Nursery, on_ready: Callable[[Any], None]) -> None:
        async def body(*, task_status: trio.TaskStatus[Any]) -> None:
            await self.spec.run(self.context, task_status=task_status)
            self._returned = True
            self._asked = self.context.draining.is_set()
            self._watch_scope.cancel()  # not the nursery: `start` may not have seen yet that the child was ready

        with trio.move_on_after(self.spec.start_seconds) as patience:
            try:
                value = await nursery.start(body)
            except RuntimeError:
                if not self._returned:
                    raise
                self._verdict = Cause.NOT_READY  # trio's word for a body that returned without started()
                return
            self.ready_at = self.context.heartbeat_at = trio.current_time()
            on_ready(value)
            if self.spec.heartbeat_seconds is not None:
                nursery.start_soon(self._watch, self.spec.heartbeat_seconds)
        if patience.cancelled_caught:
            self._verdict = Cause.NOT_READY

    async def _watch(self, heartbeat_seconds: float) -> None:
        with self._watch_scope:
            while trio.current_time() < self.context.heartbeat_at + heartbeat_seconds:
                with trio.move_on_at(self.context.heartbeat_at + heartbeat_seconds):
                    await self.context.draining.wait()
                    return  # from here on the grace is what limits it
            self._verdict = Cause.SILENT
            self._scope.cancel()

    def _ending(self, error: Exception | None, ran_seconds: float) -> Ending:
        name, spec = self.spec.name, self.spec
        asked = self._asked if self._returned else self.context.draining.is_set()
        if self._verdict is Cause.SILENT:
            silent = ChildSilent(f"no heartbeat for {spec.heartbeat_seconds} s", child=name)
            silent.__cause__ = error
            return Ending(Cause.SILENT, silent, ran_seconds, asked)
        if error is not None:
            return Ending(Cause.CRASHED, error, ran_seconds, asked)
        if self._verdict is Cause.NOT_READY and not asked:
            why = "ended before it was ready" if self._returned else f"not ready within {spec.start_seconds:g} s"
            return Ending(Cause.NOT_READY, ChildNotReady(why, child=name), ran_seconds, asked)
        return Ending(Cause.STOPPED if self.was_cancelled else Cause.FINISHED, None, ran_seconds, asked)

    async def halt(self) -> None:
        """Ask it to finish, wait for its grace, cancel it, and wait until it has ended."""
        self.context.draining.set()
        with trio.move_on_after(self.spec.shutdown_grace_seconds):
            await self._ended.wait()
        if not self._ended.is_set():
            self.was_cancelled = True
            self._scope.cancel()
            await self._ended.wait()


def split_error(raised: BaseException) -> tuple[BaseException | None, Exception | None]:
    """(what is not the child's to raise, what is); `Expected` is in neither, as it is no error.

    A group of one is unwrapped, so that a crash deep in nested nurseries is seen as what it is.
    """
    if not isinstance(raised, BaseExceptionGroup):
        if isinstance(raised, Expected):
            return (None, None)
        return (None, raised) if isinstance(raised, Exception) else (raised, None)
    own, foreign = raised.split(Exception)
    if own is not None:
        own = own.split(Expected)[1]
    while isinstance(own, BaseExceptionGroup) and len(own.exceptions) == 1:
        own = own.exceptions[0]  # type: ignore[assignment]
    return (foreign, own)
