"""Is something falling behind? Lags in windows of time, and a slope that a single hiccup cannot bend."""

from collections.abc import Sequence
from typing import Any

import attrs

WINDOW_SECONDS = 5.0
GROWING_SHARE = 0.01  # behind by more than 1 % of the time that passes is a backlog; a busy machine's noise stays below


@attrs.frozen
class Window:
    """The lags of one stretch of time, in milliseconds."""

    at_seconds: float
    """Middle of the window, since the start of the measurement."""
    count: int
    p50_ms: float
    p95_ms: float


@attrs.define
class LagLog:
    """Collects lags: how long after it was due something was done."""

    start: float
    """Run clock at which the measurement begins; what came before is not counted."""
    lags: list[tuple[float, float]] = attrs.field(factory=list)
    """(seconds since the start, lag in seconds)."""

    def add(self, now: float, lag_seconds: float) -> None:
        """Note one."""
        if now >= self.start:
            self.lags.append((now - self.start, lag_seconds))

    def windows(self) -> list[Window]:
        """One a `WINDOW_SECONDS`, empty ones left out; the last may be shorter."""
        by_window: dict[int, list[float]] = {}
        for at, lag in self.lags:
            by_window.setdefault(int(at // WINDOW_SECONDS), []).append(lag * 1000)
        return [
            Window(
                at_seconds=(index + 0.5) * WINDOW_SECONDS,
                count=len(lags),
                p50_ms=round(quantile(lags, 0.5), 2),
                p95_ms=round(quantile(lags, 0.95), 2),
            )
            for index, lags in sorted(by_window.items())
        ]

    def report(self) -> dict[str, Any]:
        """What a reader looks at first."""
        windows = self.windows()
        lags = [lag * 1000 for _, lag in self.lags]
        slope = slope_of([(window.at_seconds, window.p50_ms) for window in windows])
        return {
            "lag_ms_p50": round(quantile(lags, 0.5), 2),
            "lag_ms_p95": round(quantile(lags, 0.95), 2),
            "lag_ms_max": round(max(lags, default=0.0), 2),
            "lag_slope_ms_per_second": round(slope, 3),
            "lag_grows": slope > GROWING_SHARE * 1000,
        }


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share lies; 0 of no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def slope_of(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of points (Theil-Sen): half of the points may be wrong."""
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for index, earlier in enumerate(points)
        for later in points[index + 1 :]
        if later[0] != earlier[0]
    ]
    return quantile(slopes, 0.5)
