"""The pool over rehearsal engines, on a virtual clock: knees of known curves, and tenants that disturb one another."""

from collections.abc import Sequence
from functools import partial

import pytest
import trio
import trio.testing

from actors.rehearsal.engine.latency import LatencyModel
from actors.rehearsal.engine.options import RehearsalOptions
from inference.config import Concurrency, EngineConfig
from inference.errors import EngineError
from inference.messages import Completion, Message, Prompt, TextPart
from inference.pool import EnginePool, open_pool
from runtime.ids import EngineId, TenantId
from tests.kit.rehearsal_network import open_rehearsal_network

Clock = trio.testing.MockClock
A100 = ((1, 0.01309), (50, 0.01636))  # knee 50
HINGED = ((1, 0.010), (10, 0.010), (30, 0.050))  # knee 11
STEEP = ((1, 0.004), (17, 0.008))  # knee 5


def engine(number: int = 1, **changes: object) -> EngineConfig:
    fields: dict[str, object] = {"url": f"http://engine:{number}", "max_waiting": 1000, **changes}
    return EngineConfig(EngineId(f"e{number}"), **fields)  # type: ignore[arg-type]


def prompt(name: str, number: int, text: str = "play", tenant: str = "t") -> Prompt:
    return Prompt(f"{name}-{number}", TenantId(tenant), name, (Message("user", (TextPart(text),)),), max_tokens=64)


async def play(pool: EnginePool, name: str, until: float) -> None:
    number = 0
    while trio.current_time() < until:
        number += 1
        await pool(prompt(name, number), deadline=trio.current_time() + 100.0)


@pytest.mark.parametrize(("curve", "knee", "most"), [(A100, 50, 64), (HINGED, 11, 32), (STEEP, 5, 16)])
async def test_concurrency_settles_at_the_knee_of_a_rehearsal_engine(
    curve: tuple[tuple[int, float], ...], knee: int, most: int, autojump_clock: Clock
) -> None:
    options = RehearsalOptions(latency=LatencyModel(curve=curve), slots=most, blind=True, seed=1)
    config = engine(max_in_flight=most, concurrency=Concurrency.KNEE, probe_every_seconds=10.0)
    limits: list[tuple[float, int]] = []
    async with (
        open_rehearsal_network(options) as (network, _),
        open_pool([config], network=lambda: network) as pool,
        trio.open_nursery() as nursery,
    ):
        for number in range(most + 4):
            nursery.start_soon(play, pool, f"episode-{number}", 66.0)
        while trio.current_time() < 65.0:
            await trio.sleep(0.5)
            limits.append((trio.current_time(), pool.statistics().engines[0].limit))
        nursery.cancel_scope.cancel()

    settled = [limit for at, limit in limits if at >= 60.0]
    assert all(abs(limit - knee) <= max(1.0, 0.1 * knee) for limit in settled), settled


def p99(values: Sequence[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]


async def test_prompts_of_100k_tokens_cost_another_tenant_no_more_than_a_chunk_of_prefill(
    autojump_clock: Clock,
) -> None:
    """Time until the first token, less what it takes alone: in our queue, and in the engine's."""
    rate, chunk = 20_000.0, 2048
    latency = LatencyModel(curve=A100, prefill_tokens_per_second=rate, chunk_tokens=chunk)
    options = RehearsalOptions(latency=latency, slots=32, blind=True, context_length=1 << 18)
    config = engine(max_in_flight=8, chunk_tokens=chunk, total_seconds=600.0)

    async def run(*, disturbed: bool) -> list[float]:
        waits: list[float] = []
        async with (
            open_rehearsal_network(options) as (network, _),
            open_pool([config], network=lambda: network) as pool,
            trio.open_nursery() as nursery,
        ):
            end = trio.current_time() + 60.0

            async def heavy(name: str) -> None:
                for number in range(1000):
                    text = f"{name} {number} " + "x" * 400_000
                    await pool(prompt(name, number, text, "heavy"), deadline=trio.current_time() + 600.0)

            async def light(name: str) -> None:
                number = 0
                while trio.current_time() < end:
                    number += 1
                    asked = prompt(name, number, f"{name} {number}", "light")
                    completion = await pool(asked, deadline=trio.current_time() + 60.0)
                    waits.append(completion.queue_seconds + completion.prefill_seconds)
                    await trio.sleep(0.5)

            if disturbed:
                for number in range(12):
                    nursery.start_soon(heavy, f"heavy-{number}")
                await trio.sleep(1.0)
            async with trio.open_nursery() as lights:
                lights.start_soon(light, "light-0")
            nursery.cancel_scope.cancel()
        return waits

    alone, beside = await run(disturbed=False), await run(disturbed=True)

    assert len(beside) > 30
    assert p99(beside) <= p99(alone) + chunk / rate + 0.01


async def test_a_dead_engines_episodes_move_and_are_computed_a_few_at_a_time(autojump_clock: Clock) -> None:
    latency = LatencyModel(curve=A100, prefill_tokens_per_second=4000.0)
    options = RehearsalOptions(latency=latency, slots=64, blind=True)
    configs = [engine(number, max_in_flight=32, cold_prefills=2, probe_every_seconds=0.5) for number in (1, 2)]
    done: list[Completion] = []
    lost: list[EngineError] = []

    async def episode(pool: EnginePool, number: int) -> None:
        for step in range(12):
            text = f"episode {number} " + "x" * 4000
            try:
                done.append(
                    await pool(prompt(f"e-{number}", step, text), deadline=trio.current_time() + 60.0),
                )
            except EngineError as error:
                lost.append(error)
            await trio.sleep(0.2)

    async with (
        open_rehearsal_network(options, options) as (network, engines),
        open_pool(configs, network=lambda: network) as pool,
        trio.open_nursery() as nursery,
    ):
        most_computing = 0

        async def watch() -> None:
            nonlocal most_computing
            while True:
                works = engines[1]._works.values()
                cold = [work for work in works if work.cached_tokens < 900 and work.output_tokens == 0]
                most_computing = max(most_computing, len(cold))
                await trio.sleep(0.005)

        nursery.start_soon(watch)
        async with trio.open_nursery() as episodes:
            for number in range(24):
                episodes.start_soon(partial(episode, pool, number))
            while len(done) < 24:
                await trio.sleep(0.01)
            pool.set_engine_fit(EngineId("e1"), False, "it throttles")
        statistics = pool.statistics()
        nursery.cancel_scope.cancel()

    assert lost == []
    assert len(done) == 24 * 12
    assert [one.homed for one in statistics.engines] == [0, 24]
    assert statistics.engines[0].unfit == "it throttles"
    moved = [one for one in done if one.why == "rehomed"]
    assert len(moved) == 12
    assert most_computing == 2
