import math
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.results.intervals import (
    Interval,
    bootstrap,
    bootstrap_difference,
    median_interval,
    newcombe,
    percentile,
    runs_to_tell_means,
    runs_to_tell_shares,
    wilson,
)


def test_wilson_gives_the_document_s_own_example() -> None:
    interval = wilson(48, 49)

    assert interval.low == pytest.approx(0.893, abs=5e-4)
    assert interval.high == pytest.approx(0.996, abs=5e-4)


def test_no_runs_say_nothing() -> None:
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)


def test_telling_95_from_90_percent_takes_as_many_runs_as_the_document_says() -> None:
    assert runs_to_tell_shares(0.95, 0.90) == pytest.approx(431, abs=6)
    assert runs_to_tell_shares(0.9, 0.9) is None


@example(0, 40)
@given(st.integers(0, 60), st.integers(1, 60))
def test_an_interval_holds_its_share_and_stays_within_0_and_1(successes: int, more: int) -> None:
    runs = successes + more
    interval = wilson(successes, runs)

    assert 0 <= interval.low <= successes / runs <= interval.high <= 1


def test_a_difference_of_shares_is_told_from_chance_only_with_enough_runs() -> None:
    assert not newcombe((6, 10), (4, 10)).excludes(0.0)
    assert newcombe((600, 1000), (400, 1000)).excludes(0.0)
    assert newcombe((600, 1000), (400, 1000)).value == pytest.approx(0.2)


def test_the_bootstrap_covers_a_mean_about_as_often_as_it_says() -> None:
    dice = Random(5)
    held = 0
    for seed in range(40):
        interval = bootstrap([dice.gauss(3.0, 1.0) for _ in range(40)], seed=seed)
        held += interval.low <= 3.0 <= interval.high

    assert held >= 33


def test_equal_values_give_equal_intervals() -> None:
    values = [0.98, 1.01, 1.0, 1.04, 0.97]

    assert median_interval(values) == median_interval(values)
    assert median_interval(values).value == 1.0


def test_percentiles_are_nearest_ranks() -> None:
    values = [float(n) for n in range(1, 101)]

    assert [percentile(values, share) for share in (0.0, 0.5, 0.95, 0.99, 1.0)] == [1, 50, 95, 99, 100]
    assert percentile([7.0], 0.99) == 7.0


def test_runs_that_would_tell_a_mean_difference_grow_with_its_noise() -> None:
    quiet, noisy = [1.0, 1.1, 0.9, 1.0], [5.0, -3.0, 4.0, -2.0]
    few, many = runs_to_tell_means(quiet), runs_to_tell_means(noisy)

    assert few is not None
    assert many is not None
    assert few < many
    assert runs_to_tell_means([1.0]) is None
    assert runs_to_tell_means([1.0, -1.0]) is None
    assert math.isfinite(many)


def test_two_samples_differ_or_do_not() -> None:
    low, high = [float(one % 5) for one in range(30)], [float(one % 5 + 10) for one in range(20)]

    assert bootstrap_difference(low, high).excludes(0.0)
    assert bootstrap_difference(low, high).value == pytest.approx(10.0)
    assert not bootstrap_difference(low, low[::-1]).excludes(0.0)
    assert bootstrap_difference(low, high) == bootstrap_difference(low, high)
    assert bootstrap_difference([1.0], [3.0]) == Interval(2.0, 2.0, 2.0)
