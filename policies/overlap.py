"""When to ask for the next chunk, and how to join it to the one that executes.

Two estimates of delay are kept apart (measured: one of them alone stalls or jumps). *When to ask* uses a quantile of
wall-clock latency: steps consumed are censored when the queue runs dry. *Where to join* counts steps consumed: wall
time would skip actions that were never done.
"""

from collections.abc import Sequence

import attrs

from policies.action import Action, LongPress, PlannedAction, Swipe, Tap, duration_of, points_of

LATENCY_WINDOW = 20  # replies; long enough for a 95 % quantile, short enough to forget a warm-up spike


@attrs.frozen
class OverlapSettings:
    """Pace of execution, and when to think."""

    enabled: bool = True
    """False: think only when there is nothing left to do, as a plain agent loop does."""
    act_seconds: float = attrs.field(default=0.25, metadata={"above": 0, "max": 60})
    """Planned actions are at least this far apart; a chunk's horizon is its actions times this."""
    latency_quantile: float = attrs.field(default=0.95, metadata={"min": 0, "max": 1})
    margin_seconds: float = attrs.field(default=0.1, metadata={"min": 0})
    """Capture and transfer beside the engine's own latency."""
    initial_latency_seconds: float = attrs.field(default=1.0, metadata={"min": 0})
    """Assumed until the first reply has come."""
    same_point_share: float = attrs.field(default=0.03, metadata={"min": 0, "max": 1})
    """Two taps are the same action when they are this share of the short side apart."""


def latency_quantile(latencies: Sequence[float], settings: OverlapSettings) -> float:
    """The quantile of the last `LATENCY_WINDOW` wall-clock latencies, in seconds."""
    recent = sorted(latencies[-LATENCY_WINDOW:])
    if not recent:
        return settings.initial_latency_seconds
    return recent[min(len(recent) - 1, int(settings.latency_quantile * len(recent)))]


def seconds_for(action: Action, settings: OverlapSettings) -> float:
    """How long an action occupies the phone: its gesture, but at least one act slot."""
    return max(duration_of(action), settings.act_seconds)


def horizon(queue: Sequence[PlannedAction], settings: OverlapSettings) -> float:
    """Seconds until a queue runs dry."""
    return sum(seconds_for(planned.action, settings) for planned in queue)


def should_ask(
    queue: Sequence[PlannedAction],
    busy_seconds: float,
    latencies: Sequence[float],
    *,
    in_flight: bool,
    settings: OverlapSettings,
) -> str | None:
    """Is it time to ask for the next chunk?

    Args:
        queue: Actions still to be done.
        busy_seconds: How long the action that executes now still takes; 0 or less when none does.
        latencies: Wall-clock seconds from asking to reply, oldest first.
        in_flight: A request is out: at most one is.
        settings: Pace.

    Returns:
        Why (`empty` or `overlap`), or None. An empty queue always asks, whatever the screen looks like.
    """
    if in_flight:
        return None
    if not queue and busy_seconds <= 0:
        return "empty"
    if not settings.enabled:
        return None
    left = max(0.0, busy_seconds) + horizon(queue, settings)
    return "overlap" if left <= latency_quantile(latencies, settings) + settings.margin_seconds else None


@attrs.frozen
class Joined:
    """The queue after a reply, and what became of the reply's actions."""

    queue: tuple[PlannedAction, ...]
    late: int = 0
    """Actions of the reply that had already been done (or overtaken) when it arrived."""
    diverged: bool = False
    """What was done meanwhile is not what the reply assumed: its tail must prove itself by its preconditions."""


def join(
    queue: Sequence[PlannedAction],
    reply: Sequence[PlannedAction],
    executed: Sequence[PlannedAction],
    *,
    base_seq: int,
    short_side: int,
    settings: OverlapSettings,
) -> Joined:
    """Join a reply to the queue by steps consumed.

    Everything in the queue before `base_seq` was committed when the reply was asked for, and stays. What stands after
    it is replaced. Actions that were executed at or after `base_seq` have overtaken the reply's first ones: those are
    dropped, as the same if they match, as diverged if not.

    Args:
        queue: Actions still to be done, by rising `seq`.
        reply: The reply's actions, numbered from `base_seq`.
        executed: Actions sent since the reply was asked for, in order.
        base_seq: Number of the reply's first action.
        short_side: Of the screen in pixels, for comparing points.
        settings: Tolerance.
    """
    committed = tuple(planned for planned in queue if planned.seq < base_seq)
    overtaken = [planned for planned in executed if planned.seq >= base_seq]
    late = min(len(overtaken), len(reply))
    diverged = not all(
        same_action(done.action, planned.action, short_side, settings)
        for done, planned in zip(overtaken, reply, strict=False)
    )
    return Joined((*committed, *reply[late:]), late, diverged)


def same_action(a: Action, b: Action, short_side: int, settings: OverlapSettings) -> bool:
    """True when two actions are of one kind and their points are close: averaging two taps would hit neither."""
    near = settings.same_point_share * short_side
    if isinstance(a, Tap | LongPress | Swipe) and type(a) is type(b):
        pairs = zip(points_of(a), points_of(b), strict=True)
        return all(abs(x - u) <= near and abs(y - v) <= near for (x, y), (u, v) in pairs)
    return a == b
