import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.vision_tokens import SmartResize, Tiles

QWEN25 = SmartResize(28, 56 * 56, 28 * 28 * 16384)
QWEN3 = SmartResize(32, 65536, 16777216)
INTERNVL = Tiles(448, 256, 1, 12)


def test_the_frame_of_the_design_document() -> None:
    assert QWEN25.tokens(1080, 1920) == 2691


@pytest.mark.parametrize(
    ("rule", "size", "tokens"),
    [
        (QWEN25, (720, 1280), 26 * 46),
        (QWEN3, (720, 1280), 22 * 40),  # 22.5 is rounded to the even 22, as Python does
        (QWEN3, (1080, 1920), 34 * 60),
        (QWEN3, (32, 32), 8 * 8),  # too small: grown to the least number of pixels
        (SmartResize(28, 3136, 1003520), (2160, 3840), 26 * 47),  # too large: shrunk to the most
        (INTERNVL, (448, 448), 256),
        (INTERNVL, (720, 1280), 9 * 256),  # 2 x 4 tiles and the whole
        (INTERNVL, (1280, 720), 9 * 256),
        (Tiles(448, 256, 1, 12, thumbnail=False), (720, 1280), 8 * 256),
    ],
)
def test_tokens(rule: SmartResize | Tiles, size: tuple[int, int], tokens: int) -> None:
    assert rule.tokens(*size) == tokens


@given(st.integers(28, 4000), st.integers(28, 4000))
def test_a_frame_never_has_more_pixels_than_the_rule_allows(width: int, height: int) -> None:
    rule = SmartResize(28, 56 * 56, 1280 * 28 * 28)

    assert 1 <= rule.tokens(width, height) <= 1280 or min(width, height) * 20 < max(width, height)


@given(st.integers(16, 4000), st.integers(16, 4000))
def test_tiles_stay_within_their_number(width: int, height: int) -> None:
    columns, rows = INTERNVL.grid(width, height)

    assert 1 <= columns * rows <= 12
