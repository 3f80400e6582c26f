import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.latency_curve import A100_CURVE, CurveError, CurvePoint, LatencyCurve, parse_curve


def test_the_table_of_the_design_document() -> None:
    table = {tokens: round(A100_CURVE.step_ms(tokens, 50)) for tokens in (8, 16, 32, 64, 128, 256)}

    assert table == {8: 189, 16: 320, 32: 582, 64: 1105, 128: 2152, 256: 4246}


def test_500_ms_are_27_tokens_and_not_28() -> None:
    assert A100_CURVE.tokens_within(500.0, 50) == 27
    assert A100_CURVE.step_ms(28, 50) > 500.0
    assert A100_CURVE.tokens_within(50.0, 50) == 0


def test_the_knee_of_the_published_curve() -> None:
    assert A100_CURVE.knee() == 50
    assert round(A100_CURVE.at(1).tpot_ms, 2) == 13.09
    assert A100_CURVE.at(30).tpot_ms == pytest.approx((13.69 + 16.36) / 2)
    assert A100_CURVE.at(500).tpot_ms == 16.36
    assert not A100_CURVE.reaches(51)


def test_throughput() -> None:
    assert A100_CURVE.requests_per_second(64, 50) == pytest.approx(50 / 1.10504)


def test_the_knee_between_two_points() -> None:
    curve = LatencyCurve((CurvePoint(1, 50, 10.0), CurvePoint(11, 50, 12.0), CurvePoint(21, 50, 14.0)), "x")

    assert curve.knee() == 13  # 12.5 ms is a quarter of the way from 11 to 21


def document(*points: dict[str, Any]) -> bytes:
    return json.dumps({"points": points, "gpu": "RTX 5090"}).encode()


def row(concurrency: float, ttft: Any = 61.0, tpot: Any = 9.4) -> dict[str, Any]:
    return {"concurrency": concurrency, "ttft_ms_p50": ttft, "tpot_ms_p50": tpot, "requests_per_second": 12.0}


def test_a_measured_curve() -> None:
    curve = parse_curve(document(row(16, tpot=10.0), row(1)), "here.json")

    assert [point.concurrency for point in curve.points] == [1, 16]
    assert curve.source == "measured: here.json"
    assert curve.step_ms(10, 1) == 155.0


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (b"?", "x.json is not JSON"),
        (b"[]", 'has no "points"'),
        (b'{"points": []}', 'has no "points"'),
        (b'{"points": [5]}', r"points\[0\] is no object"),
        (document(row(1), row(1)), "two points at concurrency 1"),
        (document(row(1, ttft=None)), "'ttft_ms_p50' must be a number above 0, not None"),
        (document(row(1, tpot=0)), "tpot_ms_p50"),
        (document(row(1, tpot=float("nan"))), "tpot_ms_p50"),
        (document(row(1, tpot=True)), "tpot_ms_p50"),
    ],
)
def test_what_is_no_curve(source: bytes, why: str) -> None:
    with pytest.raises(CurveError, match=why):
        parse_curve(source, "x.json")


@given(
    st.lists(st.tuples(st.integers(1, 200), st.floats(1, 100), st.floats(1, 100)), min_size=1, unique_by=lambda p: p[0])
)
def test_the_knee_is_within_the_measurement(points: list[tuple[int, float, float]]) -> None:
    curve = LatencyCurve(tuple(CurvePoint(*point) for point in sorted(points)), "x")

    knee = curve.knee()

    assert 1 <= knee <= curve.points[-1].concurrency
    assert curve.at(knee).tpot_ms <= 1.25 * curve.points[0].tpot_ms * (1 + 1e-6) or knee == 1
