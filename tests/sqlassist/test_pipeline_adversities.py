"""The pipeline when something comes between: a cancellation at any event, midnight, words that lean on others."""

import datetime as dt

import attrs
import pytest
import trio

from sqlassist.audit import AuditEntry
from sqlassist.messages import Event, Question, Stage, Verb
from sqlassist.pipeline import answer
from sqlassist.semantic import TimeColumn, TimeKind
from tests.kit.pipeline_world import ALPHA, TODAY, ScriptedModel, World, data_of, open_world, rows_of

QUESTIONS = (
    Question("a", "revenue by server in May 2026"),
    Question("b", "drop table payments"),
    Question("c", "who are the whales and why"),
    Question("d", "average revenue"),
    Question("e", "SELECT COUNT(*) AS n FROM nosuch"),
    Question("f", "hello"),
    Question("g", "", Verb.FIX, sql="SELECT COUNT(* FROM payments"),
    Question("h", "", Verb.EXPLAIN, sql="SELECT COUNT(*) AS n FROM payments"),
)


def with_slow_trail(world: World) -> None:
    """Its trail is written as the real one is: behind a lock, and in a thread."""
    lock = trio.Lock()

    async def audit(entry: AuditEntry) -> None:
        async with lock:
            await trio.to_thread.run_sync(world.entries.append, entry)

    world.ports = attrs.evolve(world.ports, audit=audit)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
async def test_a_question_is_on_record_once_at_whichever_event_it_is_taken_back(question: Question) -> None:
    async with open_world() as world:
        with_slow_trail(world)
        await world.ask("revenue in May 2026")  # values are sampled
        seen: list[Event] = []

        async def count(event: Event) -> None:
            seen.append(event)

        await answer(question, world.conversation(), world.ports, count)
        assert [entry.verdict for entry in world.entries[1:]] in (["pass"], ["refuse"])
        for number in range(len(seen)):
            world.entries.clear()
            world.conversations.clear()
            told: list[Event] = []

            async def emit(event: Event, last: int = number, told: list[Event] = told) -> None:
                told.append(event)
                if len(told) == last + 1:
                    scope.cancel()

            with trio.CancelScope() as scope:
                await answer(question, world.conversation(), world.ports, emit)

            assert world.entries, f"cancelled at {told[-1].stage}: nothing is on record"
            assert rows_of(await world.ask("revenue in May 2026")), "the conversation goes on"


async def test_midnight_in_the_middle_of_a_question_is_not_kept_for_the_next_day() -> None:
    async with open_world() as world:
        days = iter([TODAY])
        tomorrow = TODAY + dt.timedelta(days=1)
        world.ports = attrs.evolve(world.ports, today=lambda _: next(days, tomorrow))

        before = await world.ask("revenue yesterday")
        after = await world.ask("revenue yesterday")

        assert data_of(before, Stage.SQL)["query"] == f"revenue; {TODAY - dt.timedelta(days=1)}"
        assert data_of(after, Stage.SQL)["query"] == f"revenue; {TODAY}"


async def test_a_source_that_begins_its_day_later_is_asked_for_its_own_yesterday() -> None:
    async with open_world() as world:
        (subject,) = world.ports.subjects(ALPHA)
        bare = attrs.evolve(
            subject, layer=attrs.evolve(subject.layer, metrics={}, disambiguations=(), rollups={}), source="first"
        )
        zone = f"{subject.layer.conventions.zone}|{subject.layer.conventions.day_start}"
        first = attrs.evolve(
            bare, layer=attrs.evolve(bare.layer, conventions=attrs.evolve(bare.layer.conventions, zone="Asia/Tokyo"))
        )
        days = {zone: TODAY}
        both = (first, subject)
        world.ports = attrs.evolve(
            world.ports, subjects=lambda _: both, today=lambda rule: days.get(rule, TODAY + dt.timedelta(days=1))
        )
        expected = [TODAY - dt.timedelta(days=1), TODAY, TODAY]
        asked = []
        for day in (TODAY, TODAY + dt.timedelta(days=1), TODAY + dt.timedelta(days=1)):
            days[zone] = day
            asked.append(data_of(await world.ask("revenue yesterday"), Stage.SQL)["sql"])

        assert [str(day) in sql for day, sql in zip(expected, asked, strict=True)] == [True, True, True]
        assert asked[0] != asked[1]


async def test_words_that_lean_on_another_question_are_not_kept_by_themselves() -> None:
    first, second = "SELECT COUNT(*) AS n FROM payments", "SELECT COUNT(*) AS n FROM players"
    model = ScriptedModel([first, "and who are those?", second, "and who are those?", first])
    async with open_world(model) as world:
        await world.ask("tell me whatever is interesting")
        one = await world.ask("and who are those?")
        other = await world.ask("and who are those?")

        assert data_of(one, Stage.INTENT)["route"] == data_of(other, Stage.INTENT)["route"] == "raw_sql"
        assert data_of(one, Stage.SQL)["sql"] == second
        assert data_of(other, Stage.SQL)["sql"] == first


async def test_a_model_completes_what_leans_on_a_metric_question() -> None:
    model = ScriptedModel(["who paid most in May 2026", "SELECT COUNT(*) AS n FROM payments"])
    async with open_world(model) as world:
        await world.ask("revenue in May 2026")
        events = await world.ask("and who are those people?")

        assert data_of(events, Stage.RESOLVED)["text"] == "who paid most in May 2026"


async def test_what_reads_no_rows_is_on_record_too() -> None:
    async with open_world() as world:
        await world.ask("hello")
        await world.ask(verb=Verb.EXPLAIN, sql="SELECT COUNT(*) AS n FROM payments")

        assert [(entry.verdict, entry.code, entry.rows) for entry in world.entries] == [
            ("pass", "small_talk", 0),
            ("pass", "explain", 0),
        ]


async def test_too_many_changes_of_clocks_for_one_statement_are_asked_back_as_a_shorter_time() -> None:
    async with open_world() as world:
        (subject,) = world.ports.subjects(ALPHA)
        layer = attrs.evolve(
            subject.layer,
            conventions=attrs.evolve(subject.layer.conventions, zone="America/New_York"),
            times={place: TimeColumn(TimeKind.EPOCH_SECONDS) for place in subject.layer.times},
        )
        world.ports = attrs.evolve(world.ports, subjects=lambda _: (attrs.evolve(subject, layer=layer),))

        events = await world.ask("revenue by month until May 2026")

        assert events[-1].stage is Stage.CLARIFICATION
        assert len(events[-1].data["choices"]) >= 2
