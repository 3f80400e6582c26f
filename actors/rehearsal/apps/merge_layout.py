"""Where everything of `merge` stands, and in which colour. Reference space 720x1280.

Every tile value has a colour of its own, so that a cell can be read from its corners, where no digit stands.
"""

from actors.rehearsal.apps.merge_board import SIDE
from actors.rehearsal.apps.painter import Color
from policies.geometry import Anchor, Box, Region, box_for

PAPER: Color = (250, 246, 236)
"""Of the strip along the top edge: nothing else in the bundled apps has it there."""
BOARD_COLOR: Color = (150, 138, 126)
EMPTY_COLOR: Color = (196, 184, 172)
NEW_GAME_COLOR: Color = (240, 120, 60)
DARK_INK: Color = (104, 92, 82)

TILE_COLORS: tuple[Color, ...] = (
    EMPTY_COLOR,
    (238, 228, 216),  # 2
    (240, 216, 160),  # 4
    (250, 176, 96),  # 8
    (246, 132, 70),  # 16
    (240, 92, 84),  # 32
    (206, 50, 50),  # 64
    (226, 206, 60),  # 128
    (150, 196, 60),  # 256
    (50, 168, 90),  # 512
    (32, 166, 178),  # 1024
    (44, 116, 206),  # 2048
    (92, 76, 196),  # 4096
    (150, 64, 180),  # 8192
    (196, 50, 140),  # 16384
    (92, 36, 60),  # 32768
    (40, 36, 44),  # 65536
    (120, 120, 128),  # 131072: the highest that a 4x4 board can hold
)

SCORE_REGION = Region(32, 96, 330, 84, Anchor.TOP_LEFT)
"""The digits of the board's best sum, dark on `PAPER`, left-aligned."""
BOARD_REGION = Region(30, 380, 660, 660, Anchor.CENTER)
NEW_GAME_REGION = Region(200, 760, 320, 116, Anchor.CENTER)

_GAP = 12
_CELL = 150


def cell_region(row: int, column: int) -> Region:
    """The square of one cell; (0, 0) is at the top left."""
    assert 0 <= row < SIDE
    assert 0 <= column < SIDE
    step = _CELL + _GAP
    return Region(
        BOARD_REGION.x + _GAP + column * step,
        BOARD_REGION.y + _GAP + row * step,
        _CELL,
        _CELL,
        Anchor.CENTER,
    )


def cell_box(row: int, column: int, width: int, height: int) -> Box:
    """Where a cell lies on a screen or picture of that size."""
    return box_for(cell_region(row, column), width, height)
