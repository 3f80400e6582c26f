"""Whether somebody holds an episode, as seen from its policy: when that begins and ends. Pure."""

from enum import StrEnum

import attrs


class HoldChange(StrEnum):
    """What a step finds."""

    FREE = "free"
    BEGAN = "began"
    HELD = "held"
    ENDED = "ended"


@attrs.define
class HoldWatch:
    """Keeps who holds one episode. Equal calls give equal states."""

    by: str | None = None
    """None: the bot plays."""
    released_at: float = float("-inf")
    """Frames that were asked for before this show what a person did, or was about to do."""

    def step(self, held: str | None, now: float) -> HoldChange:
        """Take what a step says."""
        was, self.by = self.by, held
        if held is not None:
            return HoldChange.BEGAN if was is None else HoldChange.HELD
        if was is None:
            return HoldChange.FREE
        self.released_at = now
        return HoldChange.ENDED
