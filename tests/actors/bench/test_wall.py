import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.bench.result import tell_nobody
from actors.bench.wall import bench_wall
from actors.bench.wall_result import Half, WallPlan, missed_slots, result_of
from actors.results.intervals import mean_interval


def test_a_step_that_is_a_little_early_or_late_misses_nothing() -> None:
    steps = [100.2, 101.1, 102.3, 103.6, 104.2, 105.2]

    assert missed_slots(steps, 99.5, 106.0) == (6, 0)


def test_a_slot_without_a_step_is_missed_at_the_begin_too() -> None:
    assert missed_slots([100.2, 101.2, 104.2, 105.2], 99.5, 106.0) == (6, 2)
    assert missed_slots([102.2, 103.2, 104.2, 105.2], 99.5, 106.0) == (6, 2)
    assert missed_slots([], 99.5, 106.0) == (6, 6)


def test_who_falls_behind_misses_a_slot_a_period_lost() -> None:
    slots, missed = missed_slots([100.0 + 1.1 * number for number in range(55)], 99.5, 159.6)

    assert slots == 60
    assert 4 <= missed <= 6


@given(st.floats(0, 0.999), st.lists(st.floats(-0.24, 0.24), min_size=30, max_size=30))
def test_jitter_of_less_than_a_quarter_misses_nothing(phase: float, jitter: list[float]) -> None:
    steps = sorted(100.0 + phase + number + by for number, by in enumerate(jitter))

    slots, missed = missed_slots(steps, 101.0, 125.0)

    assert (slots in {22, 23, 24}, missed) == (True, 0)


def halves(*pairs: tuple[int, int], pictures: float = 300.0) -> list[Half]:
    """(missed without, missed with) of 1000 slots."""
    made = []
    for number, both in enumerate(pairs):
        for viewers, missed in zip((0, 3), both, strict=True):
            half = Half(number, viewers, 0.0, 10.0, 0.1, slots=1000, missed=missed)
            half.pictures_per_second = pictures if viewers else 0.0
            made.append(half)
    return made


def test_it_holds_where_the_upper_end_of_the_cost_is_small_and_pictures_came() -> None:
    plan = WallPlan(pairs=3)

    held = result_of(plan, halves((0, 10), (1, 9), (0, 11))).summary
    spread = result_of(plan, halves((0, 0), (0, 0), (0, 60))).summary
    still = result_of(plan, halves((0, 0), (0, 0), (0, 0), pictures=10.0)).summary

    assert (held["held"], held["cost_points"]) == (True, pytest.approx(0.967, abs=0.001))
    assert held["cost_points_interval"][0] < held["cost_points"] < held["cost_points_interval"][1] < 3
    assert (spread["cost_points"], spread["held"]) == (2.0, False)
    assert (still["cost_points"], still["pictures_flowed"], still["held"]) == (0, False, False)


def test_a_mean_needs_two_values() -> None:
    assert mean_interval([1.0, 3.0]).value == 2.0
    assert mean_interval([1.0, 3.0]).high == pytest.approx(2.0 + 12.71)
    with pytest.raises(ValueError, match="spread"):
        mean_interval([1.0])


@pytest.mark.slow
def test_a_short_form_of_the_whole() -> None:
    plan = WallPlan(pairs=2, seconds=3.0, phones=4, viewers=2, settle_seconds=1.0)

    result = bench_wall(plan, tell=tell_nobody)

    assert [(row["pair"], row["viewers"]) for row in result.rows] == [(0, 0), (0, 2), (1, 2), (1, 0)]
    assert all(row["slots"] >= plan.phones * 2 for row in result.rows)
    for row in result.rows:
        assert (row["pictures_per_second"] > 0, row["phones_seen"]) == ((True, 4) if row["viewers"] else (False, 0))
    assert result.as_dict()["summary"]["pictures_per_second"] > 0
    assert result.summary["pictures_per_second_asked_for"] == plan.phones * plan.viewers
    with pytest.raises(ValueError, match="two pairs"):
        bench_wall(attrs.evolve(plan, pairs=1), tell=tell_nobody)
