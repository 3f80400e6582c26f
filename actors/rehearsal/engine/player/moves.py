"""What a plan consists of, as text in the compact grammar, and the actions that a prompt says are scheduled."""

import re

import attrs

MAX_MOVES = 5
MAX_WAIT_TENTHS = 99


@attrs.frozen
class TapAt:
    """A tap at a point in thousandths of the screen."""

    x: int
    y: int

    def encoded(self) -> str:
        """`T447,081`."""
        return f"T{self.x:03d},{self.y:03d}"


@attrs.frozen
class SwipeTo:
    """A swipe between two points in thousandths of the screen."""

    x: int
    y: int
    to_x: int
    to_y: int

    def encoded(self) -> str:
        """`S500,700,500,300`."""
        return f"S{self.x:03d},{self.y:03d},{self.to_x:03d},{self.to_y:03d}"


@attrs.frozen
class WaitFor:
    """A pause in tenths of a second."""

    tenths: int

    def encoded(self) -> str:
        """`W03`."""
        return f"W{min(MAX_WAIT_TENTHS, max(1, self.tenths)):02d}"


@attrs.frozen
class Other:
    """Any other action: a key, text, a long press. It changes the screen in a way that nobody predicts here."""

    text: str

    def encoded(self) -> str:
        """As it was written."""
        return self.text


PlayMove = TapAt | SwipeTo | WaitFor | Other

_SCHEDULED = re.compile(r"Already scheduled:[ \t]*(.*)")
_TAP = re.compile(r"T(\d{3}),(\d{3})")
_SWIPE = re.compile(r"S(\d{3}),(\d{3}),(\d{3}),(\d{3})")
_WAIT = re.compile(r"W(\d{1,3})")


def scheduled_moves(text: str) -> tuple[PlayMove, ...]:
    """The actions after the last `Already scheduled:` of a prompt's text; empty for `none` or where it says nothing."""
    found = _SCHEDULED.findall(text)
    if not found or found[-1].strip().lower() in {"", "none"}:
        return ()
    moves: list[PlayMove] = []
    for part in found[-1].strip().split(";"):
        if tap := _TAP.fullmatch(part.strip()):
            moves.append(TapAt(int(tap[1]), int(tap[2])))
        elif swipe := _SWIPE.fullmatch(part.strip()):
            moves.append(SwipeTo(*(int(value) for value in swipe.groups())))
        elif wait := _WAIT.fullmatch(part.strip()):
            moves.append(WaitFor(int(wait[1])))
        elif part.strip():
            moves.append(Other(part.strip()))
    return tuple(moves)


def reply_for(moves: tuple[PlayMove, ...], max_tokens: int) -> str:
    """As many of the moves, in order, as fit in `max_tokens` characters; at least one."""
    assert moves
    text = moves[0].encoded()
    for move in moves[1:MAX_MOVES]:
        longer = f"{text};{move.encoded()}"
        if len(longer) > max_tokens:
            break
        text = longer
    return text
