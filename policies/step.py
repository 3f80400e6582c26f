"""What goes into one step of an episode and what comes out: everything that a replay needs, and nothing else."""

from collections.abc import Mapping
from enum import StrEnum

import attrs

from inference.profile import ModelProfile
from policies.action import Action
from policies.criteria import Criteria, Outcome
from policies.effect import EffectSettings
from policies.human import HumanSettings
from policies.overlap import OverlapSettings
from policies.perception import Percept
from policies.planner import PlanFailed, PlanReply, PlanRequest
from policies.reflex import Rule
from policies.staleness import StalenessSettings


@attrs.frozen
class Limits:
    """When an episode ends even if its goal is not reached."""

    seconds: float = attrs.field(default=60.0, metadata={"above": 0})
    steps: int | None = attrs.field(default=None, metadata={"min": 1})
    """Control steps: frames that were decided on."""
    score: float | None = None
    """Ends as soon as this score is read."""


@attrs.frozen
class EpisodeSettings:
    """All that an episode's decisions depend on."""

    goal: str
    profile: ModelProfile = attrs.field(factory=ModelProfile)
    rules: tuple[Rule, ...] = ()
    planner: bool = True
    """False: reflexes only."""
    overlap: OverlapSettings = attrs.field(factory=OverlapSettings)
    staleness: StalenessSettings = attrs.field(factory=StalenessSettings)
    effect: EffectSettings = attrs.field(factory=EffectSettings)
    limits: Limits = attrs.field(factory=Limits)
    criteria: Criteria = attrs.field(factory=Criteria)
    needed_wait_seconds: float = 0.0
    """Of each planned wait, what the goal needs (an animation, say); a longer wait counts as stall."""
    human: HumanSettings = attrs.field(factory=HumanSettings)
    """What pauses the episode until a person has helped."""


class CommandKind(StrEnum):
    """Why the phone is told to do something."""

    REFLEX = "reflex"
    PLANNED = "planned"
    RETRY = "retry"
    RECOVERY = "recovery"


@attrs.frozen
class Command:
    """Something for the phone to do now. At most one is out at a time: there is one finger."""

    token: int
    """Unique in the episode; the result names it."""
    kind: CommandKind
    action: Action | None
    """None: restart the app."""
    why: str
    """The reflex rule, `plan <request id>`, or the recovery rung."""


@attrs.frozen
class ActResult:
    """What became of a command."""

    token: int
    sent_at: float
    done_at: float
    error: str | None = None


@attrs.frozen
class StepInput:
    """All that a step may look at. Replaying recorded inputs gives the same outputs."""

    step: int
    now: float
    """Seconds of the run's clock; only differences are used."""
    percept: Percept | None
    """The newest frame's, or None where no new frame has come."""
    results: tuple[ActResult, ...] = ()
    plan: PlanReply | PlanFailed | None = None
    score: float | None = None
    """The newest reading, or None where nothing was read since the last step."""
    goal_reached: bool = False
    crashes: int = 0
    """App crashes seen in this episode so far."""
    draw: float = 0.5
    """In [0, 1), fresh for each step: all of the policy's chance."""
    lost: bool = False
    """The phone was away since the last step: what was planned before is void."""
    stop: str | None = None
    """The run wants the episode to end now, and why."""
    resumed: bool = False
    """A person said that a paused episode goes on."""
    held: str | None = None
    """Who holds the episode, so that the bot does nothing: a person who took the phone over, or stopped the run."""


@attrs.frozen
class Note:
    """Something worth telling: an event name as in the logs, and its fields."""

    event: str
    fields: Mapping[str, str | int | float | bool | None]


@attrs.frozen
class EpisodeEnd:
    """The episode is over."""

    outcome: Outcome
    reason: str


@attrs.frozen
class StepOutput:
    """What the shell is to do."""

    command: Command | None = None
    request: PlanRequest | None = None
    abort: str | None = None
    """Request id whose reply is not wanted any more."""
    notes: tuple[Note, ...] = ()
    end: EpisodeEnd | None = None


@attrs.define
class Decision:
    """A `StepOutput` in the making."""

    command: Command | None = None
    request: PlanRequest | None = None
    abort: str | None = None
    notes: list[Note] = attrs.field(factory=list)

    def note(self, event: str, **fields: str | float | bool | None) -> None:
        """Add a note."""
        self.notes.append(Note(event, fields))

    def output(self, end: EpisodeEnd | None = None) -> StepOutput:
        """The finished output; of an episode that ends, nothing more is done or asked."""
        if end is not None:
            return StepOutput(abort=self.abort, notes=tuple(self.notes), end=end)
        return StepOutput(self.command, self.request, self.abort, tuple(self.notes))
