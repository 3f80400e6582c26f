"""Does the pool keep engines full, and does it lose nothing when one of them goes? 100 phones without think time."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import attrs
import trio

from actors.bench.engines import RunningEngine, open_rehearsal_engines
from actors.bench.result import BenchResult, Tell, tell_nobody
from actors.results.intervals import percentile
from inference.config import EngineConfig
from inference.errors import EngineError
from inference.homing import Why
from inference.latency_curve import A100_CURVE
from inference.messages import Completion, Message, Prompt, TextPart
from inference.pool import EnginePool, open_pool
from runtime.ids import DEFAULT_TENANT, EngineId

PHONES = 100
IN_FLIGHT = 50  # the knee of the A100 curve
OUTPUT_TOKENS = 64
WARM_UP_SECONDS = 5.0
DEADLINE_SECONDS = 30.0
DRAIN_GRACE_SECONDS = 10.0  # an answer takes 1.1 s
LATE_SECONDS = 30.0
POLL_SECONDS = 0.05
PROBE_SECONDS = 10.0  # engines and phones share the machine: a late answer to a probe is no sign of ill health here
TARGET_SHARE = 0.95
ENGINE_ARGUMENTS = ("--blind", "--fill", "--curve", "1:13.088,50:16.36", "--slots", str(IN_FLIGHT))


@attrs.frozen
class Step:
    """One answer, or the loss of one."""

    phone: int
    began_at: float
    ended_at: float
    engine: str
    """Empty: it was lost."""
    why: str
    tokens: int
    error: str = ""


@attrs.define
class Tape:
    """All steps so far."""

    steps: list[Step] = attrs.field(factory=list)

    def between(self, start: float, end: float) -> list[Step]:
        """Those that ended then."""
        return [one for one in self.steps if start <= one.ended_at < end]

    @property
    def lost(self) -> list[Step]:
        """Requests without an answer."""
        return [one for one in self.steps if not one.engine]


async def run_phone(pool: EnginePool, number: int, tape: Tape) -> None:
    """Ask for ever, without a pause."""
    count = 0
    while True:
        count += 1
        key = f"phone-{number}"
        prompt = Prompt(
            f"{key}-{count}",
            DEFAULT_TENANT,
            key,
            (Message("user", (TextPart(f"step {count} of phone {number}"),)),),
            max_tokens=OUTPUT_TOKENS,
        )
        began = trio.current_time()
        try:
            answer: Completion = await pool(prompt, deadline=began + DEADLINE_SECONDS)
        except EngineError as error:
            tape.steps.append(Step(number, began, trio.current_time(), "", "", 0, f"{type(error).__name__}: {error}"))
        else:
            tokens = answer.usage.output_tokens
            tape.steps.append(Step(number, began, trio.current_time(), answer.engine, answer.why, tokens))


def config_for(engine: RunningEngine, in_flight: int) -> EngineConfig:
    """The engine as the pool is told of it."""
    return EngineConfig(
        engine.id,
        url=engine.url,
        model="rehearsal-7b",
        max_in_flight=in_flight,
        max_waiting=1000,
        cold_prefills=16,
        probe_seconds=PROBE_SECONDS,
    )


async def measure_throughput(
    phones: int,
    engines: int,
    seconds: float,
    tell: Tell = tell_nobody,
    *,
    warm_up_seconds: float = WARM_UP_SECONDS,
    arguments: tuple[str, ...] = ENGINE_ARGUMENTS,
) -> dict[str, Any]:
    """Steps a second of so many phones, beside what the curve allows.

    Args:
        phones: each with one request out, always.
        engines: with that curve.
        seconds: after the warm-up.
        tell: of progress.
        warm_up_seconds: until then nothing is counted.
        arguments: of the engines.

    Raises:
        BenchUnavailable: an engine did not start.
    """
    tape = Tape()
    async with (
        open_rehearsal_engines([arguments] * engines) as running,
        open_pool([config_for(engine, IN_FLIGHT) for engine in running]) as pool,
        trio.open_nursery() as nursery,
    ):
        for number in range(phones):
            nursery.start_soon(run_phone, pool, number, tape)
        await trio.sleep(warm_up_seconds)
        start, cpu = trio.current_time(), time.thread_time()
        while (gone := trio.current_time() - start) < seconds:
            tell(f"{phones} phones on {engines} engines", gone / seconds)
            await trio.sleep(min(0.5, seconds - gone))
        end, cpu = trio.current_time(), time.thread_time() - cpu
        nursery.cancel_scope.cancel()
    steps = tape.between(start, end)
    took = [one.ended_at - one.began_at for one in steps if one.engine] or [float("inf")]
    at = phones / engines
    possible = engines * A100_CURVE.requests_per_second(OUTPUT_TOKENS, min(at, IN_FLIGHT))
    rate = len([one for one in steps if one.engine]) / (end - start)
    return {
        "phones": phones,
        "engines": engines,
        "seconds": round(end - start, 2),
        "requests": len(steps),
        "lost": len(tape.lost),
        "output_tokens_mean": round(sum(one.tokens for one in steps) / max(1, len(steps)), 2),
        "requests_per_second": round(rate, 2),
        "possible_requests_per_second": round(possible, 2),
        "share_of_possible": round(rate / possible, 4),
        "step_ms_p50": round(percentile(took, 0.5) * 1000, 1),
        "step_ms_p95": round(percentile(took, 0.95) * 1000, 1),
        "step_ms_p99": round(percentile(took, 0.99) * 1000, 1),
        "cpu_ms_per_request": round(cpu * 1000 / max(1, len(steps)), 3),
        "largest_engine_share": round(_largest_share(steps), 4),
    }


async def measure_loss(
    how: str,
    phones: int,
    engines: int,
    seconds: float,
    tell: Tell = tell_nobody,
    *,
    arguments: tuple[str, ...] = ENGINE_ARGUMENTS,
) -> dict[str, Any]:
    """Take one engine out half-way, by `kill` (SIGKILL) or by `drain`: what was lost, and how soon its phones moved.

    Args:
        how: `kill` or `drain`.
        phones: each with one request out, always.
        engines: of which the first goes.
        seconds: half of them before that.
        tell: of progress.
        arguments: of the engines.

    Raises:
        BenchUnavailable: an engine did not start.
    """
    tape = Tape()
    in_flight = -(-phones // (engines - 1)) + 1  # the others can take all
    async with (
        open_rehearsal_engines([arguments] * engines) as running,
        open_pool([config_for(engine, in_flight) for engine in running]) as pool,
        trio.open_nursery() as nursery,
    ):
        for number in range(phones):
            nursery.start_soon(run_phone, pool, number, tape)
        tell(f"{how}: before", 0.0)
        await trio.sleep(seconds / 2)
        await _wait_until(lambda: len({one.phone for one in tape.steps}) == phones)
        victim = running[0]
        before = {one.phone for one in tape.steps if one.engine == victim.id}
        at = trio.current_time()
        if how == "kill":
            os.killpg(os.getpgid(victim.process.pid), signal.SIGKILL)
        else:
            await pool.drain_engine(victim.id, grace_seconds=DRAIN_GRACE_SECONDS)
        drained = trio.current_time() - at
        tell(f"{how}: after", 0.5)
        await trio.sleep(seconds / 2)
        await _wait_until(lambda: before <= _first_elsewhere(tape.steps, victim.id, at, before).keys())
        end = trio.current_time()
        retried = pool.statistics().retried
        nursery.cancel_scope.cancel()
    homed = [one for one in tape.between(0.0, at) if one.why == Why.BORN and one.engine == victim.id]
    moved = _first_elsewhere(tape.steps, victim.id, at, before)
    times = sorted(moved.values())
    return {
        "how": how,
        "phones": phones,
        "engines": engines,
        "requests": len(tape.steps),
        "lost": len(tape.lost),
        "first_error": tape.lost[0].error if tape.lost else "",
        "retried": retried,
        "homed_at_it": len(homed),
        "moved": len(moved),
        "moved_from_others": len({one.phone for one in tape.between(at, end) if one.why == Why.REHOMED} - before),
        "rehome_ms_p50": round(median(times) * 1000, 1) if times else None,
        "rehome_ms_max": round(times[-1] * 1000, 1) if times else None,
        "drain_ms": round(drained * 1000, 1) if how == "drain" else None,
    }


async def _wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what a busy machine may be late with, for a while: the numbers tell if it never came."""
    with trio.move_on_after(LATE_SECONDS):
        while not condition():  # noqa: ASYNC110  # asked now and then, beside a measurement
            await trio.sleep(POLL_SECONDS)


def _first_elsewhere(steps: Sequence[Step], victim: EngineId, at: float, phones: set[int]) -> dict[int, float]:
    """By phone, how long after its engine went its first answer came from another one."""
    found: dict[int, float] = {}
    for one in steps:
        if one.phone in phones and one.ended_at >= at and one.engine not in {"", victim}:
            found.setdefault(one.phone, one.ended_at - at)
    return found


def _largest_share(steps: Sequence[Step]) -> float:
    names = [one.engine for one in steps if one.engine]
    return max((names.count(name) for name in set(names)), default=0) / max(1, len(names))


def bench_pool(*, phones: int, seconds: float, tell: Tell = tell_nobody) -> BenchResult:
    """Throughput on two engines, then a kill and a drain on four.

    Raises:
        BenchUnavailable: an engine did not start.
    """
    full = trio.run(partial(measure_throughput, phones, 2, seconds, tell))
    killed = trio.run(partial(measure_loss, "kill", phones, 4, seconds, tell))
    drained = trio.run(partial(measure_loss, "drain", phones, 4, seconds, tell))
    summary: dict[str, Any] = {"throughput": full, "kill": killed, "drain": drained}
    summary["met"] = full["share_of_possible"] >= TARGET_SHARE and not full["lost"] + killed["lost"] + drained["lost"]
    notes = (
        f"{OUTPUT_TOKENS} output tokens on the A100's published curve; possible: C / (TTFT + {OUTPUT_TOKENS} x TPOT), "
        f"{IN_FLIGHT} at a time an engine; engines and this process share the machine",
        "rehome: from the kill, or the beginning of the drain, until a phone's first whole answer from another engine; "
        "that itself takes 1.1 s at 50 at a time, and 1.0 s at 33",
    )
    command = f"corral bench pool --phones {phones} --seconds {seconds:g}"
    return BenchResult("pool", command, summary, [full, killed, drained], notes)
