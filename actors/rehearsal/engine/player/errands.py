"""Reads and plays `errands`."""

import attrs

from actors.rehearsal.apps import errands_layout as layout
from actors.rehearsal.apps.battler_layout import CLOSE_COLOR
from actors.rehearsal.apps.errands_layout import GOAL_COLOR, GOAL_SCREEN, HEADER_COLOR, ROWS, Goal, Screen
from actors.rehearsal.engine.player.moves import PlayMove, TapAt, WaitFor
from actors.rehearsal.engine.player.picture import Picture, distance
from policies.geometry import Box

LOADING_TENTHS = 7
"""How long a screen takes to load, as a rule."""


@attrs.frozen
class ClientSeen:
    """The client as the picture shows it."""

    screen: Screen | None
    """None while it loads."""
    goal: Goal
    close: tuple[int, int] | None
    """The middle of an open pop-up's X in picture pixels."""
    button: tuple[int, int] | None
    """The middle of the button that fulfils the goal, where it is on this screen."""


def read_client(picture: Picture) -> ClientSeen:
    """Read screen, goal, pop-up and the goal's button."""
    width, height = picture.width, picture.height
    header = layout.header_box(width, height)
    right = Box(
        round(width * 0.8), header.top + header.height // 4, round(width * 0.95), header.bottom - header.height // 4
    )
    seen = picture.color(right)
    colors = [*((color, screen) for screen, color in HEADER_COLOR.items()), (layout.LOADING_COLOR, None)]
    screen = min(colors, key=lambda pair: distance(seen, pair[0]))[1]
    chip = layout.goal_chip_box(width, height)
    inset, thick = max(1, chip.width // 4), max(2, chip.height // 8)
    edge = Box(chip.left + inset, chip.bottom - thick - 1, chip.right - inset, chip.bottom - 1)
    chip_color = picture.color(edge)
    goal = min(Goal, key=lambda g: distance(chip_color, GOAL_COLOR[g]))
    close = None if screen is None else picture.spot(CLOSE_COLOR, 36)
    button = None if screen is not GOAL_SCREEN[goal] else _button_for(picture, goal)
    return ClientSeen(screen, goal, close, button)


def plan_client(picture: Picture, seen: ClientSeen, scheduled: tuple[PlayMove, ...]) -> tuple[PlayMove, ...]:
    """What to do after the scheduled moves.

    One that leads to another screen is followed by a wait alone: what the next screen shows is not known yet.
    """
    if seen.screen is None or any(not isinstance(move, WaitFor) for move in scheduled):
        return (WaitFor(2),)
    width, height = picture.width, picture.height
    if seen.close is not None:
        return (_tap(picture, seen.close), WaitFor(1))
    loads = WaitFor(LOADING_TENTHS)
    if seen.screen is Screen.LOGIN:
        return (_tap(picture, layout.start_box(width, height).center), loads)
    wanted = GOAL_SCREEN[seen.goal]
    if seen.screen is Screen.LOBBY:
        return (_tap(picture, layout.lobby_box(wanted, width, height).center), loads)
    if seen.button is not None:
        return (_tap(picture, seen.button), loads if seen.goal is Goal.TURN_SCREEN else WaitFor(2))
    return (_tap(picture, layout.back_box(width, height).center), loads)


def _button_for(picture: Picture, goal: Goal) -> tuple[int, int] | None:
    width, height = picture.width, picture.height
    match goal:
        case Goal.CLAIM_DAILY:
            boxes = [layout.claim_box(width, height)]
        case Goal.TURN_SCREEN:
            boxes = [layout.turn_box(sideways=lies, width=width, height=height) for lies in (False, True)]
        case _:
            boxes = [layout.row_button_box(row, width, height) for row in range(ROWS)]
    for box in boxes:
        # A strip above the text, where the button has nothing but its colour.
        strip = Box(
            box.left + box.width // 5,
            box.top + box.height // 10,
            box.right - box.width // 5,
            box.top + max(box.height // 10 + 2, box.height // 5),
        )
        if picture.has_color(strip, GOAL_COLOR[goal]):
            return box.center
    return None


def _tap(picture: Picture, pixel: tuple[int, int]) -> TapAt:
    return TapAt(*picture.per_mille(*pixel))
