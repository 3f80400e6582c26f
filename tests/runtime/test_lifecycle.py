import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.lifecycle import ALIVE, TRANSITIONS, IllegalTransition, State, advance


@given(st.sampled_from(State), st.sampled_from(State))
def test_advance_follows_the_table_and_nothing_else(present: State, to: State) -> None:
    if to in TRANSITIONS[present]:
        assert advance(present, to) is to
    else:
        with pytest.raises(IllegalTransition, match=present):
            advance(present, to)


def test_table_covers_every_state_and_every_state_can_be_left_and_reached() -> None:
    assert set(TRANSITIONS) == set(State)
    for state in State:
        assert TRANSITIONS[state]
        assert any(state in targets for targets in TRANSITIONS.values())
        assert state not in TRANSITIONS[state]


def test_nothing_runs_twice_by_the_table() -> None:
    assert all(State.STARTING not in TRANSITIONS[state] for state in ALIVE)
