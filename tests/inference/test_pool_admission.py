"""Who is let in, where, and when not: tenants' limits, deadlines, spills, fitness, sessions, and engines that lie."""

from collections import Counter
from typing import Any

import attrs
import prometheus_client
import pytest
import trio
import trio.testing

from inference.config import EngineConfig, TenantConfig
from inference.errors import EngineLost, EngineNotReady, EngineTooSlow, Overloaded, TenantLimited
from inference.health import CircuitState
from inference.homing import Cause, Why
from inference.loads import EngineLoad
from inference.messages import Completion, Message, Prompt, TextPart
from inference.pool import EnginePool, open_pool
from runtime.ids import EngineId, TenantId
from runtime.telemetry import REGISTRY
from tests.kit.engines import FakeEngine, open_network

Clock = trio.testing.MockClock
E0, E1 = EngineId("e0"), EngineId("e1")
QA = TenantId("qa")
_numbers = iter(range(10**9))


def config(number: int, **changes: Any) -> EngineConfig:
    fields = EngineConfig(EngineId(f"e{number}"), url=f"http://engine:{number + 1}", max_in_flight=2, max_waiting=9)
    return attrs.evolve(fields, **changes)


def prompt(key: str = "episode", **changes: Any) -> Prompt:
    messages = (Message("user", (TextPart("x" * 480),)),)
    return attrs.evolve(Prompt(f"a{next(_numbers)}", QA, key, messages, max_tokens=64), **changes)


async def ask(pool: EnginePool, key: str = "episode", *, seconds: float = 30.0, **changes: Any) -> Completion:
    return await pool(prompt(key, **changes), deadline=trio.current_time() + seconds)


def counted(name: str, **labels: str) -> float:
    value = REGISTRY.get_sample_value(name, labels)
    return 0.0 if value is None else value


async def test_a_tenant_that_used_up_its_tokens_is_told_when_to_come_back(autojump_clock: Clock) -> None:
    engine = FakeEngine()
    limits = {QA: TenantConfig(output_tokens_per_minute=60)}
    refused = counted("inference_tenant_limited_requests_total", workload="bots", tenant="qa")
    async with (
        open_network({1: engine}) as network,
        open_pool([config(0)], network=lambda: network, tenants=limits) as pool,
    ):
        for _ in range(20):
            await ask(pool)  # three tokens each, as the engine counts; one is let in with nothing left
        with pytest.raises(TenantLimited, match=r"tenant qa has used up .* ask again in") as caught:
            await ask(pool)
        assert isinstance(caught.value, Overloaded)
        assert 0 < caught.value.retry_after_seconds <= 2.0
        assert len(engine.requests) == 20
        await ask(pool, tenant=TenantId("others"))
        await trio.sleep(caught.value.retry_after_seconds)
        await ask(pool)
        (_, usage) = pool.statistics().tenants
        assert (usage.tenant, usage.requests, usage.limited, usage.output_tokens) == (QA, 21, 1, 63)
        assert (usage.input_tokens, usage.cached_tokens) == (21 * 120, 21 * 100)
    assert counted("inference_tenant_limited_requests_total", workload="bots", tenant="qa") == refused + 1


async def test_a_tenants_adapter_and_the_episodes_session_are_named(autojump_clock: Clock) -> None:
    engine = FakeEngine()
    tenants = {QA: TenantConfig(adapter="qa-lora")}
    async with (
        open_network({1: engine}) as network,
        open_pool([config(0, session_cache=True)], network=lambda: network, tenants=tenants) as pool,
    ):
        await ask(pool)
        await ask(pool, tenant=TenantId("others"))
        assert [request.get("lora_path") for request in engine.requests] == ["qa-lora", None]
        assert [request["session_id"] for request in engine.requests] == ["episode", "episode"]
        pool.release("episode")
        pool.release("episode")
        await trio.sleep(0.1)
        assert engine.closed_sessions == ["episode"]


async def test_a_session_is_closed_where_its_episode_was(autojump_clock: Clock) -> None:
    engines = {1: FakeEngine(), 2: FakeEngine()}
    configs = [config(0, session_cache=True), config(1, session_cache=True)]
    async with open_network(engines) as network, open_pool(configs, network=lambda: network) as pool:
        home = (await ask(pool)).engine
        pool.set_engine_fit(home, False, "it throttles")
        assert (await ask(pool)).why == Why.REHOMED
        await trio.sleep(0.1)
        old = engines[1] if home == E0 else engines[2]
        assert old.closed_sessions == ["episode"]
        pool.release("episode")
        await trio.sleep(0.1)
        assert sorted(len(engine.closed_sessions) for engine in engines.values()) == [1, 1]


async def test_an_engine_that_is_not_fit_is_left_and_taken_back(autojump_clock: Clock) -> None:
    engines = {1: FakeEngine(), 2: FakeEngine()}
    async with open_network(engines) as network, open_pool([config(0)], network=lambda: network) as pool:
        await ask(pool)
        pool.set_engine_fit(E0, False, "Xid 79")
        pool.set_engine_fit(E1, False, "it throttles")
        with pytest.raises(EngineNotReady, match="e0 Xid 79"):
            await ask(pool)
        pool.add_engine(config(0))  # a restart does not mend a card
        with pytest.raises(EngineNotReady, match="e0 Xid 79"):
            await ask(pool)
        pool.add_engine(config(1))
        assert pool.statistics().engines[1].unfit == "it throttles"
        pool.set_engine_fit(E1, True)
        assert (await ask(pool)).engine == E1
        pool.set_engine_fit(E0, True)
        assert pool.statistics().engines[0].unfit is None


async def test_those_who_wait_leave_an_engine_that_becomes_unfit(autojump_clock: Clock) -> None:
    engines = {1: FakeEngine(token_seconds=5.0), 2: FakeEngine()}
    async with open_network(engines) as network, open_pool([config(0)], network=lambda: network) as pool:
        done: list[Completion] = []

        async def one(number: int) -> None:
            done.append(await ask(pool, f"episode-{number}", seconds=100.0))

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(one, number)
            await trio.sleep(1.0)
            pool.add_engine(config(1))
            pool.set_engine_fit(E0, False, "it throttles")
        assert Counter(one.engine for one in done) == {E0: 2, E1: 3}


async def test_what_cannot_be_in_time_any_more_is_not_sent(autojump_clock: Clock) -> None:
    engine = FakeEngine(token_seconds=1.0)  # three tokens, one after the other: two seconds
    async with open_network({1: engine}) as network, open_pool([config(0)], network=lambda: network) as pool:
        await ask(pool)
        too_slow = counted("inference_requests_total", engine="e0", outcome="too_slow")
        engine.token_seconds = 0.1
        with pytest.raises(EngineTooSlow, match=r"an answer takes .* and 0\.50 s are left; nothing was sent"):
            await ask(pool, seconds=0.5)
        assert len(engine.requests) == 1
        assert counted("inference_requests_total", engine="e0", outcome="too_slow") == too_slow + 1
        await trio.sleep(6.0)  # old news refuses nothing: the next one finds out that it is faster now
        await ask(pool, seconds=2.0)
        assert len(engine.requests) == 2


async def test_what_is_in_flight_and_cannot_be_in_time_any_more_is_aborted(autojump_clock: Clock) -> None:
    engine = FakeEngine("ok", "hang", token_seconds=2.0)
    async with open_network({1: engine}) as network, open_pool([config(0)], network=lambda: network) as pool:
        await ask(pool)
        sent_at = trio.current_time()
        with pytest.raises(EngineTooSlow, match="could not be met any more"):
            await ask(pool, seconds=10.0)
        # two more tokens after the first take 4 s, nine tenths of it for sure
        assert trio.current_time() - sent_at == pytest.approx(10.0 - 0.9 * 4.0, abs=0.1)
        assert len(engine.aborted) == 1
        assert engine.running == {}


async def test_an_overloaded_home_spills_and_the_episode_moves_if_that_goes_on(autojump_clock: Clock) -> None:
    engines = {1: FakeEngine(token_seconds=0.5), 2: FakeEngine(token_seconds=0.5)}
    spills = counted("inference_placed_requests_total", engine="e1", why="spilled", cause=Cause.HOME_OVERLOADED)
    async with open_network(engines) as network, open_pool([config(0)], network=lambda: network) as pool:
        whys: Counter[str] = Counter()

        async def episode(number: int, steps: int) -> None:
            for _ in range(steps):
                whys[(await ask(pool, f"episode-{number}", seconds=100.0)).why] += 1

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(episode, number, 1)
        pool.add_engine(config(1))
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(episode, number, 12)
        homed = [engine.homed for engine in pool.statistics().engines]

    assert whys[Why.BORN] == 8
    assert whys[Why.SPILLED] > 0
    assert whys[Why.REHOMED] > 0
    assert sum(whys.values()) == 8 * 13
    assert sum(homed) == 8
    assert 2 <= homed[1] <= 6
    assert counted("inference_placed_requests_total", engine="e1", why="spilled", cause="home_overloaded") > spills


@pytest.mark.parametrize(
    "lie",
    [{"token_usage": 9.0}, {"num_running_reqs": -3}, {"num_waiting_reqs": "none"}, {"token_usage": float("nan")}],
)
async def test_an_engine_that_lies_about_its_load_is_used_and_not_believed(
    lie: dict[str, Any], autojump_clock: Clock
) -> None:
    engine = FakeEngine()
    engine.loads = lie
    before = counted("inference_unbelievable_probes_total", engine="e0")
    async with open_network({1: engine}) as network, open_pool([config(0)], network=lambda: network) as pool:
        await trio.sleep(7.0)
        assert (await ask(pool)).text == "T447,081;W03"
        statistics = pool.statistics().engines[0]
        assert statistics.circuit is CircuitState.CLOSED
        assert statistics.load == EngineLoad()
        assert statistics.limit == 2
        assert "it says that its" in (pool.last_probe_error(E0) or "")
    assert counted("inference_unbelievable_probes_total", engine="e0") >= before + 3


async def test_full_kv_memory_and_preemptions_slow_admission(autojump_clock: Clock) -> None:
    engine = FakeEngine("hang")
    engine.metrics = "sglang:num_retracted_requests_total 0\n"
    engine.loads = {"num_running_reqs": 8, "num_waiting_reqs": 0, "token_usage": 0.9}
    async with (
        open_network({1: engine}) as network,
        open_pool([config(0, max_in_flight=16)], network=lambda: network) as pool,
        trio.open_nursery() as nursery,
    ):

        async def hang(number: int) -> None:
            with pytest.raises(EngineTooSlow):
                await ask(pool, f"episode-{number}", seconds=60.0)

        for number in range(4):
            nursery.start_soon(hang, number)
        await trio.sleep(3.0)
        assert pool.statistics().engines[0].limit == 4
        engine.loads = {"num_running_reqs": 4, "num_waiting_reqs": 0, "token_usage": 0.2}
        await trio.sleep(2.0)
        assert pool.statistics().engines[0].limit == 16
        engine.metrics = "sglang:num_retracted_requests_total 3\n"
        await trio.sleep(11.0)
        statistics = pool.statistics().engines[0]
        assert statistics.halvings == 1
        assert statistics.limit < 16
        assert statistics.load.preempted == 3.0


async def test_cold_prompts_wait_for_one_another_and_warm_ones_pass(autojump_clock: Clock) -> None:
    engine = FakeEngine("ok", "hang", "hang", "ok")
    async with (
        open_network({1: engine}) as network,
        open_pool([config(0, max_in_flight=8, cold_prefills=2)], network=lambda: network) as pool,
        trio.open_nursery() as nursery,
    ):
        await ask(pool, "warm")

        async def cold(number: int) -> None:
            with pytest.raises(EngineTooSlow):
                await ask(pool, f"cold-{number}", seconds=20.0)

        for number in range(5):
            nursery.start_soon(cold, number)
        await trio.sleep(1.0)
        assert len(engine.running) == 2
        assert pool.statistics().engines[0].waiting == 3
        assert (await ask(pool, "warm")).why == Why.STICKY
        nursery.cancel_scope.cancel()


def test_metrics_are_what_prometheus_takes() -> None:
    assert b"inference_placed_requests_total" in prometheus_client.generate_latest(REGISTRY)


async def test_what_a_drain_cuts_off_goes_to_another_engine_once_it_is_surely_over(autojump_clock: Clock) -> None:
    engines = {1: FakeEngine("hang"), 2: FakeEngine()}
    async with open_network(engines) as network, open_pool([config(0)], network=lambda: network) as pool:
        done: list[Completion] = []

        async def one() -> None:
            done.append(await ask(pool, seconds=100.0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await trio.sleep(1.0)
            pool.add_engine(config(1))
            await pool.drain_engine(E0, grace_seconds=2.0)
        assert done[0].engine == E1
        assert engines[1].running == {}
        assert pool.statistics().retried == 1


async def test_what_a_drain_cuts_off_and_may_still_run_is_not_sent_again(autojump_clock: Clock) -> None:
    engines = {1: FakeEngine("hang"), 2: FakeEngine()}
    engines[1].accepts_abort = False
    async with open_network(engines) as network, open_pool([config(0)], network=lambda: network) as pool:

        async def one() -> None:
            with pytest.raises(EngineLost, match="drained"):
                await ask(pool, seconds=100.0)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await trio.sleep(1.0)
            pool.add_engine(config(1))
            await pool.drain_engine(E0, grace_seconds=2.0)
        assert engines[2].requests == []
