"""One episode's decisions: `EpisodePolicy.step` calls the other modules in order and keeps what they must remember."""

import attrs

from inference.messages import TextPart
from policies import effect, overlap, planner, staleness
from policies.action import Action, Finish, Key, KeyName, LongPress, PlannedAction, Tap, Text, Wait
from policies.criteria import EpisodeFacts, Outcome, judge
from policies.effect import Effect, PendingEffect, Recovery
from policies.geometry import Geometry
from policies.grammar import ReplyFailure
from policies.history import History
from policies.human import HumanWatch, expired_reason
from policies.ledger import PlannedFrames
from policies.perception import Percept
from policies.planner import PlanFailed, PlanFailureKind, PlanReply, PlanRequest
from policies.reflex import ReflexMemory, react
from policies.reply import parse_reply
from policies.staleness import Stale
from policies.step import Command, CommandKind, EpisodeEnd, EpisodeSettings, Note, StepInput, StepOutput
from policies.tally import Tally
from runtime.ids import EpisodeId

RETRY_JITTER_SHARE = 0.012  # of the short side: 8 pixels of 720, beside a dead pixel but still on the button
RETRY_PLAN_SECONDS = 1.0  # a broken engine is asked again at this pace, not at that of frames
LEAST_STEP_SECONDS = 0.05  # a due action that still waits (for a fresh frame, say) is looked at again at this pace

_REMARKS = {
    Stale.AGE: "not done: too old",
    Stale.TARGET: "not done: the screen had changed",
    Stale.GEOMETRY: "not done: the screen was turned",
    Stale.REFLEX: "not done: a reflex came first",
}


@attrs.define
class _Work:
    """What the present step has decided so far."""

    command: Command | None = None
    request: PlanRequest | None = None
    abort: str | None = None
    notes: list[Note] = attrs.field(factory=list)

    def note(self, event: str, **fields: str | float | bool | None) -> None:
        self.notes.append(Note(event, fields))


@attrs.frozen
class _Out:
    """The command that the phone is doing."""

    command: Command
    planned: PlannedAction | None
    before: Percept


class EpisodePolicy:
    """Decides one episode. Deterministic: equal settings and equal inputs give equal outputs."""

    def __init__(self, settings: EpisodeSettings, episode: EpisodeId) -> None:
        self.settings = settings
        self.episode = episode
        self.tally = Tally()
        self.score: float | None = None
        self.goal_reached = False
        self._crashes = 0
        self._started_at: float | None = None
        self._last_now = 0.0
        self._human = HumanWatch(settings.human)
        self._percept: Percept | None = None
        self._memory = ReflexMemory()
        self._reflex_epoch = 0
        self._queue: tuple[PlannedAction, ...] = ()
        self._next_seq = 0
        self._last_sent_seq = -1
        self._request: PlanRequest | None = None
        self._requests = 0
        self._executed: list[PlannedAction] = []  # sent since the request that is out was asked for
        self._frames = PlannedFrames()
        self._history = History(settings.profile)
        self._latencies: list[float] = []
        self._ask_not_before = 0.0
        self._ask_why: str | None = None
        self._note_to_model = ""
        self._out: _Out | None = None
        self._tokens = 0
        self._busy_until = 0.0
        self._effects: list[PendingEffect] = []
        self._no_effect_in_a_row = 0
        self._recovery: tuple[Recovery, PendingEffect] | None = None
        self._broken_frame: int | None = None  # a stale action broke the chain of the plan made on this frame
        self._finish: Finish | None = None
        self._stuck = False

    @property
    def paused(self) -> str | None:
        """Why a person is needed; None while the episode's clock runs."""
        return self._human.paused

    @property
    def due_at(self) -> float:
        """When the policy wants to be asked again even if nothing happens; infinity if it does not."""
        if self._human.paused is not None:
            return self._human.due_at
        if self._out is not None or self._percept is None:
            return float("inf")
        if self._queue:
            return max(self._busy_until, self._last_now + LEAST_STEP_SECONDS)
        if self._request is None and self.settings.planner:
            return max(self._ask_not_before, self._busy_until, self._last_now + LEAST_STEP_SECONDS)
        return float("inf")

    def step(self, given: StepInput) -> StepOutput:
        """Decide what to do now."""
        work = _Work()
        self._advance_clock(given.now)
        self._take_readings(given)
        self._take_results(given, work)
        if given.lost:
            self._out = None
            self._void_all(work, "lost")
        if self._wait_for_human(given, work):
            end = self._end_while_paused(given)
            return StepOutput(abort=work.abort, notes=tuple(work.notes), end=end)
        if given.percept is not None:
            self.tally.steps += 1
            self._observe(given.percept, given.now, work)
        self._take_plan(given, work)
        end = self._end_for(given)
        if end is not None:
            self._void_all(work, "ended")
            return StepOutput(abort=work.abort, notes=tuple(work.notes), end=end)
        if self._out is None and self._percept is not None:
            if given.percept is not None:
                self._react(given.percept, given.now, work)
            if work.command is None and self._recovery is not None:
                self._recover(given, work)
            if work.command is None:
                self._execute(given.now, work)
        if self.settings.planner and self._percept is not None:
            self._ask(self._percept, given.now, work)
        self._forget_frames()
        return StepOutput(work.command, work.request, work.abort, tuple(work.notes))

    # --- what has happened

    def _advance_clock(self, now: float) -> None:
        if self._started_at is None:
            self._started_at = self._last_now = now
            return
        if self._human.paused is not None:
            self.tally.paused_seconds += now - self._last_now
            self._last_now = now
            return
        self.tally.active_seconds += now - self._last_now
        if self._out is None and not self._queue and self._request is not None:
            self.tally.stall_seconds += max(0.0, now - max(self._last_now, self._busy_until))
        self._last_now = now

    def _wait_for_human(self, given: StepInput, work: _Work) -> bool:
        """True while a person is needed: then nothing is planned, done or judged."""
        was_paused = self._human.paused is not None
        self._human.step(given.percept, given.now, resumed=given.resumed)
        if self._human.paused is None:
            if was_paused:
                work.note("policies.human.resumed", by="command" if given.resumed else "screen")
            return False
        if given.percept is not None:
            self._percept = given.percept
        if not was_paused:
            self.tally.pauses += 1
            work.note("policies.human.needed", why=self._human.paused)
            self._take_plan(given, work)  # one that came just now is counted, not aborted
            self._void_all(work, "needs_human")
            self._memory = ReflexMemory(self._memory.fired_at)
        # what was done just before the pause cannot be judged by screens that a person changes
        for pending in self._effects:
            self._history.close_action(pending.planned.seq, "not judged: a person was needed")
        self._effects, self._recovery = [], None
        return True

    def _end_while_paused(self, given: StepInput) -> EpisodeEnd | None:
        if given.stop is not None:
            return EpisodeEnd(Outcome.CANCELLED, given.stop)
        if self._human.is_expired(given.now):
            return EpisodeEnd(Outcome.FAILED, expired_reason(self._human))
        return None

    def _take_readings(self, given: StepInput) -> None:
        if given.score is not None:
            self.score = given.score
        self.goal_reached = self.goal_reached or given.goal_reached
        self._crashes = given.crashes

    def _take_results(self, given: StepInput, work: _Work) -> None:
        for result in given.results:
            out = self._out
            if out is None or result.token != out.command.token:
                continue  # a command from before the phone was lost
            self._out = None
            if result.error is not None:
                self.tally.act_errors += 1
                work.note("policies.action.failed", token=result.token, error=result.error)
            planned = out.planned
            if planned is None:
                continue
            if result.error is not None:
                self._history.close_action(planned.seq, "failed")
                continue
            self._effects.append(
                PendingEffect(
                    planned,
                    out.before.thumbnail,
                    result.done_at,
                    dispatch_seconds=result.done_at - result.sent_at,
                    retried=out.command.kind is CommandKind.RETRY,
                )
            )

    def _observe(self, percept: Percept, now: float, work: _Work) -> None:
        if self._percept is not None and percept.epoch != self._percept.epoch:
            work.note("policies.geometry.changed", width=percept.width, height=percept.height)
        self._percept = percept
        waiting: list[PendingEffect] = []
        for pending in self._effects:
            verdict = effect.observe(pending, percept, now, self.settings.effect)
            if verdict is Effect.PENDING:
                waiting.append(pending)
            else:
                work.note("policies.action.settled", **self._frames.ledger_for(pending, verdict, percept))
                self._settle(pending, verdict, work)
        self._effects = waiting

    def _settle(self, pending: PendingEffect, verdict: Effect, work: _Work) -> None:
        planned = pending.planned
        if verdict is Effect.SEEN:
            self.tally.effects_seen += 1
            self._no_effect_in_a_row = 0
            self._recovery = None
            self._history.close_action(planned.seq, "done")
            return
        self.tally.no_effect += 1
        self._no_effect_in_a_row += 1
        self._history.close_action(planned.seq, "no effect")
        self._note_to_model = f"{self._described((planned,))} had no effect"
        is_latest = planned.seq == self._last_sent_seq and self._out is None
        rung = effect.recovery_for(
            self._no_effect_in_a_row, pending, is_latest=is_latest, settings=self.settings.effect
        )
        self._recovery = (rung, pending)
        if rung is Recovery.FAIL:
            self._stuck = True
        work.note("policies.action.had_no_effect", seq=planned.seq, in_a_row=self._no_effect_in_a_row, then=rung.value)

    def _take_plan(self, given: StepInput, work: _Work) -> None:
        plan, request = given.plan, self._request
        if plan is None or request is None or plan.request_id != request.request_id:
            return  # none, or one that was aborted
        self._request = None
        executed, self._executed = self._executed, []
        if isinstance(plan, PlanFailed):
            self._plan_failed(plan, given.now, work)
            return
        latency = given.now - request.asked_at
        self._latencies = [*self._latencies, latency][-overlap.LATENCY_WINDOW :]
        self.tally.output_tokens += plan.output_tokens
        self.tally.prompt_tokens += plan.prompt_tokens
        self.tally.cached_tokens += plan.cached_tokens
        reply = parse_reply(plan.text, self.settings.profile, cut=plan.cut)
        if isinstance(reply, ReplyFailure):
            message = f"{reply.reason}: {reply.text!r}"
            self._plan_failed(PlanFailed(plan.request_id, PlanFailureKind.GARBLED, message), given.now, work)
            return
        self.tally.plans_completed += 1
        self.tally.thinking_characters += len(reply.thinking)
        placed = planner.place(reply, request, self.settings.profile)
        if placed.off_screen:
            self.tally.off_screen += placed.off_screen
            self._note_to_model = "an action pointed off the screen and was not done"
            work.note("policies.plan.off_screen", request_id=request.request_id, dropped=placed.off_screen)
        self._join(plan, request, placed, executed, work)
        self._finish = placed.finish
        work.note(
            "policies.plan.joined",
            request_id=request.request_id,
            why=request.why,
            actions=len(placed.actions),
            latency_seconds=latency,
            output_tokens=plan.output_tokens,
            prompt_tokens=plan.prompt_tokens,
            cached_tokens=plan.cached_tokens,
            engine=plan.engine,
            text=plan.text[:120],
        )

    def _join(
        self,
        plan: PlanReply,
        request: PlanRequest,
        placed: planner.Placed,
        executed: list[PlannedAction],
        work: _Work,
    ) -> None:
        joined = overlap.join(
            self._queue,
            placed.actions,
            executed,
            base_seq=request.base_seq,
            short_side=min(request.current.width, request.current.height),
            settings=self.settings.overlap,
        )
        if joined.late:
            self.tally.late += joined.late
            work.note("policies.plan.late", request_id=request.request_id, late=joined.late, diverged=joined.diverged)
        for planned in self._queue:
            if planned.seq >= request.base_seq:
                self._history.close_action(planned.seq, "replaced")
        self._frames.answered(request.current.seq, plan)
        query = request.turns[-1].parts[-1]
        assert isinstance(query, TextPart), "every layout ends with the query"
        self._history.open_plan(
            self._described(placed.actions),
            (planned.seq for planned in placed.actions[joined.late :]),
            frame_seq=request.current.seq,
            asked=query.text,
            said=plan.text,
        )
        self._queue = joined.queue
        self._next_seq = max(self._next_seq, request.base_seq + len(placed.actions))

    def _plan_failed(self, failed: PlanFailed, now: float, work: _Work) -> None:
        self.tally.plans_failed += 1
        if failed.kind is not PlanFailureKind.LATE:
            self._ask_not_before = now + RETRY_PLAN_SECONDS
        work.note("policies.plan.failed", request_id=failed.request_id, kind=failed.kind.value, error=failed.message)

    def _end_for(self, given: StepInput) -> EpisodeEnd | None:
        assert self._started_at is not None
        if given.stop is not None:
            return EpisodeEnd(Outcome.CANCELLED, given.stop)
        limits, criteria = self.settings.limits, self.settings.criteria
        outcome, reason = judge(criteria, self._facts())
        if self._stuck or given.now - self._started_at - self.tally.paused_seconds >= limits.seconds:
            return EpisodeEnd(outcome, reason)
        if limits.steps is not None and self.tally.steps >= limits.steps:
            return EpisodeEnd(outcome, reason)
        if limits.score is not None and self.score is not None and self.score >= limits.score:
            return EpisodeEnd(outcome, reason)
        if criteria.goal_reached and self.goal_reached:
            return EpisodeEnd(outcome, reason)
        if self._finish is None or self._queue or self._out is not None or self._effects:
            return None
        finish, self._finish = self._finish, None
        if not finish.success:
            return EpisodeEnd(outcome, reason if outcome is Outcome.SUCCEEDED else f"the model gave up; {reason}")
        if outcome is Outcome.SUCCEEDED:
            return EpisodeEnd(outcome, reason)
        self._note_to_model = f"the goal is not reached yet: {reason}"
        return None

    def _facts(self) -> EpisodeFacts:
        return EpisodeFacts(
            score=self.score,
            goal_reached=self.goal_reached,
            crashes=self._crashes,
            stale_share=self.tally.stale_share,
            stall_fraction=self.tally.stall_fraction,
            stuck=self._stuck,
        )

    # --- what to do

    def _react(self, percept: Percept, now: float, work: _Work) -> None:
        fire, self._memory = react(self.settings.rules, percept, self._memory, now)
        if fire is None:
            return
        self.tally.reflex += 1
        work.note("policies.reflex.fired", rule=fire.rule)
        if fire.voids_plan:
            self._reflex_epoch += 1
            self._void_all(work, "reflex")
            self._ask_why = "reflex"
        self._send(CommandKind.REFLEX, fire.action, fire.rule, percept, work)

    def _recover(self, given: StepInput, work: _Work) -> None:
        assert self._recovery is not None
        assert self._percept is not None
        (rung, pending), self._recovery = self._recovery, None
        if rung is Recovery.RETRY and not self._queue and self._stale(pending.planned, given.now) is None:
            self.tally.retried += 1
            action = self._jittered(pending.planned.action, given.draw)
            self._send(CommandKind.RETRY, action, rung.value, self._percept, work, pending.planned)
            self._busy_until = given.now + overlap.seconds_for(action, self.settings.overlap)
            return
        self._void_all(work, "no_effect")
        self._ask_why = "no_effect"
        if rung in {Recovery.BACK, Recovery.RESTART_APP}:
            self.tally.recovered += 1
            back = Key(KeyName.BACK) if rung is Recovery.BACK else None
            self._send(CommandKind.RECOVERY, back, rung.value, self._percept, work)

    def _execute(self, now: float, work: _Work) -> None:
        percept, settings = self._percept, self.settings
        assert percept is not None
        if now - percept.requested_at > settings.staleness.max_frame_age_seconds:
            return
        while self._queue and now >= self._busy_until:
            planned, self._queue = self._queue[0], self._queue[1:]
            stale = self._stale(planned, now)
            if stale is not None:
                self.tally.count_stale(stale)
                work.note("policies.plan.stale", seq=planned.seq, why=stale.value)
                self._drop_stale(planned, stale)
                continue
            if self._is_orphan(planned):
                self.tally.voided += 1
                self._history.close_action(planned.seq, "not done: what it followed was not done")
                continue
            self.tally.planned += 1
            self._last_sent_seq = planned.seq
            seconds = overlap.seconds_for(planned.action, settings.overlap)
            self._busy_until = now + seconds
            if self._request is not None:
                self._executed.append(planned)
            if isinstance(planned.action, Wait):
                self.tally.stall_seconds += max(0.0, planned.action.seconds - settings.needed_wait_seconds)
                self._history.close_action(planned.seq, "done")
                continue
            self._send(
                CommandKind.PLANNED, planned.action, f"plan on frame {planned.planned_on}", percept, work, planned
            )
            return

    def _drop_stale(self, planned: PlannedAction, stale: Stale) -> None:
        self._history.close_action(planned.seq, _REMARKS[stale])
        self._broken_frame = planned.planned_on
        self._ask_why = "stale"

    def _is_orphan(self, planned: PlannedAction) -> bool:
        """Text and keys go to wherever the action before them led, so they are not done without it."""
        return planned.planned_on == self._broken_frame and isinstance(planned.action, Text | Key)

    def _stale(self, planned: PlannedAction, now: float) -> Stale | None:
        assert self._percept is not None
        return staleness.verify(
            planned,
            self._percept,
            self._frames.thumbnail(planned.planned_on),
            reflex_epoch=self._reflex_epoch,
            now=now,
            settings=self.settings.staleness,
        )

    def _ask(self, percept: Percept, now: float, work: _Work) -> None:
        if now < self._ask_not_before or self._recovery is not None:
            return
        busy = self._busy_until - now
        if self._out is not None:
            busy = max(busy, 1e-3)  # the phone is at it, for who knows how long
        settings = self.settings
        why = overlap.should_ask(
            self._queue, busy, self._latencies, in_flight=self._request is not None, settings=settings.overlap
        )
        if why is None:
            return
        why, self._ask_why = self._ask_why or why, None
        note, self._note_to_model = self._note_to_model, ""
        # what the frame cannot show yet counts as scheduled too, or the model would plan it again
        unseen = [pending.planned for pending in self._effects if pending.sent_at >= percept.requested_at]
        out = [self._out.planned] if self._out is not None and self._out.planned is not None else []
        scheduled = (*unseen, *out, *self._queue)
        query = planner.query_text(
            settings.profile, goal=settings.goal, scheduled=self._described(scheduled), note=note
        )
        # A model that is told what is scheduled plans what follows it; one that is not, plans from the frame on.
        follows = "{scheduled}" in settings.profile.query
        base_seq = self._next_seq if follows or not self._queue else self._queue[0].seq
        self._request = work.request = PlanRequest(
            request_id=f"{self.episode}-p{self._requests}",
            asked_at=now,
            why=why,
            turns=planner.turns_for(
                settings.profile,
                history=self._history.lines,
                previous_seq=self._history.previous_seq,
                current_seq=percept.seq,
                query=query,
                window=self._history.window,
            ),
            current=percept,
            base_seq=base_seq,
            reflex_epoch=self._reflex_epoch,
        )
        self._requests += 1
        self._executed = []
        self._frames.asked(percept)
        self.tally.plans_requested += 1

    # --- small parts

    def _send(
        self,
        kind: CommandKind,
        action: Action | None,
        why: str,
        before: Percept,
        work: _Work,
        planned: PlannedAction | None = None,
    ) -> None:
        command = Command(self._tokens, kind, action, why)
        self._tokens += 1
        self._out = _Out(command, planned, before)
        work.command = command

    def _void_all(self, work: _Work, why: str) -> None:
        """Nothing that was planned is done any more, and a plan under way is not wanted."""
        for planned in self._queue:
            self._history.close_action(planned.seq, "not done")
        self.tally.voided += len(self._queue)
        if self._queue or self._request is not None:
            work.note("policies.plan.voided", why=why, actions=len(self._queue), request=self._request is not None)
        self._queue = ()
        self._finish = None
        if self._request is not None:
            self.tally.plans_aborted += 1
            work.abort = self._request.request_id
            self._request = None
            self._executed = []

    def _jittered(self, action: Action, draw: float) -> Action:
        percept = self._percept
        assert percept is not None
        reach = max(1, round(min(percept.width, percept.height) * RETRY_JITTER_SHARE))
        step = int(draw * 8) % 8  # one of the eight neighbours
        dx, dy = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))[step]
        if not isinstance(action, Tap | LongPress):
            return action
        x = min(max(action.x + dx * reach, 0), percept.width - 1)
        y = min(max(action.y + dy * reach, 0), percept.height - 1)
        return attrs.evolve(action, x=x, y=y)

    def _described(self, actions: tuple[PlannedAction, ...]) -> str:
        assert self._percept is not None
        geometry = Geometry(self._percept.width, self._percept.height, self._percept.rotation)
        return planner.describe(actions, self.settings.profile, geometry)

    def _forget_frames(self) -> None:
        wanted = {planned.planned_on for planned in self._queue}
        wanted |= {pending.planned.planned_on for pending in self._effects}
        if self._out is not None and self._out.planned is not None:
            wanted.add(self._out.planned.planned_on)
        if self._recovery is not None:
            wanted.add(self._recovery[1].planned.planned_on)
        if self._request is not None:
            wanted.add(self._request.current.seq)
        self._frames.keep_only(wanted)
