"""How many phone actors does one process carry? Everything of a bot but the phone, the model and the picture codec.

Each actor is a supervised child that plays one episode on a device in this process: a frame a second, pixel and bar
rules on each, plans from an in-process engine, planned actions a second apart. Frames and their JPEGs are made before.
"""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs
import cv2
import numpy as np
import trio

from actors.bench.lag import LagLog, quantile
from actors.bench.processes import resident_bytes, waited_seconds
from actors.bench.result import BenchResult, Tell, tell_nobody
from actors.devices.base import Device, DeviceInfo
from actors.devices.fake import AppDevice
from actors.phone import draw_from
from actors.pictures import PictureStore, encode_jpeg
from actors.rehearsal.apps.base import LogLine, Touch
from actors.rehearsal.apps.catalog import APPS
from actors.scenario import AppConfig, CaptureConfig
from actors.session import EpisodeSession, EpisodeSpec, StepSink
from inference.messages import Completion, ImagePart, Prompt, Usage
from inference.profile import ModelProfile
from policies.episode import EpisodePolicy
from policies.frame import Frame, Pixels
from policies.geometry import Region
from policies.overlap import OverlapSettings
from policies.perception import Perception, compile_probes
from policies.planner import PlanRequest
from policies.probes import BarProbe, ColorProbe, HsvRange, Probe, TemplateProbe
from policies.reflex import Comparison, Condition, ReflexAction, Rule
from policies.staleness import StalenessSettings
from policies.step import EpisodeSettings, Limits, StepInput, StepOutput
from runtime.child import ChildContext, ChildSpec
from runtime.ids import DEFAULT_TENANT, EngineId, EpisodeId, PhoneId
from runtime.restart import RestartKind
from runtime.supervisor import open_supervisor
from runtime.telemetry import bind

SIZE = (720, 1280)
PERIOD_SECONDS = 1.0
FRAMES = 8  # seconds of a game that are shown in turn
WARM_UP_SECONDS = 5.0  # starts, first plans and the allocator's growth are not what is asked for
PROBE_SECONDS = 20.0  # four windows of lag: enough for a slope, short enough to search with
LATENCY_SECONDS = 0.3
MAX_ACTORS = 32000
BISECTIONS = 3
FLASH = (90, 200, 230)  # BGR
POP_UP = (160, 30, 230)  # BGR of hue 165
PLAN = "T110,860;T390,860;T610,860;T110,420;T500,420"
END_OF_BENCH = 1e9  # seconds: no limit of an episode ends it

PIXEL_AND_BAR: Mapping[str, Probe] = {
    "health": BarProbe(Region(24, 132, 672, 32), HsvRange((50, 100, 150), (75, 255, 255))),
    "potion_ready": BarProbe(Region(560, 1186, 140, 18), HsvRange((85, 80, 230), (100, 255, 255)), hit_at=0.98),
    "button": ColorProbe(Region(80, 1070, 24, 24), HsvRange((0, 100, 100), (20, 255, 255))),
    "pop_up": ColorProbe(Region(340, 600, 24, 24), HsvRange((155, 200, 180), (170, 255, 255))),
}
TEMPLATES: Mapping[str, Probe] = {"potion": TemplateProbe(Region(520, 1000, 200, 200), "potion")}
RULES = (
    Rule("close", (Condition("pop_up"),), ReflexAction(tap_match="pop_up"), priority=10),
    Rule(
        "drink",
        (Condition("health", Comparison.BELOW, 0.45), Condition("potion_ready")),
        ReflexAction(tap=Region(560, 1010, 140, 160)),
        priority=5,
        voids_plan=False,
    ),
)


@attrs.frozen
class Carried:
    """What one process did with so many actors."""

    actors: int
    templates: bool
    seconds: float
    """Of measuring, after the warm-up."""
    steps: int
    """Control steps: frames that were decided on."""
    decisions: int
    """Calls of the policy: frames, results and plans."""
    actions: int
    plans: int
    cpu_ms_per_step: float
    cpu_share: float
    """CPU seconds a second, of one core."""
    waited_share: float
    """Share of the time in which it could have run, but other processes had the cores: lag that is not its own."""
    memory_kib_per_actor: float
    frame_age_ms_p95: float
    """From a capture until the step that it was decided in."""
    ended: int
    """Episodes that ended before they were stopped: none should."""
    lag: dict[str, Any]
    windows: list[dict[str, Any]]


class StillApp:
    """An `App` that shows nothing and takes every touch: the device hands out frames that were made before."""

    name = "still"
    rotation = 0

    def draw(self, now: float) -> Pixels:  # noqa: ARG002
        """Never asked for."""
        raise AssertionError("frames are given")

    def touch(self, now: float, touch: Touch) -> None:
        """Nothing."""

    def key(self, now: float, name: str) -> None:
        """Nothing."""

    def type_text(self, now: float, text: str) -> None:
        """Nothing."""

    def take_log(self, now: float) -> tuple[LogLine, ...]:  # noqa: ARG002
        """None."""
        return ()

    def truth(self, now: float) -> dict[str, Any]:  # noqa: ARG002
        """Nothing."""
        return {"score": 0.0, "over": False}


@attrs.frozen
class Stage:
    """What all actors share, made once."""

    frames: tuple[Pixels, ...]
    jpegs: Mapping[int, ImagePart]
    """`id` of a frame's pixels → its JPEG."""
    perception: Perception
    settings: EpisodeSettings

    def jpeg_of(self, pixels: Pixels) -> ImagePart:
        """Raises `KeyError` for other pixels than this stage's."""
        return self.jpegs[id(pixels)]


def stage_for(seed: int, *, templates: bool) -> Stage:
    """Frames of the game `battler`, a second apart, and the rules that look at them."""
    app = APPS["battler"](seed=seed, width=SIZE[0], height=SIZE[1], now=0.0)
    profile = ModelProfile()
    frames = []
    for second in range(FRAMES):
        pixels = np.asarray(cv2.cvtColor(app.draw(1.0 + second), cv2.COLOR_RGB2BGR), dtype=np.uint8)
        if second % 2:
            pixels[700:900, :] = FLASH  # the floor, where nothing is tapped: so every tap is seen to have an effect
        if second == FRAMES - 1:
            pixels[570:640, 310:380] = POP_UP  # and once a round, a reflex fires and voids the plan
        pixels.flags.writeable = False
        frames.append(pixels)
    jpegs = {id(p): encode_jpeg(p, max_side=profile.max_side, quality=profile.jpeg_quality) for p in frames}
    probes = {**PIXEL_AND_BAR, **TEMPLATES} if templates else dict(PIXEL_AND_BAR)
    picture = np.ascontiguousarray(frames[0][1060:1150, 585:675])
    settings = EpisodeSettings(
        goal="Survive as many waves as you can.",
        profile=profile,
        rules=RULES,
        overlap=OverlapSettings(act_seconds=PERIOD_SECONDS),
        staleness=StalenessSettings(max_age_seconds=2 * len(PLAN.split(";")) * PERIOD_SECONDS),
        limits=Limits(seconds=END_OF_BENCH),
    )
    return Stage(tuple(frames), jpegs, compile_probes(probes, {"potion": picture} if templates else {}), settings)


async def complete(prompt: Prompt, *, deadline: float) -> Completion:
    """A `Complete` in this process: the same plan always, after `LATENCY_SECONDS`."""
    del prompt, deadline
    await trio.sleep(LATENCY_SECONDS)
    return Completion(
        text=PLAN,
        finish_reason="stop",
        usage=Usage(0, 0, len(PLAN)),
        engine=EngineId("in-process"),
        model="in-process",
        why="sticky",
        queue_seconds=0.0,
        prefill_seconds=LATENCY_SECONDS,
        decode_seconds=0.0,
    )


@attrs.define
class LagSink:
    """Counts steps, and how far each actor is behind its own pace; nothing is recorded."""

    lag: LagLog
    steps: int = 0
    decisions: int = 0
    actions: int = 0
    plans: int = 0
    ages: list[float] = attrs.field(factory=list)
    paces: dict[EpisodeId, float] = attrs.field(factory=dict)
    """Episode → when its next control step is due, by the pace that its first one set."""

    def step(self, spec: EpisodeSpec, given: StepInput, output: StepOutput, frame: Frame | None) -> None:
        """Note one decision."""
        del frame
        self.decisions += 1
        self.actions += output.command is not None
        self.plans += output.request is not None
        if given.percept is None:
            return
        self.steps += 1
        self.ages.append(given.now - given.percept.requested_at)
        due = self.paces.get(spec.episode, given.now)
        self.lag.add(given.now, given.now - due)
        self.paces[spec.episode] = due + spec.capture.every_seconds

    def prompt(self, spec: EpisodeSpec, request: PlanRequest, pictures: PictureStore) -> None:
        """Nothing."""


async def carry(
    count: int, *, seconds: float, seed: int = 1, templates: bool = False, tell: Callable[[float], None] | None = None
) -> Carried:
    """Run `count` actors for `seconds` after the warm-up, on the clock of the caller's run.

    Their first frames are spread evenly over one period, as those of phones that nobody started together are.
    """
    stage = stage_for(seed, templates=templates)
    sink = LagSink(LagLog(trio.current_time() + WARM_UP_SECONDS))
    before = resident_bytes(os.getpid())
    ended: list[str] = []
    sessions = [session_for(number, stage, sink) for number in range(count)]
    async with open_supervisor("bench") as supervisor:
        for number, session in enumerate(sessions):
            supervisor.start_child_nowait(_child_for(session, number / count, stage, ended))
        await trio.sleep(WARM_UP_SECONDS)
        counts = (sink.steps, sink.decisions, sink.actions, sink.plans)
        sink.ages.clear()
        memory = resident_bytes(os.getpid()) - before
        cpu, waited, began = time.process_time(), waited_seconds(os.getpid()), trio.current_time()
        while (elapsed := trio.current_time() - began) < seconds:
            if tell is not None:
                tell(min(1.0, elapsed / seconds))
            await trio.sleep(min(1.0, seconds - elapsed))
        cpu, elapsed = time.process_time() - cpu, trio.current_time() - began
        waited = waited_seconds(os.getpid()) - waited
        totals = (sink.steps, sink.decisions, sink.actions, sink.plans)
        early = len(ended)
        for session in sessions:  # all at once: the supervisor's drain goes one by one, while the others play on
            session.stop("the benchmark is over")
    steps, decisions, actions, plans = (after - before for after, before in zip(totals, counts, strict=True))
    return Carried(
        actors=count,
        templates=templates,
        seconds=round(elapsed, 1),
        steps=steps,
        decisions=decisions,
        actions=actions,
        plans=plans,
        cpu_ms_per_step=round(cpu * 1000 / max(1, steps), 3),
        cpu_share=round(cpu / elapsed, 3),
        waited_share=round(waited / elapsed, 3),
        memory_kib_per_actor=round(memory / 1024 / count, 1),
        frame_age_ms_p95=round(quantile(sink.ages, 0.95) * 1000, 1),
        ended=early,
        lag=sink.lag.report(),
        windows=[attrs.asdict(window) for window in sink.lag.windows()],
    )


def session_for(number: int, stage: Stage, sink: StepSink, *, in_thread: bool = False) -> EpisodeSession:
    """An episode that nothing ends, of the phone with this number.

    Args:
        number: Its seed too.
        stage: What all share.
        sink: Watches its steps.
        in_thread: Pictures for prompts are encoded, in threads, as in a run; else those of the stage are used.
    """
    phone = PhoneId(f"bench-{number}")
    spec = EpisodeSpec(
        episode=EpisodeId(phone),
        phone=phone,
        app_name="battler",
        app=AppConfig(goal=stage.settings.goal, package="dev.corral.battler"),
        seed=number,
        tenant=DEFAULT_TENANT,
        settings=stage.settings,
        capture=CaptureConfig(every_seconds=PERIOD_SECONDS),
        plan_timeout_seconds=10.0,
    )
    return EpisodeSession(
        spec,
        policy=EpisodePolicy(stage.settings, spec.episode),
        perception=stage.perception,
        complete=complete,
        sink=sink,
        draw=draw_from(number),
        restart_app=_nothing,
        in_thread=in_thread,
        follow_log=False,
        encoder=None if in_thread else stage.jpeg_of,
    )


def _child_for(session: EpisodeSession, phase: float, stage: Stage, ended: list[str]) -> ChildSpec:
    """One actor: started at its own moment of the period (`phase`, 0 to 1), played until it is told to stop."""
    spec = session.spec

    async def run(context: ChildContext, /, *, task_status: trio.TaskStatus[Any]) -> None:
        async def stop_on_drain() -> None:
            await context.draining.wait()
            session.stop("the benchmark is over")

        task_status.started()
        await trio.sleep(phase * PERIOD_SECONDS)
        with bind(phone=spec.phone, episode=spec.episode):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stop_on_drain)
                end = await session.play(device_for(spec.phone, stage))
                nursery.cancel_scope.cancel()
        ended.append(end.reason)

    return ChildSpec(spec.phone, run, restart=RestartKind.TRANSIENT, start_seconds=120.0)


def device_for(phone: PhoneId, stage: Stage) -> Device:
    """A phone that shows the stage's frames in turn."""
    return AppDevice(StillApp(), DeviceInfo(phone, "in-process", "bench", "0"), *SIZE, frames=stage.frames)


async def _nothing(device: Device, app: AppConfig) -> None:
    del device, app
    await trio.lowlevel.checkpoint()


def bench_actors(
    *, actors: int, seconds: float, seed: int, find_limit: bool = True, tell: Tell = tell_nobody
) -> BenchResult:
    """The asked number for `seconds`, the same with template rules for a moment, and the number at which lag begins."""
    parts = seconds + PROBE_SECONDS + (12 * PROBE_SECONDS if find_limit else 0)
    done = 0.0

    def run(what: str, count: int, run_seconds: float, *, templates: bool = False) -> Carried:
        nonlocal done
        share = partial(_tell_part, tell, what, done / parts, run_seconds / parts)
        carried = trio.run(partial(carry, count, seconds=run_seconds, seed=seed, templates=templates, tell=share))
        done = min(parts, done + run_seconds)
        return carried

    main = run(f"{actors} actors", actors, seconds)
    with_templates = run("with a template rule", max(1, actors // 4), min(seconds, PROBE_SECONDS), templates=True)
    rows = [main, with_templates]
    summary: dict[str, Any] = {
        "actors": main.actors,
        "steps_per_second": round(main.steps / main.seconds, 1),
        "cpu_ms_per_step": main.cpu_ms_per_step,
        "cpu_share_of_a_core": main.cpu_share,
        "share_of_time_that_others_had_the_cores": main.waited_share,
        "memory_kib_per_actor": main.memory_kib_per_actor,
        "frame_age_ms_p95": main.frame_age_ms_p95,
        **main.lag,
        "cpu_ms_per_step_with_a_template_rule": with_templates.cpu_ms_per_step,
    }
    if find_limit:
        carried, lagging = search_limit(
            lambda count: run(f"{count} actors", count, PROBE_SECONDS), rows, start=actors, known=main
        )
        summary["most_actors_without_growing_lag"] = carried
        summary["actors_at_which_lag_grows"] = lagging
    command = f"corral bench actors --actors {actors} --seconds {seconds:g} --seed {seed}"
    command += "" if find_limit else " --no-limit"
    notes = (
        "one process; frames and their JPEGs are made before and shared, plans come from this process after "
        f"{LATENCY_SECONDS:g} s, nothing is recorded: capture, codec, engine and recorder cost extra",
        f"lag: how far an actor's control steps are behind its own pace of one in {PERIOD_SECONDS:g} s; it grows if "
        "the median falls behind by more than 1 % of the time that passes",
    )
    return BenchResult("actors", command, summary, [attrs.asdict(row) for row in rows], notes)


def search_limit(
    probe: Callable[[int], Carried], rows: list[Carried], *, start: int, known: Carried
) -> tuple[int | None, int | None]:
    """(the most actors that were carried, the fewest that were not): doubled, then bisected; None: not found.

    Args:
        probe: Runs so many actors.
        rows: Each run is added to it.
        start: How many `known` had.
        known: A run that need not be repeated.
    """
    carried, lagging = (None, start) if known.lag["lag_grows"] else (start, None)
    while lagging is None and carried is not None and carried * 2 <= MAX_ACTORS:
        rows.append(probe(carried * 2))
        carried, lagging = (carried, carried * 2) if rows[-1].lag["lag_grows"] else (carried * 2, None)
    while carried is None and lagging is not None and lagging > 1:
        rows.append(probe(lagging // 2))
        carried, lagging = (None, lagging // 2) if rows[-1].lag["lag_grows"] else (lagging // 2, lagging)
    if carried is None or lagging is None:
        return carried, lagging
    for _ in range(BISECTIONS):
        middle = (carried + lagging) // 2
        if middle in {carried, lagging}:
            break
        rows.append(probe(middle))
        carried, lagging = (carried, middle) if rows[-1].lag["lag_grows"] else (middle, lagging)
    return carried, lagging


def _tell_part(tell: Tell, what: str, before: float, share: float, part: float) -> None:
    tell(what, min(1.0, before + share * part))
