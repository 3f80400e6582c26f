import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.bench.lag import LagLog, quantile, slope_of


def test_windows_and_report_of_something_that_keeps_up() -> None:
    log = LagLog(start=100.0)
    log.add(99.0, 50.0)  # before the measurement
    for second in range(20):
        log.add(100.0 + second, 0.010 if second != 7 else 2.0)

    assert [(window.at_seconds, window.count) for window in log.windows()] == [(2.5, 5), (7.5, 5), (12.5, 5), (17.5, 5)]
    report = log.report()
    assert report["lag_ms_p50"] == 10.0
    assert report["lag_ms_max"] == 2000.0
    assert (report["lag_slope_ms_per_second"], report["lag_grows"]) == (0.0, False)


def test_a_backlog_is_seen_from_one_percent_on() -> None:
    def report(behind: float) -> dict[str, object]:
        log = LagLog(start=0.0)
        for second in range(60):
            log.add(second, second * behind)
        return log.report()

    assert report(0.009)["lag_grows"] is False
    assert report(0.02)["lag_grows"] is True
    assert report(0.02)["lag_slope_ms_per_second"] == pytest.approx(20.0)


def test_nothing_measured_is_no_lag() -> None:
    assert LagLog(start=0.0).report()["lag_grows"] is False


@given(st.floats(-100, 100), st.floats(-5, 5), st.integers(0, 2))
def test_the_slope_is_that_of_the_line_whatever_a_few_points_say(offset: float, slope: float, wrong: int) -> None:
    points = [(float(x), offset + slope * x) for x in range(11)]
    for index in range(wrong):
        points[5 + index] = (points[5 + index][0], 1e6)

    assert slope_of(points) == pytest.approx(slope, abs=1e-6)


def test_quantiles() -> None:
    assert [quantile([4, 1, 3, 2], share) for share in (0, 0.5, 0.95)] == [1, 3, 4]
    assert quantile([], 0.5) == 0
