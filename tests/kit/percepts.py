"""Percepts without pixels: a screen of coloured cells that tests repaint."""

import numpy as np

from inference.messages import TextPart
from policies.perception import Percept
from policies.planner import PlanReply, PlanRequest
from policies.probes import Reading
from policies.thumbnail import Thumbnail

WIDTH, HEIGHT = 720, 1280
ROWS, COLUMNS = 64, 36


def cells(**patches: tuple[int, int, int, int, int]) -> np.ndarray:
    """A grey screen; each patch is (left, top, right, bottom, grey value) in cells."""
    painted = np.full((ROWS, COLUMNS, 3), 128, np.uint8)
    for left, top, right, bottom, value in patches.values():
        painted[top:bottom, left:right] = value
    return painted


def percept(
    seq: int,
    at: float,
    painted: np.ndarray | None = None,
    *,
    epoch: int = 0,
    readings: dict[str, Reading] | None = None,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> Percept:
    """A percept of a frame that was asked for at `at` and came 10 ms later."""
    screen = cells() if painted is None else painted
    return Percept(seq, at, at + 0.01, epoch, size[0], size[1], 0, Thumbnail(screen.copy()), readings or {})


def reply(request: PlanRequest, text: str, *, cut: bool = False) -> PlanReply:
    """An answer to a request."""
    return PlanReply(request.request_id, text, cut, len(text), 10, 100, 0.0, 0.1, 0.2, "e0", "rehearsal-test", "sticky")


def query_of(request: PlanRequest) -> str:
    """The last text of a request."""
    part = request.turns[-1].parts[-1]
    assert isinstance(part, TextPart)
    return part.text
