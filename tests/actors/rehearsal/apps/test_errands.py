import pytest

from actors.rehearsal.apps import errands_layout as layout
from actors.rehearsal.apps.errands import Errands
from actors.rehearsal.apps.errands_layout import GOAL_SCREEN, Goal, Screen
from actors.rehearsal.apps.errands_state import ErrandsState


def client(goal: Goal, *, frozen: int = 0) -> ErrandsState:
    """A client that already shows the goal's screen."""
    state = ErrandsState.new(3, 720, 1280)
    state.goal, state.screen, state.frozen_taps = goal, GOAL_SCREEN[goal], frozen
    return state


def button_of(state: ErrandsState) -> tuple[int, int]:
    width, height = state.size
    match state.goal:
        case Goal.CLAIM_DAILY:
            return layout.claim_box(width, height).center
        case Goal.TURN_SCREEN:
            return layout.turn_box(sideways=not state.sideways, width=width, height=height).center
        case _:
            return layout.row_button_box(state.row, width, height).center


def wait_loaded(state: ErrandsState) -> None:
    while state.loading_left > 0:
        state.tick()
    state.popup = None


@pytest.mark.parametrize("goal", [Goal.CLAIM_DAILY, Goal.READ_MAIL, Goal.BUY_GIFT])
def test_a_goal_is_done_by_its_button_and_another_follows(goal: Goal) -> None:
    state = client(goal)
    state.click(*button_of(state))

    assert state.score == 1
    assert state.goal is not goal
    assert f"goal=done name={goal.value} score=1" in state.events


def test_landscape_and_back_is_done_when_it_is_back() -> None:
    state = client(Goal.TURN_SCREEN)
    state.click(*button_of(state))
    assert (state.sideways, state.size, state.score) == (True, (1280, 720), 0)
    wait_loaded(state)
    state.click(*button_of(state))

    assert (state.sideways, state.size, state.score) == (False, (720, 1280), 1)


def test_a_frozen_button_needs_more_taps() -> None:
    state = client(Goal.CLAIM_DAILY, frozen=2)
    scores = []
    for _ in range(3):
        state.click(*button_of(state))
        scores.append(state.score)

    assert scores == [0, 0, 1]


def test_clicks_while_loading_are_lost() -> None:
    state = ErrandsState.new(3, 720, 1280)
    state.click(*layout.start_box(720, 1280).center)
    assert state.screen is Screen.LOBBY
    assert state.loading_left > 0
    state.click(*layout.lobby_box(Screen.MAIL, 720, 1280).center)

    assert state.screen is Screen.LOBBY


def test_a_popup_takes_every_click_until_its_x() -> None:
    state = client(Goal.CLAIM_DAILY)
    state._open_popup("Notice")
    popup = state.popup
    assert popup is not None
    state.click(*button_of(state))
    assert state.score == 0
    box = layout.popup_box(popup.across, popup.down, 720, 1280)
    state.click(*layout.popup_close_box(box, 1.0).center)

    assert state.popup is None


def test_what_costs_coins_opens_a_popup() -> None:
    state = client(Goal.BUY_GIFT)
    state.click(*layout.row_button_box((state.row + 1) % 3, 720, 1280).center)

    assert state.popup is not None
    assert state.score == 0


def test_the_back_key_leads_to_the_lobby_or_the_login() -> None:
    app = Errands(seed=3, width=720, height=1280, now=0.0)
    app._state.screen = Screen.SHOP
    app.key(1.0, "BACK")

    assert app.truth(1.0)["screen"] in {"lobby", "login"}
    assert app.truth(1.0)["loading"]
    assert not app.truth(3.0)["loading"]


def test_sideways_turns_the_drawn_picture() -> None:
    app = Errands(seed=3, width=720, height=1280, now=0.0)
    assert (app.rotation, app.draw(0.0).shape) == (0, (1280, 720, 3))
    app._state.sideways = True

    assert (app.rotation, app.draw(0.1).shape) == (1, (720, 1280, 3))


@pytest.mark.parametrize(("width", "height"), [(720, 1280), (1280, 720), (1080, 2400), (2400, 1080)])
def test_no_button_lies_over_another_or_off_the_screen(width: int, height: int) -> None:
    for boxes in (
        [layout.lobby_box(screen, width, height) for screen in layout.LOBBY_SCREENS],
        [layout.row_button_box(row, width, height) for row in range(3)],
        [layout.turn_box(sideways=lies, width=width, height=height) for lies in (False, True)],
        [*(layout.day_box(day, width, height) for day in range(6)), layout.claim_box(width, height)],
    ):
        for box in boxes:
            assert 0 <= box.left < box.right <= width
            assert layout.header_box(width, height).bottom <= box.top < box.bottom <= height
        for number, box in enumerate(boxes):
            for other in boxes[number + 1 :]:
                assert (
                    box.right <= other.left
                    or other.right <= box.left
                    or (box.bottom <= other.top or other.bottom <= box.top)
                )
