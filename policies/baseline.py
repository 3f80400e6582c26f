"""A bot that acts at random: what every result is compared with."""

from policies.action import Action, Swipe, Tap
from policies.criteria import EpisodeFacts, Outcome, judge
from policies.held import HoldChange, HoldWatch
from policies.human import HumanWatch, expired_reason
from policies.outlook import Outlook
from policies.step import Command, CommandKind, EpisodeEnd, EpisodeSettings, StepInput, StepOutput
from policies.tally import Tally
from runtime.ids import EpisodeId

SWIPE_SHARE = 0.4  # a tap says nothing to a swipe game, and the other way round


class RandomPolicy:
    """Taps and swipes anywhere, at the pace of planned actions. It asks no model and knows no rules."""

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
        self._next_at = 0.0
        self._out: int | None = None

    @property
    def paused(self) -> str | None:
        """Why a person is needed; None while the episode's clock runs."""
        return self._human.paused

    @property
    def outlook(self) -> Outlook:
        """It plans nothing ahead."""
        return Outlook()

    @property
    def due_at(self) -> float:
        """It acts on frames alone; a pause runs out by itself, unless somebody is there."""
        return float("inf") if self._hold.by is not None else self._human.due_at

    def step(self, given: StepInput) -> StepOutput:
        """Decide what to do now."""
        self._advance_clock(given.now)
        self.score = given.score if given.score is not None else self.score
        self.goal_reached = self.goal_reached or given.goal_reached
        self._crashes = given.crashes
        if given.lost or any(result.token == self._out for result in given.results):
            self._out = None
        self.tally.act_errors += sum(result.error is not None for result in given.results)
        if given.stop is not None:
            return StepOutput(end=EpisodeEnd(Outcome.CANCELLED, given.stop))
        change = self._hold.step(given.held, given.now)
        if change is not HoldChange.FREE:
            self._out = None
            if given.resumed and self._human.paused is not None:
                self._human.step(None, given.now, resumed=True)
            if change is not HoldChange.ENDED:
                return StepOutput()
        if given.percept is not None and given.percept.requested_at < self._hold.released_at:
            return StepOutput()
        was_paused = self._human.paused is not None
        self._human.step(given.percept, given.now, resumed=given.resumed)
        if self._human.paused is not None:
            self.tally.pauses += not was_paused
            if self._human.is_expired(given.now):
                return StepOutput(end=EpisodeEnd(Outcome.FAILED, expired_reason(self._human)))
            return StepOutput()
        if self._is_over():
            return StepOutput(end=EpisodeEnd(*judge(self.settings.criteria, self._facts())))
        if given.percept is None:
            return StepOutput()
        self.tally.steps += 1
        if self._out is not None or given.now < self._next_at:
            return StepOutput()
        self._next_at = given.now + self.settings.overlap.act_seconds
        self._out = self.tally.planned
        self.tally.planned += 1
        action = random_action(given.draw, given.percept.width, given.percept.height)
        return StepOutput(command=Command(self._out, CommandKind.PLANNED, action, "at random"))

    def _advance_clock(self, now: float) -> None:
        if self._started_at is None:
            self._started_at = self._last_now = now
        if self._human.paused is not None or self._hold.by is not None:
            self.tally.paused_seconds += now - self._last_now
        if self._hold.by is not None:
            self._human.wait(now - self._last_now)
        self._last_now = now
        self.tally.active_seconds = now - self._started_at - self.tally.paused_seconds

    def _is_over(self) -> bool:
        limits = self.settings.limits
        if self.tally.active_seconds >= limits.seconds:
            return True
        if limits.steps is not None and self.tally.steps >= limits.steps:
            return True
        if limits.score is not None and self.score is not None and self.score >= limits.score:
            return True
        return self.settings.criteria.goal_reached and self.goal_reached

    def _facts(self) -> EpisodeFacts:
        return EpisodeFacts(self.score, self.goal_reached, self._crashes, stale_share=0.0, stall_fraction=0.0)


def random_action(draw: float, width: int, height: int) -> Action:
    """One action out of one draw in [0, 1): its digits, taken further and further down, are the choices."""
    kind, rest = _split(draw, 1)
    xs = []
    for _ in range(4):
        value, rest = _split(rest, 1)
        xs.append(value)
    x, y = int(xs[0] * width), int(xs[1] * height)
    if kind >= SWIPE_SHARE:
        return Tap(x, y)
    return Swipe(x, y, int(xs[2] * width), int(xs[3] * height))


def _split(draw: float, count: int) -> tuple[float, float]:
    """Two numbers in [0, 1) out of one: its first ten bits and the others. A float has 53."""
    scaled = draw * 1024**count
    first = int(scaled)
    return first / 1024**count, scaled - first
