"""Coordinates: every convention round-trips, and regions keep their edge on other screens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.geometry import (
    Anchor,
    Box,
    Coordinates,
    Geometry,
    ModelSpace,
    Region,
    box_for,
    device_to_model,
    model_to_device,
    smart_resize,
)

sizes = st.tuples(st.integers(320, 2600), st.integers(320, 2600))


@given(
    convention=st.sampled_from(list(Coordinates)),
    screen=sizes,
    image=sizes,
    share=st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)),
    factor=st.sampled_from([28, 32]),
)
def test_a_model_point_survives_the_way_to_the_device_and_back(
    convention: Coordinates,
    screen: tuple[int, int],
    image: tuple[int, int],
    share: tuple[float, float],
    factor: int,
) -> None:
    geometry = Geometry(*screen)
    space = ModelSpace(convention, *image, factor=factor)
    across, down = space.extent
    x, y = int(share[0] * across), int(share[1] * down)

    device = model_to_device(x, y, space, geometry)
    back = device_to_model(*device, space, geometry)

    assert geometry.contains(*device)
    # a screen coarser than the model's grid cannot hold every point: the nearest device pixel must come back
    assert abs(back[0] - x) <= max(0, -(-across // screen[0]))
    assert abs(back[1] - y) <= max(0, -(-down // screen[1]))
    if across <= screen[0]:
        assert back[0] == x
    if down <= screen[1]:
        assert back[1] == y


def test_the_corners_of_the_per_mille_grid_are_on_the_screen() -> None:
    space, geometry = ModelSpace(Coordinates.PER_MILLE, 720, 1280), Geometry(1080, 2400)

    assert model_to_device(0, 0, space, geometry) == (0, 1)
    assert model_to_device(999, 999, space, geometry) == (1079, 2398)
    assert not geometry.contains(*model_to_device(1000, 10, space, geometry))


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [(1080, 1920, (1092, 1932)), (720, 1280, (728, 1288)), (10, 10, (56, 56)), (8000, 8000, (3584, 3584))],
)
def test_smart_resize_gives_the_processors_size(width: int, height: int, expected: tuple[int, int]) -> None:
    assert smart_resize(width, height, factor=28, min_pixels=56 * 56, max_pixels=16384 * 28 * 28) == expected


@pytest.mark.parametrize(
    ("anchor", "expected"),
    [
        (Anchor.STRETCH, Box(150, 1688, 300, 1875)),
        (Anchor.TOP_LEFT, Box(150, 1350, 300, 1500)),
        (Anchor.BOTTOM, Box(150, 1830, 300, 1980)),
        (Anchor.CENTER, Box(150, 1590, 300, 1740)),
    ],
)
def test_an_anchored_region_keeps_its_distance_to_its_edge_on_a_longer_screen(anchor: Anchor, expected: Box) -> None:
    assert box_for(Region(100, 900, 100, 100, anchor), 1080, 2400) == expected


@given(
    region=st.builds(
        Region,
        st.integers(-100, 900),
        st.integers(-100, 1500),
        st.integers(0, 900),
        st.integers(0, 1500),
        st.sampled_from(list(Anchor)),
    ),
    screen=sizes,
)
def test_a_box_never_leaves_the_screen(region: Region, screen: tuple[int, int]) -> None:
    box = box_for(region, *screen)

    assert 0 <= box.left <= box.right <= screen[0]
    assert 0 <= box.top <= box.bottom <= screen[1]
