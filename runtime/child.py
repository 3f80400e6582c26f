"""What a supervisor is told about a child, what it hands to it, and what it says about it afterwards."""

from enum import StrEnum
from typing import Any, Protocol

import attrs
import trio

from runtime.lifecycle import State
from runtime.restart import Intensity, RestartKind

DEFAULT_INTENSITY = Intensity()


class Expected(Exception):
    """Raised by a child to end on purpose from deep inside; it counts as a normal end, not as a failure."""


class ChildError(Exception):
    """Something is wrong with a supervised child; `child` names it."""

    def __init__(self, message: str, *, child: str) -> None:
        super().__init__(f"{child}: {message}")
        self.child = child


class ChildSilent(ChildError):
    """No heartbeat for longer than its spec allows: it hangs, and was cancelled."""


class ChildNotReady(ChildError):
    """It was not ready within `start_seconds`, or ended before it said that it was."""


class ChildEnded(ChildError):
    """It ended before it was ready, and will not be started again; the cause says why."""


class ChildUnknown(ChildError):
    """The supervisor has no child of that name."""


class ChildExists(ChildError):
    """The supervisor has a child of that name already."""


class SupervisorClosed(Exception):
    """The supervisor drains or has ended: it starts no more children."""


class SupervisorGaveUp(Exception):
    """A child failed more often than its intensity allows, and its spec says that this concerns the parent."""

    def __init__(self, supervisor: str, child: str, reason: str) -> None:
        super().__init__(f"{supervisor}: gave up on {child}: {reason}")
        self.supervisor = supervisor
        self.child = child


class OnGiveUp(StrEnum):
    """What follows when a child fails more often than its intensity allows."""

    QUARANTINE = "quarantine"
    """It stays down until it is released; its siblings go on."""
    ESCALATE = "escalate"
    """The supervisor drains its other children and raises `SupervisorGaveUp`."""


class ChildContext:
    """What a running child gets from its supervisor; new for every start."""

    def __init__(self, name: str, start: int) -> None:
        self.name = name
        self.start = start
        """0 at the first start, then one more at each."""
        self.draining = trio.Event()
        """Set when the child is asked to finish; it then has its grace before it is cancelled."""
        self.heartbeat_at = trio.current_time()

    def heartbeat(self) -> None:
        """Say that work goes on. Only children whose spec has `heartbeat_seconds` need it, once they are ready."""
        self.heartbeat_at = trio.current_time()


class Run(Protocol):
    """The body of a child.

    It calls `task_status.started(value)` once it is ready, and returns soon after `context.draining` is set.
    Everything that it starts lives in nurseries inside it.
    """

    async def __call__(self, context: ChildContext, /, *, task_status: trio.TaskStatus[Any]) -> None:
        """Run until the work is done or the drain was asked for."""
        ...


@attrs.frozen
class ChildSpec:
    """How one child is run, restarted and ended."""

    name: str
    """Unique within its supervisor."""
    run: Run
    restart: RestartKind = RestartKind.PERMANENT
    shutdown_grace_seconds: float = 5.0
    """From the request to finish until it is cancelled."""
    start_seconds: float = 30.0
    """From the start until it must be ready."""
    heartbeat_seconds: float | None = None
    """Once ready, it is taken for hung after so long without a heartbeat; None: not watched."""
    intensity: Intensity = DEFAULT_INTENSITY
    on_give_up: OnGiveUp = OnGiveUp.QUARANTINE


@attrs.frozen
class ChildStatistics:
    """One child as it is now."""

    name: str
    state: State
    starts: int
    """Times that its body was started."""
    restarts: int
    """Starts after a failure or an unwanted end of its own."""
    cancels: int
    """Times that it was asked to finish, did not within its grace, and was cancelled."""
    last_error: str | None
    last_error_at: float | None
    """Run clock."""
    ready_since: float | None
    """Run clock; None when it is not running."""


@attrs.frozen
class SupervisorStatistics:
    """A supervisor as it is now."""

    name: str
    strategy: str
    draining: bool
    starts: int
    """Of all children that there ever were."""
    restarts: int
    children: tuple[ChildStatistics, ...]
    """In the order in which they were added; temporary children that ended are no longer listed."""

    def child(self, name: str) -> ChildStatistics:
        """The child of that name. Raises `ChildUnknown`."""
        for child in self.children:
            if child.name == name:
                return child
        raise ChildUnknown(f"supervisor {self.name} has no such child", child=name)
