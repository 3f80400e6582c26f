"""A pool here, and somebody who asks it over a real Unix socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from inference.config import EngineConfig, TenantConfig
from inference.door_client import DoorUnreachable, RemotePool, open_remote_pool
from inference.door_server import DoorServer, open_door_server
from inference.errors import EngineError, EngineLost, EngineNotReady, EngineTooSlow, TenantLimited
from inference.messages import Completion, Delta, ImagePart, Message, Prompt, TextPart
from inference.pool import EnginePool, open_pool
from runtime.ids import EngineId, TenantId
from tests.kit.engines import FakeEngine, open_network

CONFIG = EngineConfig(EngineId("e1"), url="http://engine:1", model="qwen")
IMAGE = ImagePart(b"\xff\xd8 not really a picture", "ab" * 32, 16, 16)


@attrs.frozen
class Door:
    """All of it."""

    pool: EnginePool
    server: DoorServer
    remote: RemotePool
    ends: list[tuple[Prompt, Completion | EngineError]]


@asynccontextmanager
async def open_door(*engines: FakeEngine, tenants: dict[TenantId, TenantConfig] | None = None) -> AsyncIterator[Door]:
    ends: list[tuple[Prompt, Completion | EngineError]] = []
    numbered = dict(enumerate(engines, 1))
    configs = [
        attrs.evolve(CONFIG, id=EngineId(f"e{number}"), url=f"http://engine:{number}", probe_every_seconds=60.0)
        for number in numbered
    ]
    async with (
        open_network(numbered) as network,
        open_pool(
            configs,
            network=lambda: network,
            tenants=tenants,
            observe=lambda prompt, end: ends.append((prompt, end)),
        ) as pool,
        open_door_server(pool) as server,
        open_remote_pool(server.path) as remote,
    ):
        yield Door(pool, server, remote, ends)


def prompt(number: int = 1, **changes: Any) -> Prompt:
    messages = (Message("user", (TextPart("play"), IMAGE)),)
    return attrs.evolve(Prompt(f"r{number}", TenantId("acme"), f"episode-{number}", messages, max_tokens=64), **changes)


async def ask(pool: RemotePool, number: int = 1, *, seconds: float = 10.0, **options: Any) -> Completion:
    return await pool(prompt(number), deadline=trio.current_time() + seconds, **options)


async def until(true: Any) -> None:
    with trio.fail_after(5):
        while not true():  # there is nothing to wait for but its being so
            await trio.sleep(0.01)


async def test_an_answer_comes_through_and_its_episode_is_homed_until_it_is_released() -> None:
    async with open_door(FakeEngine()) as door:
        completion = await ask(door.remote)
        assert (completion.text, completion.engine, completion.why) == ("T447,081;W03", "e1", "born")
        assert (await ask(door.remote)).why == "sticky"
        assert [end.text for _, end in door.ends if isinstance(end, Completion)] == ["T447,081;W03"] * 2
        assert door.ends[0][0] == prompt()
        door.remote.release("episode-1")
        await until(lambda: door.pool.statistics().homes == 0)


async def test_pieces_come_as_they_are_made() -> None:
    async with open_door(FakeEngine()) as door:
        pieces: list[Delta] = []
        completion = await ask(door.remote, on_delta=pieces.append)
        assert "".join(piece.text for piece in pieces if piece.channel == "text") == completion.text
        assert len(pieces) > 1


async def test_a_client_that_is_gone_leaves_no_homes() -> None:
    async with open_door(FakeEngine()) as door:
        async with open_remote_pool(door.server.path) as second:
            await ask(second, 1)
            await ask(second, 2)
            await ask(door.remote, 3)
            assert door.pool.statistics().homes == 3
        await until(lambda: door.pool.statistics().homes == 1)


async def test_who_stops_waiting_stops_the_engine() -> None:
    engine = FakeEngine("hang")
    async with open_door(engine) as door:
        with trio.move_on_after(0.3):
            await ask(door.remote)
        await until(lambda: engine.aborted == ["r1"])
        await until(lambda: not engine.running)
        assert door.ends == []


async def test_errors_are_the_same_on_the_other_side() -> None:
    limit = {TenantId("acme"): TenantConfig(output_tokens_per_minute=1)}
    async with open_door(FakeEngine(), tenants=limit) as door:
        await ask(door.remote)
        with pytest.raises(TenantLimited, match="acme") as limited:
            await ask(door.remote)
        assert limited.value.retry_after_seconds > 0
    async with open_door(FakeEngine("reset", "hang")) as door:
        with pytest.raises(EngineLost, match="e1: ") as lost:
            await ask(door.remote)
        assert lost.value.engine == "e1"
        with pytest.raises(EngineTooSlow):
            await ask(door.remote, seconds=0.2)
        assert [type(end) for _, end in door.ends] == [EngineLost, EngineTooSlow]


async def test_an_engine_that_is_lost_is_made_good_by_another_one() -> None:
    async with open_door(FakeEngine("reset"), FakeEngine()) as door:
        assert (await ask(door.remote)).text == "T447,081;W03"
        assert door.pool.statistics().retried == 1
        assert [type(end) for _, end in door.ends] == [EngineLost, Completion]


async def test_statistics_come_by_themselves() -> None:
    async with open_door(FakeEngine()) as door:
        assert [engine.id for engine in door.remote.statistics().engines] == ["e1"]
        await ask(door.remote)
        await until(lambda: door.remote.statistics().completed == 1)
        found, real = door.remote.statistics().engines[0], door.pool.statistics().engines[0]
        assert type(found.circuit) is type(real.circuit)
        assert (found.url, found.client.completed, found.homed) == (real.url, 1, 1)


async def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(DoorUnreachable, match=r"gone\.sock"):
        async with open_remote_pool(tmp_path / "gone.sock"):
            pass  # pragma: no cover


async def test_the_engines_process_goes_away() -> None:
    async with open_pool() as pool, trio.open_nursery() as nursery:

        async def serve(*, task_status: trio.TaskStatus[Path]) -> None:
            async with open_door_server(pool) as server:
                task_status.started(server.path)
                await gone.wait()

        gone = trio.Event()
        async with open_remote_pool(await nursery.start(serve)) as remote:
            gone.set()
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(EngineNotReady, match="engines' process"):
                await ask(remote)
            remote.release("episode-1")


@pytest.mark.parametrize(
    "rubbish", [b"\n", b"{}\n", b'{"kind": "x", "body": {}, "blobs": []}\n', b"GET / HTTP/1.1\r\n\r\n", b""]
)
async def test_rubbish_ends_its_connection_and_nothing_else(rubbish: bytes) -> None:
    async with open_door(FakeEngine()) as door:
        async with await trio.open_unix_socket(door.server.path) as stream:
            await stream.send_all(rubbish)
            await stream.send_eof()
            with trio.fail_after(5):
                assert await stream.receive_some() == b""
        assert (await ask(door.remote)).text == "T447,081;W03"


async def test_many_at_once() -> None:
    async with open_door(FakeEngine(), FakeEngine()) as door, trio.open_nursery() as nursery:
        done: list[Completion] = []

        async def one(number: int) -> None:
            done.append(await ask(door.remote, number))

        for number in range(60):
            nursery.start_soon(one, number)
        with trio.fail_after(20):
            while len(done) < 60:
                await trio.sleep(0.01)
        assert {completion.engine for completion in done} == {"e1", "e2"}
