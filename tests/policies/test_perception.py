"""Probes on drawn frames: right at other sizes, and silent where there is nothing."""

import math

import cv2
import numpy as np
import pytest

from policies.frame import Frame, Pixels, pixels_from_rgba
from policies.geometry import Anchor, Geometry, Region
from policies.perception import Perception, compile_probes, perceive
from policies.probes import BarProbe, ColorProbe, DigitsProbe, Direction, HsvRange, Reading, TemplateProbe

GREEN = HsvRange((50, 150, 150), (70, 255, 255))
RED = HsvRange((170, 150, 150), (10, 255, 255))


def frame_of(pixels: Pixels) -> Frame:
    height, width = pixels.shape[:2]
    return Frame(pixels, 0, 1.0, 1.1, Geometry(width, height))


def blank(width: int = 720, height: int = 1280) -> Pixels:
    return np.full((height, width, 3), 40, np.uint8)


def digit(number: int) -> Pixels:
    picture = np.full((48, 32, 3), 40, np.uint8)
    cv2.putText(picture, str(number), (3, 40), cv2.FONT_HERSHEY_SIMPLEX, 1.3, (255, 255, 255), 3)
    return picture


def read(probe: object, pixels: Pixels, pictures: dict[str, Pixels] | None = None) -> Reading:
    perception = compile_probes({"p": probe}, pictures or {})  # type: ignore[dict-item]
    return perceive(perception, frame_of(pixels)).readings["p"]


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("size", [(720, 1280), (1080, 2400)])
def test_a_bar_reads_as_full_as_it_is_drawn(share: float, direction: Direction, size: tuple[int, int]) -> None:
    pixels = blank(*size)
    scale = size[0] / 720
    left, top, width, height = (round(v * scale) for v in (100, 200, 400, 400))
    filled = round(400 * scale * share)
    if filled:
        match direction:
            case Direction.RIGHT:
                pixels[top : top + height, left : left + filled] = (0, 255, 0)
            case Direction.LEFT:
                pixels[top : top + height, left + width - filled : left + width] = (0, 255, 0)
            case Direction.DOWN:
                pixels[top : top + filled, left : left + width] = (0, 255, 0)
            case Direction.UP:
                pixels[top + height - filled : top + height, left : left + width] = (0, 255, 0)
    probe = BarProbe(Region(100, 200, 400, 400, Anchor.TOP_LEFT), GREEN, direction)

    assert read(probe, pixels).value == pytest.approx(share, abs=0.01)


def test_a_colour_probe_tells_the_share_and_where_it_is() -> None:
    pixels = blank()
    pixels[600:640, 300:340] = (0, 0, 255)

    reading = read(ColorProbe(Region(0, 400, 720, 400), RED, hit_at=0.001), pixels)

    assert reading.hit
    assert reading.value == pytest.approx(1600 / (720 * 400), rel=0.2)
    assert reading.at == pytest.approx((320 / 720, 620 / 1280), abs=0.005)


def test_a_hue_range_may_wrap_around_red() -> None:
    for bgr in ((0, 0, 255), (20, 0, 255), (0, 20, 255)):
        pixels = blank()
        pixels[:, :] = bgr
        assert read(ColorProbe(Region(0, 0, 100, 100), RED), pixels).value == 1.0
    blue = blank()
    blue[:, :] = (255, 0, 0)
    assert read(ColorProbe(Region(0, 0, 100, 100), RED), blue).value == 0.0


@pytest.mark.parametrize("size", [(720, 1280), (1080, 1920), (480, 854)])
def test_a_template_is_found_on_screens_of_other_sizes(size: tuple[int, int]) -> None:
    picture = np.random.default_rng(3).integers(0, 255, (10, 10, 3), dtype=np.uint8)
    picture = np.asarray(cv2.resize(picture, (80, 80), interpolation=cv2.INTER_CUBIC), dtype=np.uint8)
    scale = size[0] / 720
    drawn = np.asarray(cv2.resize(picture, (round(80 * scale),) * 2, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    pixels = blank(*size)
    x, y = round(300 * scale), round(500 * scale)
    pixels[y : y + drawn.shape[0], x : x + drawn.shape[1]] = drawn

    reading = read(TemplateProbe(Region(200, 400, 300, 300), "button", hit_at=0.85), pixels, {"button": picture})

    assert reading.hit
    assert reading.at == pytest.approx((340 / 720, 540 / 1280), abs=0.01)


def test_a_template_is_not_found_where_it_is_not_or_where_it_cannot_fit() -> None:
    picture = np.random.default_rng(3).integers(0, 255, (80, 80, 3), dtype=np.uint8)

    assert not read(TemplateProbe(Region(200, 400, 300, 300), "b"), blank(), {"b": picture}).hit
    assert not read(TemplateProbe(Region(200, 400, 30, 30), "b"), blank(), {"b": picture}).hit
    assert not read(TemplateProbe(Region(2000, 4000, 30, 30, Anchor.TOP_LEFT), "b"), blank(), {"b": picture}).hit


@pytest.mark.parametrize("number", [0, 7, 42, 1234, 90])
def test_digits_are_read_from_left_to_right(number: int) -> None:
    pixels = blank()
    for place, character in enumerate(str(number)):
        pixels[100:148, 50 + 34 * place : 82 + 34 * place] = digit(int(character))
    pictures = {f"digits/{n}": digit(n) for n in range(10)}

    reading = read(DigitsProbe(Region(40, 90, 200, 70, Anchor.TOP_LEFT), "digits"), pixels, pictures)

    assert reading.hit
    assert reading.value == number


def test_no_digits_read_as_nan() -> None:
    reading = read(
        DigitsProbe(Region(40, 90, 200, 70), "digits"), blank(), {f"digits/{n}": digit(n) for n in range(10)}
    )

    assert math.isnan(reading.value)
    assert not reading.hit


def test_every_missing_picture_is_named_at_once() -> None:
    probes = {"a": TemplateProbe(Region(0, 0, 9, 9), "x"), "b": TemplateProbe(Region(0, 0, 9, 9), "y")}

    with pytest.raises(ValueError, match=r"'a' needs the picture 'x'\nprobe 'b' needs the picture 'y'"):
        compile_probes(probes, {})


def test_pictures_are_scaled_once_a_size() -> None:
    perception: Perception = compile_probes({}, {"x": digit(1)})

    assert perception.picture_for("x", 720, 360) is perception.picture_for("x", 720, 360)
    assert perception.picture_for("x", 720, 360).shape == (24, 16, 3)


def test_raw_pixels_keep_their_colours_and_are_owned() -> None:
    raw = bytearray([10, 20, 30, 255] * 6)

    pixels = pixels_from_rgba(raw, 3, 2)
    raw[:] = bytes(24)

    assert pixels.shape == (2, 3, 3)
    assert pixels[0, 0].tolist() == [30, 20, 10]
    with pytest.raises(ValueError, match="not a 3x2"):
        pixels_from_rgba(raw[:-1], 3, 2)


def test_nobody_can_write_to_a_frame() -> None:
    frame = frame_of(blank())

    with pytest.raises(ValueError, match="read-only"):
        frame.pixels[0, 0] = 0
