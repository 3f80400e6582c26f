"""What an episode is about to do, for people who look on. Pure; nothing is decided on it."""

import attrs

from policies.action import PlannedAction


@attrs.frozen
class Outlook:
    """The plan of one episode as it stands."""

    request: str | None = None
    """Id of the request that is out."""
    asked_at: float | None = None
    """When it was asked; the run's clock."""
    base_seq: int | None = None
    """Where its reply begins: what stands before is done whatever it says."""
    doing: PlannedAction | None = None
    """What the phone is doing of it."""
    queue: tuple[PlannedAction, ...] = ()
    dropped: tuple[tuple[PlannedAction, str], ...] = ()
    """Of the newest plan: what is not done, and whether it was `skipped` or `stale`."""
