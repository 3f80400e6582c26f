"""One episode's decisions: `EpisodePolicy.step` calls the other modules in order and keeps what they must remember."""

import attrs

from policies import effect, overlap, staleness
from policies.action import Action, Key, KeyName, LongPress, PlannedAction, Tap, Text, Wait
from policies.criteria import EpisodeFacts, Outcome, judge
from policies.effect import Effect, PendingEffect, Recovery
from policies.held import HoldChange, HoldWatch
from policies.human import HumanWatch, expired_reason
from policies.outlook import Outlook
from policies.perception import Percept
from policies.planning import Dropped, Planning
from policies.reflex import ReflexMemory, react
from policies.staleness import Stale
from policies.step import Command, CommandKind, Decision, EpisodeEnd, EpisodeSettings, StepInput, StepOutput
from policies.tally import Tally
from runtime.ids import EpisodeId

RETRY_JITTER_SHARE = 0.012  # of the short side: 8 pixels of 720, beside a dead pixel but still on the button
LEAST_STEP_SECONDS = 0.05  # a due action that still waits (for a fresh frame, say) is looked at again at this pace

_REMARKS = {
    Stale.AGE: "not done: too old",
    Stale.TARGET: "not done: the screen had changed",
    Stale.GEOMETRY: "not done: the screen was turned",
    Stale.REFLEX: "not done: a reflex came first",
}


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
        self._hold = HoldWatch()
        self._percept: Percept | None = None
        self._memory = ReflexMemory()
        self._reflex_epoch = 0
        self._plans = Planning(settings, episode, self.tally)
        self._last_sent_seq = -1
        self._out: _Out | None = None
        self._tokens = 0
        self._busy_until = 0.0
        self._effects: list[PendingEffect] = []
        self._no_effect_in_a_row = 0
        self._recovery: tuple[Recovery, PendingEffect] | None = None
        self._broken_frame: int | None = None  # a stale action broke the chain of the plan made on this frame
        self._stuck = False

    @property
    def paused(self) -> str | None:
        """Why a person is needed; None while the episode's clock runs."""
        return self._human.paused

    @property
    def outlook(self) -> Outlook:
        """What is planned now, for people who look on; nothing is decided on it."""
        plans, out = self._plans, self._out
        return Outlook(
            request=None if plans.request is None else plans.request.request_id,
            asked_at=None if plans.request is None else plans.request.asked_at,
            base_seq=None if plans.request is None else plans.request.base_seq,
            doing=None if out is None else out.planned,
            queue=plans.queue,
            dropped=tuple((planned, why.value) for planned, why in plans.dropped),
        )

    @property
    def due_at(self) -> float:
        """When the policy wants to be asked again even if nothing happens; infinity if it does not."""
        if self._hold.by is not None:
            return float("inf")
        if self._human.paused is not None:
            return self._human.due_at
        if self._out is not None or self._percept is None:
            return float("inf")
        if self._plans.queue:
            return max(self._busy_until, self._last_now + LEAST_STEP_SECONDS)
        if self._plans.request is None and self.settings.planner:
            return max(self._plans.ask_not_before, self._busy_until, self._last_now + LEAST_STEP_SECONDS)
        return float("inf")

    def step(self, given: StepInput) -> StepOutput:
        """Decide what to do now."""
        decision = Decision()
        self._advance_clock(given.now)
        self._take_readings(given)
        self._take_results(given, decision)
        if given.lost:
            self._forget_phone("the phone was away")
            self._plans.void_all(decision, "lost")
        if self._is_held(given, decision):
            return decision.output(None if given.stop is None else EpisodeEnd(Outcome.CANCELLED, given.stop))
        if given.percept is not None and given.percept.requested_at < self._hold.released_at:
            given = attrs.evolve(given, percept=None)
        if self._wait_for_human(given, decision):
            end = self._end_while_paused(given)
            return decision.output(end)
        if given.percept is not None:
            self.tally.steps += 1
            self._observe(given.percept, given.now, decision)
        self._plans.take_plan(given.plan, given.now, decision)
        end = self._end_for(given)
        if end is not None:
            self._plans.void_all(decision, "ended")
            return decision.output(end)
        if self._out is None and self._percept is not None:
            if given.percept is not None:
                self._react(given.percept, given.now, decision)
            if decision.command is None and self._recovery is not None:
                self._recover(given, decision)
            if decision.command is None:
                self._execute(given.now, decision)
        if self.settings.planner and self._percept is not None and self._recovery is None:
            self._plans.ask(
                self._percept,
                given.now,
                busy_seconds=self._busy_seconds(given.now),
                under_way=self._under_way(self._percept),
                reflex_epoch=self._reflex_epoch,
                decision=decision,
            )
        self._plans.forget_frames(self._unsettled())
        return decision.output()

    # --- what has happened

    def _forget_phone(self, why: str) -> None:
        """What was under way has no result, and nothing is decided before the phone shows itself again."""
        self._out = self._recovery = self._percept = None
        for pending in self._effects:
            self._plans.history.close_action(pending.planned.seq, f"not judged: {why}")
        self._effects = []

    def _advance_clock(self, now: float) -> None:
        if self._started_at is None:
            self._started_at = self._last_now = now
            return
        if self._human.paused is not None or self._hold.by is not None:
            self.tally.paused_seconds += now - self._last_now
            if self._hold.by is not None:
                self._human.wait(now - self._last_now)
            self._last_now = now
            return
        self.tally.active_seconds += now - self._last_now
        if self._out is None and not self._plans.queue and self._plans.request is not None:
            self.tally.stall_seconds += max(0.0, now - max(self._last_now, self._busy_until))
        self._last_now = now

    def _is_held(self, given: StepInput, decision: Decision) -> bool:
        """True while somebody holds the episode: then nothing is planned, done or judged.

        What was planned before is void for good, and what was being done has no result that counts: the shell stops
        it. Afterwards it goes on from the first frame that was asked for since.
        """
        change = self._hold.step(given.held, given.now)
        if change is HoldChange.FREE:
            return False
        if change is HoldChange.BEGAN:
            decision.note("policies.episode.held", by=given.held)
            self._plans.take_plan(given.plan, given.now, decision)  # one that came just now is counted, not aborted
            self._plans.void_all(decision, "held")
            self._plans.ask_why = "released"
            if self._out is not None and self._out.planned is not None:
                self._plans.history.close_action(self._out.planned.seq, "not judged: a person had the phone")
            self._forget_phone("a person had the phone")
            self._memory = ReflexMemory(self._memory.fired_at)
            self._reflex_epoch += 1
            self._no_effect_in_a_row = 0
            self._busy_until = given.now
        if given.resumed and self._human.paused is not None:
            self._human.step(None, given.now, resumed=True)
            decision.note("policies.human.resumed", by="command")
        if change is HoldChange.ENDED:
            decision.note("policies.episode.released")
            return False
        return True

    def _wait_for_human(self, given: StepInput, decision: Decision) -> bool:
        """True while a person is needed: then nothing is planned, done or judged."""
        was_paused = self._human.paused is not None
        self._human.step(given.percept, given.now, resumed=given.resumed)
        if self._human.paused is None:
            if was_paused:
                decision.note("policies.human.resumed", by="command" if given.resumed else "screen")
            return False
        if given.percept is not None:
            self._percept = given.percept
        if not was_paused:
            self.tally.pauses += 1
            decision.note("policies.human.needed", why=self._human.paused)
            self._plans.take_plan(given.plan, given.now, decision)  # one that came just now is counted, not aborted
            self._plans.void_all(decision, "needs_human")
            self._memory = ReflexMemory(self._memory.fired_at)
        # what was done just before the pause cannot be judged by screens that a person changes
        for pending in self._effects:
            self._plans.history.close_action(pending.planned.seq, "not judged: a person was needed")
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

    def _take_results(self, given: StepInput, decision: Decision) -> None:
        for result in given.results:
            out = self._out
            if out is None or result.token != out.command.token:
                continue  # a command from before the phone was lost
            self._out = None
            if result.error is not None:
                self.tally.act_errors += 1
                decision.note("policies.action.failed", token=result.token, error=result.error)
            planned = out.planned
            if planned is None:
                continue
            if result.error is not None:
                self._plans.history.close_action(planned.seq, "failed")
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

    def _observe(self, percept: Percept, now: float, decision: Decision) -> None:
        if self._percept is not None and percept.epoch != self._percept.epoch:
            decision.note("policies.geometry.changed", width=percept.width, height=percept.height)
        self._percept = percept
        waiting: list[PendingEffect] = []
        for pending in self._effects:
            verdict = effect.observe(pending, percept, now, self.settings.effect)
            if verdict is Effect.PENDING:
                waiting.append(pending)
            else:
                decision.note("policies.action.settled", **self._plans.frames.ledger_for(pending, verdict, percept))
                self._settle(pending, verdict, percept, decision)
        self._effects = waiting

    def _settle(self, pending: PendingEffect, verdict: Effect, percept: Percept, decision: Decision) -> None:
        planned = pending.planned
        if verdict is Effect.SEEN:
            self.tally.effects_seen += 1
            self._no_effect_in_a_row = 0
            self._recovery = None
            self._plans.history.close_action(planned.seq, "done")
            return
        self.tally.no_effect += 1
        self._no_effect_in_a_row += 1
        self._plans.history.close_action(planned.seq, "no effect")
        self._plans.note_to_model = f"{self._plans.described((planned,), percept)} had no effect"
        is_latest = planned.seq == self._last_sent_seq and self._out is None
        rung = effect.recovery_for(
            self._no_effect_in_a_row, pending, is_latest=is_latest, settings=self.settings.effect
        )
        self._recovery = (rung, pending)
        if rung is Recovery.FAIL:
            self._stuck = True
        decision.note(
            "policies.action.had_no_effect", seq=planned.seq, in_a_row=self._no_effect_in_a_row, then=rung.value
        )

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
        if self._plans.finish is None or self._plans.queue or self._out is not None or self._effects:
            return None
        finish, self._plans.finish = self._plans.finish, None
        if not finish.success:
            return EpisodeEnd(outcome, reason if outcome is Outcome.SUCCEEDED else f"the model gave up; {reason}")
        if outcome is Outcome.SUCCEEDED:
            return EpisodeEnd(outcome, reason)
        self._plans.note_to_model = f"the goal is not reached yet: {reason}"
        return None

    def _facts(self) -> EpisodeFacts:
        return EpisodeFacts(
            score=self.score,
            goal_reached=self.goal_reached,
            crashes=self._crashes,
            stale_share=self.tally.stale_share,
            stall_fraction=self.tally.stall_fraction,
            stuck=self._stuck,
            plans_failed=self.tally.plans_failed,
            plans_completed=self.tally.plans_completed,
        )

    # --- what to do

    def _react(self, percept: Percept, now: float, decision: Decision) -> None:
        fire, self._memory = react(self.settings.rules, percept, self._memory, now)
        if fire is None:
            return
        self.tally.reflex += 1
        decision.note("policies.reflex.fired", rule=fire.rule)
        if fire.voids_plan:
            self._reflex_epoch += 1
            self._plans.void_all(decision, "reflex")
            self._plans.ask_why = "reflex"
        self._send(CommandKind.REFLEX, fire.action, fire.rule, percept, decision)

    def _recover(self, given: StepInput, decision: Decision) -> None:
        assert self._recovery is not None
        assert self._percept is not None
        (rung, pending), self._recovery = self._recovery, None
        if rung is Recovery.RETRY and not self._plans.queue and self._stale(pending.planned, given.now) is None:
            self.tally.retried += 1
            action = self._jittered(pending.planned.action, given.draw)
            self._send(CommandKind.RETRY, action, rung.value, self._percept, decision, pending.planned)
            self._busy_until = given.now + overlap.seconds_for(action, self.settings.overlap)
            return
        self._plans.void_all(decision, "no_effect")
        self._plans.ask_why = "no_effect"
        if rung in {Recovery.BACK, Recovery.RESTART_APP}:
            self.tally.recovered += 1
            back = Key(KeyName.BACK) if rung is Recovery.BACK else None
            self._send(CommandKind.RECOVERY, back, rung.value, self._percept, decision)

    def _execute(self, now: float, decision: Decision) -> None:
        percept, settings = self._percept, self.settings
        assert percept is not None
        if now - percept.requested_at > settings.staleness.max_frame_age_seconds:
            return
        while self._plans.queue and now >= self._busy_until:
            planned = self._plans.take_next()
            stale = self._stale(planned, now)
            if stale is not None:
                self.tally.count_stale(stale)
                decision.note("policies.plan.stale", seq=planned.seq, why=stale.value)
                self._drop_stale(planned, stale)
                continue
            if self._is_orphan(planned):
                self.tally.voided += 1
                self._plans.history.close_action(planned.seq, "not done: what it followed was not done")
                self._plans.drop(planned, Dropped.SKIPPED)
                continue
            self.tally.planned += 1
            self._last_sent_seq = planned.seq
            seconds = overlap.seconds_for(planned.action, settings.overlap)
            self._busy_until = now + seconds
            self._plans.sent(planned)
            if isinstance(planned.action, Wait):
                self.tally.stall_seconds += max(0.0, planned.action.seconds - settings.needed_wait_seconds)
                self._plans.history.close_action(planned.seq, "done")
                continue
            self._send(
                CommandKind.PLANNED, planned.action, f"plan on frame {planned.planned_on}", percept, decision, planned
            )
            return

    def _drop_stale(self, planned: PlannedAction, stale: Stale) -> None:
        self._plans.history.close_action(planned.seq, _REMARKS[stale])
        self._plans.drop(planned, Dropped.STALE)
        self._broken_frame = planned.planned_on
        self._plans.ask_why = "stale"

    def _is_orphan(self, planned: PlannedAction) -> bool:
        """Text and keys go to wherever the action before them led, so they are not done without it."""
        return planned.planned_on == self._broken_frame and isinstance(planned.action, Text | Key)

    def _stale(self, planned: PlannedAction, now: float) -> Stale | None:
        assert self._percept is not None
        return staleness.verify(
            planned,
            self._percept,
            self._plans.frames.thumbnail(planned.planned_on),
            reflex_epoch=self._reflex_epoch,
            now=now,
            settings=self.settings.staleness,
        )

    # --- small parts

    def _busy_seconds(self, now: float) -> float:
        """How long the action under way still takes; a moment at least where the phone is at it."""
        busy = self._busy_until - now
        return busy if self._out is None else max(busy, 1e-3)

    def _under_way(self, percept: Percept) -> list[PlannedAction]:
        """Actions that a frame cannot show yet, though they are done or being done."""
        unseen = [pending.planned for pending in self._effects if pending.sent_at >= percept.requested_at]
        if self._out is not None and self._out.planned is not None:
            unseen.append(self._out.planned)
        return unseen

    def _unsettled(self) -> list[PlannedAction]:
        """Actions that will still be compared with the frame that they were planned on, or told in the ledger."""
        unsettled = [pending.planned for pending in self._effects]
        if self._out is not None and self._out.planned is not None:
            unsettled.append(self._out.planned)
        if self._recovery is not None:
            unsettled.append(self._recovery[1].planned)
        return unsettled

    def _send(
        self,
        kind: CommandKind,
        action: Action | None,
        why: str,
        before: Percept,
        decision: Decision,
        planned: PlannedAction | None = None,
    ) -> None:
        command = Command(self._tokens, kind, action, why)
        self._tokens += 1
        self._out = _Out(command, planned, before)
        decision.command = command

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
