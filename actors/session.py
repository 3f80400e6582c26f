"""One episode on one phone: capture, step, plan, act and read at the same time, until the policy ends it.

A session outlives the phone's connection: after `DeviceLost` it can be played on with a new device, and the policy is
told that the phone was away.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

import attrs
import trio

from actors.app_health import AppFault
from actors.black_cause import black_cause
from actors.custody import Custody
from actors.devices.base import CaptureFailed, Device, DeviceError, DeviceLost
from actors.live_log import LiveLog
from actors.logcat import LogcatLine
from actors.pictures import PictureStore
from actors.readings import Readings, tasks_for
from actors.scenario import AppConfig, BotKind, CaptureConfig, ProbeReading
from actors.slow_probes import SlowProbes, SlowReader
from inference.errors import EngineError, EngineGarbled, EngineRefused, EngineTooSlow
from inference.messages import Complete, Completion, ImagePart
from policies.frame import Frame, Pixels
from policies.outlook import Outlook
from policies.perception import Percept, Perception, perceive, with_slow
from policies.planner import PlanFailed, PlanFailureKind, PlanReply, PlanRequest, fill, frames_of
from policies.step import ActResult, Command, EpisodeEnd, EpisodeSettings, StepInput, StepOutput
from policies.tally import Tally
from policies.verdict import FrameJudge, Verdict
from runtime.ids import EpisodeId, PhoneId, TenantId
from runtime.mailbox import Mailbox, Overflow
from runtime.secret import redact
from runtime.telemetry import counter, emit

LATENCIES_KEPT = 10_000  # the latest of each kind: half an hour of captures, and no growth in weeks
CAPTURE_RETRIES = 5  # bad pictures in a row before the phone counts as lost: a broken screencap does not mend itself
CAPTURE_RETRY_SECONDS = 0.2
NEEDS_HUMAN = counter(
    "actors_needs_human_episodes_total", "Times that an episode, or the way into one, waited for a person.", ["where"]
)
EXPLAIN_BLACK_AFTER = 3  # black frames in a row: a fade takes one or two
_BAD_FRAMES = counter("actors_bad_frames_total", "Frames that were black, all or in part.", ["verdict"])
IDLE_STEP_SECONDS = 1.0  # an episode's limits are looked at this often even if its phone says nothing


class Policy(Protocol):
    """What decides: `EpisodePolicy`, or a baseline."""

    tally: Tally
    score: float | None
    goal_reached: bool

    @property
    def paused(self) -> str | None:
        """Why a person is needed; None while the episode's clock runs."""
        ...

    @property
    def outlook(self) -> Outlook:
        """What is planned now, for people who look on."""
        ...

    @property
    def due_at(self) -> float:
        """When the policy wants to be asked again even if nothing happens; infinity if it does not."""
        ...

    def step(self, given: StepInput) -> StepOutput:
        """Decide what to do now."""
        ...


@attrs.frozen
class EpisodeSpec:
    """Which episode to play, and by what."""

    episode: EpisodeId
    phone: PhoneId
    app_name: str
    app: AppConfig
    seed: int
    tenant: TenantId
    settings: EpisodeSettings
    capture: CaptureConfig
    plan_timeout_seconds: float
    bot: BotKind = BotKind.PLANNED


class StepSink(Protocol):
    """Takes what happened; never waits, and never slows a phone down."""

    def step(self, spec: EpisodeSpec, given: StepInput, output: StepOutput, frame: Frame | None) -> None:
        """One decided step, and the frame that it was decided on if a new one had come."""
        ...

    def prompt(self, spec: EpisodeSpec, request: PlanRequest, pictures: PictureStore) -> None:
        """A request was sent with these pictures."""
        ...


@attrs.define
class SessionStatistics:
    """One episode as it is now; times in seconds."""

    last_action: str = ""
    last_why: str = ""
    capture_seconds: float | None = None
    plan_seconds: float | None = None
    captures_failed: int = 0
    bad_frames: dict[str, int] = attrs.field(factory=dict)
    black_cause: str | None = None
    """Why they were black, where the phone told."""
    """By verdict: frames that were black, all or in part, and that nothing was decided on."""
    capture_latencies: deque[float] = attrs.field(factory=lambda: deque(maxlen=LATENCIES_KEPT))
    plan_latencies: deque[float] = attrs.field(factory=lambda: deque(maxlen=LATENCIES_KEPT))
    act_latencies: deque[float] = attrs.field(factory=lambda: deque(maxlen=LATENCIES_KEPT))
    engines: set[str] = attrs.field(factory=set)
    models: set[str] = attrs.field(factory=set)
    last_percept: Percept | None = None


class EpisodeSession:
    """Plays one episode.

    Args:
        spec: Which.
        policy: What decides.
        perception: The app's compiled probes.
        complete: The engine door; None when no model is asked.
        sink: Where steps go.
        draw: The episode's chance, one number in [0, 1) a step.
        restart_app: Stops and starts the app on a device, its way through a login included. No capture is taken
            meanwhile: what such a flow sees is not recorded and not shown to a model.
        follow_log: False leaves logcat and the windows alone, so that neither crashes nor other apps in front are seen.
        slow: Readers of the app's slow probes, by name.
        in_thread: False encodes pictures in the session's own task (see `PictureStore`).
        encoder: Makes a frame's picture for prompts, if not `encode_jpeg`.
        custody: Who may keep the bot from playing; shared by all episodes of a phone.
    """

    def __init__(
        self,
        spec: EpisodeSpec,
        *,
        policy: Policy,
        perception: Perception,
        complete: Complete | None,
        sink: StepSink,
        draw: Callable[[], float],
        restart_app: "RestartApp",
        in_thread: bool = True,
        follow_log: bool = True,
        slow: Mapping[str, SlowReader] | None = None,
        encoder: Callable[[Pixels], ImagePart] | None = None,
        custody: Custody | None = None,
    ) -> None:
        self.spec = spec
        self.policy = policy
        self.statistics = SessionStatistics()
        self.live = LiveLog()
        self.newest: Frame | None = None
        """The last picture that was taken, for people who look on."""
        self.end: EpisodeEnd | None = None
        self._perception = perception
        self._complete = complete
        self._sink = sink
        self._draw = draw
        self._restart_app = restart_app
        self._follow_log = follow_log
        self._custody = custody or Custody()
        profile = spec.settings.profile
        self._pictures = PictureStore(
            max_side=profile.max_side,
            quality=profile.jpeg_quality,
            in_thread=in_thread,
            encoder=encoder,
        )
        self._frames = Mailbox[Frame](1, Overflow.DROP_OLDEST)
        self._slow = SlowProbes(slow or {})
        self._judge = FrameJudge()
        self._bad_frames_in_a_row = 0
        self._readings = Readings()
        self._results: list[ActResult] = []
        self._plan: PlanReply | PlanFailed | None = None
        self._plan_scope: trio.CancelScope | None = None
        self._act_scope: trio.CancelScope | None = None
        self._broken_off: ActResult | None = None
        self._wake = trio.Event()
        self._failure: DeviceLost | None = None
        self._step = 0
        self._seq_base = self._next_seq = 0
        self._epoch_base = self._next_epoch = 0
        self._lost = False
        self._stop: str | None = None
        self._resumed = False
        self._shown_pause: str | None = None
        self._screen_free = trio.Event()
        self._screen_free.set()

    @property
    def faults(self) -> tuple[AppFault, ...]:
        """What went wrong with the app so far."""
        return self._readings.all_faults()

    def resume(self) -> None:
        """A person says that a paused episode goes on."""
        self._resumed = True
        self._wake.set()

    @property
    def log(self) -> tuple[LogcatLine, ...]:
        """The last lines of the phone's log, where it is followed. Not redacted."""
        return tuple(self._readings.log)

    def yield_now(self) -> None:
        """The custody has changed: the policy is told at once, and a hold breaks off what is being done.

        A cancelled gesture still lifts its finger, and a restart of the app stops where it is.
        """
        if self._act_scope is not None and self._custody.held(trio.current_time()) is not None:
            self._act_scope.cancel()
        self._wake.set()

    def stop(self, reason: str) -> None:
        """End the episode at its next step, as cancelled."""
        self._stop = reason
        self._wake.set()

    async def play(self, device: Device) -> EpisodeEnd:
        """Play until the policy ends the episode.

        Raises:
            DeviceLost: the phone went away; call again with a new device to play on.
        """
        self._failure = None
        self._screen_free.set()  # a restart that was cut off by a lost phone
        self._frames = Mailbox[Frame](1, Overflow.DROP_OLDEST)
        self._seq_base, self._epoch_base = self._next_seq, self._next_epoch
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_captures, device)
            nursery.start_soon(self._slow.run)
            app = self.spec.app
            package = app.package if self._follow_log else None
            for task in tasks_for(
                device, self._readings, app.score, app.goal_reached, package=package, health=app.health
            ):
                nursery.start_soon(self._guarded, task)
            try:
                self.end = await self._run_steps(device, nursery)
            finally:
                self._lost = True  # whoever plays on starts with an empty plan
                self._plan = None
                self._plan_scope = self._act_scope = None
                self._results = []
                self._broken_off = self.newest = None
                nursery.cancel_scope.cancel()
        if self.end is None:
            assert self._failure is not None
            raise self._failure
        return self.end

    # --- tasks beside the step loop; what fails in them is told to the loop, which alone leaves

    async def _guarded(self, task: Callable[[], object]) -> None:
        try:
            await task()  # type: ignore[misc]
        except DeviceLost as error:
            self._fail(error)
        except DeviceError as error:
            emit("actors.reading.failed", level="warning", error=str(error))

    def _fail(self, error: DeviceLost) -> None:
        self._failure = self._failure or error
        self._wake.set()

    async def _run_captures(self, device: Device) -> None:
        bad_in_a_row = 0
        due = trio.current_time()
        while True:
            await self._screen_free.wait()
            screen_free = self._screen_free
            try:
                frame = await device.capture()
            except CaptureFailed as error:
                bad_in_a_row += 1
                self.statistics.captures_failed += 1
                emit("actors.capture.failed", level="warning", error=str(error), in_a_row=bad_in_a_row)
                if bad_in_a_row >= CAPTURE_RETRIES:
                    self._fail(DeviceLost(f"{bad_in_a_row} captures in a row failed: {error}", phone=self.spec.phone))
                    return
                await trio.sleep(CAPTURE_RETRY_SECONDS)
                continue
            except DeviceLost as error:
                self._fail(error)
                return
            bad_in_a_row = 0
            frame = self._numbered(frame)
            if screen_free is not self._screen_free:
                continue  # a restart began while it was taken: nobody knows what it shows
            if not self._is_picture(frame):
                await self._explain_black(device)
                due = max(due + self.spec.capture.every_seconds, trio.current_time())
                await trio.sleep_until(due)
                continue
            seconds = frame.received_at - frame.requested_at
            self.statistics.capture_seconds = seconds
            self.statistics.capture_latencies.append(seconds)
            self.newest = frame
            self._frames.put_nowait(frame)
            self._slow.offer(frame)
            self._wake.set()
            # on a grid, so that the pace is what was asked for; a grid that was missed starts anew
            due = max(due + self.spec.capture.every_seconds, trio.current_time())
            await trio.sleep_until(due)

    def _is_picture(self, frame: Frame) -> bool:
        """False for a frame that shows nothing to decide on: nobody sees it, least of all a model; it is counted."""
        verdict = self._judge.judge(frame.pixels)
        if verdict is Verdict.GOOD:
            self._bad_frames_in_a_row = 0
            return True
        bad = self.statistics.bad_frames
        bad[verdict.value] = bad.get(verdict.value, 0) + 1
        _BAD_FRAMES.labels(verdict.value).inc()
        if self._bad_frames_in_a_row == 0:
            emit("actors.frame.bad", level="warning", verdict=verdict.value, source=frame.source, seq=frame.seq)
        self._bad_frames_in_a_row += 1
        return False

    async def _explain_black(self, device: Device) -> None:
        """Ask the phone once a black spell why; a single black frame is a loading screen."""
        if self._bad_frames_in_a_row != EXPLAIN_BLACK_AFTER:
            return
        cause = await black_cause(device)
        if cause is not None:
            self.statistics.black_cause = cause
            emit("actors.frame.explained", level="warning", cause=cause)

    def _numbered(self, frame: Frame) -> Frame:
        """Each connection counts its frames and epochs from 0; the episode counts on."""
        numbered = attrs.evolve(frame, seq=self._seq_base + frame.seq, epoch=self._epoch_base + frame.epoch)
        self._next_seq, self._next_epoch = numbered.seq + 1, numbered.epoch + 1
        return numbered

    async def _act(self, device: Device, command: Command, scope: trio.CancelScope) -> None:
        """Do it, and tell the loop what became of it."""
        sent_at = trio.current_time()
        error: str | None = None
        is_done = False
        try:
            with scope:
                await (self._restart(device) if command.action is None else device.act(command.action))
                is_done = True
        except DeviceLost as lost:
            self._fail(lost)
            return
        except DeviceError as failed:
            error = str(failed)
        if not is_done and error is None:
            self.live.stopped(command.token)
            self._broken_off = ActResult(command.token, sent_at, trio.current_time(), "broken off")
            self._wake.set()
            return
        done_at = trio.current_time()
        self.statistics.act_latencies.append(done_at - sent_at)
        self._results.append(ActResult(command.token, sent_at, done_at, error))
        self._wake.set()

    async def _restart(self, device: Device) -> None:
        self._screen_free = trio.Event()
        try:
            await self._restart_app(device, self.spec.app)
        finally:
            self._screen_free.set()

    async def _ask(self, request: PlanRequest, frame: Frame) -> None:
        assert self._complete is not None
        asked_at = trio.current_time()
        deadline = asked_at + self.spec.plan_timeout_seconds
        plan: PlanReply | PlanFailed | None = None
        with trio.CancelScope() as scope:
            self._plan_scope = scope
            try:
                await self._pictures.encode(frame)
                self._pictures.keep_only(frames_of(request.turns))
                held = self._pictures.held()
                self._sink.prompt(self.spec, request, self._pictures)
                prompt = fill(
                    request, held, self.spec.settings.profile, tenant=self.spec.tenant, routing_key=self.spec.episode
                )
                completion = await self._complete(prompt, deadline=deadline)
            except EngineError as error:
                plan = PlanFailed(request.request_id, failure_kind(error), redact(str(error)))
            else:
                plan = reply_for(request, completion)
                self.statistics.engines.add(completion.engine)
                self.statistics.models.add(completion.model)
        if plan is None or self._plan_scope is not scope:
            return  # it was aborted: a later request's answer must not be overwritten
        self._plan = plan
        self.statistics.plan_seconds = trio.current_time() - asked_at
        self.statistics.plan_latencies.append(self.statistics.plan_seconds)
        self._wake.set()

    # --- the loop

    async def _run_steps(self, device: Device, nursery: trio.Nursery) -> EpisodeEnd | None:
        newest: Frame | None = None
        while True:
            await self._wait_for_news()
            if self._failure is not None and self._stop is None:
                return None
            frame = self._newest_frame()
            newest = frame or newest
            given = self._step_input(frame)
            output = self.policy.step(given)
            self._lost = False
            self._sink.step(self.spec, given, output, frame)
            self._show(given, output, newest)
            self._show_pause()
            if output.abort is not None and self._plan_scope is not None:
                self._plan_scope.cancel()
                self._plan_scope = None
            if output.end is not None:
                return output.end
            if output.command is not None:
                self.statistics.last_action = shown(output.command)
                self.statistics.last_why = output.command.why
                self._act_scope = trio.CancelScope()
                nursery.start_soon(self._act, device, output.command, self._act_scope)
            if output.request is not None:
                assert newest is not None
                nursery.start_soon(self._ask, output.request, newest)

    def _show(self, given: StepInput, output: StepOutput, newest: Frame | None) -> None:
        doing = None if output.command is None else self.policy.outlook.doing
        self.live.stepped(given, output, seq=None if doing is None else doing.seq, frame=newest)

    def _show_pause(self) -> None:
        paused, shown_pause = self.policy.paused, self._shown_pause
        self._shown_pause = paused
        if paused is not None and shown_pause is None:
            NEEDS_HUMAN.labels("episode").inc()
            emit("actors.human.needed", level="warning", where="episode", why=paused)
        elif paused is None and shown_pause is not None:
            emit("actors.human.resumed", where="episode")

    async def _wait_for_news(self) -> None:
        """Until a frame, a result, a plan or a stop has come, or the policy is due."""
        now = trio.current_time()
        with trio.move_on_at(min(self.policy.due_at, now + IDLE_STEP_SECONDS)):
            await self._wake.wait()
        self._wake = trio.Event()

    def _newest_frame(self) -> Frame | None:
        try:
            return self._frames.get_nowait()
        except trio.WouldBlock:
            return None

    def _step_input(self, frame: Frame | None) -> StepInput:
        percept = perceive(self._perception, frame) if frame is not None else None
        if percept is not None:
            percept = with_slow(percept, self._slow.latest(percept))
            self.statistics.last_percept = percept
            self._take_probes(percept)
        score, goal_reached, crashes = self._readings.take()
        results, self._results = tuple(self._results), []
        plan, self._plan = self._plan, None
        step, self._step = self._step, self._step + 1
        resumed, self._resumed = self._resumed, False
        held = self._custody.held(trio.current_time())
        broken_off, self._broken_off = self._broken_off, None
        if broken_off is not None and held is None:
            results = (*results, broken_off)  # whoever held it let it go before the policy heard of it
        return StepInput(
            step=step,
            now=trio.current_time(),
            percept=percept,
            results=results,
            plan=plan,
            score=score,
            goal_reached=goal_reached,
            crashes=crashes,
            draw=self._draw(),
            lost=self._lost,
            stop=self._stop,
            resumed=resumed,
            held=held,
        )

    def _take_probes(self, percept: Percept) -> None:
        app = self.spec.app
        if isinstance(app.score, ProbeReading):
            reading = percept.readings.get(app.score.probe)
            if reading is not None and reading.value == reading.value:  # nan: no number was seen
                self._readings.score = reading.value
        if isinstance(app.goal_reached, ProbeReading):
            reading = percept.readings.get(app.goal_reached.probe)
            if reading is not None and reading.hit:
                self._readings.goal_reached = True


class RestartApp(Protocol):
    """Stops an app on a device and starts it afresh. Raises `DeviceError`."""

    async def __call__(self, device: Device, app: AppConfig) -> None:
        """Restart it."""
        ...


def failure_kind(error: EngineError) -> PlanFailureKind:
    """Whose fault a failed plan was."""
    match error:
        case EngineTooSlow():
            return PlanFailureKind.LATE
        case EngineRefused():
            return PlanFailureKind.REFUSED
        case EngineGarbled():
            return PlanFailureKind.GARBLED
        case _:
            return PlanFailureKind.ENGINE


def reply_for(request: PlanRequest, completion: Completion) -> PlanReply:
    """A completion as the policy reads it. A secret that the model read off the screen goes no further than here."""
    return PlanReply(
        request_id=request.request_id,
        text=redact(completion.text),
        cut=completion.finish_reason == "length",
        output_tokens=completion.usage.output_tokens,
        cached_tokens=completion.usage.cached_tokens,
        prompt_tokens=completion.usage.prompt_tokens,
        queue_seconds=completion.queue_seconds,
        prefill_seconds=completion.prefill_seconds,
        decode_seconds=completion.decode_seconds,
        engine=completion.engine,
        model=completion.model,
        why=completion.why,
    )


def shown(command: Command) -> str:
    """A command in a few characters, for a table."""
    if command.action is None:
        return "restart app"
    name = type(command.action).__name__.lower()
    values = attrs.astuple(command.action, recurse=False)
    return f"{name} {','.join(str(v) for v in values[:4])}"
