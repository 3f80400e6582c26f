"""What does one engine do? Its latency over concurrency, its cached share in both prompt layouts, and our own cost."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.bench.engines import BenchUnavailable
from actors.bench.episodes import app_frames, episode_prompts, recorded_frames
from actors.bench.gpu_meter import EngineMeter, Gpus
from actors.bench.load import LoadResult, Sample, run_level
from actors.bench.result import BenchResult, Tell, tell_nobody
from actors.bench.vision_meter import NOT_TOLD, VisionMeter
from actors.results.charts import line_chart, stacked
from actors.results.intervals import percentile
from inference.client import EngineClient
from inference.config import Dialect, EngineConfig
from inference.errors import EngineError
from inference.latency_curve import KNEE_FACTOR
from inference.messages import ImagePart, Prompt
from inference.profile import ModelProfile, PromptLayout
from runtime.ids import EngineId, TenantId
from runtime.secret import Secret

STEPS = 6  # prompts of an episode in the sweep: the append layout is past its first re-base
LEAST_REQUESTS = 24  # of a level: a median of fewer says little
LONGEST_NAME = 200  # of a model: a longer one is none
LAYOUT_EPISODES, LAYOUT_STEPS = 3, 11  # two whole windows of the append layout, and the start of a third


@attrs.frozen
class EngineTarget:
    """An engine, and how it is spoken to."""

    url: str
    profile: ModelProfile
    model: str
    dialect: Dialect = Dialect.SGLANG
    api_key: Secret | None = attrs.field(default=None, repr=False)
    name: str = "engine"
    ca_file: str | None = None
    """As in `EngineConfig`."""

    def client(self, concurrency: int = 1) -> EngineClient:
        """A client for so many requests at a time.

        Raises:
            BenchUnavailable: `ca_file` cannot be used.
        """
        config = EngineConfig(
            EngineId(self.name),
            url=self.url,
            model=self.model,
            dialect=self.dialect,
            max_in_flight=concurrency,
            ca_file=self.ca_file,
        )
        try:
            return EngineClient(config, self.url, api_key=self.api_key)
        except EngineError as error:
            raise BenchUnavailable(str(error)) from error


@attrs.frozen
class EngineBench:
    """What is measured."""

    concurrencies: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    output_tokens: int = 32
    app: str = "battler"
    frames_folder: Path | None = None
    """Frames of a run instead of the app's."""
    constrained: bool = True
    seed: int = 1


def frames_for(plan: EngineBench, count: int, profile: ModelProfile, *, seed: int) -> tuple[ImagePart, ...]:
    """So many frames, of the run folder or of the app.

    Raises:
        BenchUnavailable: there are none.
    """
    if plan.frames_folder is not None:
        return recorded_frames(plan.frames_folder, count)
    return app_frames(plan.app, count, seed=seed, profile=profile)


def episodes_for(
    plan: EngineBench, target: EngineTarget, name: str, count: int, steps: int, *, seed: int
) -> list[tuple[Prompt, ...]]:
    """So many episodes, each of its own frames."""
    frames = frames_for(plan, count * steps, target.profile, seed=seed)
    return [
        episode_prompts(
            f"bench-{name}-{seed}-{number}",
            frames[number * steps : (number + 1) * steps],
            target.profile,
            seed=seed,
            max_tokens=plan.output_tokens,
            constrained=plan.constrained,
            tenant=TenantId(target.name),  # its own salt: the other side's prompts are in no cache of this one
        )
        for number in range(count)
    ]


async def sweep(
    target: EngineTarget, plan: EngineBench, *, gpus: Gpus | None = None, tell: Tell = tell_nobody
) -> list[dict[str, Any]]:
    """One point a concurrency, from the least.

    Raises:
        BenchUnavailable: the engine answers nothing, or there are no frames.
    """
    points = []
    meter = EngineMeter(target.url, gpus)
    levels = sorted(set(plan.concurrencies))
    client = target.client(max(levels))
    try:
        await require_alive(client)
        vision = VisionMeter(client)
        for place, concurrency in enumerate(levels):
            what, share = f"{concurrency} at a time", place / len(levels)
            tell(what, share)
            count = max(concurrency, -(-LEAST_REQUESTS // (STEPS * concurrency)) * concurrency)
            make = partial(episodes_for, plan, target, f"c{concurrency}", count, STEPS, seed=plan.seed + place)
            episodes = await trio.to_thread.run_sync(make)
            await vision.restart()
            async with trio.open_nursery() as nursery:
                meter.restart()
                began = trio.current_time()
                nursery.start_soon(meter.run)
                progress = lambda done, what=what, share=share: tell(what, share + done / len(levels))  # noqa: E731
                result = await run_level(client, episodes, concurrency, progress)
                busy = meter.busyness(trio.current_time() - began)
                nursery.cancel_scope.cancel()
            if not result.samples:
                raise BenchUnavailable(f"the engine answered nothing at {concurrency} at a time: {result.first_error}")
            hits = {"vision_cache_hit_share": await vision.hit_share(), "vision_cache_problem": vision.problem}
            points.append({**point_for(concurrency, result), **hits, **busy.as_dict()})
    finally:
        with trio.CancelScope(shield=True):
            await client.aclose()
    return points


def point_for(concurrency: int, result: LoadResult) -> dict[str, Any]:
    """The numbers of one level."""
    steady, seconds = result.steady()
    tpots = [one.tpot_seconds for one in steady if one.tpot_seconds is not None]
    gaps = [gap for one in steady for gap in one.gaps]
    total = len(result.samples) + sum(result.errors.values())
    return {
        "concurrency": concurrency,
        "requests": total,
        "errors": dict(result.errors),
        **_milliseconds("ttft_ms", [one.ttft_seconds for one in steady]),
        **_milliseconds("tpot_ms", tpots),
        **_milliseconds("itl_ms", gaps),
        **_milliseconds("step_ms", [one.total_seconds for one in steady]),
        "requests_per_second": round(len(steady) / seconds, 3),
        "output_tokens_per_second": round(sum(_output(one) for one in steady) / seconds, 2),
        "output_tokens_mean": round(sum(_output(one) for one in steady) / len(steady), 2),
        "prompt_tokens_mean": round(sum(one.completion.usage.prompt_tokens for one in steady) / len(steady), 1),
        "cached_share": cached_share(result.samples),
        "cpu_ms_per_request": round(result.cpu_seconds * 1000 / total, 3),
    }


def cached_share(samples: Sequence[Sample]) -> float | None:
    """Prompt tokens that the engine's cache had; None where the engine does not count."""
    total = sum(one.completion.usage.prompt_tokens for one in samples)
    return round(sum(one.completion.usage.cached_tokens for one in samples) / total, 4) if total else None


async def layout_shares(target: EngineTarget, plan: EngineBench) -> dict[str, tuple[float | None, float | None]]:
    """Of each prompt layout the cached share, and the vision cache's hits, an episode at a time.

    Raises:
        BenchUnavailable: the engine answers nothing.
    """
    shares: dict[str, tuple[float | None, float | None]] = {}
    client = target.client()
    vision = VisionMeter(client)
    try:
        for place, layout in enumerate(PromptLayout):
            seed = plan.seed + 1000 * (1 + place)  # other pictures each time: a vision cache knows them in any layout
            laid = attrs.evolve(target, profile=attrs.evolve(target.profile, layout=layout))
            make = partial(episodes_for, plan, laid, f"layout-{layout}", LAYOUT_EPISODES, LAYOUT_STEPS, seed=seed)
            await vision.restart()
            result = await run_level(client, await trio.to_thread.run_sync(make), 1, lambda _: None)
            if not result.samples:
                raise BenchUnavailable(f"the engine answered nothing in layout {layout}: {result.first_error}")
            shares[layout.value] = (cached_share(result.samples), await vision.hit_share())
    finally:
        with trio.CancelScope(shield=True):
            await client.aclose()
    return shares


async def require_alive(client: EngineClient) -> None:
    """Raises `BenchUnavailable` where the engine does not answer a probe."""
    try:
        await client.probe()
    except EngineError as error:
        raise BenchUnavailable(f"{client.url} cannot be measured: {error}") from error


async def model_at(target: EngineTarget) -> str | None:
    """The name of the first model that an engine serves; None where it says none that can be shown.

    Raises:
        BenchUnavailable: it does not answer.
    """
    client = target.client()
    try:
        said = await client.ask("/v1/models")
    except EngineError as error:
        raise BenchUnavailable(f"{target.url} cannot be measured: {error}") from error
    finally:
        with trio.CancelScope(shield=True):
            await client.aclose()
    try:
        name = json.loads(said or b"")["data"][0]["id"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable() else None


def knee_of(points: Sequence[dict[str, Any]]) -> int:
    """The largest measured concurrency, from the least on, whose TPOT is at most 1.25 times that of the least."""
    bound = KNEE_FACTOR * (points[0]["tpot_ms_p50"] or float("inf"))
    best = points[0]["concurrency"]
    for point in points:
        if point["tpot_ms_p50"] is None or point["tpot_ms_p50"] > bound:
            break
        best = point["concurrency"]
    return int(best)


def picture_of(points: Sequence[dict[str, Any]], title: str) -> str:
    """The sweep as an SVG file."""

    def line(name: str) -> list[tuple[float, float]]:
        return [(point["concurrency"], point[name]) for point in points if point[name] is not None]

    ttft = {"p50": line("ttft_ms_p50"), "p95": line("ttft_ms_p95"), "p99": line("ttft_ms_p99")}
    tpot = {"p50": line("tpot_ms_p50"), "p95": line("tpot_ms_p95"), "p99": line("tpot_ms_p99")}
    rows = (
        (f"{title}: time to the first token", ttft, " ms"),
        (f"{title}: time per output token", tpot, " ms"),
        (f"{title}: output tokens a second", {"": line("output_tokens_per_second")}, ""),
        (f"{title}: requests a second", {"": line("requests_per_second")}, ""),
    )
    names = [name for name, _, _ in rows]
    return stacked([line_chart(name, data, unit=unit, across=" at a time") for name, data, unit in rows], names)


def bench_engine(
    target: EngineTarget, plan: EngineBench, command: str, *, gpus: Gpus | None = None, tell: Tell = tell_nobody
) -> BenchResult:
    """The sweep and the shares of both layouts.

    Raises:
        BenchUnavailable: see `sweep`.
    """

    async def measure() -> tuple[list[dict[str, Any]], dict[str, tuple[float | None, float | None]]]:
        points = await sweep(target, plan, gpus=gpus, tell=tell)
        return points, await layout_shares(target, plan)

    points, shares = trio.run(measure)
    is_told = any(point["vision_cache_hit_share"] is not None for point in points)
    best = max(points, key=lambda point: point["output_tokens_per_second"])
    summary: dict[str, Any] = {
        f"at {point['concurrency']}": {
            name: point[name]
            for name in (
                *("ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "tpot_ms_p99", "itl_ms_p99", "requests_per_second"),
                *("output_tokens_per_second", "cached_share", "vision_cache_hit_share", "cpu_ms_per_request"),
            )
            if name != "vision_cache_hit_share" or is_told
        }
        for point in points
    }
    summary["url"] = target.url
    summary["model"] = target.model
    summary["profile"] = target.profile.name
    summary["knee"] = knee_of(points)
    summary["most output tokens a second"] = best["output_tokens_per_second"]
    for layout, (share, _) in shares.items():
        summary[f"cached share, {layout} layout"] = share
    for layout, (_, hits) in shares.items():
        summary[f"vision cache hits, {layout} layout"] = NOT_TOLD if hits is None else hits
    problems = {point["vision_cache_problem"] for point in points} - {None}
    again = plan.frames_folder is not None and is_told
    verdicts = [f"at {point['concurrency']}: {point['verdict']}" for point in points if point["verdict"]]
    notes = (
        "percentiles: of answers that came while every worker was busy; itl is the time between pieces of an answer, "
        "and an engine may send several tokens as one",
        "cpu_ms_per_request is this process: prompts are made beforehand, base64 and JSON are in it",
        "cached share: prompt tokens that the KV cache had; vision cache hits: pictures that need no encoder, whoever "
        "else asked the engine meanwhile counted too",
        *(f"the vision cache's counters could not be read: {problem}" for problem in sorted(problems)),
        *(("with --frames the same pictures come again at each level: a vision cache may know them",) if again else ()),
        *verdicts,
    )
    curve = [point for point in points if point["tpot_ms_p50"] is not None]  # a plan needs both times
    return BenchResult("engine", command, summary, points, notes, points=curve)


def _output(one: Sample) -> int:
    return one.completion.usage.output_tokens


def _milliseconds(name: str, seconds: Sequence[float]) -> dict[str, float | None]:
    return {
        f"{name}_p{share}": round(percentile(seconds, share / 100) * 1000, 3) if seconds else None
        for share in (50, 95, 99)
    }
