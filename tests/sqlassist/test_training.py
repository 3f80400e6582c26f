"""Training data: the prompt that will be used, and nothing that would spoil an evaluation."""

import attrs

from sqlassist.generate import GenerationLimits, Request, prompt_for
from sqlassist.training import chats_of, exportable
from sqlassist.verified import Status, VerifiedQuery
from tests.kit.pipeline_world import ALPHA, duckdb_config

CATALOG = duckdb_config().catalog("game", ALPHA)
QUERY = VerifiedQuery(
    id="1",
    tenant=ALPHA,
    question="what do whales buy",
    sql="SELECT 1 AS x",
    source="game",
    catalog_version=CATALOG.version,
    wordings=("大R买什么",),
    status=Status.APPROVED,
)


def test_a_chat_begins_like_the_assistants_prompt() -> None:
    first, second = chats_of(QUERY, CATALOG, "the document")
    system, user, answer = first["messages"]
    request = Request(QUERY.question, "2026-06-30", "the document", "")
    prompt = prompt_for(
        request, CATALOG, GenerationLimits(), request_id="r", tenant=ALPHA, routing_key="k", grammar=None
    )
    used = prompt.messages[0].parts[0]

    assert system["content"].startswith(getattr(used, "text", "?"))
    assert getattr(prompt.messages[1].parts[0], "text", "").endswith(user["content"])
    assert answer == {"role": "assistant", "content": "SELECT 1 AS x"}
    assert "大R买什么" in second["messages"][1]["content"]


def test_reasoning_has_a_field_of_its_own() -> None:
    query = attrs.evolve(QUERY, reasoning="whales pay most")

    assert next(chats_of(query, CATALOG, ""))["messages"][2]["reasoning_content"] == "whales pay most"


def test_what_is_left_out_and_why() -> None:
    queries = [
        QUERY,
        attrs.evolve(QUERY, held_out=True),
        attrs.evolve(QUERY, status=Status.PROPOSED),
        attrs.evolve(QUERY, question="What do WHALES eat?"),
        attrs.evolve(QUERY, question="revenue of {server}", wordings=()),
        attrs.evolve(QUERY, catalog_version="older"),
    ]

    kept, left_out = exportable(queries, CATALOG, frozenset({"what do whales eat"}))

    assert kept == (QUERY,)
    assert left_out == {
        "are for another schema: run recheck": 1,
        "are held out": 1,
        "are proposed": 1,
        "are questions of an evaluation set": 1,
        "have slots": 1,
    }
