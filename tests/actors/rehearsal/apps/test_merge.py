import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rehearsal.apps.gesture import Glide
from actors.rehearsal.apps.merge import GLIDE_SECONDS, Merge, direction_of
from actors.rehearsal.apps.merge_board import Board, Direction, board_sum, is_stuck, moved
from actors.rehearsal.engine.player.moves import SwipeTo, TapAt
from tests.kit.rehearsal_play import do_move

cells = st.integers(0, 5)
row = st.tuples(cells, cells, cells, cells)
boards = st.tuples(row, row, row, row)


def turned(board: Board) -> Board:
    return tuple(tuple(line[::-1]) for line in board)


@given(board=boards)
def test_a_move_keeps_the_sum(board: Board) -> None:
    for direction in Direction:
        assert board_sum(moved(board, direction).board) == board_sum(board)


@given(board=boards)
def test_left_and_right_mirror_each_other(board: Board) -> None:
    assert turned(moved(turned(board), Direction.LEFT).board) == moved(board, Direction.RIGHT).board


@given(board=boards)
def test_up_is_left_of_the_transposed_board(board: Board) -> None:
    across = tuple(zip(*board, strict=True))
    assert tuple(zip(*moved(across, Direction.LEFT).board, strict=True)) == moved(board, Direction.UP).board


@given(board=boards)
def test_every_tile_slides_from_where_it_stood(board: Board) -> None:
    for direction in Direction:
        starts = sorted(slide.start for slide in moved(board, direction).slides)
        assert starts == [(r, c) for r in range(4) for c in range(4) if board[r][c]]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 1, 1, 1), (2, 2, 0, 0)),
        ((1, 1, 2, 0), (2, 2, 0, 0)),
        ((0, 1, 0, 1), (2, 0, 0, 0)),
        ((2, 1, 1, 2), (2, 2, 2, 0)),
        ((3, 2, 1, 0), (3, 2, 1, 0)),
    ],
)
def test_a_tile_merges_once(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    empty = (0, 0, 0, 0)
    assert moved((before, empty, empty, empty), Direction.LEFT).board[0] == after


def test_stuck_is_stuck() -> None:
    checker = ((1, 2, 1, 2), (2, 1, 2, 1), (1, 2, 1, 2), (2, 1, 2, 1))
    assert is_stuck(checker)
    assert not is_stuck(((0, *checker[0][1:]), *checker[1:]))


def test_slanted_and_short_swipes_mean_nothing() -> None:
    assert direction_of(Glide(0, 0, 100, 90), 1.0) is None
    assert direction_of(Glide(0, 0, 40, 0), 1.0) is None
    assert direction_of(Glide(0, 0, 100, 20), 1.0) is Direction.RIGHT
    assert direction_of(Glide(0, 0, 10, -100), 1.0) is Direction.UP


def test_a_swipe_during_the_glide_is_ignored() -> None:
    app = Merge(seed=1, width=360, height=640, now=0.0)
    app._state.board = ((1, 0, 0, 0), (0, 2, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0))
    do_move(app, 1.0, SwipeTo(200, 550, 800, 550))
    assert app.truth(1.21)["moving"]
    before = app.truth(1.21)["moves"]
    app._swipe(Direction.DOWN)

    assert app.truth(1.21)["moves"] == before
    assert not app.truth(1.2 + GLIDE_SECONDS + 0.03)["moving"]
    app._swipe(Direction.DOWN)
    assert app.truth(1.5)["moves"] == before + 1


def test_game_over_waits_for_the_new_game_and_the_score_is_the_best() -> None:
    app = Merge(seed=1, width=720, height=1280, now=0.0)
    app._state.board = ((5, 6, 5, 6), (6, 5, 6, 5), (5, 6, 5, 6), (0, 6, 7, 8))
    do_move(app, 1.0, SwipeTo(800, 550, 200, 550))
    stuck = app.truth(2.0)
    assert stuck["over"]
    do_move(app, 2.0, SwipeTo(200, 550, 800, 550))
    assert app.truth(3.0)["board"] == stuck["board"]
    do_move(app, 3.0, TapAt(500, 639))

    assert not app.truth(3.1)["over"]
    assert app.truth(3.1)["games"] == 2
    assert app.truth(3.1)["score"] == stuck["score"] == board_sum(stuck["board"])
    assert "game=new number=2" in [line.text for line in app.take_log(3.1)]
