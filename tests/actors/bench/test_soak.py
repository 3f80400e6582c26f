import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.bench.soak import slope_of


def test_a_straight_line() -> None:
    slope = slope_of([(second, 100.0 + second / 60.0) for second in range(0, 1200, 5)])
    assert slope.per_minute == pytest.approx(1.0)
    assert slope.low == pytest.approx(1.0)
    assert slope.high == pytest.approx(1.0)


def test_noise_is_no_slope() -> None:
    values = [100.0 + (7 * number % 13) for number in range(240)]
    slope = slope_of([(5.0 * number, value) for number, value in enumerate(values)])
    assert slope.low < 0 < slope.high


def test_a_slope_needs_three_minutes() -> None:
    with pytest.raises(ValueError, match="three minutes"):
        slope_of([(0.0, 1.0), (59.0, 1.0), (60.0, 2.0)])


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=30), st.floats(-100, 100))
def test_the_interval_holds_the_slope_and_both_shift_with_the_values(values: list[float], by: float) -> None:
    samples = [(60.0 * number, value) for number, value in enumerate(values)]
    slope = slope_of(samples)
    assert slope.low <= slope.per_minute <= slope.high
    tilted = slope_of([(at, value + by * at / 60.0) for at, value in samples])
    assert tilted.per_minute == pytest.approx(slope.per_minute + by, abs=1e-3)
