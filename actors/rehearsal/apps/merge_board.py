"""The board of `merge` as numbers: how a swipe moves it. Used by the app, and by whoever plays it ahead in mind."""

from enum import StrEnum

import attrs

SIDE = 4

Board = tuple[tuple[int, ...], ...]
"""Rows from the top, each from the left; 0 is empty, n > 0 is a tile of value 2 ** n."""

EMPTY_BOARD: Board = ((0,) * SIDE,) * SIDE


class Direction(StrEnum):
    """Where a swipe pushes the tiles."""

    LEFT = "left"
    RIGHT = "right"
    UP = "up"
    DOWN = "down"


@attrs.frozen
class Slide:
    """One tile's way in a move: from (row, column) to (row, column)."""

    exponent: int
    start: tuple[int, int]
    end: tuple[int, int]


@attrs.frozen
class Move:
    """What a swipe does."""

    board: Board
    """After it, before a new tile appears."""
    slides: tuple[Slide, ...]
    changed: bool


def board_sum(board: Board) -> int:
    """The sum of all tiles."""
    return sum(2**exponent for row in board for exponent in row if exponent)


def _cell(direction: Direction, line: int, place: int) -> tuple[int, int]:
    """(row, column) of the place-th cell of a line, counted from the edge that the tiles are pushed to."""
    match direction:
        case Direction.LEFT:
            return (line, place)
        case Direction.RIGHT:
            return (line, SIDE - 1 - place)
        case Direction.UP:
            return (place, line)
        case Direction.DOWN:
            return (SIDE - 1 - place, line)


def moved(board: Board, direction: Direction) -> Move:
    """Push all tiles; two equal ones that meet become one of twice the value, once in a move."""
    after = [[0] * SIDE for _ in range(SIDE)]
    slides: list[Slide] = []
    for line in range(SIDE):
        place, mergeable = -1, False
        for number in range(SIDE):
            row, column = _cell(direction, line, number)
            exponent = board[row][column]
            if not exponent:
                continue
            if mergeable:
                end_row, end_column = _cell(direction, line, place)
                if after[end_row][end_column] == exponent:
                    after[end_row][end_column] += 1
                    slides.append(Slide(exponent, (row, column), (end_row, end_column)))
                    mergeable = False
                    continue
            place += 1
            end_row, end_column = _cell(direction, line, place)
            after[end_row][end_column] = exponent
            slides.append(Slide(exponent, (row, column), (end_row, end_column)))
            mergeable = True
    result = tuple(tuple(row) for row in after)
    return Move(result, tuple(slides), changed=result != board)


def is_stuck(board: Board) -> bool:
    """True when no swipe changes anything."""
    return not any(moved(board, direction).changed for direction in Direction)


def with_tile(board: Board, row: int, column: int, exponent: int) -> Board:
    """The board with one cell set."""
    rows = [list(line) for line in board]
    rows[row][column] = exponent
    return tuple(tuple(line) for line in rows)


def empty_cells(board: Board) -> tuple[tuple[int, int], ...]:
    """(row, column) of every empty cell, row by row."""
    return tuple((r, c) for r in range(SIDE) for c in range(SIDE) if not board[r][c])
