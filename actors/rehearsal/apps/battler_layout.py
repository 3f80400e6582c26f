"""Where everything of `battler` stands, and in which colour.

Rectangles are in the reference space of 720x1280; the head-up display keeps to the top edge, the enemies to the
middle, the buttons to the bottom edge. The middle 120x120 units of an enemy and of a button look the same
whatever timers and cooldowns do: those are drawn round it.
"""

from enum import StrEnum

from actors.rehearsal.apps.painter import Color
from policies.geometry import Anchor, Box, Region, box_for


class Element(StrEnum):
    """What an enemy is made of, and what a skill is good at."""

    FIRE = "fire"
    WATER = "water"
    LEAF = "leaf"


ELEMENTS = (Element.FIRE, Element.WATER, Element.LEAF)

BEATEN_BY = {Element.FIRE: Element.WATER, Element.WATER: Element.LEAF, Element.LEAF: Element.FIRE}
"""{enemy's element: the skill that hurts it most}"""

ELEMENT_COLOR: dict[Element, Color] = {
    Element.FIRE: (232, 88, 52),
    Element.WATER: (56, 132, 232),
    Element.LEAF: (72, 176, 72),
}

SLOTS = 3
MAX_PIPS = 12

HUD_COLOR: Color = (24, 20, 44)
"""Of the strip along the top edge: nothing else in the bundled apps has it there."""
HEALTH_COLOR: Color = (96, 220, 110)
HEALTH_EMPTY: Color = (70, 30, 44)
PIP_COLOR: Color = (255, 92, 92)
PIP_EMPTY: Color = (58, 44, 70)
TIMER_COLOR: Color = (255, 206, 84)
TIMER_EMPTY: Color = (58, 44, 70)
READY_COLOR: Color = (120, 240, 255)
READY_EMPTY: Color = (40, 44, 66)
SELECTED_COLOR: Color = (255, 255, 255)
POTION_COLOR: Color = (176, 84, 220)
POPUP_PANEL: Color = (255, 244, 214)
POPUP_HEAD: Color = (240, 170, 40)
CLOSE_COLOR: Color = (230, 24, 128)
"""Of the X of a pop-up, here and in the other apps: nothing else has it."""
CLAIM_COLOR: Color = (38, 166, 120)
REVIVE_COLOR: Color = (250, 200, 60)

SCORE_REGION = Region(24, 48, 200, 60, Anchor.TOP_LEFT)
"""The score's digits, white on `HUD_COLOR`, left-aligned."""
HUD_REGION = Region(0, 0, 720, 184, Anchor.TOP)
HEALTH_REGION = Region(24, 132, 672, 32, Anchor.TOP)
REVIVE_REGION = Region(210, 760, 300, 120, Anchor.CENTER)
POPUP_WIDTH, POPUP_HEIGHT = 400, 280
POPUP_AREA = Region(16, 330, 688, 560, Anchor.CENTER)
"""A pop-up opens somewhere within."""

_PIP_WIDTH = 14
_PIP_GAP = 3


def slot_region(slot: int) -> Region:
    """The whole place of an enemy, 0 (left) to 2."""
    return Region(20 + 235 * slot, 380, 210, 330, Anchor.CENTER)


def slot_timer_region(slot: int) -> Region:
    """The bar that empties until the enemy strikes."""
    return Region(35 + 235 * slot, 396, 180, 18, Anchor.CENTER)


def slot_body_region(slot: int) -> Region:
    """The square round an enemy's body."""
    return Region(40 + 235 * slot, 455, 170, 170, Anchor.CENTER)


def pip_region(slot: int, pip: int) -> Region:
    """One notch of an enemy's health, pip 0 to `MAX_PIPS` - 1 from the left."""
    left = 25 + 235 * slot + pip * (_PIP_WIDTH + _PIP_GAP)
    return Region(left, 664, _PIP_WIDTH, 26, Anchor.CENTER)


def skill_region(element: Element) -> Region:
    """A skill's button."""
    return Region(20 + 180 * ELEMENTS.index(element), 1010, 160, 160, Anchor.BOTTOM)


POTION_REGION = Region(560, 1010, 140, 160, Anchor.BOTTOM)


def cooldown_region(button: Region) -> Region:
    """The bar under a button that fills until it is ready."""
    return Region(button.x, button.y + button.height + 16, button.width, 18, Anchor.BOTTOM)


def popup_box(across: float, down: float, width: int, height: int) -> Box:
    """Where a pop-up stands whose place within `POPUP_AREA` is (across, down), each 0 to 1."""
    x = POPUP_AREA.x + round(across * (POPUP_AREA.width - POPUP_WIDTH))
    y = POPUP_AREA.y + round(down * (POPUP_AREA.height - POPUP_HEIGHT))
    return box_for(Region(x, y, POPUP_WIDTH, POPUP_HEIGHT, Anchor.CENTER), width, height)


def popup_close_box(popup: Box, unit: float) -> Box:
    """The X in a pop-up's top right corner."""
    side, margin = round(64 * unit), round(8 * unit)
    return Box(popup.right - margin - side, popup.top + margin, popup.right - margin, popup.top + margin + side)


def popup_claim_box(popup: Box, unit: float) -> Box:
    """The claim button at a pop-up's foot."""
    half, high, margin = round(110 * unit), round(72 * unit), round(24 * unit)
    x = popup.center[0]
    return Box(x - half, popup.bottom - margin - high, x + half, popup.bottom - margin)


def box_contains(box: Box, x: int, y: int) -> bool:
    """True when the pixel lies in the box."""
    return box.left <= x < box.right and box.top <= y < box.bottom
