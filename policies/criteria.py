"""When is an episode a success? The scenario's criteria have the last word, not the model."""

from enum import StrEnum

import attrs


class Outcome(StrEnum):
    """How an episode ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    CANCELLED = "cancelled"


@attrs.frozen
class Criteria:
    """What an episode must reach. Every criterion that is set must hold."""

    min_score: float | None = None
    goal_reached: bool = False
    """The scenario's goal reading must have been seen."""
    no_crash: bool = True
    max_stale_share: float | None = attrs.field(default=None, metadata={"min": 0, "max": 1})
    """Stale actions / planned actions that came up for execution."""
    max_stall_fraction: float | None = attrs.field(default=None, metadata={"min": 0, "max": 1})


@attrs.frozen
class EpisodeFacts:
    """What an episode is judged by."""

    score: float | None
    goal_reached: bool
    crashes: int
    stale_share: float
    stall_fraction: float
    stuck: bool = False
    plans_failed: int = 0
    plans_completed: int = 0


def judge(criteria: Criteria, facts: EpisodeFacts) -> tuple[Outcome, str]:
    """The verdict and its reason: what was missed first, or what was reached."""
    missed = []
    if facts.stuck:
        missed.append("stuck: no action had an effect any more")
    if criteria.no_crash and facts.crashes:
        missed.append(f"the app crashed {facts.crashes} times" if facts.crashes > 1 else "the app crashed")
    if criteria.min_score is not None:
        if facts.score is None:
            missed.append("no score was ever read")
        elif facts.score < criteria.min_score:
            missed.append(f"score {facts.score:g} is below {criteria.min_score:g}")
    if criteria.goal_reached and not facts.goal_reached:
        missed.append("the goal was not reached")
    if criteria.max_stale_share is not None and facts.stale_share > criteria.max_stale_share:
        missed.append(f"stale share {facts.stale_share:.2f} is above {criteria.max_stale_share:g}")
    if criteria.max_stall_fraction is not None and facts.stall_fraction > criteria.max_stall_fraction:
        missed.append(f"stall fraction {facts.stall_fraction:.2f} is above {criteria.max_stall_fraction:g}")
    if missed and facts.plans_failed and not facts.plans_completed:
        missed.append(f"no plan ever came: {facts.plans_failed} failed")
    if missed:
        return Outcome.FAILED, "; ".join(missed)
    if criteria.min_score is not None and facts.score is not None:
        return Outcome.SUCCEEDED, f"score {facts.score:g} reached {criteria.min_score:g}"
    if criteria.goal_reached:
        return Outcome.SUCCEEDED, "the goal was reached"
    return Outcome.SUCCEEDED, "all criteria held"
