"""What an episode counts: the numbers of its summary."""

import attrs

from policies.staleness import Stale


@attrs.define
class Tally:
    """Counts of one episode so far."""

    steps: int = 0
    reflex: int = 0
    planned: int = 0
    retried: int = 0
    recovered: int = 0
    act_errors: int = 0
    stale_age: int = 0
    stale_target: int = 0
    stale_geometry: int = 0
    voided: int = 0
    """Planned actions that a reflex, a lost phone or a failed predecessor made void."""
    late: int = 0
    """Actions of replies that had been overtaken."""
    off_screen: int = 0
    no_effect: int = 0
    effects_seen: int = 0
    plans_requested: int = 0
    plans_completed: int = 0
    plans_failed: int = 0
    plans_aborted: int = 0
    output_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    thinking_characters: int = 0
    stall_seconds: float = 0.0
    active_seconds: float = 0.0
    """Without those of pauses."""
    pauses: int = 0
    """Times that a person was needed."""
    paused_seconds: float = 0.0

    def count_stale(self, stale: Stale) -> None:
        """Count one action that was not done because it was stale."""
        match stale:
            case Stale.AGE:
                self.stale_age += 1
            case Stale.TARGET:
                self.stale_target += 1
            case Stale.GEOMETRY:
                self.stale_geometry += 1
            case Stale.REFLEX:
                self.voided += 1

    @property
    def stale_share(self) -> float:
        """Stale actions / planned actions that came up for execution; 0 where none did."""
        stale = self.stale_age + self.stale_target + self.stale_geometry
        came_up = stale + self.planned
        return stale / came_up if came_up else 0.0

    @property
    def stall_fraction(self) -> float:
        """Share of the active time in which there was nothing to execute because a plan was awaited."""
        return min(1.0, self.stall_seconds / self.active_seconds) if self.active_seconds > 0 else 0.0
