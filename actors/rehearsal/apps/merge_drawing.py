"""The pictures of `merge`."""

from actors.rehearsal.apps import merge_layout as layout
from actors.rehearsal.apps.base import Canvas
from actors.rehearsal.apps.merge_board import SIDE, Board, Slide
from actors.rehearsal.apps.painter import WHITE, Painter, mixed
from policies.geometry import Box, box_for


class MergeDrawing:
    """Draws one puzzle at one size. Tiles are drawn once a value and pasted."""

    def __init__(self, width: int, height: int) -> None:
        self._painter = Painter(width, height)
        self._background = self._draw_background()
        self._tiles: dict[int, Canvas] = {}
        """{exponent: its square}"""

    def draw(self, board: Board, slides: tuple[Slide, ...], share: float, best: int, *, over: bool) -> Canvas:
        """The screen; the canvas is reused by the next call.

        Args:
            board: Where tiles stand, or will when they have arrived.
            slides: Tiles on their way: while there are any, they are drawn instead of the board.
            share: How much of their way they have gone, 0 to 1.
            best: The score.
            over: True to draw the game-over screen above all.
        """
        painter = self._painter
        painter.paste(self._background)
        if slides:
            for slide in slides:
                start, end = self._cell(*slide.start), self._cell(*slide.end)
                left = round(start.left + (end.left - start.left) * share)
                top = round(start.top + (end.top - start.top) * share)
                self._paste_tile(left, top, slide.exponent)
        else:
            for row in range(SIDE):
                for column in range(SIDE):
                    if board[row][column]:
                        cell = self._cell(row, column)
                        self._paste_tile(cell.left, cell.top, board[row][column])
        score = box_for(layout.SCORE_REGION, painter.width, painter.height)
        painter.text(str(best), score.left, score.center[1], 92, layout.DARK_INK, weight=800, align="left")
        if over:
            self._draw_over(best)
        return painter.canvas

    def _cell(self, row: int, column: int) -> Box:
        return layout.cell_box(row, column, self._painter.width, self._painter.height)

    def _draw_background(self) -> Canvas:
        painter = self._painter
        painter.gradient(layout.PAPER, mixed(layout.PAPER, layout.TILE_COLORS[2], 0.35))
        # The strip that tells this app from others has one colour throughout.
        painter.rectangle(Box(0, 0, painter.width, round(90 * painter.unit)), layout.PAPER)
        unit = painter.unit
        score = box_for(layout.SCORE_REGION, painter.width, painter.height)
        painter.text("SUM OF TILES", score.left, score.top - 26 * unit, 30, layout.BOARD_COLOR, align="left")
        right = painter.width - 32 * unit
        painter.text("merge", right, score.center[1], 76, layout.NEW_GAME_COLOR, weight=800, align="right")
        board = box_for(layout.BOARD_REGION, painter.width, painter.height)
        painter.text(
            "Swipe to join equal tiles", board.center[0], board.top - 44 * unit, 34, layout.DARK_INK, weight=400
        )
        painter.rounded(board, layout.BOARD_COLOR, 18)
        for row in range(SIDE):
            for column in range(SIDE):
                painter.rounded(self._cell(row, column), layout.EMPTY_COLOR, 12)
        return painter.snapshot()

    def _paste_tile(self, left: int, top: int, exponent: int) -> None:
        if exponent not in self._tiles:
            self._tiles[exponent] = self._tile(exponent)
        tile = self._tiles[exponent]
        self._painter.canvas[top : top + tile.shape[0], left : left + tile.shape[1]] = tile

    def _tile(self, exponent: int) -> Canvas:
        side = round(layout.cell_region(0, 0).width * self._painter.unit)
        brush = Painter(side, side)
        brush.unit = self._painter.unit
        brush.rectangle(Box(0, 0, side, side), layout.BOARD_COLOR)
        brush.rounded(Box(0, 0, side, side), layout.TILE_COLORS[exponent], 12)
        text = str(2**exponent)
        ink = layout.DARK_INK if exponent <= 2 else WHITE
        brush.text(text, side / 2, side / 2, {1: 84, 2: 80, 3: 64, 4: 50}.get(len(text), 40), ink, weight=700)
        return brush.canvas

    def _draw_over(self, best: int) -> None:
        painter = self._painter
        unit, x = painter.unit, painter.width / 2
        painter.darken(0.7, round(200 * unit))  # the score stays readable
        button = box_for(layout.NEW_GAME_REGION, painter.width, painter.height)
        painter.text("Game over", x, button.top - 260 * unit, 96, WHITE, weight=800)
        painter.text(f"Best sum {best}", x, button.top - 150 * unit, 52, layout.TILE_COLORS[2])
        painter.rounded(button, layout.NEW_GAME_COLOR, 24)
        painter.text("New game", *button.center, 54, WHITE, weight=700)
