"""Keeps so many requests at one engine, and notes what every answer said of it."""

import itertools
import time
from collections.abc import Callable, Sequence

import attrs
import trio

from inference.client import EngineClient
from inference.errors import EngineError
from inference.messages import Completion, Prompt

DEADLINE_SECONDS = 120.0  # of one request; a level on a slow engine takes long, and is still worth its number


@attrs.frozen
class Sample:
    """One answer."""

    ended_at: float
    ttft_seconds: float
    total_seconds: float
    gaps: tuple[float, ...]
    """Between pieces of the answer; several that came together share their time."""
    completion: Completion

    @property
    def tpot_seconds(self) -> float | None:
        """Time per output token after the first; None of a single one, or where all came at once."""
        tokens, seconds = self.completion.usage.output_tokens, self.completion.decode_seconds
        return seconds / (tokens - 1) if tokens > 1 and seconds > 0 else None


@attrs.define
class LoadResult:
    """What came of a level of concurrency."""

    samples: list[Sample] = attrs.field(factory=list)
    errors: dict[str, int] = attrs.field(factory=dict)
    """By class of error."""
    first_error: str = ""
    began_at: float = 0.0
    busy_until: float = 0.0
    """Until then all workers were busy."""
    ended_at: float = 0.0
    cpu_seconds: float = 0.0
    """Of this thread, over the whole level: all of our side of the exchange; a progress bar's is another."""

    def steady(self) -> tuple[list[Sample], float]:
        """Answers that came while all workers were busy, and for how long those were; all, where that is none."""
        found = [one for one in self.samples if one.ended_at <= self.busy_until]
        if found:
            return found, self.busy_until - self.began_at
        return self.samples, self.ended_at - self.began_at


async def ask(client: EngineClient, prompt: Prompt, *, deadline_seconds: float = DEADLINE_SECONDS) -> Sample:
    """One request, and the times of its pieces.

    Raises:
        EngineError: any.
    """
    began = trio.current_time()
    arrivals: list[tuple[float, int]] = []
    completion = await client.complete(
        prompt,
        deadline=began + deadline_seconds,
        why="sticky",
        called_at=began,
        on_pieces=lambda count: arrivals.append((trio.current_time(), count)),
    )
    ended = trio.current_time()
    gaps: list[float] = []
    for (before, _), (after, count) in itertools.pairwise(arrivals):
        gaps += [(after - before) / count] * count
    return Sample(ended, completion.prefill_seconds, ended - began, tuple(gaps), completion)


async def run_level(
    client: EngineClient, episodes: Sequence[Sequence[Prompt]], concurrency: int, tell: Callable[[float], None]
) -> LoadResult:
    """Play the episodes, so many at a time, each without pauses; an error ends its request, and the episode goes on.

    Args:
        client: of the engine.
        episodes: prompts of each, in order; at least `concurrency` of them.
        concurrency: workers.
        tell: takes the share that is done.
    """
    result, waiting = LoadResult(), list(reversed(episodes))
    total, done = sum(len(one) for one in episodes), 0
    cpu = time.thread_time()
    result.began_at, result.busy_until = trio.current_time(), float("inf")

    async def work() -> None:
        nonlocal done
        while waiting:
            for prompt in waiting.pop():
                try:
                    result.samples.append(await ask(client, prompt))
                except EngineError as error:
                    name = type(error).__name__
                    result.errors[name] = result.errors.get(name, 0) + 1
                    result.first_error = result.first_error or str(error)
                done += 1
                tell(done / total)
        result.busy_until = min(result.busy_until, trio.current_time())

    async with trio.open_nursery() as nursery:
        for _ in range(concurrency):
            nursery.start_soon(work)
    result.ended_at = trio.current_time()
    result.cpu_seconds = time.thread_time() - cpu
    return result
