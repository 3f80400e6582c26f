"""EXPLAIN as MySQL answers it. The plan gate asks for the table form; the others show that it leaves nothing out."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pymysql.cursors
import pytest

from sqlassist.execute.plan import plan_numbers
from sqlassist.result import PlanNumbers
from tests.kit.mysql import mysql_marks
from tests.kit.mysql_world import mysql_world

pytestmark = mysql_marks

FIXTURE = Path(__file__).parent / "fixtures" / "explain.json"

NUMBERS = {
    "lookup": PlanNumbers(1, 0, 0),
    "full scan": PlanNumbers(5, 5, 1),
    "index scan": PlanNumbers(5, 5, 1),
    "hash join": PlanNumbers(397 * 600, 600, 1),
    "pruned": PlanNumbers(4, 0, 0),
    "not pruned": PlanNumbers(720, 720, 1),
    "dependent subquery": PlanNumbers(397 + 397 * 5, 5, 1),
    "union": PlanNumbers(5 + 397, 5, 1),
    "derived": PlanNumbers(5 + 397, 0, 0),
    "no table": PlanNumbers(0, 0, 0),
}


@cache
def _recorded() -> dict[str, dict[str, Any]]:
    return {plan["what"]: plan for plan in json.loads(FIXTURE.read_text())["plans"]}


def _nodes(document: Any, key: str) -> Iterator[dict[str, Any]]:
    """Every object below a document that has a key."""
    if isinstance(document, dict):
        if key in document:
            yield document
        for value in document.values():
            yield from _nodes(value, key)
    elif isinstance(document, list):
        for value in document:
            yield from _nodes(value, key)


def test_every_recorded_plan_is_judged() -> None:
    assert set(_recorded()) == set(NUMBERS)


@pytest.mark.parametrize("what", NUMBERS)
def test_the_table_form_gives_the_numbers(what: str) -> None:
    assert plan_numbers(_recorded()[what]["traditional"]) == NUMBERS[what]


@pytest.mark.parametrize("what", NUMBERS)
def test_the_first_json_form_has_no_access_that_the_table_form_lacks(what: str) -> None:
    recorded = _recorded()[what]
    rows = [(row["type"], int(row["rows"])) for row in recorded["traditional"] if row["rows"] is not None]
    nodes = [
        (node["access_type"], node["rows_examined_per_scan"])
        for node in _nodes(recorded["json_1"], "rows_examined_per_scan")
    ]

    assert sorted(nodes) == sorted(rows)


@pytest.mark.parametrize("what", NUMBERS)
def test_the_second_json_form_scans_the_same_number_of_tables(what: str) -> None:
    recorded = _recorded()[what]
    scans = [
        node
        for node in _nodes(recorded["json_2"], "schema_name")  # base tables only
        if node["access_type"] in ("table", "count_rows") or node.get("index_access_type") == "index_scan"
    ]

    assert recorded["json_2"]["json_schema_version"].startswith("2.")
    assert len(scans) == NUMBERS[what].full_scans
    assert not any(node["access_type"] == "ALL" for node in _nodes(recorded["json_2"], "access_type"))


@pytest.mark.parametrize("what", NUMBERS)
def test_the_server_still_answers_in_the_recorded_form(what: str) -> None:
    recorded = _recorded()[what]
    with mysql_world().server.admin("corral_tenant1") as connection, connection.cursor(pymysql.cursors.DictCursor) as c:
        c.execute("EXPLAIN FORMAT=TRADITIONAL " + recorded["sql"])
        rows = list(c.fetchall())

    assert [list(row) for row in rows] == [list(row) for row in recorded["traditional"]]
    # how many rows it expects is the server's own guess, and differs from run to run
    assert plan_numbers(rows).full_scans == NUMBERS[what].full_scans
