from typing import Any

import attrs
import pytest
import trio
import trio.testing

from actors.bench.actors import FRAMES, PLAN, Carried, carry, search_limit, stage_for
from policies.frame import Frame
from policies.geometry import Geometry
from policies.perception import perceive


@pytest.mark.parametrize("templates", [False, True])
async def test_every_actor_makes_a_step_a_second_and_none_ends(
    templates: bool, autojump_clock: trio.testing.MockClock
) -> None:
    carried = await carry(12, seconds=20.0, templates=templates)

    assert carried.steps == pytest.approx(12 * 20, abs=12)
    assert carried.ended == 0
    assert carried.lag["lag_ms_max"] == pytest.approx(0.0, abs=1e-6)
    assert carried.lag["lag_grows"] is False
    # an action a second, but for the waits for a plan; a plan for a chunk of them, and one after each reflex
    assert 12 * 20 * 0.6 <= carried.actions <= 12 * 20 * 1.2
    assert 12 * 20 / len(PLAN.split(";")) * 0.7 <= carried.plans <= 12 * 20 / 2


def test_the_frames_make_one_reflex_fire_a_round() -> None:
    stage = stage_for(1, templates=True)
    percepts = [
        perceive(stage.perception, Frame(pixels, seq, 0.0, 0.0, Geometry(720, 1280)))
        for seq, pixels in enumerate(stage.frames)
    ]

    assert [percept.readings["pop_up"].hit for percept in percepts] == [False] * (FRAMES - 1) + [True]
    assert all(percept.readings["potion"].hit for percept in percepts)
    assert all(percept.readings["health"].value > 0.5 for percept in percepts)


def carried_by(capacity: int) -> Any:
    def probe(count: int) -> Carried:
        blank: dict[str, Any] = {field.name: 0 for field in attrs.fields(Carried)}
        return Carried(**{**blank, "actors": count, "lag": {"lag_grows": count > capacity}, "windows": []})

    return probe


@pytest.mark.parametrize(
    ("capacity", "start", "found"),
    [
        (3300, 1000, (3250, 3500)),
        (700, 1000, (687, 750)),
        (10**9, 20000, (20000, None)),
        (0, 4, (None, 1)),
        (1000, 1000, (1000, 1125)),
    ],
)
def test_the_limit_is_doubled_up_to_or_halved_down_to_and_then_bisected(
    capacity: int, start: int, found: tuple[int | None, int | None]
) -> None:
    probe = carried_by(capacity)
    rows: list[Carried] = []

    assert search_limit(probe, rows, start=start, known=probe(start)) == found
    assert len(rows) <= 8
