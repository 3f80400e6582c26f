"""A session: events in order, whatever happens to a question and to the connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
import trio
from trio.testing import MockClock

from actors.analyst_desk import AnalystDesk, open_desk
from actors.analyst_limits import AssistantLimits
from inference.config import TenantConfig
from runtime.ids import TenantId
from sqlassist.messages import Event, Question, Stage, Verb
from sqlassist.protocol import Ask, Cancel, HistoryRequest, Ping, Review
from sqlassist.protocol_replies import Bye, ErrorMessage, EventMessage, HistoryMessage, Pong, Reviewed
from tests.kit.answering import ScriptedAnswering
from tests.kit.assistant import DeskClient, make_tokens, open_client


@asynccontextmanager
async def _session(
    tmp_path: Path,
    answering: ScriptedAnswering | None = None,
    limits: AssistantLimits | None = None,
    tenants: dict[TenantId, TenantConfig] | None = None,
    capacity: int = 1000,
) -> AsyncIterator[tuple[AnalystDesk, DeskClient, str, str]]:
    """A desk, a client that is logged in, its token, and the session's name."""
    store, tokens = make_tokens(tmp_path / "tokens.json")
    async with (
        open_desk(answering or ScriptedAnswering(), store, limits=limits, tenants=tenants) as desk,
        open_client(desk, capacity) as client,
    ):
        welcome = await client.greet(tokens["north"])
        yield desk, client, tokens["north"], welcome.session


async def test_the_events_of_a_question_come_in_order_and_are_numbered(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with _session(tmp_path) as (_, client, _, _):
        await client.ask("q1", "events 3")
        messages = [await client.hear_event() for _ in range(5)]

    assert [message.seq for message in messages] == [1, 2, 3, 4, 5]
    assert {message.id for message in messages} == {"q1"}
    stages = [message.event.stage for message in messages]
    assert stages == [Stage.INTENT, Stage.DELTA, Stage.DELTA, Stage.DELTA, Stage.ANSWER]
    assert [message.event.data["text"] for message in messages[1:4]] == ["0", "1", "2"]


async def test_who_asks_comes_from_the_token_and_every_verb_arrives(tmp_path: Path, autojump_clock: MockClock) -> None:
    answering = ScriptedAnswering()
    questions = [
        Question("a", "answer", think=True),
        Question("b", verb=Verb.CHOOSE, of="a", choice="c1"),
        Question("c", "it fails", Verb.FIX, sql="SELECT 1"),
        Question("d", verb=Verb.EXPLAIN, of="a"),
    ]
    async with _session(tmp_path, answering) as (_, client, _, _):
        for question in questions:
            await client.say(Ask(question))
            await client.events_until_end()

    assert [question for _, question in answering.asked] == questions
    assert {(asker.tenant, asker.user, asker.roles) for asker, _ in answering.asked} == {
        ("north", "user0", frozenset({"viewer"}))
    }


@pytest.mark.parametrize(
    ("text", "stage", "code"),
    [
        ("crash", Stage.FAILED, "internal"),
        ("nan", Stage.FAILED, "internal"),
        ("mute", Stage.ANSWER, None),
        ("late", Stage.ANSWER, None),
        ("refuse", Stage.REFUSAL, "outside_scope"),
        ("fail", Stage.FAILED, "database_away"),
        (f"rows {17 << 20}", Stage.FAILED, "too_large"),
    ],
)
async def test_every_question_has_one_end_and_the_session_goes_on(
    tmp_path: Path, autojump_clock: MockClock, text: str, stage: Stage, code: str | None
) -> None:
    with structlog.testing.capture_logs() as logs:
        async with _session(tmp_path) as (_, client, _, _):
            await client.ask("q1", text)
            last = (await client.events_until_end())[-1]
            await client.ask("q2", "answer")
            more = await client.events_until_end()

    assert (last.stage, last.data.get("code")) == (stage, code)
    assert [event.stage for event in more] == [Stage.INTENT, Stage.ANSWER]
    broken = [log for log in logs if log["event"] == "actors.question.broken"]
    assert bool(broken) == (text in {"crash", "nan", "late"})


async def test_a_running_question_is_cancelled_and_says_so(tmp_path: Path, autojump_clock: MockClock) -> None:
    answering = ScriptedAnswering()
    async with _session(tmp_path, answering) as (desk, client, _, _):
        await client.ask("q1", "wait")
        await client.hear_event()
        await client.say(Cancel("q1"))
        end = await client.hear_event()
        await client.say(Cancel("q1"))
        again = await client.hear()

        assert desk.admission.running == 0
    assert end.event == Event(Stage.CANCELLED)
    assert answering.cancelled == ["q1"]
    assert isinstance(again, ErrorMessage)
    assert again.code == "no_such_question"


async def test_no_question_takes_longer_than_allowed(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with _session(tmp_path, limits=AssistantLimits(question_seconds=60.0)) as (_, client, _, _):
        await client.ask("q1", "wait")
        events: list[Event] = []
        while not events or not events[-1].is_last:
            with trio.move_on_after(20):
                events.append((await client.hear_event()).event)
            await client.say(Ping())
            while not isinstance(reply := await client.hear(), Pong):
                assert isinstance(reply, EventMessage)
                events.append(reply.event)

    assert events[-1].data["code"] == "too_slow"


async def test_an_id_is_used_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with _session(tmp_path) as (_, client, _, _):
        await client.ask("q1", "answer")
        await client.events_until_end()
        await client.ask("q1", "answer")
        reply = await client.hear()

    assert isinstance(reply, ErrorMessage)
    assert (reply.code, reply.id) == ("id_in_use", "q1")


async def test_a_bad_message_is_an_error_and_the_session_goes_on(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with _session(tmp_path) as (_, client, token, _):
        await client.say_text("what?")
        bad = await client.hear()
        await client.say_text(f'{{"type":"hello","v":1,"token":"{token}"}}')
        again = await client.hear()
        await client.ask("q1", "answer")
        events = await client.events_until_end()

    assert isinstance(bad, ErrorMessage)
    assert isinstance(again, ErrorMessage)
    assert (bad.code, again.code) == ("not_json", "hello_again")
    assert events[-1].stage is Stage.ANSWER


async def test_a_reconnect_takes_up_a_running_question_without_losing_an_event(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    answering = ScriptedAnswering()
    async with _session(tmp_path, answering) as (desk, client, token, session):
        await client.ask("q1", "wait")
        first = await client.hear_event()
        client.line.hang_up()
        await client.served.wait()
        async with open_client(desk) as later:
            welcome = await later.greet(token, session, after=0)
            again = await later.hear_event()
            await later.say(Cancel("q1"))
            end = await later.hear_event()

    assert (welcome.resumed, welcome.missed, welcome.running) == (True, 0, ("q1",))
    assert again == first
    assert (end.seq, end.event.stage) == (2, Stage.CANCELLED)


async def test_events_that_were_not_kept_are_told_as_a_gap(tmp_path: Path, autojump_clock: MockClock) -> None:
    limits = AssistantLimits(kept_events=10)
    async with _session(tmp_path, limits=limits, capacity=1) as (desk, client, token, session):
        client.line.hang_up()
        await client.served.wait()
        async with open_client(desk) as second:
            await second.greet(token, session)
            await second.ask("q1", "events 50")
            second.line.hang_up()
            await second.served.wait()
        with trio.fail_after(60):
            while desk.admission.running:
                await trio.sleep(0.1)
        async with open_client(desk) as third:
            welcome = await third.greet(token, session, after=2)
            events = [await third.hear_event() for _ in range(10)]

    assert welcome.missed == 52 - 10 - 2
    assert [message.seq for message in events] == list(range(43, 53))
    assert events[-1].event.stage is Stage.ANSWER


async def test_what_a_ping_has_seen_is_not_kept(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with _session(tmp_path) as (desk, client, token, session):
        await client.ask("q1", "events 5")
        await client.events_until_end()
        await client.say(Ping(after=6))
        assert isinstance(await client.hear(), Pong)
        client.line.hang_up()
        await client.served.wait()
        async with open_client(desk) as later:
            welcome = await later.greet(token, session, after=0)
            event = await later.hear_event()

    assert (welcome.missed, event.seq) == (6, 7)


async def test_a_slow_reader_holds_up_its_question_alone_and_is_dropped(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    answering = ScriptedAnswering()
    limits = AssistantLimits(slow_seconds=5.0, kept_events=1000)
    async with _session(tmp_path, answering, limits, capacity=4) as (desk, client, token, session):
        await client.ask("q1", "events 50")
        await trio.sleep(1)
        held_up_at = answering.emitted["q1"]
        async with open_client(desk) as other:
            await other.greet(token)
            await other.ask("q1", "events 3")
            before = trio.current_time()
            others = await other.events_until_end()
            took = trio.current_time() - before
        with trio.fail_after(60):
            await client.served.wait()
        aborted = client.line.aborted
        async with open_client(desk) as later:
            welcome = await later.greet(token, session, after=4)
            rest = await later.events_until_end()
        counts = desk.statistics().ended

    assert held_up_at <= 5  # four are on their way, and one waits
    assert others[-1].stage is Stage.ANSWER
    assert took < 1
    assert aborted
    assert counts == {"slow_reader": 1}
    assert welcome.dropped == "slow_reader"
    assert len(rest) == 52 - 4


@pytest.mark.parametrize(
    ("limits", "ids", "code"),
    [
        (AssistantLimits(session_questions=2), 3, "too_many_questions"),
        (AssistantLimits(tenant_questions=2), 3, "too_many_questions"),
        (AssistantLimits(server_questions=2), 3, "too_many_questions"),
        (AssistantLimits(questions_per_minute=2), 3, "too_fast"),
    ],
)
async def test_more_than_is_allowed_is_refused_with_a_time(
    tmp_path: Path, autojump_clock: MockClock, limits: AssistantLimits, ids: int, code: str
) -> None:
    async with _session(tmp_path, limits=limits) as (_, client, _, _):
        errors = []
        for number in range(ids):
            await client.ask(f"q{number}", "wait")
            reply = await client.hear()
            if isinstance(reply, ErrorMessage):
                errors.append(reply)
        await client.say(Cancel("q0"))
        await client.hear_event()
        await trio.sleep(errors[0].retry_after or 0)
        await client.ask("later", "answer")
        later = await client.events_until_end()

    assert [(error.code, error.id) for error in errors] == [(code, f"q{ids - 1}")]
    assert later[-1].stage is Stage.ANSWER


async def test_a_tenant_over_its_tokens_is_told_when_to_come_back(tmp_path: Path, autojump_clock: MockClock) -> None:
    tenants = {TenantId("north"): TenantConfig(input_tokens_per_minute=50)}
    async with _session(tmp_path, tenants=tenants) as (desk, client, _, _):
        await client.ask("q1", "answer")  # uses 60 tokens that no cache had
        await client.events_until_end()
        await client.ask("q2", "answer")
        refused = await client.hear()
        assert isinstance(refused, ErrorMessage)
        await trio.sleep(refused.retry_after or 0)
        await client.ask("q3", "answer")
        again = await client.events_until_end()
        (usage,) = desk.admission.metering.usage()

    assert (refused.code, refused.id) == ("token_limit", "q2")
    assert refused.retry_after == pytest.approx(13.2, abs=0.1)  # from -10 to 1, at 50 a minute
    assert again[-1].stage is Stage.ANSWER
    assert (usage.questions, usage.limited, usage.input_tokens, usage.cached_tokens) == (2, 1, 200, 80)


async def test_reviews_reach_the_reviewers_or_are_refused(tmp_path: Path, autojump_clock: MockClock) -> None:
    answering = ScriptedAnswering()
    async with _session(tmp_path, answering) as (_, client, _, _):
        await client.ask("q1", "answer")
        await client.events_until_end()
        await client.say(Review("r1", "q1", "wrong day", "SELECT 2"))
        taken = await client.hear()
        await client.say(Review("r2", "nothing"))
        refused = await client.hear()
        await client.say(Review("r3", "q1", "crash"))
        broken = await client.hear()

    assert taken == Reviewed("r1", "review-1")
    assert answering.reviews == [("q1", "wrong day", "SELECT 2")]
    assert isinstance(refused, ErrorMessage)
    assert isinstance(broken, ErrorMessage)
    assert (refused.code, broken.code) == ("no_such_question", "internal")


async def test_history_has_what_was_asked_and_how_it_ended(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with _session(tmp_path) as (_, client, _, _):
        for id_, text in (("q1", "answer"), ("q2", "refuse")):
            await client.ask(id_, text)
            await client.events_until_end()
        await trio.testing.wait_all_tasks_blocked()
        await client.say(HistoryRequest(10))
        reply = await client.hear()

    assert isinstance(reply, HistoryMessage)
    told = [(entry["id"], entry["text"], entry["stage"], entry.get("code")) for entry in reply.entries]
    assert told == [("q2", "refuse", "refusal", "outside_scope"), ("q1", "answer", "answer", None)]


async def test_a_flood_of_messages_is_slowed_down_to_what_is_allowed(tmp_path: Path, autojump_clock: MockClock) -> None:
    limits = AssistantLimits(messages_per_minute=60, silent_seconds=1000.0)
    async with _session(tmp_path, limits=limits) as (_, client, _, _):
        before = trio.current_time()
        for _ in range(120):
            await client.say(Ping())
        for _ in range(120):
            assert isinstance(await client.hear(), Pong)
        took = trio.current_time() - before

    assert took == pytest.approx(60, abs=3)


async def test_drain_lets_questions_end_then_says_goodbye(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with _session(tmp_path, limits=AssistantLimits(drain_seconds=10.0)) as (desk, client, _, _):
        await client.ask("q1", "wait")
        await client.hear_event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.drain)
            await trio.sleep(1)
            await client.ask("q2", "answer")
            replies = await client.hear_all()
        statistics = desk.statistics()

    refused, end, bye = replies
    assert isinstance(refused, ErrorMessage)
    assert isinstance(end, EventMessage)
    assert isinstance(bye, Bye)
    assert (refused.code, end.event.data["code"], bye.code) == ("draining", "draining", "draining")
    assert client.line.closed_with == (1001, "draining")
    assert (statistics.running, statistics.connections) == (0, 0)
