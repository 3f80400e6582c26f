import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.knee import KneeLimiter, Phase, TokenTiming
from tests.kit.knee_world import Curve, a100, bowl, drive, hinged, knee_of, steep

MOST = 96
CURVES = [a100, hinged, bowl, steep]


def near(limit: int, knee: int) -> bool:
    return abs(limit - knee) <= max(1.0, 0.1 * knee)


def test_the_curves_have_the_knees_that_they_should_have() -> None:
    assert [knee_of(curve, MOST) for curve in CURVES] == [50, 11, 24, 5]


@pytest.mark.parametrize("curve", CURVES)
def test_it_settles_at_the_knee_within_a_minute(curve: Curve) -> None:
    limiter = KneeLimiter(MOST)
    trace = drive(limiter, lambda _: curve, 120.0)

    assert all(near(limit, knee_of(curve, MOST)) for at, limit in trace if at >= 60.0)
    assert limiter.changes == 0
    assert limiter.floor_seconds == pytest.approx(curve(1), rel=0.02)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("seed", [1, 2])
def test_it_settles_in_spite_of_noise_and_uneven_answers(curve: Curve, seed: int) -> None:
    limiter = KneeLimiter(MOST)
    trace = drive(limiter, lambda _: curve, 75.0, seed=seed, noise=0.02, tokens=(40, 90))

    assert all(near(limit, knee_of(curve, MOST)) for at, limit in trace if at >= 60.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (a100, hinged),
        (hinged, a100),
        (bowl, steep),
        (steep, bowl),
        (a100, lambda running: 1.3 * a100(running)),
        (a100, lambda running: a100(1) + 0.7 * (a100(running) - a100(1))),  # 4 % faster at the knee: a drift, to 71
    ],
)
def test_it_follows_a_change_of_the_curve(before: Curve, after: Curve) -> None:
    trace = drive(KneeLimiter(MOST), lambda at: before if at < 60.0 else after, 140.0)

    assert all(near(limit, knee_of(after, MOST)) for at, limit in trace if at >= 125.0)


def test_a_flat_curve_is_climbed_to_the_operators_bound() -> None:
    trace = drive(KneeLimiter(40), lambda _: lambda _running: 0.012, 40.0)

    assert trace[-1][1] == 40
    assert max(limit for _, limit in trace) == 40


def test_little_demand_is_never_held_back_for_long_and_does_not_climb() -> None:
    limiter = KneeLimiter(MOST)
    trace = drive(limiter, lambda _: a100, 60.0, demand=3)

    assert all(limit >= 3 for at, limit in trace if at > 10.0)
    assert limiter.limit <= 8


def test_the_floor_is_measured_anew_now_and_then_and_costs_little() -> None:
    limiter = KneeLimiter(MOST)
    trace = drive(limiter, lambda _: steep, 900.0)

    alone = [at for at, limit in trace if limit == 1 and at > 60.0]
    assert alone, "a floor that is never refreshed is believed for ever"
    assert len(alone) * 0.01 < 0.01 * 840
    assert limiter.phase is Phase.HOLD


def test_answers_that_saw_two_levels_tell_of_neither() -> None:
    limiter = KneeLimiter(MOST)
    for number in range(3):
        limiter.observe(TokenTiming(float(number), number + 0.5, 1.0, 1, 0.010))
    assert limiter.phase is Phase.CLIMB
    assert limiter.limit == 2
    for _ in range(50):
        limiter.observe(TokenTiming(1.0, 9.0, 2.0, 2, 0.5))  # sent before the limit was changed
        limiter.observe(TokenTiming(5.0, 9.0, 2.0, 8, 0.5))  # eight were there, and then they were not
    assert limiter.limit == 2


@settings(max_examples=60)
@given(
    st.integers(1, 64),
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 100), st.integers(0, 100), st.floats(0, 1)), max_size=200),
)
def test_whatever_is_fed_the_limit_stays_in_its_bounds(most: int, fed: list[tuple[float, float, int, float]]) -> None:
    limiter, now = KneeLimiter(most), 0.0
    for seconds, concurrency, at_start, tpot in fed:
        now += seconds
        assert 1 <= limiter.observe(TokenTiming(now - seconds, now, concurrency, at_start, tpot)) <= most
