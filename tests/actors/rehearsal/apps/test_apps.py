"""What every bundled app promises, whatever it shows."""

import hashlib
from itertools import pairwise

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.rehearsal.apps.base import App, Touch, TouchPhase
from actors.rehearsal.apps.catalog import APPS
from tests.kit.rehearsal_play import do_move, random_planner

SIZES = [(720, 1280), (1080, 2400)]
NAMES = sorted(APPS)

touches = st.builds(
    Touch,
    phase=st.sampled_from(TouchPhase),
    x=st.integers(-50, 400),
    y=st.integers(-50, 700),
    finger=st.integers(0, 2),
)
steps = st.lists(st.tuples(st.floats(0.0, 3.0), st.one_of(touches, st.sampled_from(["BACK", "HOME"]))), max_size=25)


def played_digest(name: str, seed: int, width: int, height: int) -> tuple[str, float]:
    app = APPS[name](seed=seed, width=width, height=height, now=100.0)
    planner = random_planner(seed)
    seen, now = hashlib.sha256(), 100.0
    for _ in range(12):
        for move in planner(app.draw(now), ()):
            do_move(app, now, move)
            now += 0.31
        seen.update(app.draw(now).tobytes())
        seen.update(repr(app.take_log(now)).encode())
    return seen.hexdigest(), app.truth(now)["score"]


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_and_calls_give_equal_pixels_and_logs(name: str) -> None:
    assert played_digest(name, 5, 360, 640) == played_digest(name, 5, 360, 640)


@pytest.mark.parametrize("name", ["battler", "merge"])
def test_another_seed_gives_another_game(name: str) -> None:
    assert played_digest(name, 5, 360, 640) != played_digest(name, 6, 360, 640)


@pytest.mark.parametrize("name", NAMES)
def test_how_often_it_is_drawn_changes_nothing(name: str) -> None:
    watched = APPS[name](seed=3, width=360, height=640, now=0.0)
    alone = APPS[name](seed=3, width=360, height=640, now=0.0)
    for frame in range(600):
        watched.draw(frame * 0.037)

    assert watched.truth(22.2) == alone.truth(22.2)
    assert np.array_equal(watched.draw(22.2), alone.draw(22.2))


@pytest.mark.parametrize("name", NAMES)
@given(calls=steps)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_finger_breaks_it(name: str, calls: list[tuple[float, Touch | str]]) -> None:
    app: App = APPS[name](seed=1, width=360, height=640, now=0.0)
    now, scores = 0.0, [0.0]
    for wait, call in calls:
        now += wait
        if isinstance(call, Touch):
            app.touch(now, call)
        else:
            app.key(now, call)
        app.type_text(now, "hello")
        screen = app.draw(now)
        truth = app.truth(now)
        scores.append(truth["score"])

        assert screen.shape == ((640, 360, 3) if app.rotation == 0 else (360, 640, 3))
        assert screen.dtype == np.uint8
        assert isinstance(truth["over"], bool)
    assert all(before <= after for before, after in pairwise(scores))
    assert all(line.seconds <= now + 1e-6 and line.tag == name for line in app.take_log(now))
    assert app.take_log(now) == ()


@pytest.mark.parametrize("name", NAMES)
def test_the_larger_screen_shows_the_same_picture(name: str) -> None:
    small = APPS[name](seed=2, width=720, height=1280, now=0.0).draw(3.0)
    large = APPS[name](seed=2, width=1080, height=1920, now=0.0).draw(3.0)
    shrunk = cv2.resize(large, (720, 1280), interpolation=cv2.INTER_AREA)

    assert float(cv2.absdiff(small, np.asarray(shrunk)).mean()) < 2.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", SIZES)
def test_it_fills_screens_of_every_size(name: str, size: tuple[int, int]) -> None:
    screen = APPS[name](seed=2, width=size[0], height=size[1], now=0.0).draw(1.0)

    assert screen.shape == (size[1], size[0], 3)
    assert screen[-1].any()
