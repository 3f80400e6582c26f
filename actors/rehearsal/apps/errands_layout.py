"""Where everything of `errands` stands, upright and sideways, and in which colour.

Each function takes the size of the screen (or of a picture of it) and answers in its pixels; a screen wider than
high gets the sideways arrangement.
"""

from enum import StrEnum

from actors.rehearsal.apps.painter import Color, unit_for
from policies.geometry import Anchor, Box, Region, box_for


class Screen(StrEnum):
    """What the client shows."""

    LOGIN = "login"
    LOBBY = "lobby"
    MAIL = "mail"
    SHOP = "shop"
    DAILY = "daily"
    SETTINGS = "settings"


class Goal(StrEnum):
    """An errand; the value is its name in the log."""

    CLAIM_DAILY = "claim_daily"
    READ_MAIL = "read_mail"
    BUY_GIFT = "buy_gift"
    TURN_SCREEN = "turn_screen"


GOAL_TEXT = {
    Goal.CLAIM_DAILY: "Claim the daily reward",
    Goal.READ_MAIL: "Read the new mail",
    Goal.BUY_GIFT: "Buy the free gift",
    Goal.TURN_SCREEN: "Landscape and back",
}
GOAL_SCREEN = {
    Goal.CLAIM_DAILY: Screen.DAILY,
    Goal.READ_MAIL: Screen.MAIL,
    Goal.BUY_GIFT: Screen.SHOP,
    Goal.TURN_SCREEN: Screen.SETTINGS,
}
GOAL_COLOR: dict[Goal, Color] = {
    Goal.CLAIM_DAILY: (255, 178, 36),
    Goal.READ_MAIL: (84, 150, 255),
    Goal.BUY_GIFT: (56, 190, 100),
    Goal.TURN_SCREEN: (176, 96, 224),
}
"""Of the goal's chip on the banner, and of the one button that fulfils it."""

LOBBY_SCREENS = (Screen.MAIL, Screen.SHOP, Screen.DAILY, Screen.SETTINGS)
ROWS = 3
"""Letters in the mail, offers in the shop."""

BANNER_COLOR: Color = (14, 78, 92)
"""Of the strip along the top edge: nothing else in the bundled apps has it there."""
HEADER_COLOR: dict[Screen, Color] = {
    Screen.LOGIN: (96, 104, 120),
    Screen.LOBBY: (40, 56, 110),
    Screen.MAIL: (28, 104, 190),
    Screen.SHOP: (28, 132, 84),
    Screen.DAILY: (204, 126, 24),
    Screen.SETTINGS: (122, 76, 168),
}
LOADING_COLOR: Color = (30, 32, 38)
"""Of the whole screen below the banner while it loads."""
START_COLOR: Color = (244, 96, 72)
SPENT_COLOR: Color = (160, 166, 176)
PRICED_COLOR: Color = (120, 128, 150)


def _region(x: int, y: int, width: int, height: int, anchor: Anchor, *, sideways: bool) -> Region:
    return Region(x, y, width, height, anchor, (1280, 720) if sideways else (720, 1280))


def _box(width: int, height: int, upright: tuple[int, ...], sideways: tuple[int, ...], anchor: Anchor) -> Box:
    lies = width > height
    x, y, across, down = sideways if lies else upright
    return box_for(_region(x, y, across, down, anchor, sideways=lies), width, height)


def banner_box(width: int, height: int) -> Box:
    """The strip with goal and score."""
    return Box(0, 0, width, round(120 * unit_for(width, height)))


def header_box(width: int, height: int) -> Box:
    """The strip under the banner with the screen's name."""
    unit = unit_for(width, height)
    return Box(0, round(120 * unit), width, round(204 * unit))


def goal_chip_box(width: int, height: int) -> Box:
    """The square on the banner in the goal's colour."""
    return _box(width, height, (24, 24, 72, 72), (24, 24, 72, 72), Anchor.TOP_LEFT)


SCORE_REGION = Region(576, 30, 124, 60, Anchor.TOP_RIGHT)
"""The digits of the score, white on `BANNER_COLOR`, left-aligned; upright screens."""


def score_box(width: int, height: int) -> Box:
    """The score's digits, upright or sideways."""
    return _box(width, height, (576, 30, 124, 60), (1136, 30, 124, 60), Anchor.TOP_RIGHT)


def back_box(width: int, height: int) -> Box:
    """The arrow in the header that leads back to the lobby."""
    return _box(width, height, (12, 124, 110, 76), (12, 124, 110, 76), Anchor.TOP_LEFT)


def start_box(width: int, height: int) -> Box:
    """The login's button."""
    return _box(width, height, (160, 900, 400, 130), (440, 500, 400, 130), Anchor.BOTTOM)


def lobby_box(screen: Screen, width: int, height: int) -> Box:
    """The tile that leads to a screen: two by two upright, four in a row sideways."""
    number = LOBBY_SCREENS.index(screen)
    upright = (60 + 320 * (number % 2), 400 + 340 * (number // 2), 280, 300)
    return _box(width, height, upright, (60 + 300 * number, 300, 260, 280), Anchor.CENTER)


def row_box(row: int, width: int, height: int) -> Box:
    """A letter in the mail or an offer in the shop."""
    upright, sideways = (40, 300 + 230 * row, 640, 200), (100, 225 + 160 * row, 1080, 145)
    return _box(width, height, upright, sideways, Anchor.TOP)


def row_button_box(row: int, width: int, height: int) -> Box:
    """The button at a row's right end."""
    upright, sideways = (480, 340 + 230 * row, 176, 120), (960, 238 + 160 * row, 190, 120)
    return _box(width, height, upright, sideways, Anchor.TOP)


def day_box(day: int, width: int, height: int) -> Box:
    """One of the six days in the daily reward's calendar."""
    upright = (50 + 215 * (day % 3), 300 + 230 * (day // 3), 190, 200)
    return _box(width, height, upright, (65 + 195 * day, 250, 170, 190), Anchor.TOP)


def claim_box(width: int, height: int) -> Box:
    """The daily reward's button."""
    return _box(width, height, (160, 960, 400, 130), (440, 520, 400, 130), Anchor.BOTTOM)


def turn_box(*, sideways: bool, width: int, height: int) -> Box:
    """The settings' button for that orientation."""
    left = 380 if sideways else 60
    return _box(width, height, (left, 420, 280, 200), (680 if sideways else 240, 300, 360, 180), Anchor.CENTER)


def popup_box(across: float, down: float, width: int, height: int) -> Box:
    """Where a pop-up stands whose place is (across, down), each 0 to 1; it never covers the banner."""
    unit = unit_for(width, height)
    wide, high = round(480 * unit), round(340 * unit)
    left, top = round(20 * unit), round(224 * unit)
    x = left + round(across * max(0, width - 2 * left - wide))
    y = top + round(down * max(0, height - top - left - high))
    return Box(x, y, x + wide, y + high)


def popup_close_box(popup: Box, unit: float) -> Box:
    """The X in a pop-up's top right corner."""
    side, margin = round(72 * unit), round(10 * unit)
    return Box(popup.right - margin - side, popup.top + margin, popup.right - margin, popup.top + margin + side)
