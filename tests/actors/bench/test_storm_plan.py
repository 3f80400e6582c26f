"""The plan of a storm: every kind, on most phones, within its time, and the same from the same seed."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.bench.storm_plan import SPARED_EACH, plan_storm
from actors.rehearsal.phone.faults import Duplicate, Moment, Spell, fault_problems, parse_faults
from actors.rehearsal.phone.faults import encode_faults as encoded


def plan_for(phones: int, seconds: float, seed: int = 1) -> "tuple[tuple[object, ...], frozenset[int]]":
    plan = plan_storm(phones, seconds, random.Random(seed).random)
    return plan.faults, plan.spared


@pytest.mark.parametrize(("phones", "seconds"), [(8, 25.0), (64, 600.0)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_kind_comes_and_every_fourth_phone_is_spared(phones: int, seconds: float, seed: int) -> None:
    plan = plan_storm(phones, seconds, random.Random(seed).random)

    assert min(plan.counts().values()) >= 1, plan.counts()
    assert len(plan.spared) == phones // SPARED_EACH
    hit = {number for fault in plan.faults for number in fault.phones}
    assert hit == set(range(phones)) - plan.spared


@pytest.mark.parametrize("phones", [2, 3])
def test_one_of_few_phones_is_spared_so_that_there_is_a_pace_to_hold(phones: int) -> None:
    faults, spared = plan_for(phones, 30.0)
    assert spared == {phones - 1}
    assert faults


def test_the_same_seed_gives_the_same_storm() -> None:
    assert plan_for(16, 120.0, seed=5) == plan_for(16, 120.0, seed=5) != plan_for(16, 120.0, seed=6)


@settings(deadline=None, max_examples=40)
@given(phones=st.integers(1, 80), seconds=st.floats(9, 900), seed=st.integers(0, 1000))
def test_faults_of_a_phone_follow_each_other_and_end_in_time(phones: int, seconds: float, seed: int) -> None:
    plan = plan_storm(phones, seconds, random.Random(seed).random)

    assert fault_problems(plan.faults, count=phones, at="$") == []
    if plan.faults:
        assert parse_faults(encoded(plan.faults), count=phones) == plan.faults
    free_at = dict.fromkeys(range(phones), 0.0)
    doubled: list[int] = []
    for fault in plan.faults:
        (number,) = fault.phones
        if isinstance(fault, Duplicate):
            doubled.append(number)
            continue
        assert isinstance(fault, Moment)
        assert fault.at_seconds is not None
        assert fault.at_seconds >= free_at[number]
        lasts = (fault.seconds or 0.0) if isinstance(fault, Spell) else 0.0
        free_at[number] = fault.at_seconds + lasts
        assert free_at[number] <= seconds
    assert len(doubled) == len(set(doubled))


@pytest.mark.parametrize(("phones", "seconds"), [(0, 60.0), (4, 8.0)])
def test_a_storm_without_phones_or_time_is_refused(phones: int, seconds: float) -> None:
    with pytest.raises(ValueError, match="a storm needs"):
        plan_storm(phones, seconds, random.Random(1).random)
