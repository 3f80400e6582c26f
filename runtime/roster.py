"""What a supervisor keeps about each of its children."""

from collections import deque
from typing import Any

import trio

from runtime.child import ChildSpec, ChildStatistics
from runtime.incarnation import Incarnation
from runtime.lifecycle import State, advance
from runtime.restart import Failure


class Child:
    """A child, its present life and its past; only its supervisor touches it."""

    def __init__(self, spec: ChildSpec, *, gate_open: bool) -> None:
        self.spec = spec
        self.state = State.STARTING
        self.wanted = True
        self.gate_open = gate_open
        self.life: Incarnation | None = None
        self.settled = trio.Event()  # became ready once, or never will
        self.first_value: Any = None
        self.was_ready = False
        self.gone = trio.Event()  # its keeper has ended
        self.history: deque[Failure] = deque(maxlen=max(64, spec.intensity.max_restarts + 2))
        self.starts = self.restarts = self.cancels = 0
        self.last_error: Exception | None = None
        self.last_error_at: float | None = None
        self._changed = trio.Event()

    def move(self, to: State) -> None:
        """Change the state, if the table of transitions allows it; staying is allowed."""
        if self.state is not to:
            self.state = advance(self.state, to)

    def is_unwanted(self) -> bool:
        """True when it shall not run again."""
        return not self.wanted

    def wake(self) -> None:
        """Let its keeper look at `wanted`, `gate_open` and `state` again."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait_changed(self) -> None:
        """Wait for the next `wake`."""
        await self._changed.wait()

    def statistics(self) -> ChildStatistics:
        """The child as it is now."""
        running = self.life is not None and self.state is State.RUNNING
        return ChildStatistics(
            name=self.spec.name,
            state=self.state,
            starts=self.starts,
            restarts=self.restarts,
            cancels=self.cancels,
            last_error=None if self.last_error is None else f"{type(self.last_error).__name__}: {self.last_error}",
            last_error_at=self.last_error_at,
            ready_since=self.life.ready_at if running and self.life is not None else None,
        )
