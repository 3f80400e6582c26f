"""The library in the pipeline: approved answers are given, corrections at once, and nobody sees another tenant's."""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from actors.assistant_caches import LayeredCaches
from actors.assistant_library import AssistantLibrary, LibraryError
from sqlassist.messages import Refusal, Stage
from sqlassist.verified import Status, VerifiedQuery
from tests.kit.pipeline_world import ALPHA, BETA, ScriptedModel, World, data_of, open_world, rows_of

QUESTION = "what do whales buy most"
QUERY = VerifiedQuery(
    id="",
    tenant=ALPHA,
    question=QUESTION,
    sql="SELECT 'gems' AS product FROM payments LIMIT 1",
    source="game",
    catalog_version="",
    wordings=("大R最爱买什么",),
    status=Status.APPROVED,
)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[AssistantLibrary]:
    opened = AssistantLibrary.opened(tmp_path / "state")
    yield opened
    opened.close()


def caches_of(library: AssistantLibrary) -> LayeredCaches:
    caches = LayeredCaches()
    caches.library_version = library.version
    return caches


async def route_of(world: World, text: str = QUESTION) -> str:
    return str(data_of(await world.ask(text), Stage.INTENT)["route"])


async def test_a_verified_question_is_answered_and_counted(library: AssistantLibrary) -> None:
    kept = library.store.add(QUERY, by="eve")
    async with open_world(library=library) as world:
        events = await world.ask("大R最爱买什么？")
        elsewhere = await world.ask(QUESTION, tenant=BETA)

    assert data_of(events, Stage.INTENT)["route"] == "verified_query"
    assert rows_of(events) == [["gems"]]
    assert elsewhere[-1].stage is Stage.REFUSAL
    assert library.store.query(kept.id).use_count == 1
    assert library.store.query(kept.id).catalog_version, "the guard has checked it for the present schema"


async def test_a_correction_is_given_at_once_though_the_old_answer_was_cached(library: AssistantLibrary) -> None:
    kept = library.store.add(QUERY, by="eve")
    async with open_world(library=library, caches=caches_of(library)) as world:
        await world.ask(QUESTION)
        assert await route_of(world) == "exact_cache"

        library.store.decide(kept.id, Status.APPROVED, "rita", sql="SELECT 'pass' AS product FROM payments LIMIT 1")

        assert rows_of(await world.ask(QUESTION)) == [["pass"]]
        library.store.decide(kept.id, Status.REJECTED, "rita")
        assert (await world.ask(QUESTION))[-1].stage is Stage.REFUSAL


async def test_what_another_process_approves_is_seen(library: AssistantLibrary, tmp_path: Path) -> None:
    other = AssistantLibrary.opened(tmp_path / "state")
    async with open_world(library=library, caches=caches_of(library)) as world:
        assert await route_of(world) == "not_answerable"
        other.store.add(QUERY, by="eve")
        assert await route_of(world) == "verified_query"
    other.close()


async def test_a_query_that_the_schema_has_left_behind_is_stale(library: AssistantLibrary) -> None:
    kept = library.store.add(attrs.evolve(QUERY, sql="SELECT gone FROM payments"), by="eve")
    good = library.store.add(attrs.evolve(QUERY, question="other question of whales"), by="eve")
    async with open_world(library=library) as world:
        assert await route_of(world) == "not_answerable"
        assert await route_of(world, "other question of whales") == "verified_query"

    assert library.store.query(kept.id).status is Status.STALE
    assert "unknown_column" in library.store.query(kept.id).reason
    assert library.store.query(good.id).status is Status.APPROVED


async def test_a_hostile_verified_query_meets_the_guard_like_anybody_s(library: AssistantLibrary) -> None:
    library.store.add(attrs.evolve(QUERY, sql="DELETE FROM payments"), by="eve")
    async with open_world(library=library) as world:
        events = await world.ask(QUESTION)

    assert events[-1].stage is Stage.REFUSAL


async def test_what_models_answer_is_counted_and_examples_are_shown(library: AssistantLibrary) -> None:
    library.store.add(QUERY, by="eve")
    library.store.add(attrs.evolve(QUERY, question="whales that left", held_out=True), by="eve")
    model = ScriptedModel(["SELECT COUNT(*) AS n FROM players"])
    async with open_world(model, library=library) as world:
        events = await world.ask("which whales came back?")
        assert data_of(events, Stage.RETRIEVED)["examples"] == [QUESTION]
        await world.ask("Which whales came back")

    (fallback,) = library.store.fallbacks(1)
    assert fallback.question == "which whales came back?"


async def test_a_review_is_put_before_the_reviewers(library: AssistantLibrary) -> None:
    async with open_world(library=library) as world:
        await world.ask("total revenue", id="q1")
        conversation = world.conversation()
        turn = conversation.turn("q1")
        assert turn is not None
        made = await library.request_review(conversation.asker, turn, "refunds are missing", "")

        assert isinstance(made, str)
        proposed = library.store.query(made)
        assert (proposed.question, proposed.comment, proposed.asked_by) == (
            "total revenue",
            "refunds are missing",
            "someone",
        )
        assert "SUM" in proposed.sql
        assert proposed.status is Status.PROPOSED

        corrected = await library.request_review(conversation.asker, turn, "", "SELECT 1 AS x")
        assert isinstance(corrected, str)
        assert library.store.query(corrected).sql == "SELECT 1 AS x"

        refused = await library.request_review(conversation.asker, turn, "x" * 10_000, "")
        assert isinstance(refused, Refusal)


async def test_examples_of_another_tenant_are_never_shown(library: AssistantLibrary) -> None:
    library.store.add(attrs.evolve(QUERY, tenant=BETA), by="eve")

    assert library.examples(ALPHA, QUESTION, 4) == ()
    assert [shot.question for shot in library.examples(BETA, QUESTION, 4)] == [QUESTION]


async def test_a_store_that_fails_fails_no_question(library: AssistantLibrary) -> None:
    kept = library.store.add(QUERY, by="eve")
    library.version(ALPHA)
    library.store._writer.execute("PRAGMA query_only = ON")
    async with open_world(library=library) as world:
        events = await world.ask(QUESTION)

    assert events[-1].stage is Stage.ANSWER
    assert library.store.query(kept.id).use_count == 0
    library.store._writer.execute("PRAGMA query_only = OFF")


def test_a_file_that_cannot_be_read_is_a_library_error(tmp_path: Path) -> None:
    (tmp_path / "verified.sqlite").write_bytes(b"no database" * 100)

    with pytest.raises(LibraryError, match=r"verified\.sqlite"):
        AssistantLibrary.opened(tmp_path)
