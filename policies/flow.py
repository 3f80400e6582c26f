"""A flow without a model: recognise → act → expect → on error, step after step. Pure; it never sees a secret.

Each attempt of a step has `timeout_seconds` from its beginning to its expectation. A step whose expectation already
holds while its `when` does not is done without acting: the game remembered its session.
"""

from collections.abc import Sequence
from enum import StrEnum

import attrs

from policies.action import Action, KeyName
from policies.geometry import Region
from policies.human import HumanSettings, HumanWatch, expired_reason
from policies.perception import Percept
from policies.reflex import Condition, ReflexAction, action_for, holds

MAX_RESTARTS = 2  # a game that is not through its login after three starts does not get there by a fourth


class OnError(StrEnum):
    """What happens when a step's last attempt has failed."""

    FAIL = "fail"
    """The flow fails, and with it the episode."""
    SKIP = "skip"
    """The next step."""
    RESTART = "restart"
    """Restart the app and begin the flow anew, `MAX_RESTARTS` times at most."""
    NEEDS_HUMAN = "needs_human"
    """Wait for a person, then try the step again."""


@attrs.frozen
class FlowAction:
    """What a step does: exactly one of the fields is set."""

    tap: Region | None = None
    """Tap the middle of this region."""
    tap_match: str | None = None
    """Tap where this probe matched."""
    swipe: tuple[Region, Region] | None = None
    """Swipe from the middle of one region to that of the other."""
    key: KeyName | None = None
    text: str | None = None
    """Type this; `${account.user}`, `${account.password}` and `${env.NAME}` are filled in outside."""

    def problems(self) -> list[str]:
        """What is wrong with it; empty when it is right."""
        given = [f.name for f in attrs.fields(FlowAction) if getattr(self, f.name) is not None]
        if len(given) != 1:
            return [f"give exactly one of tap, tap_match, swipe, key, text; not {', '.join(given) or 'none'}"]
        return ["'text' must not be empty"] if self.text == "" else []


@attrs.frozen
class FlowStep:
    """One step of a flow."""

    name: str = attrs.field(metadata={"nonempty": True})
    when: tuple[Condition, ...] = ()
    """All must hold on a frame before the step acts; none: it acts at once."""
    do: FlowAction | None = None
    """None: only wait until `expect` (or, without one, `when`) holds."""
    expect: tuple[Condition, ...] = ()
    """All must hold on a frame taken after the action; none: the action was enough."""
    timeout_seconds: float = attrs.field(default=20.0, metadata={"above": 0})
    """Of one attempt, from its beginning until `expect` holds."""
    retries: int = attrs.field(default=1, metadata={"min": 0, "max": 100})
    """Attempts after the first."""
    on_error: OnError = OnError.FAIL


@attrs.frozen
class FlowAct:
    """Do this now, then call `acted`: an action, or a template of text to type."""

    step: str
    action: Action | None = None
    text: str | None = None
    """The template as it stands in the file."""


@attrs.frozen
class FlowRestart:
    """Restart the app now, then call `acted`."""

    step: str


@attrs.frozen
class FlowWait:
    """Nothing to do before the next frame."""


@attrs.frozen
class FlowNeedsHuman:
    """As `FlowWait`, but it is a person who is waited for."""

    reason: str


@attrs.frozen
class FlowDone:
    """The flow is through."""


@attrs.frozen
class FlowFailed:
    """The flow cannot get through."""

    reason: str


FlowDecision = FlowAct | FlowRestart | FlowWait | FlowNeedsHuman | FlowDone | FlowFailed
WAIT = FlowWait()


class FlowPolicy:
    """Decides one flow. Deterministic: equal calls give equal decisions.

    Args:
        steps: In order.
        human: What calls for a person at any time.
        what: How the flow is called in reasons: `setup` or `teardown`.
    """

    def __init__(self, steps: Sequence[FlowStep], human: HumanSettings | None = None, *, what: str = "setup") -> None:
        self.steps = tuple(steps)
        self._what = what
        self._human = HumanWatch(human or HumanSettings())
        self._index = 0
        self._attempt = 0
        self._attempt_since: float | None = None
        self._acted_at: float | None = None
        self._fresh_after = float("-inf")
        self._asked: FlowAct | FlowRestart | None = None
        self._error: str | None = None
        self._restarts = 0
        self._end: FlowDone | FlowFailed | None = None

    @property
    def present(self) -> str:
        """The name of the present step; empty when the flow is through."""
        return self.steps[self._index].name if self._index < len(self.steps) else ""

    @property
    def paused(self) -> str | None:
        """Why a person is needed; None while none is."""
        return self._human.paused

    def acted(self, now: float, error: str | None = None) -> None:
        """What the last decision asked for has been done, or refused with an error."""
        assert self._asked is not None, "nothing was asked for"
        asked, self._asked = self._asked, None
        self._fresh_after = now
        if isinstance(asked, FlowRestart):
            self._index = 0
            self._begin_attempt(0)
            if error is not None:
                self._end = FlowFailed(f"{self._what} step {asked.step!r}: the app could not be restarted: {error}")
            return
        self._acted_at, self._error = now, error

    def step(self, percept: Percept | None, now: float, *, resumed: bool = False) -> FlowDecision:
        """Decide what to do now.

        Args:
            percept: The newest frame's, or None where no new one has come.
            now: Seconds of the run's clock.
            resumed: A person said: go on.
        """
        assert self._asked is None, "the last decision was not carried out yet"
        if self._end is None:
            decision = self._decide(percept, now, resumed=resumed)
            if isinstance(decision, FlowDone | FlowFailed):
                self._end = decision
            elif isinstance(decision, FlowAct | FlowRestart):
                self._asked = decision
            return decision
        return self._end

    def _decide(self, percept: Percept | None, now: float, *, resumed: bool) -> FlowDecision:
        was_paused = self._human.paused is not None
        self._human.step(percept, now, resumed=resumed, solved=self._is_solved(percept))
        if self._human.is_expired(now):
            return FlowFailed(f"{self._what} step {self.present!r}: {expired_reason(self._human)}")
        if self._human.paused is not None:
            return FlowNeedsHuman(self._human.paused)
        if was_paused:
            self._begin_attempt(0)
        # what was captured before the last action was done says nothing about what came of it
        fresh = percept if percept is not None and percept.requested_at >= self._fresh_after else None
        while self._index < len(self.steps):
            step = self.steps[self._index]
            if self._attempt_since is None:
                self._attempt_since = now
            decision = self._recognise(step, fresh) if self._acted_at is None else self._expect(step, fresh)
            if decision is None:
                self._next_step()
                continue
            if decision is not WAIT:
                return decision
            if self._error is None and now - self._attempt_since < step.timeout_seconds:
                return WAIT
            failed = self._attempt_failed(step, now)
            if failed is not None:
                return failed
        return FlowDone()

    def _recognise(self, step: FlowStep, percept: Percept | None) -> FlowDecision | None:
        """None: the step is done."""
        if percept is None:
            return WAIT
        seen = all(holds(condition, percept) for condition in step.when)
        there = bool(step.expect) and all(holds(condition, percept) for condition in step.expect)
        if step.do is None:
            return None if there or (seen and not step.expect) else WAIT
        if there and not (step.when and seen):
            return None
        if not seen:
            return WAIT
        act = _act_for(step, step.do, percept)
        if act is None and there:
            return None  # what was wanted is there, and there is nothing to act on
        return act or WAIT

    def _expect(self, step: FlowStep, percept: Percept | None) -> FlowDecision | None:
        """None: the step is done."""
        if self._error is not None:
            return WAIT
        if not step.expect:
            return None
        if percept is None:
            return WAIT
        return None if all(holds(condition, percept) for condition in step.expect) else WAIT

    def _is_solved(self, percept: Percept | None) -> bool:
        """What a person was called for is over: the step is done; or, where that cannot be seen, it can be done."""
        if percept is None or self._index >= len(self.steps):
            return False
        step = self.steps[self._index]
        # a step that failed although it was recognised would only be called off and on again
        wanted = step.expect or (step.when if self._error is None else ())
        if not wanted or not all(holds(condition, percept) for condition in wanted):
            return False
        # nor is one whose conditions hold while there is nothing to tap on
        return bool(step.expect) or step.do is None or _act_for(step, step.do, percept) is not None

    def _attempt_failed(self, step: FlowStep, now: float) -> FlowDecision | None:
        """None: go on, with another attempt or another step."""
        why = self._why_failed(step)
        if self._attempt < step.retries:
            self._begin_attempt(self._attempt + 1)
            return None
        reason = f"{self._what} step {step.name!r}: {why} ({self._attempt + 1} attempts)"
        match step.on_error:
            case OnError.FAIL:
                return FlowFailed(reason)
            case OnError.SKIP:
                self._next_step()
                return None
            case OnError.RESTART:
                if self._restarts >= MAX_RESTARTS:
                    return FlowFailed(f"{reason}, also after {self._restarts} restarts of the app")
                self._restarts += 1
                return FlowRestart(step.name)
            case OnError.NEEDS_HUMAN:
                self._human.call(reason, now)
                return FlowNeedsHuman(reason)

    def _why_failed(self, step: FlowStep) -> str:
        if self._error is not None:
            return f"the action failed: {self._error}"
        if self._acted_at is None and step.do is not None:
            wanted, what = step.when, "nothing to act on"
        else:
            wanted, what = step.expect or step.when, "not what was expected"
        probes = ", ".join(f"{c.probe} {c.reads.value}" for c in wanted)
        return f"{what} within {step.timeout_seconds:g} s" + (f": {probes}" if probes else "")

    def _begin_attempt(self, attempt: int) -> None:
        self._attempt = attempt
        self._attempt_since = self._acted_at = self._error = None

    def _next_step(self) -> None:
        self._index += 1
        self._begin_attempt(0)


def _act_for(step: FlowStep, do: FlowAction, percept: Percept) -> FlowAct | None:
    """What a step does on this frame; None: what it acts on is not there."""
    if do.text is not None:
        return FlowAct(step.name, text=do.text)
    action = action_for(ReflexAction(do.tap, do.tap_match, do.swipe, do.key), percept)
    return None if action is None else FlowAct(step.name, action)
