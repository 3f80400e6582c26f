"""Query objects: what the schema describes becomes SQL that passes the guard; anything else is a refusal."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlassist.catalog import Dialect
from sqlassist.guard.check import check
from sqlassist.json_query import json_schema_for, sql_for
from sqlassist.messages import Refusal
from tests.kit.sql import game_catalog, passed

LETTERS = "abc '\\\"`%_;-/*#中😀"


def draw(schema: dict[str, Any], source: random.Random) -> Any:
    """A random value that the schema accepts; only what our schemas use is known."""
    if "anyOf" in schema:
        return draw(source.choice(schema["anyOf"]), source)
    if "enum" in schema:
        return source.choice(schema["enum"])
    match schema["type"]:
        case "object":
            names = [n for n in schema["properties"] if n in schema["required"] or source.random() < 0.5]
            return {name: draw(schema["properties"][name], source) for name in names}
        case "array":
            count = source.randint(schema.get("minItems", 0), schema["maxItems"])
            return [draw(schema["items"], source) for _ in range(count)]
        case "integer":
            return source.randint(schema["minimum"], schema["maximum"])
        case "number":
            return source.choice([source.randint(-9, 9), source.uniform(schema["minimum"], schema["maximum"]), 1e-9])
        case "string":
            return "".join(source.choice(LETTERS) for _ in range(source.randint(0, schema["maxLength"])))
        case "boolean":
            return source.random() < 0.5
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_whatever_the_schema_accepts_passes_the_guard(dialect: Dialect) -> None:
    catalog = game_catalog(dialect)
    schema, source = json.loads(json_schema_for(catalog)), random.Random(3)
    for _ in range(600):
        query = draw(schema, source)

        sql = sql_for(query, catalog)

        assert isinstance(sql, str), f"{sql}: {query}"
        passed(sql, catalog)


def test_the_schema_has_no_regular_expressions() -> None:
    assert '"pattern"' not in json_schema_for(game_catalog())


def test_a_query_object_reads_as_it_is_meant() -> None:
    query = {
        "from": "payments+players",
        "select": [{"bucket": "month", "column": "payments.paid_at"}, {"measure": "sum", "column": "payments.amount"}],
        "where": [
            {"column": "players.name", "op": "<>", "text": "O'Neil \\"},
            {"column": "payments.paid_at", "op": ">=", "date": {"year": 2026, "month": 2, "day": 31}},
        ],
        "order": [{"item": 2, "descending": True}],
        "limit": 5,
    }

    assert sql_for(query, game_catalog()) == (
        "SELECT DATE_FORMAT(`t1`.`paid_at`, '%Y-%m'), SUM(`t1`.`amount`) FROM `payments` AS `t1` JOIN `players` AS "
        "`t2` ON `t1`.`player_id` = `t2`.`id` WHERE `t2`.`name` <> 'O''Neil \\\\' AND `t1`.`paid_at` >= '2026-02-28' "
        "GROUP BY 1 ORDER BY 2 DESC LIMIT 5"
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["players.id"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["from", "select", "where", "column", "op", "value", "limit", "order", "measure", "text"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_any_object_at_all_is_sql_for_the_guard_or_a_refusal(value: Any) -> None:
    candidates = [value, {"from": "players", "select": value}, {"from": "players", "select": [value]}]
    for query in candidates:
        made = sql_for(query, game_catalog())
        if isinstance(made, Refusal):
            assert made.code == "bad_query"
        else:
            check(made, game_catalog())
