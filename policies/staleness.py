"""May this planned action still be done now? Asked of every planned action, on the newest frame, before it is done."""

from enum import StrEnum

import attrs

from policies.action import Key, PlannedAction, Swipe, Text
from policies.geometry import Geometry
from policies.perception import Percept
from policies.thumbnail import Thumbnail, changed_share


class StalenessRule(StrEnum):
    """Which rule decides."""

    VERIFIED = "verified"
    """The target must look as it did when it was planned; age is only an upper bound."""
    STRICT_AGE = "strict_age"
    """The design document's rule: at most 2 frames or 200 ms old, whatever the target looks like."""


class Stale(StrEnum):
    """Why an action is not done any more."""

    AGE = "age"
    TARGET = "target"
    GEOMETRY = "geometry"
    REFLEX = "reflex"


@attrs.frozen
class StalenessSettings:
    """Bounds of freshness."""

    rule: StalenessRule = StalenessRule.VERIFIED
    max_age_seconds: float = attrs.field(default=2.0, metadata={"above": 0})
    """`verified`: past this age an action is stale even if its target looks the same."""
    max_frame_age_seconds: float = attrs.field(default=1.0, metadata={"above": 0})
    """The newest frame must not be older than this, else planned actions wait: nothing is done blindly."""
    strict_seconds: float = attrs.field(default=0.2, metadata={"min": 0})
    strict_frames: int = attrs.field(default=2, metadata={"min": 0})
    """`strict_age`: fresh while at least one of the two holds."""
    target_change: float = attrs.field(default=0.34, metadata={"min": 0, "max": 1})
    """Share of the target's cells that may have changed colour: an animated button may, a vanished one may not."""
    screen_change: float = attrs.field(default=0.5, metadata={"min": 0, "max": 1})
    """For swipes, keys and text, which act on whatever is shown: the same of the whole screen. A board whose tiles an
    earlier swipe of the plan has moved is still the same screen; a page that has been left is not.
    """


def verify(
    planned: PlannedAction,
    percept: Percept,
    planned_on: Thumbnail | None,
    *,
    reflex_epoch: int,
    now: float,
    settings: StalenessSettings,
) -> Stale | None:
    """Judge one planned action.

    Args:
        planned: The action.
        percept: The newest frame's.
        planned_on: Thumbnail of the frame that the action was planned on; None where it is not held any more.
        reflex_epoch: Number of plan-voiding reflexes that have fired by now.
        now: The run's clock.
        settings: Bounds.

    Returns:
        None when the action is fresh, else why it is stale.
    """
    if planned.epoch != percept.epoch:
        return Stale.GEOMETRY
    if planned.reflex_epoch != reflex_epoch:
        return Stale.REFLEX
    age = now - planned.planned_at
    if settings.rule is StalenessRule.STRICT_AGE:
        frames = percept.seq - planned.planned_on
        fresh = age <= settings.strict_seconds or frames <= settings.strict_frames
        return None if fresh else Stale.AGE
    if age > settings.max_age_seconds:
        return Stale.AGE
    if planned.target is None:
        return None
    if planned_on is None:
        return Stale.TARGET
    is_wide = isinstance(planned.action, Swipe | Key | Text)
    allowed = settings.screen_change if is_wide else settings.target_change
    geometry = Geometry(percept.width, percept.height, percept.rotation)
    box = None if is_wide else planned.target
    changed = changed_share(planned_on, percept.thumbnail, box, geometry)
    return None if changed <= allowed else Stale.TARGET
