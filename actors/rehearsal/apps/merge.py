"""`merge`: a 4x4 puzzle of doubling tiles, driven by swipes.

A swipe pushes all tiles; equal ones that meet become one of twice the value; then a new tile appears. While the
tiles glide (150 ms), swipes are ignored. A swipe counts when it is long enough and clearly along one axis.
When nothing can move, a game-over screen waits for its "New game" button (`over` is true until then).

Score: the largest sum of all tiles that any board of this episode had.

Log, tag `merge`: `score=24 moves=9`, `game=over sum=340`, `game=new number=2`.
"""

from typing import Any

import attrs
import numpy as np

from actors.rehearsal.apps.base import Canvas, LogLine, Touch
from actors.rehearsal.apps.battler_layout import box_contains
from actors.rehearsal.apps.clock import TICK_SECONDS, TickClock
from actors.rehearsal.apps.gesture import Click, GestureReader, Glide
from actors.rehearsal.apps.merge_board import (
    EMPTY_BOARD,
    Board,
    Direction,
    Slide,
    board_sum,
    empty_cells,
    is_stuck,
    moved,
    with_tile,
)
from actors.rehearsal.apps.merge_drawing import MergeDrawing
from actors.rehearsal.apps.merge_layout import NEW_GAME_REGION
from actors.rehearsal.apps.painter import unit_for
from policies.geometry import box_for

GLIDE_SECONDS = 0.15
MIN_SWIPE = 60.0
"""Units that a finger must travel."""
AXIS_RATIO = 1.7
"""How much farther it must travel along one axis than along the other: a diagonal swipe means nothing."""
FOUR_SHARE = 0.1
"""Share of new tiles that are a 4."""


def direction_of(glide: Glide, unit: float) -> Direction | None:
    """Where a swipe pushes, None when it is too short or too slanted."""
    across, down = glide.to_x - glide.x, glide.to_y - glide.y
    long, short = max(abs(across), abs(down)), min(abs(across), abs(down))
    if long < MIN_SWIPE * unit or long < AXIS_RATIO * short:
        return None
    if abs(across) > abs(down):
        return Direction.RIGHT if across > 0 else Direction.LEFT
    return Direction.DOWN if down > 0 else Direction.UP


@attrs.define
class MergeState:
    """The puzzle, game after game."""

    dice: np.random.Generator
    board: Board = EMPTY_BOARD
    slides: tuple[Slide, ...] = ()
    """Tiles on their way; empty when all stand still."""
    glide_left: float = 0.0
    """Seconds until they have arrived."""
    fresh: tuple[int, int] | None = None
    """(row, column) of the tile that appeared last."""
    best: int = 0
    """The score: the largest sum so far."""
    moves: int = 0
    games: int = 0
    over: bool = False


class Merge:
    """One running puzzle. See `actors.rehearsal.apps.base.App`."""

    name = "merge"
    rotation = 0

    def __init__(self, *, seed: int, width: int, height: int, now: float) -> None:
        self._width, self._height = width, height
        self._unit = unit_for(width, height)
        self._clock = TickClock(now)
        self._state = MergeState(np.random.default_rng(seed))
        self._drawing = MergeDrawing(width, height)
        self._gestures = GestureReader()
        self._log: list[LogLine] = []
        self._new_game()

    def draw(self, now: float) -> Canvas:
        """The screen at `now`."""
        self._advance(now)
        state = self._state
        share = 1.0 - state.glide_left / GLIDE_SECONDS if state.slides else 1.0
        return self._drawing.draw(state.board, state.slides, share, state.best, over=state.over)

    def touch(self, now: float, touch: Touch) -> None:
        """A swipe moves the board when the finger lifts; a click matters on the game-over screen alone."""
        self._advance(now)
        gesture = self._gestures.read(touch, self._unit)
        if isinstance(gesture, Glide):
            direction = direction_of(gesture, self._unit)
            if direction is not None:
                self._swipe(direction)
        elif isinstance(gesture, Click) and self._state.over:
            box = box_for(NEW_GAME_REGION, self._width, self._height)
            if box_contains(box, gesture.x, gesture.y):
                self._new_game()

    def key(self, now: float, name: str) -> None:  # noqa: ARG002 (the protocol's signature)
        """No key does anything here."""
        self._advance(now)

    def type_text(self, now: float, text: str) -> None:  # noqa: ARG002 (the protocol's signature)
        """There is no field to type into."""
        self._advance(now)

    def take_log(self, now: float) -> tuple[LogLine, ...]:
        """Log lines since the last call."""
        self._advance(now)
        lines, self._log = tuple(self._log), []
        return lines

    def truth(self, now: float) -> dict[str, Any]:
        """Score, over, board (exponents), moving (tiles glide), moves and games."""
        self._advance(now)
        state = self._state
        return {
            "score": float(state.best),
            "over": state.over,
            "board": state.board,
            "moving": bool(state.slides),
            "moves": state.moves,
            "games": state.games,
        }

    def _advance(self, now: float) -> None:
        ticks = self._clock.ticks_due(now)
        state = self._state
        if ticks and state.slides:
            state.glide_left -= ticks * TICK_SECONDS
            if state.glide_left <= 1e-9:
                self._land()

    def _swipe(self, direction: Direction) -> None:
        state = self._state
        if state.over or state.slides:
            return
        move = moved(state.board, direction)
        if not move.changed:
            return
        state.board, state.slides, state.glide_left = move.board, move.slides, GLIDE_SECONDS
        state.moves += 1

    def _land(self) -> None:
        """All tiles have arrived: a new one appears, and the game may be over."""
        state = self._state
        state.slides, state.glide_left = (), 0.0
        self._spawn()
        total = board_sum(state.board)
        if total > state.best:
            state.best = total
            self._note(f"score={total} moves={state.moves}")
        if is_stuck(state.board):
            state.over = True
            self._note(f"game=over sum={total}")

    def _spawn(self) -> None:
        state = self._state
        cells = empty_cells(state.board)
        row, column = cells[int(state.dice.integers(len(cells)))]
        exponent = 2 if state.dice.random() < FOUR_SHARE else 1
        state.board = with_tile(state.board, row, column, exponent)
        state.fresh = (row, column)

    def _new_game(self) -> None:
        state = self._state
        state.board, state.over = EMPTY_BOARD, False
        state.games += 1
        self._spawn()
        self._spawn()
        state.best = max(state.best, board_sum(state.board))
        self._note(f"game=new number={state.games}")

    def _note(self, text: str) -> None:
        self._log.append(LogLine(self._clock.seconds, "I", "merge", text))
