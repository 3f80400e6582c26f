"""How long a step takes on an engine that many requests share: published constants, or a curve measured on the spot."""

import bisect
import itertools
import json
import math
from typing import Any

import attrs

A100_SOURCE = "A100 constants, not measured here"
KNEE_FACTOR = 1.25  # the knee: the largest concurrency whose time per token is at most this much of that alone
MAX_POINTS = 1000


class CurveError(Exception):
    """A file holds no measured curve. The message says what is wrong with it."""


@attrs.frozen
class CurvePoint:
    """One concurrency."""

    concurrency: float
    ttft_ms: float
    """Time to the first token, vision encoder and prefill included; median."""
    tpot_ms: float
    """Time per output token; median."""


@attrs.frozen
class LatencyCurve:
    """Points in order of concurrency; between them it is straight, outside it is level."""

    points: tuple[CurvePoint, ...]
    source: str
    """Where the numbers come from."""

    def at(self, concurrency: float) -> CurvePoint:
        """The point at a concurrency."""
        places = [point.concurrency for point in self.points]
        after = bisect.bisect_left(places, concurrency)
        if after == 0:
            return attrs.evolve(self.points[0], concurrency=concurrency)
        if after == len(places):
            return attrs.evolve(self.points[-1], concurrency=concurrency)
        low, high = self.points[after - 1], self.points[after]
        share = (concurrency - low.concurrency) / (high.concurrency - low.concurrency)
        return CurvePoint(
            concurrency,
            low.ttft_ms + share * (high.ttft_ms - low.ttft_ms),
            low.tpot_ms + share * (high.tpot_ms - low.tpot_ms),
        )

    def reaches(self, concurrency: float) -> bool:
        """False where `at` only repeats the last point."""
        return concurrency <= self.points[-1].concurrency

    def knee(self) -> int:
        """The largest whole concurrency before TPOT exceeds `KNEE_FACTOR` x TPOT at the least one."""
        limit = KNEE_FACTOR * self.points[0].tpot_ms
        best = self.points[0].concurrency
        for low, high in itertools.pairwise(self.points):
            if high.tpot_ms <= limit + 1e-9:
                best = high.concurrency
                continue
            rise = (high.tpot_ms - low.tpot_ms) / (high.concurrency - low.concurrency)
            best = low.concurrency + (limit - low.tpot_ms) / rise
            break
        return max(1, math.floor(best + 1e-6))

    def step_ms(self, output_tokens: int, concurrency: float) -> float:
        """TTFT + output tokens x TPOT."""
        point = self.at(concurrency)
        return point.ttft_ms + output_tokens * point.tpot_ms

    def tokens_within(self, milliseconds: float, concurrency: float) -> int:
        """The most output tokens that a step of so long can have; 0 if not one."""
        point = self.at(concurrency)
        return max(0, math.floor((milliseconds - point.ttft_ms) / point.tpot_ms + 1e-9))

    def requests_per_second(self, output_tokens: int, concurrency: float) -> float:
        """C / (TTFT + K x TPOT)."""
        return concurrency * 1000.0 / self.step_ms(output_tokens, concurrency)


# vLLM's published measurement of Qwen2.5-VL-7B on one A100: TPOT 13.69 ms at 10 and 16.36 at 50 requests, TTFT 58 ms
# at 50. TPOT at 1 is the straight line through the two; 16.36 is 1.25 times that, so the knee is at 50. TTFT below 50
# was not published, so it is taken as level.
A100_CURVE = LatencyCurve(
    (CurvePoint(1, 58.0, 16.36 / 1.25), CurvePoint(10, 58.0, 13.69), CurvePoint(50, 58.0, 16.36)), A100_SOURCE
)


def parse_curve(source: bytes, file: str) -> LatencyCurve:
    """Read a curve that was measured.

    The file is JSON, as `corral bench engine` writes it: `{"points": [{"concurrency": 8, "ttft_ms_p50": 61.0,
    "tpot_ms_p50": 9.4, ...}, ...], ...}`; other keys are left alone.

    Raises:
        CurveError: it is not that.
    """
    try:
        value = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise CurveError(f"{file} is not JSON: {error}") from error
    rows = value.get("points") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not 0 < len(rows) <= MAX_POINTS:
        raise CurveError(f'{file} has no "points": a list of 1 to {MAX_POINTS} measurements')
    points = sorted((_point(row, f"{file}: points[{n}]") for n, row in enumerate(rows)), key=lambda p: p.concurrency)
    for one, other in itertools.pairwise(points):
        if one.concurrency == other.concurrency:
            raise CurveError(f"{file} has two points at concurrency {one.concurrency:g}")
    return LatencyCurve(tuple(points), f"measured: {file}")


def _point(row: Any, at: str) -> CurvePoint:
    if not isinstance(row, dict):
        raise CurveError(f"{at} is no object")
    numbers = []
    for name in ("concurrency", "ttft_ms_p50", "tpot_ms_p50"):
        value = row.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
            raise CurveError(f"{at}: {name!r} must be a number above 0, not {value!r}")
        numbers.append(float(value))
    return CurvePoint(*numbers)
