"""A session on an in-process phone: captures, plans, acts, survives losing the phone, and leaves nothing behind."""

import itertools
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
import pytest
import trio
import trio.testing

from actors.bench.overlap import ChunkSink
from actors.black_cause import PROTECTED, WINDOW_COMMAND
from actors.custody import Custody
from actors.devices.base import ActionRefused, CaptureFailed, Device, DeviceInfo, DeviceLost, ShellResult
from actors.phone import draw_from
from actors.pictures import PictureStore, encode_jpeg
from actors.scenario import AppConfig, CaptureConfig
from actors.session import EpisodeSession, EpisodeSpec
from inference.errors import EngineError, EngineGarbled, EngineLost, EngineRefused, EngineTooSlow
from inference.messages import Completion, ImagePart, Prompt, Usage
from policies.action import Action
from policies.criteria import Outcome
from policies.effect import EffectSettings
from policies.episode import EpisodePolicy
from policies.frame import Frame
from policies.geometry import Geometry, Region
from policies.perception import compile_probes
from policies.probes import ColorProbe, HsvRange
from policies.reflex import Comparison, Condition, ReflexAction, Rule
from policies.step import EpisodeSettings, Limits, StepInput, StepOutput
from runtime.ids import DEFAULT_TENANT, EngineId, EpisodeId, PhoneId

WINDOWS = b"""WINDOW MANAGER WINDOWS (dumpsys window windows)
  Window #3 Window{1f0a2b3 u0 dev.game/.Pay}:
    mAttrs={(0,0)(fillxfill) ty=BASE_APPLICATION
      fl=LAYOUT_IN_SCREEN SECURE HARDWARE_ACCELERATED}
  mCurrentFocus=Window{1f0a2b3 u0 dev.game/.Pay}
"""


class Phone:
    """A phone of one colour that changes with every tap; it can fail on demand."""

    def __init__(self) -> None:
        self.info = DeviceInfo(PhoneId("P"), "p", "m", "1")
        self.seq = 0
        self.shade = 20
        self.black: set[int] = set()  # captures that come out black
        self.taps: list[Action] = []
        self.fail_captures: list[Exception] = []
        self.fail_acts: list[Exception] = []

    async def capture(self) -> Frame:
        at = trio.current_time()
        await trio.sleep(0.01)
        if self.fail_captures:
            raise self.fail_captures.pop(0)
        pixels = np.full((128, 72, 3), self.shade + 40 * (len(self.taps) % 6), np.uint8)
        if self.seq in self.black:
            pixels[:] = 0
        self.seq += 1
        return Frame(pixels, self.seq - 1, at, trio.current_time(), Geometry(72, 128))

    async def act(self, action: Action) -> None:
        await trio.sleep(0.01)
        if self.fail_acts:
            raise self.fail_acts.pop(0)
        self.taps.append(action)

    async def install(self, apks: Any) -> None:
        raise AssertionError("not asked")

    async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> Any:
        assert command == WINDOW_COMMAND
        return ShellResult(WINDOWS, b"", 0)

    def statistics(self) -> Any:
        raise AssertionError("not asked")


class SeqSink(ChunkSink):
    """Keeps the frames' numbers and epochs."""

    def __init__(self) -> None:
        super().__init__()
        self.seqs: list[int] = []
        self.epochs: list[int] = []

    def step(self, spec: EpisodeSpec, given: StepInput, output: StepOutput, frame: Frame | None) -> None:
        if frame is not None:
            self.seqs.append(frame.seq)
            self.epochs.append(frame.epoch)


class Model:
    """Answers taps after a while; or raises what it is told to."""

    def __init__(self, latency: float = 0.2, text: str = "T500,500;T100,100") -> None:
        self.latency, self.text = latency, text
        self.prompts: list[Prompt] = []
        self.errors: list[EngineError] = []
        self.cancelled = 0

    async def __call__(self, prompt: Prompt, *, deadline: float) -> Completion:
        self.prompts.append(prompt)
        try:
            await trio.sleep(self.latency)
        except trio.Cancelled:
            self.cancelled += 1
            raise
        if self.errors:
            raise self.errors.pop(0)
        usage = Usage(100, 10, 9)
        return Completion(self.text, "stop", usage, EngineId("e"), "rehearsal-x", "sticky", 0.0, 0.1, 0.1)


async def restart(device: Device, app: AppConfig) -> None:
    del device, app


def session_for(
    model: Any,
    *,
    seconds: float = 5.0,
    sink: ChunkSink | None = None,
    probes: Any = None,
    restart_app: Any = restart,
    custody: Custody | None = None,
    **changes: Any,
) -> EpisodeSession:
    settings = attrs.evolve(
        EpisodeSettings("win", limits=Limits(seconds=seconds), effect=EffectSettings(fail_after=1000)), **changes
    )
    spec = EpisodeSpec(
        episode=EpisodeId("run-P-0"),
        phone=PhoneId("P"),
        app_name="game",
        app=AppConfig(goal="win", package="dev.game", criteria=settings.criteria),
        seed=1,
        tenant=DEFAULT_TENANT,
        settings=settings,
        capture=CaptureConfig(every_seconds=0.1),
        plan_timeout_seconds=3.0,
    )
    return EpisodeSession(
        spec,
        policy=EpisodePolicy(settings, spec.episode),
        perception=compile_probes(probes or {}, {}),
        complete=model,
        sink=sink or ChunkSink(),
        draw=draw_from(1),
        restart_app=restart_app,
        follow_log=False,
        in_thread=False,
        custody=custody,
    )


async def test_black_frames_are_shown_to_nobody_and_counted(autojump_clock: trio.testing.MockClock) -> None:
    phone, model, sink = Phone(), Model(), SeqSink()
    phone.black = {0, 1, 2, 7, 8}
    session = session_for(model, sink=sink)
    await session.play(phone)

    assert model.prompts
    assert session.statistics.bad_frames == {"black": 5}
    assert not phone.black & set(sink.seqs)
    assert {3, 4, 5, 6, 9} <= set(sink.seqs)


async def test_a_protected_screen_asks_no_model_and_ends_in_time(autojump_clock: trio.testing.MockClock) -> None:
    phone, model = Phone(), Model()
    phone.black = set(range(1000))
    session = session_for(model)
    end = await session.play(phone)

    assert model.prompts == []
    assert end.outcome is not Outcome.CANCELLED
    assert session.statistics.bad_frames["black"] > 20
    assert session.statistics.black_cause == PROTECTED


async def test_plans_are_asked_for_executed_and_routed_to_one_engine(autojump_clock: trio.testing.MockClock) -> None:
    phone, model = Phone(), Model()
    session = session_for(model)

    end = await session.play(phone)

    assert end.outcome is Outcome.SUCCEEDED
    assert len(phone.taps) >= 8
    assert {prompt.routing_key for prompt in model.prompts} == {"run-P-0"}
    assert len({prompt.request_id for prompt in model.prompts}) == len(model.prompts)
    assert session.statistics.models == {"rehearsal-x"}
    assert len(session.statistics.plan_latencies) == session.policy.tally.plans_completed


async def test_the_previous_frame_is_the_very_picture_of_the_step_before(
    autojump_clock: trio.testing.MockClock,
) -> None:
    model = Model()

    await session_for(model).play(Phone())

    shown = [
        [part.sha256 for message in prompt.messages for part in message.parts if isinstance(part, ImagePart)]
        for prompt in model.prompts
    ]
    assert len(shown[0]) == 1
    assert all(len(pictures) == 2 for pictures in shown[1:])
    assert all(later[0] == earlier[-1] for earlier, later in itertools.pairwise(shown))


async def test_a_lost_phone_is_told_and_the_same_episode_plays_on(autojump_clock: trio.testing.MockClock) -> None:
    phone, model, sink = Phone(), Model(latency=1.0), SeqSink()
    session = session_for(model, seconds=10.0, sink=sink)

    async def lose() -> None:
        await trio.sleep(3.0)
        phone.fail_captures = [DeviceLost("gone", phone="P")]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lose)
        with pytest.raises(DeviceLost, match="gone"):
            await session.play(phone)
    steps = session.policy.tally.steps
    phone.seq = 0  # a new connection counts its frames anew
    end = await session.play(phone)

    assert end.outcome is Outcome.SUCCEEDED
    assert session.policy.tally.steps > steps
    seqs = sink.seqs
    assert all(later > earlier for earlier, later in pairwise(seqs)), "no frame of before is taken for one of after"
    assert sorted(set(sink.epochs)) == [0, 1], "and the screen may have changed meanwhile"


async def test_bad_pictures_are_tried_again_but_not_for_ever(autojump_clock: trio.testing.MockClock) -> None:
    phone = Phone()
    phone.fail_captures = [CaptureFailed("cut short")] * 3
    session = session_for(Model())

    await session.play(phone)

    assert session.statistics.captures_failed == 3
    phone.fail_captures = [CaptureFailed("cut short")] * 5
    with pytest.raises(DeviceLost, match="5 captures in a row failed: cut short"):
        await session_for(Model()).play(phone)


async def test_a_refused_action_is_counted_and_the_episode_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    phone = Phone()
    phone.fail_acts = [ActionRefused("off the screen")]
    session = session_for(Model())

    await session.play(phone)

    assert session.policy.tally.act_errors == 1
    assert len(phone.taps) > 3


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (EngineTooSlow("late"), "late"),
        (EngineRefused("no"), "refused"),
        (EngineGarbled("what"), "garbled"),
        (EngineLost("gone"), "engine"),
    ],
)
async def test_a_failed_plan_is_counted_by_whose_fault_it_was(
    error: EngineError, kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    model = Model()
    model.errors = [error]
    session = session_for(model)

    await session.play(Phone())

    assert session.policy.tally.plans_failed == 1
    assert session.policy.tally.plans_completed > 2


async def test_a_stop_ends_the_episode_and_the_request_under_way(autojump_clock: trio.testing.MockClock) -> None:
    model = Model(latency=100.0)
    session = session_for(model, seconds=1000.0)

    async with trio.open_nursery() as nursery:

        async def stop() -> None:
            await trio.sleep(1.0)
            session.stop("the run was stopped")

        nursery.start_soon(stop)
        end = await session.play(Phone())

    assert end.outcome is Outcome.CANCELLED
    assert model.cancelled == 1


async def test_a_thousand_cycles_leave_no_task_behind(autojump_clock: trio.testing.MockClock) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    session = session_for(Model(latency=0.05), seconds=110.0)

    await session.play(Phone())

    assert len(session.statistics.capture_latencies) > 1000
    assert trio.lowlevel.current_statistics().tasks_living == before


def test_equal_pixels_give_equal_bytes_and_large_ones_are_reduced() -> None:
    pixels = np.random.default_rng(1).integers(0, 255, (1280, 720, 3), dtype=np.uint8)

    first, second = (encode_jpeg(pixels.copy(), max_side=640, quality=80) for _ in range(2))

    assert first == second
    assert (first.width, first.height) == (360, 640)


async def test_a_frame_is_encoded_once_and_kept_as_long_as_prompts_name_it() -> None:
    store = PictureStore(max_side=100, quality=80)
    frames = [Frame(np.full((20, 10, 3), n, np.uint8), n, 0.0, 0.0, Geometry(10, 20)) for n in range(3)]

    parts = [await store.encode(frame) for frame in frames]
    store.keep_only((1, 2))

    assert await store.encode(frames[2]) is parts[2]
    assert set(store.held()) == {1, 2}


async def test_the_previous_picture_outlives_any_number_of_aborted_requests(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A reflex that fires again and again voids one request after the other."""
    rule = Rule(
        "poke", (Condition("any", Comparison.MISS),), ReflexAction(tap=Region(0, 0, 100, 100)), cooldown_seconds=0.5
    )
    probe = ColorProbe(Region(0, 0, 10, 10), HsvRange((0, 0, 0), (0, 0, 0)), hit_at=2.0)

    class Slow(Model):
        async def __call__(self, prompt: Prompt, *, deadline: float) -> Completion:
            self.latency = 0.1 if len(self.prompts) in {0, 30} else 2.0
            return await super().__call__(prompt, deadline=deadline)

    model = Slow()
    session = session_for(model, seconds=20.0, rules=(rule,), probes={"any": probe})

    await session.play(Phone())

    assert session.policy.tally.plans_aborted > 20
    assert all(len([p for p in m.messages[1].parts if isinstance(p, ImagePart)]) == 2 for m in model.prompts[2:])


class Deaf(Phone):
    """A phone on which nothing that is done changes anything; it knows when it was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.captured_at: list[float] = []

    async def capture(self) -> Frame:
        frame = await super().capture()
        self.captured_at.append(frame.requested_at)
        return frame

    async def act(self, action: Action) -> None:
        await trio.sleep(0.01)


async def test_nobody_looks_at_the_screen_while_the_app_is_restarted(autojump_clock: trio.testing.MockClock) -> None:
    phone, sink = Deaf(), SeqSink()
    restarts: list[tuple[float, float]] = []

    async def log_in_again(device: Device, app: AppConfig) -> None:
        assert (device, app) == (phone, session.spec.app)
        began_at = trio.current_time()
        await trio.sleep(1.5)
        restarts.append((began_at, trio.current_time()))

    effect = EffectSettings(replan_after=1, back_after=2, restart_after=3, fail_after=1000)
    session = session_for(Model(), sink=sink, restart_app=log_in_again, effect=effect)
    await session.play(phone)

    ((began_at, ended_at),) = restarts
    assert [at for at in phone.captured_at if began_at < at < ended_at] == []
    assert sum(at > ended_at for at in phone.captured_at) > 5, "the episode goes on"
    assert len(sink.seqs) >= len(phone.captured_at) - 2
