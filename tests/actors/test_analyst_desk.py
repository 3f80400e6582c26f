"""Who comes in, who does not, and who has to leave: each is told why."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from actors.analyst_desk import open_desk
from actors.analyst_limits import AssistantLimits
from actors.token_store import Role, create_token, read_tokens, revoke_token
from runtime.ids import TenantId
from sqlassist.messages import Asker, Stage
from sqlassist.protocol import Hello, Ping
from sqlassist.protocol_replies import Pong
from tests.kit.answering import ScriptedAnswering
from tests.kit.assistant import make_tokens, open_client


async def test_the_welcome_says_who_one_is_and_what_is_allowed(tmp_path: Path, autojump_clock: MockClock) -> None:
    store, tokens = make_tokens(tmp_path / "tokens.json", "north", "south")
    async with open_desk(ScriptedAnswering(), store, draw=lambda: "s1") as desk, open_client(desk) as client:
        welcome = await client.greet(tokens["south"])
        statistics = desk.statistics()

    assert (welcome.session, welcome.user, welcome.tenant, welcome.roles) == ("s1", "user0", "south", ("viewer",))
    assert welcome.versions == {"schema": "schema-of-south", "layer": "1"}
    assert welcome.limits["ping_seconds"] * 3 == AssistantLimits().silent_seconds
    assert (welcome.resumed, welcome.running, welcome.dropped) == (False, (), "")
    assert (statistics.newcomers, statistics.connections, statistics.sessions) == (0, 1, 1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("hello", "not_json"),
        ('{"type":"ping"}', "hello_first"),
        ('{"type":"hello","v":2,"token":"x"}', "version"),
        ('{"type":"hello","v":1,"token":"x"}', "unauthenticated"),
        ('{"type":"hello","v":1}', "missing_field"),
    ],
)
async def test_whoever_does_not_say_hello_with_a_token_is_sent_away(
    tmp_path: Path, autojump_clock: MockClock, text: str, code: str
) -> None:
    store, _ = make_tokens(tmp_path / "tokens.json")
    async with open_desk(ScriptedAnswering(), store) as desk, open_client(desk) as client:
        await client.say_text(text)
        bye = await client.bye()
        statistics = desk.statistics()

    assert bye.code == code
    assert client.line.closed_with == (1008, code)
    assert (statistics.newcomers, statistics.sessions, statistics.ended) == (0, 0, {code: 1})


async def test_whoever_says_nothing_is_sent_away_in_time(tmp_path: Path, autojump_clock: MockClock) -> None:
    store, _ = make_tokens(tmp_path / "tokens.json")
    limits = AssistantLimits(hello_seconds=3.0)
    async with open_desk(ScriptedAnswering(), store, limits=limits) as desk, open_client(desk) as client:
        before = trio.current_time()
        bye = await client.bye()

    assert bye.code == "hello_late"
    assert trio.current_time() - before == pytest.approx(3.0, abs=0.5)


async def test_newcomers_are_counted_and_capped(tmp_path: Path, autojump_clock: MockClock) -> None:
    store, tokens = make_tokens(tmp_path / "tokens.json")
    async with open_desk(ScriptedAnswering(), store, limits=AssistantLimits(newcomers=2)) as desk:
        first, second = desk.newcomer(), desk.newcomer()
        assert first is not None
        assert second is not None
        refused = desk.newcomer()
        first.leave()
        first.leave()
        async with open_client(desk) as client:
            await client.greet(tokens["north"])
            count_with_one_logged_in = desk.newcomers

    assert refused is None
    assert count_with_one_logged_in == 1


async def test_an_address_that_fails_too_often_must_wait_and_others_need_not(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    store, tokens = make_tokens(tmp_path / "tokens.json")
    limits = AssistantLimits(failed_logins_per_minute=3)
    async with open_desk(ScriptedAnswering(), store, limits=limits) as desk:
        for _ in range(3):
            async with open_client(desk, peer="127.0.0.9") as client:
                await client.say(Hello(1, "wrong"))
                assert (await client.bye()).code == "unauthenticated"
        async with open_client(desk, peer="127.0.0.9") as client:
            refused = await client.bye()
        async with open_client(desk, peer="127.0.0.8") as client:
            await client.greet(tokens["north"])
        await trio.sleep(refused.retry_after or 0)
        async with open_client(desk, peer="127.0.0.9") as client:
            welcome = await client.greet(tokens["north"])

    assert refused.code == "too_many_logins"
    assert welcome.user == "user0"


async def test_another_users_session_cannot_be_taken(tmp_path: Path, autojump_clock: MockClock) -> None:
    store, tokens = make_tokens(tmp_path / "tokens.json", "north", users=2)
    async with open_desk(ScriptedAnswering(), store) as desk, open_client(desk) as owner:
        session = (await owner.greet(tokens["north"])).session
        await owner.ask("q1", "wait")
        async with open_client(desk) as thief:
            welcome = await thief.greet(tokens["north/1"], session)
        await owner.say(Ping())
        replies = [await owner.hear(), await owner.hear()]

    assert (welcome.resumed, welcome.running) == (False, ())
    assert welcome.session != session
    assert Pong() in replies


async def test_a_second_connection_takes_the_session_over(tmp_path: Path, autojump_clock: MockClock) -> None:
    store, tokens = make_tokens(tmp_path / "tokens.json")
    async with open_desk(ScriptedAnswering(), store) as desk, open_client(desk) as first:
        session = (await first.greet(tokens["north"])).session
        async with open_client(desk) as second:
            welcome = await second.greet(tokens["north"], session)
            bye = await first.bye()
            await second.ask("q1", "answer")
            events = await second.events_until_end()
            statistics = desk.statistics()

    assert welcome.resumed
    assert bye.code == "replaced"
    assert events[-1].stage is Stage.ANSWER
    assert (statistics.sessions, statistics.connections) == (1, 1)


async def test_a_session_outlives_its_connection_for_a_time(tmp_path: Path, autojump_clock: MockClock) -> None:
    answering = ScriptedAnswering()
    store, tokens = make_tokens(tmp_path / "tokens.json")
    async with open_desk(answering, store, limits=AssistantLimits(resume_seconds=30.0)) as desk:
        async with open_client(desk) as client:
            session = (await client.greet(tokens["north"])).session
            await client.ask("q1", "wait")
            await client.hear_event()
        await trio.sleep(25)
        still, running = desk.statistics().sessions, desk.statistics().running
        await trio.sleep(10)
        gone = desk.statistics()
        async with open_client(desk) as later:
            welcome = await later.greet(tokens["north"], session)

    assert (still, running) == (1, 1)
    assert (gone.sessions, gone.running) == (0, 0)
    assert answering.cancelled == ["q1"]
    assert not welcome.resumed


async def test_a_connection_closed_on_purpose_ends_its_session(tmp_path: Path, autojump_clock: MockClock) -> None:
    answering = ScriptedAnswering()
    store, tokens = make_tokens(tmp_path / "tokens.json")
    async with open_desk(answering, store) as desk, open_client(desk) as client:
        await client.greet(tokens["north"])
        await client.ask("q1", "wait")
        await client.hear_event()
        client.line.hang_up(1000)
        await client.served.wait()
        await trio.testing.wait_all_tasks_blocked()
        statistics = desk.statistics()

    assert (statistics.sessions, statistics.running) == (0, 0)
    assert answering.cancelled == ["q1"]


async def test_a_client_that_falls_silent_is_dropped_and_one_that_pings_is_not(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    store, tokens = make_tokens(tmp_path / "tokens.json")
    limits = AssistantLimits(silent_seconds=30.0)
    async with (
        open_desk(ScriptedAnswering(), store, limits=limits) as desk,
        open_client(desk) as silent,
        open_client(desk) as alive,
    ):
        await silent.greet(tokens["north"])
        await alive.greet(tokens["north"])
        for _ in range(5):
            await trio.sleep(10)
            await alive.say(Ping())
            assert isinstance(await alive.hear(), Pong)
        bye = await silent.bye()

    assert bye.code == "silent"


async def test_sessions_of_a_revoked_or_expired_token_end(tmp_path: Path, autojump_clock: MockClock) -> None:
    path = tmp_path / "tokens.json"
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    short, secret = create_token(
        path,
        user="eve",
        tenant=TenantId("north"),
        roles=[Role.VIEWER],
        now=now[0],
        expires_at=now[0] + timedelta(hours=1),
    )
    store, tokens = make_tokens(path)
    store.now = lambda: now[0]
    answering = ScriptedAnswering()
    async with (
        open_desk(answering, store) as desk,
        open_client(desk) as expiring,
        open_client(desk) as revoked,
    ):
        await expiring.greet(secret.reveal())
        await revoked.greet(tokens["north"])
        await revoked.ask("q1", "wait")
        await revoked.hear_event()
        now[0] += timedelta(hours=2)
        assert (await expiring.bye()).code == "revoked"
        (other,) = [record for record in read_tokens(path) if record.id != short.id]
        revoke_token(path, other.id)
        assert (await revoked.bye()).code == "revoked"
        statistics = desk.statistics()

    assert (statistics.sessions, statistics.running) == (0, 0)
    assert answering.cancelled == ["q1"]


async def test_a_full_house_gives_the_places_of_those_that_left(tmp_path: Path, autojump_clock: MockClock) -> None:
    store, tokens = make_tokens(tmp_path / "tokens.json", "north", "south")
    limits = AssistantLimits(tenant_sessions=2, server_sessions=3)
    async with (
        open_desk(ScriptedAnswering(), store, limits=limits) as desk,
        open_client(desk) as first,
        open_client(desk) as second,
        open_client(desk) as third,
        open_client(desk) as other,
    ):
        await first.greet(tokens["north"])
        await second.greet(tokens["north"])
        await third.say(Hello(1, tokens["north"]))
        refused = await third.bye()
        await other.greet(tokens["south"])
        first.line.hang_up()
        await first.served.wait()
        async with open_client(desk) as fourth:
            welcome = await fourth.greet(tokens["north"])
            sessions = desk.statistics().sessions

    assert refused.code == "too_many_sessions"
    assert welcome.tenant == "north"
    assert sessions == 3


async def test_a_tenant_that_cannot_be_answered_is_told_and_leaves_nothing(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    class Without(ScriptedAnswering):
        def versions(self, asker: Asker) -> Mapping[str, str]:
            raise KeyError(asker.tenant)

    store, tokens = make_tokens(tmp_path / "tokens.json")
    async with open_desk(Without(), store) as desk, open_client(desk) as client:
        await client.say(Hello(1, tokens["north"]))
        bye = await client.bye()
        sessions = desk.statistics().sessions

    assert (bye.code, sessions) == ("internal", 0)
    assert client.line.closed_with == (1011, "internal")
