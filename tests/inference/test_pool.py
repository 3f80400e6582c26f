from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.lowlevel
import trio.testing

from inference.config import EngineConfig
from inference.errors import (
    EngineError,
    EngineGarbled,
    EngineLost,
    EngineNotReady,
    EngineRefused,
    EngineTooSlow,
    Overloaded,
)
from inference.health import CircuitState, Outcome, outcome_for
from inference.messages import Complete, Completion, Delta, Message, Prompt, TextPart
from inference.pool import EnginePool, open_pool
from runtime.ids import EngineId, TenantId
from tests.kit.engines import FakeEngine, open_network

Clock = trio.testing.MockClock
FIRST_PORT = 7000


def config(number: int, **changes: Any) -> EngineConfig:
    fields = EngineConfig(
        EngineId(f"e{number}"), url=f"http://engine:{FIRST_PORT + number}", max_in_flight=2, max_waiting=3
    )
    return attrs.evolve(fields, **changes)


@asynccontextmanager
async def open_engines(*engines: FakeEngine, **changes: Any) -> AsyncIterator[EnginePool]:
    numbered = dict(enumerate(engines, FIRST_PORT))
    async with open_network(numbered) as network:
        configs = [config(number, **changes) for number in range(len(engines))]
        async with open_pool(configs, network=lambda: network) as pool:
            yield pool


_numbers = iter(range(10**9))


async def ask(complete: Complete, key: str = "episode-1", *, seconds: float = 10.0) -> Completion:
    prompt = Prompt(f"r{next(_numbers)}", TenantId("t"), key, (Message("user", (TextPart("play"),)),), max_tokens=64)
    return await complete(prompt, deadline=trio.current_time() + seconds)


def doubles(*engines: FakeEngine) -> list[str]:
    """Requests that more than one engine was sent."""
    counts = Counter(request["rid"] for engine in engines for request in engine.requests)
    return [rid for rid, count in counts.items() if count > 1]


async def test_an_episode_stays_at_home_until_it_is_released(autojump_clock: Clock) -> None:
    engines = [FakeEngine(), FakeEngine(), FakeEngine()]
    async with open_engines(*engines) as pool:
        whys = []
        for step in range(3):
            for episode in range(6):
                completion = await ask(pool, f"episode-{episode}")
                whys.append((step, completion.why))
        assert Counter(whys) == {(0, "born"): 6, (1, "sticky"): 6, (2, "sticky"): 6}
        assert [len(engine.requests) for engine in engines] == [6, 6, 6]
        assert all(len({request["rid"] for request in engine.requests}) == 6 for engine in engines)

        pool.release("episode-0")
        pool.release("episode-0")
        assert (await ask(pool, "episode-0")).why == "born"
        statistics = pool.statistics()
        assert (statistics.completed, statistics.failed, statistics.homes) == (19, 0, 6)
        assert sorted(engine.homed for engine in statistics.engines) == [2, 2, 2]


async def test_no_more_than_its_limit_is_at_an_engine_and_the_queue_is_bounded(autojump_clock: Clock) -> None:
    engine = FakeEngine(token_seconds=1.0)
    kinds: Counter[str] = Counter()
    async with open_engines(engine) as pool:

        async def one() -> None:
            try:
                completion = await ask(pool, seconds=100.0)
                kinds[f"done after {round(completion.queue_seconds)}"] += 1
            except Overloaded:
                kinds["overloaded"] += 1

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(one)
        assert engine.most_running == 2
        assert kinds == {"done after 0": 2, "done after 6": 2, "done after 12": 1, "overloaded": 3}
        assert pool.statistics().overloaded == 3


async def test_the_deadline_holds_in_the_queue_and_nothing_is_sent(autojump_clock: Clock) -> None:
    engine = FakeEngine("hang")
    async with open_engines(engine) as pool, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(ask_and_expect, pool, EngineTooSlow, 20.0)
        await trio.sleep(0.1)
        with pytest.raises(EngineTooSlow, match="nothing was sent"):
            await ask(pool, seconds=3.0)
        assert trio.current_time() == pytest.approx(3.1)
        assert len(engine.requests) == 2


async def ask_and_expect(pool: EnginePool, kind: type[EngineError], seconds: float) -> None:
    with pytest.raises(kind):
        await ask(pool, seconds=seconds)


async def test_an_engine_killed_in_the_middle_and_a_second_takes_over(autojump_clock: Clock) -> None:
    engines = [FakeEngine(token_seconds=1.0), FakeEngine(token_seconds=1.0)]
    async with open_engines(*engines) as pool:
        first = int((await ask(pool)).engine[1:])
        completions: list[Completion] = []

        async def one() -> None:
            completions.append(await ask(pool, seconds=30.0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await trio.sleep(1.5)
            engines[first].kill()
        (completion,) = completions
        assert completion.engine == f"e{1 - first}"
        assert completion.why == "spilled"
        assert completion.queue_seconds == pytest.approx(1.5)
        assert pool.statistics().retried == 1

        await trio.sleep(10)  # probes find it dead: its episode moves for good
        assert (await ask(pool, seconds=30.0)).why == "rehomed"
        assert (await ask(pool, seconds=30.0)).why == "sticky"


async def test_pieces_are_told_and_void_when_a_second_engine_begins_anew(autojump_clock: Clock) -> None:
    engines = [FakeEngine(token_seconds=1.0), FakeEngine(token_seconds=1.0)]
    told: list[Delta] = []
    async with open_engines(*engines) as pool:
        first = int((await ask(pool)).engine[1:])
        prompt = Prompt("streamed", TenantId("t"), "episode-1", (Message("user", (TextPart("play"),)),), max_tokens=64)

        async def one() -> None:
            completion = await pool(prompt, deadline=trio.current_time() + 30, on_delta=told.append)
            restart = told.index(Delta("", "restart"))
            assert restart > 0
            assert "".join(piece.text for piece in told[restart + 1 :]) == completion.text

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await trio.sleep(1.5)
            engines[first].kill()


async def test_an_engine_killed_in_the_middle_without_a_second(autojump_clock: Clock) -> None:
    engine = FakeEngine("trickle")
    async with open_engines(engine) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(ask_and_expect, pool, EngineLost, 30.0)
        await trio.sleep(1.5)
        engine.kill()
        await trio.sleep(8)
        with pytest.raises(EngineNotReady, match="no engine can take the request: e0 open"):
            await ask(pool)


async def test_nothing_is_sent_twice_that_the_first_engine_may_still_work_on(autojump_clock: Clock) -> None:
    engines = [FakeEngine("reset"), FakeEngine("reset")]
    for engine in engines:
        engine.accepts_abort = False
    async with open_engines(*engines) as pool:
        with pytest.raises(EngineLost) as caught:
            await ask(pool)
        assert not caught.value.over
        assert doubles(*engines) == []
        assert sum(len(engine.running) for engine in engines) == 1


async def test_after_a_confirmed_abort_it_may_be_sent_again(autojump_clock: Clock) -> None:
    engines = [FakeEngine("reset", "ok"), FakeEngine("reset", "ok")]
    async with open_engines(*engines) as pool:
        with pytest.raises(EngineLost):  # one retry, no more
            await ask(pool)
        assert len(doubles(*engines)) == 1
        assert [engine.running for engine in engines] == [{}, {}]
        assert (await ask(pool)).text == "T447,081;W03"


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        ("status:400", EngineRefused),
        ("garbage", EngineGarbled),
        ("status:429", Overloaded),
        ("hang", EngineTooSlow),
    ],
)
async def test_what_a_second_engine_cannot_mend_is_not_retried(
    behaviour: str, kind: type[EngineError], autojump_clock: Clock
) -> None:
    engines = [FakeEngine(behaviour), FakeEngine(behaviour)]
    async with open_engines(*engines) as pool:
        with pytest.raises(kind):
            await ask(pool, seconds=3.0)
        assert doubles(*engines) == []
        assert pool.statistics().retried == 0


async def test_no_retry_past_the_deadline(autojump_clock: Clock) -> None:
    engines = [FakeEngine("reset", token_seconds=1.0), FakeEngine("reset", token_seconds=1.0)]
    async with open_engines(*engines) as pool:
        with pytest.raises(EngineLost):
            await ask(pool, seconds=2.02)
        assert doubles(*engines) == []


async def test_cancelling_the_caller_aborts_and_frees_the_seat(autojump_clock: Clock) -> None:
    engine = FakeEngine("hang", "hang", "ok")
    async with open_engines(engine) as pool:
        for _ in range(2):
            with trio.move_on_after(1):
                await ask(pool, seconds=100)
        assert len(engine.aborted) == 2
        assert pool.statistics().engines[0].in_flight == 0
        assert (await ask(pool)).text == "T447,081;W03"


async def test_three_failures_open_the_circuit_and_a_trial_closes_it(autojump_clock: Clock) -> None:
    engine = FakeEngine(*["garbage"] * 3, "ok")
    async with open_engines(engine) as pool:
        for _ in range(3):
            with pytest.raises(EngineGarbled):
                await ask(pool)
        with pytest.raises(EngineNotReady, match="e0 open"):
            await ask(pool)
        assert len(engine.requests) == 3
        await trio.sleep(5)
        assert pool.statistics().engines[0].circuit is CircuitState.HALF_OPEN
        assert (await ask(pool)).why == "sticky"
        assert pool.statistics().engines[0].circuit is CircuitState.CLOSED


async def test_those_who_wait_for_an_engine_move_when_its_circuit_opens(autojump_clock: Clock) -> None:
    engines = [FakeEngine("hang"), FakeEngine()]
    completions: list[Completion] = []
    async with (
        open_network(dict(enumerate(engines, FIRST_PORT))) as network,
        open_pool([config(0)], network=lambda: network) as pool,
        trio.open_nursery() as nursery,
    ):

        async def wait_in_line() -> None:
            completions.append(await ask(pool, seconds=100.0))

        for _ in range(2):
            nursery.start_soon(partial(ask, pool, seconds=100.0))  # until it is killed
        await trio.sleep(1)
        nursery.start_soon(wait_in_line)
        await trio.sleep(1)
        pool.add_engine(config(1))
        engines[0].answers_probes = False
        await trio.sleep(20)
        assert completions[0].engine == "e1"
        assert completions[0].why == "rehomed"
        assert completions[0].queue_seconds < 15
        engines[0].kill()


async def test_drain_sends_nothing_new_and_lets_requests_end(autojump_clock: Clock) -> None:
    engines = [FakeEngine(token_seconds=1.0), FakeEngine(token_seconds=1.0)]
    async with open_engines(*engines) as pool:
        home = (await ask(pool, seconds=30.0)).engine
        completions: list[Completion] = []

        async def one() -> None:
            completions.append(await ask(pool, seconds=30.0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await trio.sleep(1)
            nursery.start_soon(drain, pool, home, 30.0)
            await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
            assert (await ask(pool, seconds=30.0)).why == "rehomed"
        assert completions[0].engine == home
        assert [engine.id for engine in pool.statistics().engines] != [home]
        await pool.drain_engine(EngineId("unknown"), grace_seconds=1.0)


async def drain(pool: EnginePool, engine: EngineId, grace_seconds: float) -> None:
    await pool.drain_engine(engine, grace_seconds=grace_seconds)


async def test_drain_aborts_what_outlasts_the_grace(autojump_clock: Clock) -> None:
    engine = FakeEngine("hang")
    async with open_engines(engine) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(ask_and_expect, pool, EngineLost, 100.0)
        await trio.sleep(1)
        await pool.drain_engine(EngineId("e0"), grace_seconds=4.0)
        assert trio.current_time() == 5.0
        assert engine.running == {}
        with pytest.raises(EngineNotReady, match="no engine is registered"):
            await ask(pool)


async def test_a_restarted_engine_keeps_its_id_and_its_episodes(autojump_clock: Clock) -> None:
    engines = [FakeEngine(), FakeEngine()]
    numbered = dict(enumerate(engines, FIRST_PORT))
    async with open_network(numbered) as network, open_pool([config(0)], network=lambda: network) as pool:
        await ask(pool)
        engines[0].kill()
        pool.add_engine(config(0), f"http://engine:{FIRST_PORT + 1}")
        completion = await ask(pool)
        assert (completion.engine, completion.why) == ("e0", "sticky")
        assert len(engines[1].requests) == 1
        await pool.wait_engine_answers(EngineId("e0"))
        with pytest.raises(EngineNotReady, match="not registered"):
            await pool.wait_engine_answers(EngineId("e9"))


async def test_closing_the_pool_aborts_what_is_out(autojump_clock: Clock) -> None:
    engine = FakeEngine("hang")
    async with open_network({FIRST_PORT: engine}) as network, trio.open_nursery() as nursery:
        async with open_pool([config(0)], network=lambda: network) as pool:
            nursery.start_soon(ask_and_expect, pool, EngineLost, 100.0)
            await trio.sleep(1)
        assert engine.running == {}
        assert trio.current_time() == 1.0


async def test_load_of_an_engine_is_what_it_says(autojump_clock: Clock) -> None:
    engine = FakeEngine()
    async with open_engines(engine) as pool:
        await pool.wait_engine_answers(EngineId("e0"))
        load = pool.statistics().engines[0].load
        assert (load.running, load.waiting, load.token_usage) == (0, 2, 0.25)


@pytest.mark.parametrize(
    ("error", "seconds", "outcome"),
    [
        (EngineRefused("x"), 1.0, Outcome.OK),
        (Overloaded("x"), 1.0, Outcome.NEUTRAL),
        (EngineTooSlow("x"), 0.3, Outcome.NEUTRAL),
        (EngineTooSlow("x"), 2.0, Outcome.FAILED),
        (EngineLost("x"), 0.0, Outcome.FAILED),
        (EngineNotReady("x"), 0.0, Outcome.FAILED),
        (EngineGarbled("x"), 0.0, Outcome.FAILED),
    ],
)
def test_what_a_failure_says_about_health(error: EngineError, seconds: float, outcome: Outcome) -> None:
    assert outcome_for(error, seconds, 2.0) is outcome


async def test_a_busy_hour_sends_no_request_to_two_engines_at_a_time(autojump_clock: Clock) -> None:
    bad = ["reset", "status:500", "trickle", "hang", "garbage", "stall", "close", "abort"]
    kinds = [kind for one in bad for kind in ("ok", "ok", one)]
    engines = [FakeEngine(*(kinds[shift:] + kinds[:shift]) * 9, "ok", token_seconds=0.05) for shift in (0, 7, 14)]
    outcomes: Counter[str] = Counter()
    overlaps: list[str] = []

    async def watch() -> None:
        while True:
            running = Counter(rid for engine in engines for rid in engine.running)
            overlaps.extend(rid for rid, count in running.items() if count > 1)
            await trio.sleep(0.01)

    async def episode(pool: EnginePool, number: int) -> None:
        for _ in range(15):
            with trio.move_on_after(3.0 if number % 4 == 0 else 1000.0) as patience:
                try:
                    await ask(pool, f"episode-{number}", seconds=1.0 + number % 3)
                    outcomes["completed"] += 1
                except EngineError as error:
                    outcomes[type(error).__name__] += 1
            outcomes["cancelled"] += patience.cancelled_caught
            await trio.sleep(0.5)

    async with open_engines(*engines, max_in_flight=4) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        async with trio.open_nursery() as episodes:
            for number in range(16):
                episodes.start_soon(episode, pool, number)
        nursery.cancel_scope.cancel()
    assert overlaps == []
    assert sum(outcomes.values()) >= 16 * 15
    assert outcomes["completed"] > 50
    assert all(engine.running == {} for engine in engines)
    assert all(engine.in_flight == engine.waiting == 0 for engine in pool.statistics().engines)
