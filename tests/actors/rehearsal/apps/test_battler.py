from collections.abc import Callable

import numpy as np
import pytest

from actors.rehearsal.apps.base import LogLine
from actors.rehearsal.apps.battler import Battler
from actors.rehearsal.apps.battler_layout import (
    BEATEN_BY,
    ELEMENTS,
    HUD_COLOR,
    SCORE_REGION,
    popup_box,
    popup_claim_box,
    popup_close_box,
    slot_body_region,
)
from actors.rehearsal.apps.battler_state import (
    KILLS_PER_WAVE,
    SKILL_COOLDOWN_SECONDS,
    WASTED_COOLDOWN_SECONDS,
    BattlerState,
    Enemy,
    Popup,
)
from actors.rehearsal.apps.clock import TICK_SECONDS
from policies.geometry import Box, box_for


def fighting() -> BattlerState:
    state = BattlerState.new(1)
    for _ in range(60):
        state.tick()
    assert any(state.slots)
    return state


def standing(state: BattlerState) -> tuple[int, Enemy]:
    return next((slot, enemy) for slot, enemy in enumerate(state.slots) if enemy is not None)


def test_the_right_element_does_three_times_the_damage() -> None:
    losses = []
    for right in (True, False):
        state = fighting()
        slot, enemy = standing(state)
        enemy.pips = enemy.max_pips = 9
        strong = BEATEN_BY[enemy.element]
        state.select(strong if right else next(e for e in ELEMENTS if e is not strong))
        state.strike(slot)
        losses.append(9 - enemy.pips)

    assert losses == [3, 1]


def test_a_skill_thrown_at_an_empty_place_is_wasted() -> None:
    state = fighting()
    skill = ELEMENTS[0]
    empty = state.slots.index(None)
    state.select(skill)
    state.strike(empty)

    assert state.wasted == 1
    assert state.selected is None
    assert state.cooldowns[skill] == WASTED_COOLDOWN_SECONDS > SKILL_COOLDOWN_SECONDS


def test_a_skill_that_is_not_ready_cannot_be_taken() -> None:
    state = fighting()
    state.select(ELEMENTS[0])
    state.strike(standing(state)[0])
    state.select(ELEMENTS[0])

    assert state.selected is None


def test_a_wave_is_survived_after_so_many_kills() -> None:
    state = fighting()
    kills = 0
    while kills < KILLS_PER_WAVE:
        assert state.best == 0
        if any(state.slots):
            slot, enemy = standing(state)
            enemy.pips = 1
            state.cooldowns = dict.fromkeys(ELEMENTS, 0.0)
            state.select(ELEMENTS[0])
            state.strike(slot)
            kills += 1
        state.tick()

    assert (state.best, state.wave) == (1, 2)
    assert "score=1 wave=2" in state.events


def test_it_goes_on_alone_and_ends_in_defeat_until_revived() -> None:
    app = Battler(seed=4, width=360, height=640, now=10.0)
    assert app.truth(10.0)["health"] == 100.0

    truth = app.truth(120.0)

    assert truth["over"]
    assert truth["health"] == 0.0
    log = [line for line in app.take_log(120.0) if line.text.startswith("defeat")]
    assert len(log) == 1
    assert 10.0 < log[0].seconds < 100.0
    app._state.revive()
    assert not app.truth(120.0)["over"]
    assert app.truth(120.0)["lives"] == 2


@pytest.mark.parametrize("button", [popup_close_box, popup_claim_box])
def test_a_popup_takes_the_clicks_it_covers_until_it_is_closed(button: Callable[[Box, float], Box]) -> None:
    app = Battler(seed=1, width=720, height=1280, now=0.0)
    state = app._state
    state.popup = Popup(0.5, 0.3, 10)
    state.health = 50.0
    state.select(ELEMENTS[0])
    app._click(*box_for(slot_body_region(1), 720, 1280).center)
    assert state.selected is ELEMENTS[0]
    app._click(*button(popup_box(0.5, 0.3, 720, 1280), 1.0).center)

    assert app.truth(0.0)["popup"] is False
    assert (app.truth(0.0)["health"] > 50.0) is (button is popup_claim_box)


def test_the_score_is_written_where_the_layout_says() -> None:
    app = Battler(seed=4, width=720, height=1280, now=0.0)
    box = box_for(SCORE_REGION, 720, 1280)
    region = app.draw(0.5)[box.top : box.bottom, box.left : box.right]

    assert (region[0] == HUD_COLOR).all()
    assert (region == 255).all(axis=2).sum() > 50, "no white digit"
    assert (region[:, -4:] == HUD_COLOR).all()


def test_the_log_names_the_start() -> None:
    assert Battler(seed=4, width=360, height=640, now=0.0).take_log(0.0) == (
        LogLine(0.0, "I", "battler", "start score=0 wave=1"),
    )


@pytest.mark.parametrize("element", ELEMENTS)
def test_every_element_is_beaten_by_another(element: object) -> None:
    assert {BEATEN_BY[e] for e in ELEMENTS} == set(ELEMENTS)
    assert all(BEATEN_BY[e] is not e for e in ELEMENTS)
    assert np.isclose(TICK_SECONDS, 0.02)
