"""Did an action do anything, and what to do when again and again nothing does: the recovery ladder."""

from enum import StrEnum

import attrs

from policies.action import PlannedAction
from policies.geometry import Geometry
from policies.perception import Percept
from policies.thumbnail import Thumbnail, changed_share


class Effect(StrEnum):
    """What later frames say of an action."""

    PENDING = "pending"
    SEEN = "seen"
    NONE = "none"


class Recovery(StrEnum):
    """The rungs, lowest first."""

    RETRY = "retry"
    """Once more, a few pixels beside, if the action is idempotent."""
    REPLAN = "replan"
    """Ask the model again, telling it that the action had no effect."""
    BACK = "back"
    """Press the back key."""
    RESTART_APP = "restart_app"
    """Stop the app and start it again."""
    FAIL = "fail"
    """Give the episode up as stuck."""


@attrs.frozen
class EffectSettings:
    """What counts as an effect, and when each rung is reached."""

    within_seconds: float = attrs.field(default=1.0, metadata={"above": 0})
    """An effect must be seen this long after the action was done."""
    target_change: float = attrs.field(default=0.12, metadata={"min": 0, "max": 1})
    """Share of the target's cells that must change colour ..."""
    screen_change: float = attrs.field(default=0.02, metadata={"min": 0, "max": 1})
    """... or of the whole screen's."""
    replan_after: int = attrs.field(default=2, metadata={"min": 1})
    """Rungs are counted in actions without effect in a row; any effect brings the count to 0."""
    back_after: int = attrs.field(default=4, metadata={"min": 1})
    restart_after: int = attrs.field(default=6, metadata={"min": 1})
    fail_after: int = attrs.field(default=9, metadata={"min": 1})


@attrs.frozen
class PendingEffect:
    """An action whose effect is still awaited."""

    planned: PlannedAction
    before: Thumbnail
    """The newest frame's when the action was sent."""
    sent_at: float
    """When the phone had taken it."""
    dispatch_seconds: float = 0.0
    """From sending it until the phone had taken it."""
    retried: bool = False
    """This was a second attempt."""


def observe(pending: PendingEffect, percept: Percept, now: float, settings: EffectSettings) -> Effect:
    """Compare a frame with the one before the action.

    A frame that was asked for before the action was sent proves nothing, so it leaves the action pending.
    """
    if percept.requested_at <= pending.sent_at:
        return Effect.PENDING
    geometry = Geometry(percept.width, percept.height, percept.rotation)
    if pending.planned.epoch != percept.epoch:
        return Effect.SEEN
    if changed_share(pending.before, percept.thumbnail, None, geometry) > settings.screen_change:
        return Effect.SEEN
    target = pending.planned.target
    if target is not None:
        changed = changed_share(pending.before, percept.thumbnail, target, geometry)
        if changed > settings.target_change:
            return Effect.SEEN
    return Effect.NONE if now - pending.sent_at >= settings.within_seconds else Effect.PENDING


def recovery_for(
    no_effect_in_a_row: int, pending: PendingEffect, *, is_latest: bool, settings: EffectSettings
) -> Recovery:
    """Which rung to take after an action had no effect.

    Args:
        no_effect_in_a_row: How many actions in a row had none, this one included.
        pending: The action.
        is_latest: No other action was sent since: only then does trying the same again make sense.
        settings: Where the rungs are.
    """
    if no_effect_in_a_row >= settings.fail_after:
        return Recovery.FAIL
    # back and restart are done once, as their count is reached; in between the model plans on what it then sees
    if no_effect_in_a_row == settings.restart_after:
        return Recovery.RESTART_APP
    if no_effect_in_a_row == settings.back_after:
        return Recovery.BACK
    may_retry = pending.planned.idempotent and is_latest and not pending.retried
    if no_effect_in_a_row < settings.replan_after and may_retry:
        return Recovery.RETRY
    return Recovery.REPLAN
