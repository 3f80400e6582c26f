"""An executor that is started again when it has ended, for whoever runs for weeks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from actors.executor import LOCAL, Executor, ExecutorLost, open_executor
from actors.executor_wire import ExecuteRequest
from runtime.child import ChildContext, ChildSpec
from runtime.restart import Intensity
from runtime.supervisor import open_supervisor
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet

# It holds nothing but connections, so it is tried again for ever; a broken database must not become a dead assistant.
_INTENSITY = Intensity(max_restarts=1_000_000, cap_seconds=10.0)


class KeptExecutor:
    """Made by `open_kept_executor`."""

    def __init__(self) -> None:
        self._current: Executor | None = None

    async def execute(self, request: ExecuteRequest) -> ResultSet | Refusal:
        """See `Executor.execute`; while none runs, `ExecutorLost` is raised at once."""
        if self._current is None:
            raise ExecutorLost("it is being started again", source=LOCAL)
        return await self._current.execute(request)

    async def run(self, config_file: Path, log_path: Path, context: ChildContext, task_status: Any) -> None:
        """One life of it: until it ends, or is told to."""
        async with open_executor(config_file, log_path) as executor:
            self._current = executor
            task_status.started()
            try:
                await _wait_first(context.draining, executor.lost)
            finally:
                self._current = None
        if not context.draining.is_set():
            raise ExecutorLost("it ended", source=LOCAL)


async def _wait_first(one: trio.Event, other: trio.Event) -> None:
    """Until one of the two is set."""
    async with trio.open_nursery() as nursery:

        async def wait(event: trio.Event) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(wait, one)
        nursery.start_soon(wait, other)


@asynccontextmanager
async def open_kept_executor(config_file: Path, log_path: Path) -> AsyncIterator[KeptExecutor]:
    """An executor for the time of the block, whatever happens to its process.

    Raises:
        ProcessError: it did not start the first time; the end of its log is in the text.
    """
    async with open_executor(config_file, log_path):
        pass  # a configuration that it cannot work with is told at once, and not by restarts for ever
    kept = KeptExecutor()

    async def run(context: ChildContext, /, *, task_status: trio.TaskStatus[Any]) -> None:
        await kept.run(config_file, log_path, context, task_status)

    async with open_supervisor("sql") as supervisor:
        await supervisor.start_child(ChildSpec("executor", run, intensity=_INTENSITY))
        yield kept
