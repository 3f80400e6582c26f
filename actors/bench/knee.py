"""Does concurrency settle at the knee, and follow it? Rehearsal engines of known curves, in real time."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
import trio

from actors.bench.engines import open_rehearsal_engines
from actors.bench.pool import Tape, run_phone
from actors.bench.result import BenchResult, Tell, tell_nobody
from inference.config import Concurrency, EngineConfig
from inference.knee import KNEE_RATIO, Phase
from inference.pool import EnginePool, open_pool
from runtime.ids import EngineId

ENGINE = EngineId("engine-0")
SETTLE_SECONDS = 60.0
WATCH_SECONDS = 5.0  # after it: where it holds
SAMPLE_SECONDS = 0.5
TARGET_ERROR = 0.1


@attrs.frozen
class KnownCurve:
    """Time per output token by requests at the engine; straight between and beyond the points."""

    name: str
    points: tuple[tuple[int, float], ...]
    """(requests, milliseconds)."""
    most: int
    """Requests that the engine takes at a time."""

    @property
    def option(self) -> str:
        """For `corral engine rehearse --curve`."""
        return ",".join(f"{running}:{milliseconds:g}" for running, milliseconds in self.points)

    def at(self, running: int) -> float:
        """Milliseconds per token."""
        after = next((n for n in range(1, len(self.points)) if self.points[n][0] >= running), len(self.points) - 1)
        (left, low), (right, high) = self.points[after - 1], self.points[after]
        return low + (running - left) * (high - low) / (right - left)

    @property
    def knee(self) -> int:
        """The largest concurrency whose time per token is at most 1.25 times that of one."""
        bound = KNEE_RATIO * self.at(1) + 1e-9
        return max(running for running in range(1, self.most + 1) if self.at(running) <= bound)


A100 = KnownCurve("A100", ((1, 13.088), (50, 16.36)), 64)
HINGED = KnownCurve("flat, then steep", ((1, 10.0), (10, 10.0), (30, 50.0)), 32)
STEEP = KnownCurve("small engine", ((1, 8.0), (17, 16.0)), 16)
CURVES = (A100, HINGED, STEEP)


async def settle(
    curve: KnownCurve, seconds: float, tell: Tell = tell_nobody, *, then: KnownCurve | None = None
) -> dict[str, Any]:
    """More phones than the engine takes, for so long; then where the limit is.

    Args:
        curve: of the engine.
        seconds: that the limit has; after a change, as many again.
        tell: of progress.
        then: the engine's curve becomes this one under load, and nobody is told: as when a card is clocked down.

    Raises:
        BenchUnavailable: the engine did not start.
    """
    last = then or curve
    most, first_part = max(curve.most, last.most), seconds + WATCH_SECONDS
    arguments: tuple[str, ...] = ("--blind", "--fill", "--curve", curve.option, "--slots", str(most))
    if then is not None:
        arguments += ("--change-curve", then.option, "--change-after", str(first_part))
    name = curve.name if then is None else f"{curve.name}, then {then.name}"
    async with open_rehearsal_engines([arguments]) as (engine,), open_pool() as pool:
        pool.add_engine(_config(most, engine.url))
        async with trio.open_nursery() as nursery:
            tape = Tape()
            for number in range(most + 4):
                nursery.start_soon(run_phone, pool, number, tape)
            trace, at_floor = await _watch(pool, first_part * (1 if then is None else 2), partial(tell, name))
            nursery.cancel_scope.cancel()
    return {
        "curve": name,
        "points": last.option,
        **verdict_of([(at, limit) for at, limit in trace if then is None or at >= first_part], last),
        "limit_before_change": None if then is None else _last([one for one in trace if one[0] < first_part]),
        "seconds_at_floor": at_floor,
        "lost": len(tape.lost),
        "trace": trace,
    }


def _config(most: int, url: str) -> EngineConfig:
    return EngineConfig(
        ENGINE,
        url=url,
        model="rehearsal-7b",
        max_in_flight=most,
        max_waiting=1000,
        concurrency=Concurrency.KNEE,
        cold_prefills=16,
    )


Trace = list[tuple[float, int]]
"""(seconds, limit)."""


async def _watch(pool: EnginePool, seconds: float, tell: Callable[[float], None]) -> tuple[Trace, float]:
    """The limit twice a second; and the seconds for which the floor was measured instead, a request at a time."""
    start = trio.current_time()
    trace: Trace = []
    at_floor = 0.0
    while (gone := trio.current_time() - start) < seconds:
        engine = pool.statistics().engines[0]
        if engine.knee is Phase.FLOOR:
            at_floor += SAMPLE_SECONDS
        else:
            trace.append((round(gone, 2), engine.limit))
        tell(gone / seconds)
        await trio.sleep(SAMPLE_SECONDS)
    return trace, at_floor


def verdict_of(trace: Sequence[tuple[float, int]], curve: KnownCurve) -> dict[str, Any]:
    """Where the limit is at the end of a trace, and since when it is near the knee."""
    if not trace:  # too short for more than the floor
        return {"knee": curve.knee, "limit": None, "limits_held": "", "settled_after_seconds": None, "met": False}
    start = trace[0][0]
    held = [limit for _, limit in trace[-max(1, round(WATCH_SECONDS / SAMPLE_SECONDS)) :]]
    allowed = max(1.0, TARGET_ERROR * curve.knee)
    off = [at for at, limit in trace if abs(limit - curve.knee) > allowed]
    return {
        "knee": curve.knee,
        "limit": held[-1],
        "limits_held": f"{min(held)} to {max(held)}",
        "settled_after_seconds": round(off[-1] - start, 1) if off else 0.0,
        "met": all(abs(limit - curve.knee) <= allowed for limit in held),
    }


def _last(trace: Trace) -> int | None:
    return trace[-1][1] if trace else None


def bench_knee(*, seconds: float = SETTLE_SECONDS, tell: Tell = tell_nobody) -> BenchResult:
    """Three curves, then a change of one into another.

    Raises:
        BenchUnavailable: an engine did not start.
    """
    rows = [trio.run(partial(settle, curve, seconds, tell)) for curve in CURVES]
    rows.append(trio.run(partial(settle, A100, seconds, tell, then=STEEP)))
    shown = ("knee", "limit", "limits_held", "settled_after_seconds", "seconds_at_floor", "met")
    summary: dict[str, Any] = {row["curve"]: {name: row[name] for name in shown} for row in rows}
    summary["every curve met"] = all(row["met"] for row in rows)
    notes = (
        f"knee: the largest concurrency whose time per token is at most {KNEE_RATIO} times that of a request alone",
        f"met: after {seconds:g} s, for {WATCH_SECONDS:g} s, the limit is within a tenth of it, or within 1",
        "not counted: seconds at the floor, with one request at a time so that the fastest token is known",
        "the engines are rehearsal engines: processes with that very curve; they and this process share the machine",
    )
    return BenchResult("knee", f"corral bench knee --seconds {seconds:g}", summary, rows, notes)
