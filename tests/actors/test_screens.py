"""Small pictures for people who look on."""

import base64
from types import SimpleNamespace
from typing import Any, cast

import cv2
import numpy as np
import pytest

from actors import screens
from actors.phone import PhoneJob
from actors.screens import halved, newest_screens
from policies.frame import Frame, Pixels
from policies.geometry import Geometry


def picture(width: int = 720, height: int = 1280) -> Pixels:
    """Smooth shades with a sharp edge."""
    shades = np.linspace(0, 255, height, dtype=np.uint8)[:, None, None]
    pixels = np.broadcast_to(shades, (height, width, 3)).copy()
    pixels[:, width // 3 : width // 2] = (30, 200, 90)
    return pixels


def jobs(count: int, *, seq: int = 1, width: int = 720, height: int = 1280) -> list[PhoneJob]:
    """As much of jobs as is looked at."""
    frame = Frame(picture(width, height), seq, 0.0, 0.0, Geometry(width, height, 0, 320), 0)
    return [cast("PhoneJob", SimpleNamespace(phone=f"P{number}", newest=frame)) for number in range(count)]


def phones(shown: list[dict[str, Any]]) -> list[str]:
    return [one["phone"] for one in shown]


async def test_only_what_was_not_seen_is_made_and_each_phone_once() -> None:
    known = {"P0": 1, "P1": 0} | dict.fromkeys(f"P{number}" for number in range(2, 20))
    silent = cast("PhoneJob", SimpleNamespace(phone="P20", newest=None))

    shown, more = await newest_screens([*jobs(20), silent], known, 240)

    assert (phones(shown), more) == ([f"P{number}" for number in range(1, 20)], False)
    assert {(one["width"], one["height"], one["seq"]) for one in shown} == {(135, 240, 1)}
    assert await newest_screens(jobs(3, seq=2), dict.fromkeys(("P0", "P1", "P2"), 2), 240) == ([], False)


async def test_an_answer_is_bounded_and_the_rest_comes_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens, "ANSWER_BYTES", 1)
    wanted: dict[str, int | None] = dict.fromkeys(f"P{number}" for number in range(10))
    seen: list[str] = []
    more = True
    while more:
        shown, more = await newest_screens(jobs(10), wanted, 240)
        assert 0 < len(shown) <= screens.BATCH
        seen += phones(shown)
        wanted |= {one["phone"]: one["seq"] for one in shown}
    assert seen == [f"P{number}" for number in range(10)]
    assert len((await newest_screens(jobs(3), {}, 1280))[0]) == 1, "large ones are made one by one"


@pytest.mark.parametrize(
    ("width", "height", "side", "size"),
    [
        (720, 1280, 240, (180, 320)),
        (1080, 2400, 240, (135, 300)),
        (720, 1280, 1280, (720, 1280)),
        (721, 1281, 64, None),
    ],
)
def test_halves_are_exact_and_leave_enough(width: int, height: int, side: int, size: tuple[int, int] | None) -> None:
    small = halved(picture(width, height), side)

    assert (small.shape[1], small.shape[0]) == (size or (width, height))


async def test_the_small_picture_looks_as_one_made_at_once() -> None:
    whole = cv2.resize(picture(), (135, 240), interpolation=cv2.INTER_AREA).astype(int)

    ((shown,), _) = await newest_screens(jobs(1), {}, 240)

    decoded = cv2.imdecode(np.frombuffer(base64.b64decode(shown["jpeg"]), np.uint8), cv2.IMREAD_COLOR)
    assert decoded is not None
    assert np.abs(decoded.astype(int) - whole).mean() < 3
