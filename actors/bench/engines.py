"""Rehearsal engines as processes of their own, and engines by their URL, for benchmarks."""

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs
import trio

from actors.engine import process_plan_for
from inference.config import EngineConfig, LaunchConfig, LaunchKind
from runtime.ids import EngineId
from runtime.process import ManagedProcess, ProcessError, open_process

START_SECONDS = 60.0  # some 2 s each on a quiet machine; four at a time on a busy one take more


class BenchUnavailable(Exception):
    """Something that a benchmark needs is not there or did not start; the text says what."""


@attrs.frozen
class RunningEngine:
    """One engine process."""

    id: EngineId
    url: str
    process: ManagedProcess


@asynccontextmanager
async def open_rehearsal_engines(
    arguments: Sequence[tuple[str, ...]],
) -> AsyncIterator[tuple[RunningEngine, ...]]:
    """A rehearsal engine for each set of arguments, for the time of the block; named engine-0, engine-1, ...

    Raises:
        BenchUnavailable: one did not start.
    """
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        async with AsyncExitStack() as stack:
            processes: dict[int, ManagedProcess] = {}

            async def start(number: int, args: tuple[str, ...]) -> None:
                launch = LaunchConfig(LaunchKind.REHEARSAL, args, start_seconds=START_SECONDS, stop_grace_seconds=2.0)
                plan = process_plan_for(EngineConfig(EngineId(f"engine-{number}"), launch=launch), Path(folder))
                processes[number] = await stack.enter_async_context(open_process(plan))

            try:
                for number, args in enumerate(arguments):
                    await start(number, args)
            except ProcessError as error:
                raise BenchUnavailable(f"a rehearsal engine did not start: {error}") from error
            yield tuple(
                RunningEngine(EngineId(f"engine-{number}"), processes[number].address, processes[number])
                for number in sorted(processes)
            )


async def get_text(url: str, path: str, *, seconds: float = 5.0) -> str | None:
    """The body of a small plain GET on loopback, as HTTP/1.0; None where the server does not answer with 200.

    For what a benchmark asks an engine beside the requests that it measures.
    """
    host, _, port = url.removeprefix("http://").rpartition(":")
    with trio.move_on_after(seconds):
        try:
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
                answer = b"".join([chunk async for chunk in stream])
        except (OSError, trio.BrokenResourceError, ValueError):
            return None
        head, _, body = answer.partition(b"\r\n\r\n")
        return body.decode("utf-8", "replace") if b" 200 " in head.split(b"\r\n")[0] + b" " else None
    return None


def metric_in(text: str, name: str) -> float:
    """The sum of all samples of one metric in Prometheus text; 0 where there are none."""
    total = 0.0
    for line in text.splitlines():
        if line.startswith(name) and line[len(name) : len(name) + 1] in {"{", " "}:
            total += float(line.rsplit(" ", 1)[1])
    return total
