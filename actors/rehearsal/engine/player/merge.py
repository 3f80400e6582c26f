"""Reads and plays `merge`."""

import attrs

from actors.rehearsal.apps import merge_layout as layout
from actors.rehearsal.apps.merge_board import (
    SIDE,
    Board,
    Direction,
    board_sum,
    empty_cells,
    moved,
    with_tile,
)
from actors.rehearsal.engine.player.moves import MAX_MOVES, PlayMove, SwipeTo, TapAt, WaitFor
from actors.rehearsal.engine.player.picture import Picture, distance
from policies.geometry import Box

TILE_TOLERANCE = 26.0
"""Largest distance from a tile's colour: half of the smallest distance between two of them."""
LOOK_AHEAD_CELLS = 4
"""Empty cells in which a new tile is tried when a move is judged."""
_WEIGHTS = (
    (0.1, 0.2, 0.3, 0.5),
    (1.2, 1.0, 0.8, 0.6),
    (2.0, 2.6, 3.2, 4.0),
    (14.0, 10.0, 7.5, 5.5),
)
"""How much a tile is worth in each cell: large ones belong in the bottom row, in a snake."""
_SAFE = (Direction.DOWN, Direction.LEFT, Direction.DOWN, Direction.RIGHT)
"""What never spoils the corner, for pictures that cannot be read."""


@attrs.frozen
class PuzzleSeen:
    """A puzzle as the picture shows it."""

    over: bool
    board: Board | None
    """None while tiles glide."""


def read_puzzle(picture: Picture) -> PuzzleSeen:
    """Read the board from the corners of its cells, where no digit stands."""
    border = picture.box(layout.BOARD_REGION)
    edge = max(1, round(3 * picture.unit))
    rail = Box(
        border.left + edge, border.top + border.height // 4, border.left + 3 * edge, border.bottom - border.height // 4
    )
    if float(picture.color(rail).mean()) < 0.6 * sum(layout.BOARD_COLOR) / 3:
        return PuzzleSeen(over=True, board=None)
    rows: list[tuple[int, ...]] = []
    for row in range(SIDE):
        cells = [_exponent_at(picture, row, column) for column in range(SIDE)]
        if any(cell is None for cell in cells):
            return PuzzleSeen(over=False, board=None)
        rows.append(tuple(cell for cell in cells if cell is not None))
    return PuzzleSeen(over=False, board=tuple(rows))


def plan_puzzle(picture: Picture, seen: PuzzleSeen, scheduled: tuple[PlayMove, ...]) -> tuple[PlayMove, ...]:
    """What to do after the scheduled moves: up to `MAX_MOVES` swipes, each judged on the board it will find.

    New tiles cannot be foreseen, so that later swipes of a plan are good guesses.
    """
    pressed = any(isinstance(move, TapAt) for move in scheduled)
    if seen.over and not pressed:
        button = picture.box(layout.NEW_GAME_REGION)
        return (TapAt(*picture.per_mille(*button.center)), WaitFor(3))
    if seen.board is None:
        return tuple(_swipe(picture, direction) for direction in _SAFE)
    board = seen.board
    for move in scheduled:
        if isinstance(move, SwipeTo) and (direction := _direction_of(picture, move)) is not None:
            board = moved(board, direction).board
    moves: list[PlayMove] = []
    while len(moves) < MAX_MOVES:
        best = best_direction(board)
        if best is None:
            # No swipe changes this board, but a tile that we cannot see yet will have appeared.
            moves += [_swipe(picture, d) for d in _SAFE[: MAX_MOVES - len(moves)]] if not moves else []
            break
        board = moved(board, best).board
        moves.append(_swipe(picture, best))
    return tuple(moves)


def best_direction(board: Board) -> Direction | None:
    """The swipe after which the board looks best, one new tile ahead; None when none changes it."""
    scores = {d: _outlook(moved(board, d).board) for d in Direction if moved(board, d).changed}
    return max(scores, key=lambda d: scores[d]) if scores else None


def _outlook(board: Board) -> float:
    """The mean worth of the best answers to a new tile, tried in a few of the empty cells."""
    cells = empty_cells(board)
    if not cells:
        return _worth(board)
    step = max(1, len(cells) // LOOK_AHEAD_CELLS)
    tried = cells[::step][:LOOK_AHEAD_CELLS]
    total = 0.0
    for row, column in tried:
        after = with_tile(board, row, column, 1)
        answers = [_worth(move.board) for move in (moved(after, d) for d in Direction) if move.changed]
        total += max(answers, default=-1e6)
    return total / len(tried)


def _worth(board: Board) -> float:
    """Large tiles in the snake's head, many empty cells, few neighbours that differ much."""
    total = board_sum(board) or 1
    placed: float = sum(
        _WEIGHTS[r][c] * float(1 << board[r][c]) for r in range(SIDE) for c in range(SIDE) if board[r][c]
    )
    rough = 0
    for r in range(SIDE):
        for c in range(SIDE):
            here = board[r][c]
            if not here:
                continue
            if c + 1 < SIDE and board[r][c + 1]:
                rough += abs(here - board[r][c + 1])
            if r + 1 < SIDE and board[r + 1][c]:
                rough += abs(here - board[r + 1][c])
    return placed / total + 0.7 * len(empty_cells(board)) - 0.12 * rough


def _exponent_at(picture: Picture, row: int, column: int) -> int | None:
    """The cell's tile, None when its corners disagree: a tile is on its way."""
    box = layout.cell_box(row, column, picture.width, picture.height)
    near, wide = 0.12, max(1, round(box.width * 0.04))
    seen: set[int] = set()
    for down in (near, 1 - near):
        for across in (near, 1 - near):
            x, y = box.left + round(box.width * across), box.top + round(box.height * down)
            color = picture.color(Box(x - wide, y - wide, x + wide, y + wide))
            apart = [distance(color, tile) for tile in layout.TILE_COLORS]
            best = min(range(len(apart)), key=lambda n: apart[n])
            if apart[best] > TILE_TOLERANCE:
                return None
            seen.add(best)
    return seen.pop() if len(seen) == 1 else None


_ENDS = {
    Direction.LEFT: ((0.8, 0.5), (0.2, 0.5)),
    Direction.RIGHT: ((0.2, 0.5), (0.8, 0.5)),
    Direction.UP: ((0.5, 0.8), (0.5, 0.2)),
    Direction.DOWN: ((0.5, 0.2), (0.5, 0.8)),
}


def _swipe(picture: Picture, direction: Direction) -> SwipeTo:
    board = picture.box(layout.BOARD_REGION)
    points = [
        picture.per_mille(board.left + board.width * x, board.top + board.height * y) for x, y in _ENDS[direction]
    ]
    return SwipeTo(*points[0], *points[1])


def _direction_of(picture: Picture, swipe: SwipeTo) -> Direction | None:
    (x, y), (to_x, to_y) = picture.pixel(swipe.x, swipe.y), picture.pixel(swipe.to_x, swipe.to_y)
    across, down = to_x - x, to_y - y
    if max(abs(across), abs(down)) < 1.7 * min(abs(across), abs(down)):
        return None
    if abs(across) > abs(down):
        return Direction.RIGHT if across > 0 else Direction.LEFT
    return Direction.DOWN if down > 0 else Direction.UP
