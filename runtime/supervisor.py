"""Keeps children running: starts, watches, restarts, gives up on and ends them.

Each child has a *keeper* task, which runs one life of it after the other, so that no child can ever run twice at
a time. A keeper runs a life only while its child is `wanted` and its `gate` is open. Under `rest_for_one`, the gate
of a child is open while everything before it is ready: a child that fails shuts the gates behind it, its followers
are halted last first, and each one that becomes ready opens the next gate.
"""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any

import trio

from runtime.child import (
    ChildEnded,
    ChildError,
    ChildExists,
    ChildSpec,
    ChildStatistics,
    ChildUnknown,
    OnGiveUp,
    SupervisorClosed,
    SupervisorGaveUp,
    SupervisorStatistics,
)
from runtime.incarnation import Ending, Incarnation
from runtime.lifecycle import State
from runtime.restart import Failure, GiveUp, RestartKind, decide
from runtime.roster import Child
from runtime.telemetry import bind, counter, emit

_RESTARTS = counter("runtime_child_restarts_total", "Children started again.", ["cause"])


class Strategy(StrEnum):
    """Who is restarted when one child fails."""

    ONE_FOR_ONE = "one_for_one"
    """It alone: the children do not need each other (phones)."""
    REST_FOR_ONE = "rest_for_one"
    """It and all that were added after it: each child needs those before it (link, capture, planner)."""


class Supervisor:
    """Made by `open_supervisor` alone."""

    def __init__(self, name: str, nursery: trio.Nursery, strategy: Strategy, draw: Callable[[], float]) -> None:
        self.name = name
        self.strategy = strategy
        self.gave_up: SupervisorGaveUp | None = None
        self._nursery = nursery
        self._draw = draw
        self._children: list[Child] = []
        self._draining = False
        self._changed = trio.Event()
        self._starts = self._restarts = 0

    # What others may ask

    async def start_child(self, spec: ChildSpec) -> Any:
        """Add a child and wait until it is ready; returns the value that it was ready with.

        It may take several starts to become ready. When the wait is cancelled, the child stays.

        Raises:
            ChildEnded: it ended or was given up on before it was ready; the cause is its last error.
            ChildExists: there is one of that name.
            SupervisorClosed: the supervisor drains.
        """
        child = self._add(spec)
        await child.settled.wait()
        if not child.was_ready:
            raise ChildEnded("it ended before it was ready", child=spec.name) from child.last_error
        return child.first_value

    def start_child_nowait(self, spec: ChildSpec) -> None:
        """Add a child, and do not wait for it. Raises `ChildExists` or `SupervisorClosed`."""
        self._add(spec)

    async def stop_child(self, name: str) -> ChildStatistics:
        """End a child (ask, wait for its grace, cancel) and forget it; returns how it was at the end.

        Raises:
            ChildUnknown: there is none of that name.
        """
        child = self._find(name)
        child.wanted = False
        child.wake()
        await self._halt(child)
        await child.gone.wait()
        if child in self._children:
            self._children.remove(child)
            self._open_gates()
        self._notify()
        return child.statistics()

    def release_child(self, name: str) -> None:
        """Let a quarantined child start again, with a clean history.

        Raises:
            ChildUnknown: there is none of that name.
            ChildError: it is not quarantined.
        """
        child = self._find(name)
        if child.state is not State.QUARANTINED:
            raise ChildError(f"it is {child.state}, not quarantined", child=name)
        child.history.clear()
        child.move(State.STARTING)
        child.wake()

    async def drain(self) -> None:
        """End all children, last first, each with its grace; start none any more. When it returns, none runs.

        Bounded by the sum of the graces, and by what children shield from cancellation.
        """
        self._draining = True
        for child in self._children:
            child.wanted = False
            child.wake()
        for child in reversed(self._children[:]):
            await self._halt(child)
            await child.gone.wait()
        await trio.lowlevel.checkpoint()

    async def wait_all_ended(self) -> None:
        """Wait until no child runs or will run without somebody's doing: all have ended or are quarantined."""
        while not all(self._is_at_rest(child) for child in self._children):
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    def statistics(self) -> SupervisorStatistics:
        """All children as they are now."""
        return SupervisorStatistics(
            name=self.name,
            strategy=self.strategy,
            draining=self._draining,
            starts=self._starts,
            restarts=self._restarts,
            children=tuple(child.statistics() for child in self._children),
        )

    # The life of a child

    def _add(self, spec: ChildSpec) -> Child:
        if self._draining:
            raise SupervisorClosed(f"supervisor {self.name} drains and starts no child {spec.name}")
        if any(child.spec.name == spec.name for child in self._children):
            raise ChildExists(f"supervisor {self.name} has a child of that name", child=spec.name)
        child = Child(spec, gate_open=self.strategy is Strategy.ONE_FOR_ONE)
        self._children.append(child)
        self._open_gates()
        self._nursery.start_soon(self._keep, child, name=f"{self.name}/{spec.name}")
        return child

    async def _keep(self, child: Child) -> None:
        with bind(actor=child.spec.name):
            try:
                while await self._wait_turn(child):
                    ending = await self._live(child)
                    if not await self._follow_up(child, ending):
                        break
            finally:
                self._bury(child)
        self._open_gates()

    async def _wait_turn(self, child: Child) -> bool:
        """True when it is to run now, False when never again."""
        while child.wanted and not (child.gate_open and child.state is not State.QUARANTINED):
            await child.wait_changed()
        return child.wanted

    async def _live(self, child: Child) -> Ending:
        child.move(State.STARTING)
        life = child.life = Incarnation(child.spec, child.starts)
        child.starts += 1
        self._starts += 1

        def on_ready(value: Any) -> None:
            if child.state is State.STARTING:  # else it was asked to finish before it was ready
                child.move(State.RUNNING)
            if not child.was_ready:
                child.was_ready, child.first_value = True, value
                child.settled.set()
            emit("runtime.child.started", level="debug", supervisor=self.name, start=life.context.start)
            self._open_gates()
            self._notify()

        try:
            ending = await life.run(on_ready)
        finally:
            child.life = None
            child.cancels += life.was_cancelled
        child.move(State.FAILED if ending.failed else State.STOPPED)
        if ending.error is not None:
            child.last_error, child.last_error_at = ending.error, trio.current_time()
            emit(
                "runtime.child.failed",
                level="warning",
                supervisor=self.name,
                cause=ending.cause,
                ran_seconds=round(ending.ran_seconds, 3),
                error=f"{type(ending.error).__name__}: {ending.error}",
                exc_info=ending.error if is_bug(ending.error) else None,
            )
        self._notify()
        return ending

    async def _follow_up(self, child: Child, ending: Ending) -> bool:
        """Do what an end calls for; False when the child shall not run again."""
        if child.is_unwanted():
            return False
        if not child.gate_open and (ending.asked or ending.failed):
            return child.spec.restart is not RestartKind.TEMPORARY  # halted for one before it: it has its turn again
        if not child.spec.restart.wants_restart(failed=ending.failed):
            return False
        now = trio.current_time()
        child.history.append(Failure(at=now, ran_seconds=ending.ran_seconds))
        verdict = decide(child.history, now, child.spec.intensity, self._draw())
        await self._hold_followers(child)
        if child.is_unwanted():
            return False
        if isinstance(verdict, GiveUp):
            return await self._give_up(child, verdict.reason)
        with trio.move_on_after(verdict.after_seconds):
            while child.wanted and child.gate_open:
                await child.wait_changed()
        if child.wanted:
            child.restarts += 1
            self._restarts += 1
            _RESTARTS.labels(cause=ending.cause).inc()
            emit(
                "runtime.child.restarted",
                supervisor=self.name,
                cause=ending.cause,
                after_seconds=round(verdict.after_seconds, 3),
                restarts=child.restarts,
            )
        return True

    async def _give_up(self, child: Child, reason: str) -> bool:
        if child.spec.on_give_up is OnGiveUp.QUARANTINE:
            child.move(State.QUARANTINED)
            child.settled.set()
            emit("runtime.child.quarantined", level="error", supervisor=self.name, reason=reason)
            self._notify()
            return True
        emit("runtime.supervisor.gave_up", level="error", supervisor=self.name, reason=reason)
        self.gave_up = SupervisorGaveUp(self.name, child.spec.name, reason)
        self.gave_up.__cause__ = child.last_error
        self._bury(child)  # the drain must not wait for this keeper, which runs it
        await self.drain()
        raise self.gave_up

    def _bury(self, child: Child) -> None:
        if child.state in {State.STARTING, State.RUNNING, State.DRAINING}:
            child.move(State.STOPPED)
        child.settled.set()
        child.gone.set()
        if child.spec.restart is RestartKind.TEMPORARY and not self._draining and child in self._children:
            self._children.remove(child)
        self._notify()

    # Order among children

    async def _halt(self, child: Child) -> None:
        life = child.life
        if life is None:
            return
        if child.state in {State.STARTING, State.RUNNING}:
            child.move(State.DRAINING)
        await life.halt()

    async def _hold_followers(self, child: Child) -> None:
        if self.strategy is not Strategy.REST_FOR_ONE:
            return
        followers = self._children[self._children.index(child) + 1 :]
        for follower in followers:
            follower.gate_open = False
            follower.wake()
        for follower in reversed(followers):
            await self._halt(follower)

    def _open_gates(self) -> None:
        """Open the gate of each child all of whose predecessors are ready or have ended for good."""
        if self.strategy is not Strategy.REST_FOR_ONE:
            return
        for child in self._children:
            if not child.gate_open:
                child.gate_open = True
                child.wake()
            if child.state is not State.RUNNING and not child.gone.is_set():
                return

    def _is_at_rest(self, child: Child) -> bool:
        if child.gone.is_set() or child.state is State.QUARANTINED:
            return True
        if child.life is not None or self.strategy is not Strategy.REST_FOR_ONE:
            return False
        before = self._children[: self._children.index(child)]
        return any(other.state is State.QUARANTINED for other in before)

    def _find(self, name: str) -> Child:
        for child in self._children:
            if child.spec.name == name:
                return child
        raise ChildUnknown(f"supervisor {self.name} has no such child", child=name)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def is_bug(error: BaseException) -> bool:
    """True for errors that no peer or user can cause: their traceback is worth the log's space.

    The rooms' own errors (a lost phone, a refused request) and those of the operating system say all in one line.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(is_bug(one) for one in error.exceptions)
    return type(error).__module__ == "builtins" and not isinstance(error, OSError)


@asynccontextmanager
async def open_supervisor(
    name: str,
    *,
    strategy: Strategy = Strategy.ONE_FOR_ONE,
    draw: Callable[[], float] = random.random,
) -> AsyncIterator[Supervisor]:
    """A supervisor for the time of the block.

    When the block ends, with or without an error, the supervisor is drained; when the block is cancelled, its
    children are cancelled at once.

    Args:
        name: for events and errors.
        strategy: who is restarted with a child that failed.
        draw: uniform in [0, 1), for the backoff.

    Raises:
        SupervisorGaveUp: a child with `on_give_up=ESCALATE` failed too often; the block was cancelled.
    """
    supervisor: Supervisor | None = None
    try:
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(name, nursery, strategy, draw)
            try:
                yield supervisor
            except Exception:
                await supervisor.drain()
                raise
            await supervisor.drain()
    except BaseExceptionGroup as group:
        errors: list[BaseException] = list(group.exceptions)
        gave_up = None if supervisor is None else supervisor.gave_up
        if gave_up is not None and all(isinstance(one, SupervisorClosed | SupervisorGaveUp) for one in errors):
            errors = [gave_up]  # that the block could start no child any more is no news
        if len(errors) != 1:
            raise
        raise errors[0] from errors[0].__cause__  # our nursery is no concern of the caller's `except`
