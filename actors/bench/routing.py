"""Does our routing hold its own? Episodes over several engines: our pool directly, and sglang-router in between.

The same bytes, the same pauses, the same client; only who chooses the engine differs. Engines are rehearsal engines
that compute prompts one after the other at a known rate, less what their prefix cache has, so a request that is sent to
a cold engine, or to a busy one, takes longer by just what a real one would take.
"""

import itertools
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import attrs
import trio

from actors.bench.engines import BenchUnavailable, RunningEngine, get_text, metric_in, open_rehearsal_engines
from actors.bench.episodes import Episode, episode_prompts, small_frames
from actors.bench.result import BenchResult, Tell, tell_nobody
from actors.bench.router_environment import POLICIES, RouterPolicy, built, cache_folder, open_router
from actors.results.intervals import median_interval, percentile
from inference.client import EngineClient
from inference.config import EngineConfig
from inference.errors import EngineError
from inference.messages import Completion, Prompt
from inference.pool import EnginePool, open_pool
from inference.profile import ModelProfile, PromptLayout
from runtime.ids import EngineId

OURS = "corral"
ENGINES = 4
FRAME = (
    216,
    384,
)  # 105 tokens: the machine's own CPU must not be what is measured; the engines' prefill is slow to match
PREFILL_TOKENS_PER_SECOND = 6000  # 18 ms a frame
OUTPUT_TOKENS = 16
SLOTS = 64
DEADLINE_SECONDS = 60.0
TARGET_RATIO = 1.03
TARGET_CACHED_POINTS = 1.0
TARGET_SHARE = 1.05  # of even

Ask = Callable[[Prompt], Awaitable[Completion]]


@attrs.frozen
class Cell:
    """One setting of the comparison."""

    episodes: int
    layout: PromptLayout
    steps: int
    think_seconds: tuple[float, float]
    """Least and most, before each request."""

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.episodes} episodes, {self.layout}"


CELLS = tuple(
    Cell(episodes, layout, steps, think)
    for (episodes, steps, think), layout in itertools.product(
        ((24, 8, (0.2, 0.4)), (96, 6, (0.8, 1.2))), (PromptLayout.SLIDING, PromptLayout.APPEND)
    )
)


@attrs.frozen
class Round:
    """What one contestant did in one repeat."""

    contestant: str
    repeat: int
    wall_seconds: float
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    requests: int
    errors: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    shares: tuple[float, ...]
    """Of the requests, by engine, as the engines counted them."""

    @property
    def cached_share(self) -> float:
        """Of prompt tokens."""
        return self.cached_tokens / max(1, self.prompt_tokens)


def episodes_of(cell: Cell, *, seed: int) -> list[Episode]:
    """The cell's episodes: equal seeds, equal bytes and pauses."""
    profile = ModelProfile(layout=cell.layout)
    frames = small_frames(cell.episodes * cell.steps, seed=seed, width=FRAME[0], height=FRAME[1])
    dice = Random(seed)
    made = []
    for number in range(cell.episodes):
        key = f"routing-{seed}-{number}"
        prompts = episode_prompts(
            key,
            frames[number * cell.steps : (number + 1) * cell.steps],
            profile,
            seed=seed,
            max_tokens=OUTPUT_TOKENS,
            constrained=False,
        )
        made.append(Episode(key, prompts, tuple(dice.uniform(*cell.think_seconds) for _ in prompts)))
    return made


async def play(episodes: Sequence[Episode], ask: Ask) -> tuple[float, list[float], list[Completion], int]:
    """Play all at once: (seconds until the last one ended, seconds of each request, answers, errors)."""
    took: list[float] = []
    answers: list[Completion] = []
    errors = 0

    async def one(episode: Episode) -> None:
        nonlocal errors
        for prompt, think in zip(episode.prompts, episode.thinks, strict=True):
            await trio.sleep(think)
            began = trio.current_time()
            try:
                answers.append(await ask(prompt))
            except EngineError:
                errors += 1
            took.append(trio.current_time() - began)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for episode in episodes:
            nursery.start_soon(one, episode)
    return trio.current_time() - began, took, answers, errors


async def play_round(
    contestant: str, repeat: int, episodes: Sequence[Episode], ask: Ask, engines: Sequence[RunningEngine]
) -> Round:
    """One contestant's turn on engines that have forgotten everything."""
    for engine in engines:
        if await get_text(engine.url, "/flush_cache") is None:
            raise BenchUnavailable(f"{engine.id} does not forget its cache")
    before = [await _requests_at(engine) for engine in engines]
    wall, took, answers, errors = await play(episodes, ask)
    counts = [await _requests_at(engine) - earlier for engine, earlier in zip(engines, before, strict=True)]
    return Round(
        contestant=contestant,
        repeat=repeat,
        wall_seconds=wall,
        p50_seconds=percentile(took, 0.5),
        p95_seconds=percentile(took, 0.95),
        p99_seconds=percentile(took, 0.99),
        requests=len(took),
        errors=errors,
        prompt_tokens=sum(answer.usage.prompt_tokens for answer in answers),
        cached_tokens=sum(answer.usage.cached_tokens for answer in answers),
        output_tokens=sum(answer.usage.output_tokens for answer in answers),
        shares=tuple(round(count / max(1.0, sum(counts)), 4) for count in counts),
    )


async def _requests_at(engine: RunningEngine) -> float:
    """Answers that the engine has counted."""
    return metric_in(await get_text(engine.url, "/metrics") or "", "sglang:num_requests_total")


async def compare_routing(
    cells: Sequence[Cell],
    policies: Sequence[RouterPolicy],
    python: Path | None,
    *,
    repeats: int,
    seed: int,
    tell: Tell = tell_nobody,
) -> dict[str, list[Round]]:
    """All contestants in all cells; who begins moves on by one every repeat.

    Args:
        cells: settings.
        policies: of the router; none measures our pool alone.
        python: of the router's environment.
        repeats: of each cell, each with episodes of its own.
        seed: of the first.
        tell: of progress.

    Raises:
        BenchUnavailable: an engine or the router did not start.
    """
    arguments = (
        *("--blind", "--fill", "--slots", str(SLOTS)),
        *("--prefill-tokens-per-second", str(PREFILL_TOKENS_PER_SECOND), "--chunk-tokens", "2048"),
    )
    rounds: dict[str, list[Round]] = {cell.name: [] for cell in cells}
    with tempfile.TemporaryDirectory(prefix="corral-routing-") as folder:
        async with AsyncExitStack() as stack:
            engines = await stack.enter_async_context(open_rehearsal_engines([arguments] * ENGINES))
            contestants: dict[str, Ask] = {}
            configs = [_config(engine.id, engine.url) for engine in engines]
            pool = await stack.enter_async_context(open_pool(configs))
            contestants[OURS] = partial(_ask_pool, pool)
            for policy in policies:
                assert python is not None, "policies need the router"
                url = await stack.enter_async_context(
                    open_router(python, policy, [engine.url for engine in engines], Path(folder))
                )
                client = EngineClient(_config(EngineId("router"), url), url)
                stack.push_async_callback(client.aclose)
                contestants[policy.name] = partial(_ask_client, client)
            names, total = list(contestants), len(cells) * repeats * len(contestants)
            for done, (cell, repeat) in enumerate(itertools.product(cells, range(repeats))):
                episodes = await trio.to_thread.run_sync(partial(episodes_of, cell, seed=seed + repeat))
                for turn in range(len(names)):
                    name = names[(repeat + turn) % len(names)]
                    tell(f"{cell.name}: {name}", (done * len(names) + turn) / total)
                    rounds[cell.name].append(await play_round(name, repeat, episodes, contestants[name], engines))
                    if name == OURS:
                        for episode in episodes:
                            pool.release(episode.key)
    return rounds


def _config(engine: EngineId, url: str) -> EngineConfig:
    return EngineConfig(
        engine, url=url, model="rehearsal-7b", max_in_flight=SLOTS, max_waiting=1000, probe_seconds=10.0
    )


async def _ask_pool(pool: EnginePool, prompt: Prompt) -> Completion:
    return await pool(prompt, deadline=trio.current_time() + DEADLINE_SECONDS)


async def _ask_client(client: EngineClient, prompt: Prompt) -> Completion:
    now = trio.current_time()
    return await client.complete(prompt, deadline=now + DEADLINE_SECONDS, why="sticky", called_at=now)


def judge(rounds: Sequence[Round]) -> dict[str, Any]:
    """One cell's verdict: ours against whichever of the others is best at each measure."""
    by_name: dict[str, list[Round]] = {}
    for one in sorted(rounds, key=lambda one: one.repeat):
        by_name.setdefault(one.contestant, []).append(one)
    ours = by_name.pop(OURS)
    even = 1 / len(ours[0].shares)
    verdict: dict[str, Any] = {
        "wall_s": round(median(one.wall_seconds for one in ours), 3),
        "p50_ms": round(median(one.p50_seconds for one in ours) * 1000, 1),
        "cached_share": round(median(one.cached_share for one in ours), 4),
        "largest_share_of_even": round(max(max(one.shares) for one in ours) / even, 3),
        "lost": sum(one.errors for one in ours),
    }
    met = verdict["largest_share_of_even"] <= TARGET_SHARE and not verdict["lost"]
    if by_name:
        measures: dict[str, Callable[[Round], float]] = {
            "wall": lambda one: one.wall_seconds,
            "p50": lambda one: one.p50_seconds,
        }
        for name, of in measures.items():
            best = min(by_name, key=lambda peer: median(of(one) for one in by_name[peer]))
            ratios = [of(mine) / of(theirs) for mine, theirs in zip(ours, by_name[best], strict=True)]
            ratio = median_interval(ratios)
            verdict[f"{name}_ratio"] = round(ratio.value, 4)
            verdict[f"{name}_95"] = f"{ratio.low:.3f} to {ratio.high:.3f}"
            verdict[f"{name}_best"] = best
            met = met and ratio.value <= TARGET_RATIO
        most = max(median(one.cached_share for one in peers) for peers in by_name.values())
        verdict["cached_points_to_best"] = round(100 * (verdict["cached_share"] - most), 2)
        met = met and verdict["cached_points_to_best"] >= -TARGET_CACHED_POINTS
    verdict["met"] = met
    return verdict


def bench_routing(
    *,
    repeats: int,
    seed: int,
    cells: Sequence[Cell] = CELLS,
    policies: Sequence[RouterPolicy] = POLICIES,
    tell: Tell = tell_nobody,
) -> BenchResult:
    """The comparison in every cell.

    Raises:
        BenchUnavailable: the router cannot be had, or something did not start.
    """
    python = None
    if policies:
        tell("building the environment of sglang-router", 0.0)
        python = built(cache_folder())
    rounds = trio.run(partial(compare_routing, cells, policies, python, repeats=repeats, seed=seed, tell=tell))
    summary: dict[str, Any] = {name: judge(found) for name, found in rounds.items()}
    summary["every cell met"] = all(verdict["met"] for verdict in list(summary.values()))
    rows = [{"cell": name, **attrs.asdict(one)} for name, found in rounds.items() for one in found]
    notes = (
        f"{ENGINES} rehearsal engines, {PREFILL_TOKENS_PER_SECOND} prompt tokens a second each, {OUTPUT_TOKENS} output "
        "tokens, the A100's published time per token; engines, router and this process share the machine",
        "ratios are ours over the best other one at that measure, paired by repeat: median, 95 % bootstrap interval",
        f"met: both ratios at most {TARGET_RATIO}, cached share within {TARGET_CACHED_POINTS:g} point or better, "
        f"largest engine's share at most {TARGET_SHARE} of even, nothing lost",
        "all get the same bytes with the same X-SMG-Routing-Key; engines forget their caches before each turn",
    )
    return BenchResult("routing", f"corral bench routing --repeats {repeats} --seed {seed}", summary, rows, notes)
