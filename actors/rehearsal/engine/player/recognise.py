"""Which of the bundled apps a picture shows."""

from actors.rehearsal.apps.battler_layout import HUD_COLOR
from actors.rehearsal.apps.errands_layout import BANNER_COLOR
from actors.rehearsal.apps.merge_layout import PAPER
from actors.rehearsal.engine.player.picture import SAME_COLOR, Picture, distance
from policies.geometry import Box

_STRIP_COLORS = {"battler": HUD_COLOR, "merge": PAPER, "errands": BANNER_COLOR}


def app_shown(picture: Picture) -> str | None:
    """`battler`, `merge` or `errands` by the strip along the top edge, None for anything else."""
    unit = picture.unit
    # Between 16 and 24 units from the top, in the middle: no app writes there, and no hurt border reaches there.
    middle = picture.width / 2
    strip = Box(round(middle - 60 * unit), round(16 * unit), round(middle + 60 * unit), round(24 * unit))
    seen = picture.color(strip)
    name, apart = min(
        ((name, distance(seen, color)) for name, color in _STRIP_COLORS.items()), key=lambda pair: pair[1]
    )
    return name if apart <= SAME_COLOR / 2 else None
