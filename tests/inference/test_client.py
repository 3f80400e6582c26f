import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from inference.client import EngineClient
from inference.config import Dialect, EngineConfig
from inference.errors import (
    EngineError,
    EngineGarbled,
    EngineLost,
    EngineNotReady,
    EngineRefused,
    EngineTooSlow,
)
from inference.loads import EngineLoad
from inference.messages import Completion, Constraint, Message, Prompt, TextPart, Usage
from runtime.ids import EngineId, TenantId
from runtime.telemetry import Secret
from tests.kit.engines import FakeEngine, FakeNetwork, open_network, serve_tcp

Clock = trio.testing.MockClock
CONFIG = EngineConfig(EngineId("e1"), url="http://engine:1", model="qwen", max_in_flight=8)


def prompt(number: int = 1, **changes: Any) -> Prompt:
    messages = (Message("user", (TextPart("play"),)),)
    return attrs.evolve(Prompt(f"r{number}", TenantId("acme"), f"episode-{number}", messages, max_tokens=64), **changes)


@asynccontextmanager
async def open_client(
    engine: FakeEngine, config: EngineConfig = CONFIG, **options: Any
) -> AsyncIterator[tuple[EngineClient, FakeNetwork]]:
    async with open_network({1: engine}) as network:
        client = EngineClient(config, "http://engine:1/", network=network, **options)
        yield client, network
        await client.aclose()


async def ask(client: EngineClient, number: int = 1, *, seconds: float = 10.0, **changes: Any) -> Completion:
    now = trio.current_time()
    return await client.complete(prompt(number, **changes), deadline=now + seconds, why="born", called_at=now - 1.5)


async def test_a_completion_and_where_its_time_went(autojump_clock: Clock) -> None:
    engine = FakeEngine(token_seconds=0.25)
    async with open_client(engine, api_key=Secret("k3y-value")) as (client, _):
        completion = await ask(client)

    assert completion == Completion(
        text="T447,081;W03",
        finish_reason="stop",
        usage=Usage(120, 100, 3, 64),
        engine=EngineId("e1"),
        model="qwen",
        why="born",
        queue_seconds=1.5,
        prefill_seconds=0.25,
        decode_seconds=0.5,
    )
    assert engine.requests[0]["rid"] == "r1"
    assert engine.requests[0]["cache_salt"] == "acme"
    assert engine.headers[0]["x-smg-routing-key"] == "episode-1"
    assert engine.headers[0]["authorization"] == "Bearer k3y-value"
    assert engine.headers[0]["host"] == "engine:1"
    assert engine.aborted == []


async def test_connections_are_kept(autojump_clock: Clock) -> None:
    engine = FakeEngine()
    async with open_client(engine) as (client, _):
        for number in range(5):
            await ask(client, number)
        assert client.statistics().connections == 1
        assert engine.connections == 1


@pytest.mark.parametrize(
    ("behaviour", "kind", "aborts"),
    [
        ("status:500", EngineLost, False),
        ("status:503", EngineNotReady, False),
        ("status:400", EngineRefused, False),
        ("close", EngineLost, True),
        ("reset", EngineLost, True),
        ("garbage", EngineGarbled, True),
        ("wrong_json", EngineGarbled, True),
        ("json", EngineGarbled, True),
        ("abort", EngineLost, False),
        ("error_event", EngineLost, False),
    ],
)
async def test_misbehaviour_is_a_typed_error_and_the_request_is_over(
    behaviour: str, kind: type[EngineError], aborts: bool, autojump_clock: Clock
) -> None:
    engine = FakeEngine(behaviour, "ok")
    async with open_client(engine) as (client, _):
        with pytest.raises(kind) as caught:
            await ask(client)

        assert type(caught.value) is kind
        assert caught.value.engine == "e1"
        assert caught.value.over
        assert engine.aborted == (["r1"] if aborts else [])
        assert engine.running == {}
        assert (await ask(client, 2)).text == "T447,081;W03"
        assert trio.current_time() < 1.0


@pytest.mark.parametrize("behaviour", ["no_usage", "no_done", "open_end"])
async def test_what_is_forgiven(behaviour: str, autojump_clock: Clock) -> None:
    engine = FakeEngine(behaviour, "ok")
    async with open_client(engine) as (client, _):
        completion = await ask(client)
        assert completion.text == "T447,081;W03"
        assert completion.usage.output_tokens == 3
        assert trio.current_time() <= 0.2
        assert (await ask(client, 2)).finish_reason == "stop"


@pytest.mark.parametrize("behaviour", ["hang", "stall", "trickle"])
async def test_the_deadline_is_kept_and_the_request_aborted(behaviour: str, autojump_clock: Clock) -> None:
    engine = FakeEngine(behaviour)
    async with open_client(engine) as (client, _):
        with pytest.raises(EngineTooSlow, match=r"within 3\.000 s") as caught:
            await ask(client, seconds=3.0)
        assert trio.current_time() == 3.0
        assert caught.value.over
        assert engine.aborted == ["r1"]
        assert engine.running == {}


async def test_total_seconds_bound_whatever_the_caller_says(autojump_clock: Clock) -> None:
    engine = FakeEngine("hang")
    async with open_client(engine, attrs.evolve(CONFIG, total_seconds=7.0)) as (client, _):
        with pytest.raises(EngineTooSlow):
            await ask(client, seconds=1e6)
        assert trio.current_time() == 7.0


async def test_an_engine_that_does_not_confirm_the_abort_may_still_work_on_it(autojump_clock: Clock) -> None:
    engine = FakeEngine("reset")
    engine.accepts_abort = False
    async with open_client(engine) as (client, _):
        with pytest.raises(EngineLost) as caught:
            await ask(client)
        assert not caught.value.over
        assert trio.current_time() == CONFIG.abort_seconds
        assert list(engine.running) == ["r1"]


@pytest.mark.parametrize("behaviour", ["hang", "stall", "trickle"])
async def test_cancelling_the_caller_aborts_on_the_engine(behaviour: str, autojump_clock: Clock) -> None:
    engine = FakeEngine(behaviour)
    async with open_client(engine) as (client, _):
        with trio.move_on_after(2.5) as scope:
            await ask(client, seconds=100.0)
        assert scope.cancelled_caught
        assert trio.current_time() == 2.5
        assert engine.aborted == ["r1"]
        assert engine.running == {}
        statistics = client.statistics()
        assert (statistics.aborts_sent, statistics.aborts_confirmed) == (1, 1)


async def test_the_abort_of_a_cancelled_call_is_bounded(autojump_clock: Clock) -> None:
    engine = FakeEngine("hang")
    engine.accepts_abort = False
    async with open_client(engine) as (client, _):
        with trio.move_on_after(1.0):
            await ask(client, seconds=100.0)
        assert trio.current_time() == 1.0 + CONFIG.abort_seconds


async def test_nobody_listens(autojump_clock: Clock) -> None:
    engine = FakeEngine()
    engine.dead = True
    async with open_client(engine) as (client, network):
        with pytest.raises(EngineLost, match="cannot connect") as caught:
            await ask(client)
        assert caught.value.over
        engine.dead = False
        network.black_holes.add(1)
        with pytest.raises(EngineLost, match="cannot connect"):
            await ask(client)
        assert trio.current_time() == CONFIG.connect_seconds
        assert client.statistics().aborts_sent == 0


async def test_killed_in_the_middle_is_over(autojump_clock: Clock) -> None:
    engine = FakeEngine("trickle")
    async with open_client(engine) as (client, _), trio.open_nursery() as nursery:

        async def lost() -> None:
            with pytest.raises(EngineLost) as caught:
                await ask(client)
            assert caught.value.over  # the abort found nobody listening

        nursery.start_soon(lost)
        await trio.sleep(2.5)
        engine.kill()


async def test_a_process_that_loses_its_listening_socket_last_is_over_too(autojump_clock: Clock) -> None:
    """`kill -9` closes connections first: for a moment others are still taken, and break."""
    engine = FakeEngine("trickle")
    async with open_client(engine) as (client, _), trio.open_nursery() as nursery:

        async def lost() -> None:
            with pytest.raises(EngineLost) as caught:
                await ask(client)
            assert caught.value.over

        nursery.start_soon(lost)
        await trio.sleep(2.5)
        engine.kill()
        engine.dead, engine.dying = False, True
        await trio.sleep(0.1)
        engine.dead = True


@pytest.mark.parametrize("dialect", [Dialect.VLLM, Dialect.OPENAI, Dialect.LLAMACPP])
async def test_an_engine_without_an_abort_is_over_only_when_it_is_gone(dialect: Dialect, autojump_clock: Clock) -> None:
    engine = FakeEngine("reset", "trickle")
    async with open_client(engine, attrs.evolve(CONFIG, dialect=dialect)) as (client, _):
        with pytest.raises(EngineLost) as caught:
            await ask(client)
        assert not caught.value.over
        assert "/abort_request" not in engine.paths
        async with trio.open_nursery() as nursery:

            async def lost() -> None:
                with pytest.raises(EngineLost) as caught:
                    await ask(client)
                assert caught.value.over

            nursery.start_soon(lost)
            await trio.sleep(2.5)
            engine.kill()


async def test_a_constraint_that_cannot_be_sent_sends_nothing(autojump_clock: Clock) -> None:
    engine = FakeEngine()
    async with open_client(engine, attrs.evolve(CONFIG, dialect=Dialect.OPENAI)) as (client, _):
        with pytest.raises(EngineRefused, match="e1: the prompt is constrained by regex"):
            await ask(client, constraint=Constraint(regex="T"))
    assert engine.paths == []


async def test_probe(autojump_clock: Clock) -> None:
    engine = FakeEngine()
    async with open_client(engine) as (client, _):
        assert await client.probe() == EngineLoad(running=0, waiting=2, token_usage=0.25)
        assert engine.paths == ["/ping", "/v1/loads"]
        engine.answers_probes = False
        with pytest.raises(EngineTooSlow, match="probe"):
            await client.probe()
        assert trio.current_time() == CONFIG.probe_seconds
        engine.kill()
        with pytest.raises(EngineLost):
            await client.probe()
        assert client.statistics().probes_failed == 2

    engine = FakeEngine()
    async with open_client(engine, attrs.evolve(CONFIG, dialect=Dialect.OPENAI)) as (client, _):
        assert await client.probe() == EngineLoad()
        assert engine.paths == ["/v1/models"]


async def test_what_is_asked_beside_completions(autojump_clock: Clock) -> None:
    engine = FakeEngine()
    engine.metrics = "vllm:mm_cache_hits_total 5"
    async with open_client(engine) as (client, _):
        assert await client.ask("/metrics") == b"vllm:mm_cache_hits_total 5"
        assert await client.ask("/no_such_path") is None
        engine.kill()
        with pytest.raises(EngineLost):
            await client.ask("/metrics")


def open_fds() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_nothing_leaks_over_real_sockets_in_200_requests_of_all_kinds() -> None:
    kinds = ["ok", "reset", "close", "garbage", "status:500", "json", "open_end", "hang", "ok", "trickle"]
    engine = FakeEngine(*kinds * 20, "ok")
    gc.collect()
    tasks_before, fds_before = trio.lowlevel.current_statistics().tasks_living, open_fds()
    async with trio.open_nursery() as nursery:
        url = await serve_tcp(engine, nursery)
        client = EngineClient(attrs.evolve(CONFIG, total_seconds=0.25), url)
        tasks_serving = trio.lowlevel.current_statistics().tasks_living
        for batch in range(25):
            async with trio.open_nursery() as askers:
                for number in range(8):
                    askers.start_soon(ask_whatever_comes, client, batch * 8 + number)
        assert client.statistics().completed > 0
        assert client.statistics().completed + client.statistics().failed == 200
        assert engine.running == {}
        assert 150 < len(engine.requests) <= 200, "on a busy machine some run out of time before they are sent"
        assert client.statistics().connections <= 8 + 2
        await client.aclose()
        with trio.fail_after(5):
            while trio.lowlevel.current_statistics().tasks_living > tasks_serving:
                await trio.sleep(0.01)
        assert engine.connections == 0
        nursery.cancel_scope.cancel()
    gc.collect()
    assert trio.lowlevel.current_statistics().tasks_living <= tasks_before
    assert open_fds() <= fds_before


async def ask_whatever_comes(client: EngineClient, number: int) -> None:
    with suppress(EngineError):
        await ask(client, number)
