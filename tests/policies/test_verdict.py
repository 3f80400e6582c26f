"""Black frames, bands, and colours in the wrong order."""

import numpy as np
import pytest

from policies.frame import Pixels
from policies.verdict import USUAL_AFTER, Agreement, FrameJudge, Verdict, compare, judge_pixels


def screen(seed: int = 1, height: int = 320, width: int = 180) -> Pixels:
    cells = np.random.default_rng(seed).integers(30, 220, (height // 20, width // 20, 3), np.uint8)
    cells[..., 2] //= 3  # more blue than red, so that an exchange shows
    return np.kron(cells, np.ones((20, 20, 1), np.uint8))


def black_below(share: float) -> Pixels:
    pixels = screen().copy()
    pixels[round(pixels.shape[0] * (1 - share)) :] = 0
    return pixels


def ship_among_stars() -> Pixels:
    """A dark game: nearly all of it is black, and what matters is small."""
    pixels = np.zeros((320, 180, 3), np.uint8)
    for x, y, side in ((90, 160, 8), (20, 40, 3), (150, 290, 5), (5, 316, 2), (170, 2, 2)):
        pixels[y : y + side, x : x + side] = 255
    return pixels


@pytest.mark.parametrize(
    ("pixels", "verdict"),
    [
        (screen(), Verdict.GOOD),
        (np.zeros((320, 180, 3), np.uint8), Verdict.BLACK),
        (np.full((320, 180, 3), 3, np.uint8), Verdict.BLACK),
        (np.full((320, 180, 3), 20, np.uint8), Verdict.GOOD),
        (black_below(0.5), Verdict.PARTLY_BLACK),
        (black_below(0.5)[::-1], Verdict.PARTLY_BLACK),
        (np.ascontiguousarray(black_below(0.5).transpose(1, 0, 2)), Verdict.PARTLY_BLACK),
        (black_below(0.1), Verdict.GOOD),
        (black_below(0.95), Verdict.BLACK),
        (ship_among_stars(), Verdict.GOOD),
        (np.zeros((1, 1, 3), np.uint8), Verdict.BLACK),
    ],
    ids=[
        "screen",
        "black",
        "video-black",
        "dark",
        "below",
        "above",
        "beside",
        "letterbox",
        "status-bar",
        "space-game",
        "one-pixel",
    ],
)
def test_verdicts(pixels: Pixels, verdict: Verdict) -> None:
    assert judge_pixels(pixels) is verdict


def test_a_band_that_stays_is_the_apps_own_look_and_black_never_is() -> None:
    judge = FrameJudge()
    now_and_then = [judge.judge(pixels) for pixels in (black_below(0.5), screen()) * 10]
    assert now_and_then == [Verdict.PARTLY_BLACK, Verdict.GOOD] * 10
    partly = [judge.judge(black_below(0.5)) for _ in range(USUAL_AFTER + 2)]
    assert partly == [Verdict.PARTLY_BLACK] * USUAL_AFTER + [Verdict.GOOD] * 2
    assert judge.judge(screen()) is Verdict.GOOD
    assert judge.judge(black_below(0.5)) is Verdict.GOOD
    black = np.zeros((320, 180, 3), np.uint8)
    assert {judge.judge(black) for _ in range(3 * USUAL_AFTER)} == {Verdict.BLACK}


def test_a_method_is_compared_with_the_reference() -> None:
    reference = screen(height=640, width=360)
    noise = np.random.default_rng(3).integers(-6, 7, reference.shape)
    lossy = np.clip(reference.astype(int) + noise, 0, 255).astype(np.uint8)

    assert compare(reference, reference, reference) is Agreement.SAME
    assert compare(lossy[::2, ::2].copy(), reference, reference) is Agreement.SAME
    assert compare(lossy[..., ::-1].copy(), reference, reference) is Agreement.SWAPPED
    assert compare(np.zeros_like(reference), reference, reference) is Agreement.BLACK
    assert compare(np.rot90(reference).copy(), reference, reference) is Agreement.TURNED
    assert compare(screen(9, 640, 360), reference, reference) is Agreement.DIFFERENT


def test_a_screen_that_moves_is_no_fault_of_the_method() -> None:
    before = screen(1)
    after = screen(9)
    between = np.concatenate([after[:160], before[160:]])

    assert compare(between, before, before) is Agreement.DIFFERENT
    assert compare(between, before, after) is Agreement.SAME
    assert compare(np.zeros_like(before), np.zeros_like(before), np.zeros_like(before)) is Agreement.SAME
