"""Questions to a real server on loopback: a lost connection is not noticed, and every failure has its reason."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from actors.analyst_desk import AnalystDesk, open_desk
from actors.analyst_limits import AssistantLimits
from actors.analyst_line import GOING_AWAY, Farewell
from actors.analyst_websocket import open_listeners, port_of, serve_desk
from actors.ask_remote import RemoteAsking, open_remote
from actors.ask_socket import AssistantAddress, BadUrl, parse_address
from actors.asking import AskError
from actors.token_store import revoke_token
from runtime.secret import Secret
from sqlassist.messages import Event, Question, Refusal, Stage
from tests.kit.answering import ScriptedAnswering
from tests.kit.assistant import make_tokens

PATIENCE_SECONDS = 30.0


@attrs.define(eq=False)
class World:
    answering: ScriptedAnswering
    desk: AnalystDesk
    address: AssistantAddress
    token: Secret
    tokens_path: Path
    events: list[Event] = attrs.field(factory=list)

    async def take(self, event: Event) -> None:
        self.events.append(event)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[RemoteAsking]:
        with trio.fail_after(PATIENCE_SECONDS):
            async with open_remote(self.address, self.token) as asking:
                yield asking

    async def until(self, stage: Stage) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while not any(event.stage is stage for event in self.events):
                await trio.sleep(0.01)

    @property
    def wire_count(self) -> int:
        return self.desk.statistics().connections


@asynccontextmanager
async def _world(tmp_path: Path, limits: AssistantLimits | None = None) -> AsyncIterator[World]:
    path = tmp_path / "tokens.json"
    store, tokens = make_tokens(path)
    answering = ScriptedAnswering()
    listeners = await open_listeners("127.0.0.1", 0)
    address = AssistantAddress("127.0.0.1", port_of(listeners[0]))
    async with open_desk(answering, store, limits=limits) as desk, trio.open_nursery() as nursery:
        await nursery.start(serve_desk, desk, listeners)
        yield World(answering, desk, address, Secret(tokens["north"]), path)
        nursery.cancel_scope.cancel()


async def test_events_come_in_order_and_the_session_ends_with_the_block(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        async with world.opened() as asking:
            last = await asking.ask(Question("q1", "events 3"), world.take)
            whose = asking.whose
        with trio.fail_after(PATIENCE_SECONDS):
            while world.desk.statistics().sessions:
                await trio.sleep(0.01)

    assert [event.stage for event in world.events] == [Stage.INTENT, *[Stage.DELTA] * 3, Stage.ANSWER]
    assert last == world.events[-1]
    assert whose.startswith("user0 of north at ws://127.0.0.1:")


async def test_a_running_question_survives_a_lost_connection(tmp_path: Path) -> None:
    async with _world(tmp_path) as world, world.opened() as asking, trio.open_nursery() as nursery:
        nursery.start_soon(asking.ask, Question("q1", "wait"), world.take)
        await world.until(Stage.INTENT)
        (analyst,) = world.desk._sessions.values()
        assert analyst.wire is not None
        await analyst.wire.line.abort()
        with trio.fail_after(PATIENCE_SECONDS):
            while analyst.wire is None or not analyst.wire.is_greeted or analyst.wire.is_broken:
                await trio.sleep(0.01)
        analyst.end(Event(Stage.FAILED, {"code": "away"}))
        await world.until(Stage.FAILED)
        assert asking.welcome is not None
        resumed = asking.welcome.resumed

    assert resumed
    assert [event.stage for event in world.events] == [Stage.INTENT, Stage.FAILED]


async def test_cancelling_cancels_the_question_over_there(tmp_path: Path) -> None:
    async with _world(tmp_path) as world, world.opened() as asking:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asking.ask, Question("q1", "wait"), world.take)
            await world.until(Stage.INTENT)
            nursery.cancel_scope.cancel()
        with trio.fail_after(PATIENCE_SECONDS):
            while world.desk.statistics().running:
                await trio.sleep(0.01)
        last = await asking.ask(Question("q2", "answer"), world.take)

    assert world.answering.cancelled == ["q1"]
    assert last.stage is Stage.ANSWER


async def test_whoever_stops_watching_does_not_hold_up_the_next_question(tmp_path: Path) -> None:
    async with _world(tmp_path) as world, world.opened() as asking:

        async def watch(event: Event) -> None:
            world.events.append(event)
            await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(asking.ask, Question("q1", "events 300"), watch)
            await world.until(Stage.INTENT)
            nursery.cancel_scope.cancel()
        last = await asking.ask(Question("q2", "answer"), world.take)

    assert last.stage is Stage.ANSWER


async def test_what_the_server_does_not_take_is_the_end_of_the_question(tmp_path: Path) -> None:
    async with _world(tmp_path, AssistantLimits(questions_per_minute=1)) as world, world.opened() as asking:
        # a bucket that is all but empty lets one more pass
        ends = [await asking.ask(Question(f"q{number}", "answer"), world.take) for number in range(3)]

    last = ends[-1]
    assert (last.stage, last.data["code"]) == (Stage.FAILED, "too_fast")
    assert 0 < last.data["retry_after"] <= 121


async def test_reviews_and_history(tmp_path: Path) -> None:
    async with _world(tmp_path) as world, world.opened() as asking:
        await asking.ask(Question("q1", "answer"), world.take)
        taken = await asking.review("q1", "good", "")
        refused = await asking.review("q9", "good", "")
        history = await asking.history(5)

    assert taken == "review-1"
    assert isinstance(refused, Refusal)
    assert [entry["text"] for entry in history] == ["answer"]


async def test_a_wrong_token_and_nobody_there_are_told(tmp_path: Path) -> None:
    async with _world(tmp_path) as world:
        world.token = Secret("corral_wrong")
        with pytest.raises(AskError, match="this token is not known here"):
            async with world.opened():
                pass
    with pytest.raises(AskError, match="Connection refused"):
        async with world.opened():
            pass


async def test_a_token_that_is_revoked_ends_what_runs(tmp_path: Path) -> None:
    async with _world(tmp_path) as world, world.opened() as asking:
        record = world.desk._tokens.record_for(world.token.reveal())
        assert record is not None
        revoke_token(world.tokens_path, record.id)
        (analyst,) = world.desk._sessions.values()
        world.desk._sweep_one(analyst, trio.current_time(), check_token=True)
        with pytest.raises(AskError, match="no longer good"):
            await _ask_forever(asking, world)


async def test_a_session_that_is_gone_is_told(tmp_path: Path) -> None:
    async with _world(tmp_path) as world, world.opened() as asking:
        caught: list[AskError] = []

        async def ask() -> None:
            try:
                await asking.ask(Question("q1", "wait"), world.take)
            except AskError as error:
                caught.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await world.until(Stage.INTENT)
            (analyst,) = world.desk._sessions.values()
            assert analyst.wire is not None
            world.desk._sessions.clear()  # as a server that was started again
            analyst.wire.end(Farewell("draining", "the server ends", GOING_AWAY, 0.1))
        last = await asking.ask(Question("q2", "answer"), world.take)

    assert "ask again" in str(caught[0])
    assert last.stage is Stage.ANSWER


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("ws://127.0.0.1:8765", AssistantAddress("127.0.0.1", 8765)),
        ("http://127.0.0.1:8765/", AssistantAddress("127.0.0.1", 8765)),
        ("wss://farm.example", AssistantAddress("farm.example", 443, is_tls=True)),
        ("https://farm.example:8443/x/assistant", AssistantAddress("farm.example", 8443, "/x/assistant", is_tls=True)),
        ("ws://[::1]:9", AssistantAddress("::1", 9)),
    ],
)
def test_addresses(url: str, address: AssistantAddress) -> None:
    assert parse_address(url) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("url", ["", "127.0.0.1:8765", "ftp://x", "ws://", "ws://x:0", "ws://x:99999", "ws://a:b@x"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(BadUrl):
        parse_address(url)


async def _ask_forever(asking: RemoteAsking, world: World) -> None:
    number = 0
    while True:
        number += 1
        await asking.ask(Question(f"q{number}", "answer"), world.take)
        await trio.sleep(0.01)
