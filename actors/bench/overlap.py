"""Does thinking while acting hide a model's latency? The game `battler`, played with and without, on a virtual clock.

The phone, the policy, the session and the player are the real ones; only the network and the waiting are not: a plan
takes exactly the latency that is asked for, so equal seeds give equal numbers on any machine.
"""

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing

from actors.assets import load_rules
from actors.bench.result import BenchResult, Tell, tell_nobody
from actors.devices.base import Device, DeviceInfo
from actors.devices.fake import AppDevice
from actors.phone import draw_from
from actors.pictures import PictureStore
from actors.rehearsal.apps.catalog import APPS
from actors.rehearsal.engine.player.play import reply_to
from actors.scenario import AppConfig, CaptureConfig
from actors.session import EpisodeSession, EpisodeSpec
from inference.errors import EngineTooSlow
from inference.messages import Completion, ImagePart, Prompt, TextPart, Usage
from policies.episode import EpisodePolicy
from policies.frame import Frame
from policies.overlap import OverlapSettings
from policies.perception import compile_probes
from policies.planner import PlanRequest
from policies.staleness import StalenessRule, StalenessSettings
from policies.step import EpisodeSettings, Limits, StepInput, StepOutput
from runtime.ids import DEFAULT_TENANT, EngineId, EpisodeId, PhoneId

NEEDED_WAIT_SECONDS = 0.6  # battler's skills cool down: see the bundled scenario
SIZE = (720, 1280)


@attrs.frozen
class Variant:
    """One way to play."""

    name: str
    latency_seconds: float
    overlap: bool = True
    staleness: StalenessRule = StalenessRule.VERIFIED


@attrs.frozen
class Played:
    """What came of one episode."""

    variant: str
    seed: int
    score: float
    stall_fraction: float
    horizon_seconds: float
    """Mean time that a chunk's actions took."""
    planned: int
    stale: int
    plans: int


class InProcessEngine:
    """Implements `Complete` with the rehearsal player: exactly `latency_seconds` an answer, on the run's clock."""

    def __init__(self, latency_seconds: float) -> None:
        self.latency_seconds = latency_seconds

    async def __call__(self, prompt: Prompt, *, deadline: float) -> Completion:
        """Answer from the last picture and the last text."""
        parts = [part for message in prompt.messages for part in message.parts]
        image = next(part for part in reversed(parts) if isinstance(part, ImagePart))
        query = next(part for part in reversed(parts) if isinstance(part, TextPart))
        text = reply_to(image.jpeg, query.text, max_tokens=prompt.max_tokens)
        if trio.current_time() + self.latency_seconds > deadline:
            await trio.sleep_until(deadline)
            raise EngineTooSlow("the deadline passed", engine="in-process")
        await trio.sleep(self.latency_seconds)
        return Completion(
            text=text,
            finish_reason="stop",
            usage=Usage(0, 0, len(text)),
            engine=EngineId("in-process"),
            model="rehearsal-in-process",
            why="sticky",
            queue_seconds=0.0,
            prefill_seconds=self.latency_seconds,
            decode_seconds=0.0,
        )


@attrs.define
class ChunkSink:
    """Counts what chunks hold; keeps nothing else."""

    chunk_seconds: list[float] = attrs.field(factory=list)

    def step(self, spec: EpisodeSpec, given: StepInput, output: StepOutput, frame: Frame | None) -> None:
        """Remember how long each new chunk takes to execute."""
        del given, frame
        slots = spec.settings.overlap.act_seconds
        self.chunk_seconds += [
            float(note.fields["actions"] or 0) * slots for note in output.notes if note.event == "policies.plan.joined"
        ]

    def prompt(self, spec: EpisodeSpec, request: PlanRequest, pictures: PictureStore) -> None:
        """Nothing."""


async def play(variant: Variant, seed: int, *, seconds: float, act_seconds: float, rules_path: Path) -> Played:
    """Play one episode of `battler` on the clock of the caller's run."""
    rules, pictures = load_rules(rules_path)
    settings = EpisodeSettings(
        goal="Survive as many waves as you can.",
        rules=rules.rules,
        overlap=OverlapSettings(enabled=variant.overlap, act_seconds=act_seconds, margin_seconds=0.05),
        staleness=StalenessSettings(rule=variant.staleness),
        limits=Limits(seconds=seconds),
        needed_wait_seconds=NEEDED_WAIT_SECONDS,
    )
    app = APPS["battler"](seed=seed, width=SIZE[0], height=SIZE[1], now=trio.current_time())
    info = DeviceInfo(PhoneId("bench"), "in-process", "bench", "0")
    device = AppDevice(app, info, *SIZE)
    spec = EpisodeSpec(
        episode=EpisodeId(f"bench-{variant.name}-{seed}"),
        phone=info.phone,
        app_name="battler",
        app=AppConfig(goal=settings.goal, package="dev.corral.battler"),
        seed=seed,
        tenant=DEFAULT_TENANT,
        settings=settings,
        capture=CaptureConfig(every_seconds=0.05),
        plan_timeout_seconds=10.0,
    )
    sink = ChunkSink()
    session = EpisodeSession(
        spec,
        policy=EpisodePolicy(settings, spec.episode),
        perception=compile_probes(rules.probes, pictures),
        complete=InProcessEngine(variant.latency_seconds),
        sink=sink,
        draw=draw_from(seed),
        restart_app=_never,
        in_thread=False,
        follow_log=False,
    )
    await session.play(device)
    tally = session.policy.tally
    chunks = sink.chunk_seconds
    return Played(
        variant=variant.name,
        seed=seed,
        score=float(app.truth(trio.current_time())["score"]),
        stall_fraction=tally.stall_fraction,
        horizon_seconds=sum(chunks) / len(chunks) if chunks else 0.0,
        planned=tally.planned,
        stale=tally.stale_age + tally.stale_target + tally.stale_geometry,
        plans=tally.plans_completed,
    )


async def _never(device: Device, app: AppConfig) -> None:
    del device, app
    raise AssertionError("the app of a benchmark does not hang")


def play_on_virtual_clock(
    variant: Variant, seed: int, *, seconds: float, act_seconds: float, rules_path: Path
) -> Played:
    """`play`, without waiting for any of it."""
    run = partial(play, variant, seed, seconds=seconds, act_seconds=act_seconds, rules_path=rules_path)
    return trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


def variants_for(latency_seconds: float) -> tuple[Variant, ...]:
    """What is compared."""
    return (
        Variant("no latency", 0.0),
        Variant("overlap", latency_seconds),
        Variant("no overlap", latency_seconds, overlap=False),
        Variant("strict age", latency_seconds, staleness=StalenessRule.STRICT_AGE),
    )


def bench_overlap(
    *,
    seeds: Sequence[int],
    seconds: float,
    latency_seconds: float,
    act_seconds: float,
    rules_path: Path,
    tell: Tell = tell_nobody,
) -> BenchResult:
    """All variants on every seed, alternating."""
    variants = variants_for(latency_seconds)
    played: list[Played] = []
    for seed, variant in itertools.product(seeds, variants):
        tell(f"{variant.name}, seed {seed}", len(played) / (len(seeds) * len(variants)))
        played.append(
            play_on_virtual_clock(variant, seed, seconds=seconds, act_seconds=act_seconds, rules_path=rules_path)
        )
    rows = {variant.name: [p for p in played if p.variant == variant.name] for variant in variants}
    summary: dict[str, Any] = {
        name: {
            "score_mean": _mean([p.score for p in group]),
            "stall_fraction_mean": _mean([p.stall_fraction for p in group]),
            "stale_share": round(sum(p.stale for p in group) / max(1, sum(p.stale + p.planned for p in group)), 4),
            "horizon_seconds_mean": _mean([p.horizon_seconds for p in group]),
        }
        for name, group in rows.items()
    }
    horizon = summary["no overlap"]["horizon_seconds_mean"]
    summary["expected stall without overlap, L/(L+H)"] = round(latency_seconds / (latency_seconds + horizon), 4)
    summary["score kept by overlap"] = round(
        summary["overlap"]["score_mean"] / max(1e-9, summary["no latency"]["score_mean"]), 4
    )
    summary["pairs in which overlap scores higher than no overlap"] = sum(
        a.score > b.score for a, b in zip(rows["overlap"], rows["no overlap"], strict=True)
    )
    command = f"corral bench overlap --seconds {seconds:g} --latency-ms {latency_seconds * 1000:g}"
    command += f" --act-ms {act_seconds * 1000:g} --pairs {len(seeds)} --seed {seeds[0]}"
    note = "virtual clock: equal seeds give equal numbers; the cost of our own code is not in them"
    return BenchResult("overlap", command, summary, [attrs.asdict(p) for p in played], (note,))


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4) if values else 0.0
