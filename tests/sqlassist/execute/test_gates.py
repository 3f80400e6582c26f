"""The gates before a query runs: numbers of a plan, and predicates on partition columns."""

from typing import Any

import pytest

from sqlassist.catalog import Catalog, Column, ColumnType, Dialect, Table
from sqlassist.config import SqlLimits
from sqlassist.execute.errors import refusal_for
from sqlassist.execute.partitions import judge_partitions
from sqlassist.execute.plan import judge_plan, judge_row_gate, plan_numbers
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.result import PlanNumbers

CATALOG = Catalog(
    "t",
    Dialect.MARIADB,
    (
        Table("events", (Column("id", ColumnType.INTEGER), Column("day", ColumnType.DATE)), partition="day"),
        Table("visits", (Column("id", ColumnType.INTEGER), Column("day", ColumnType.DATE)), partition="day"),
        Table("plain", (Column("id", ColumnType.INTEGER), Column("day", ColumnType.DATE))),
    ),
)


def _missing(sql: str) -> str | None:
    query = check(sql, CATALOG)
    assert isinstance(query, CheckedQuery), query
    refusal = judge_partitions(query, CATALOG)
    return None if refusal is None else refusal.where


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM events WHERE day = '2026-01-01'",
        "SELECT id FROM events e WHERE e.day >= '2026-01-01' AND id > 3",
        "SELECT id FROM events WHERE '2026-01-01' < day",
        "SELECT id FROM events WHERE day BETWEEN '2026-01-01' AND DATE_ADD('2026-01-01', INTERVAL 3 DAY)",
        "SELECT id FROM events WHERE day IN ('2026-01-01', '2026-01-02')",
        "SELECT id FROM events WHERE (day = '2026-01-01' OR day = '2026-02-01')",
        "SELECT id FROM plain",
        "SELECT e.id FROM events e JOIN visits v ON v.id = e.id AND v.day = '2026-01-01' WHERE e.day = '2026-01-01'",
        "SELECT p.id FROM plain p LEFT JOIN events e ON e.id = p.id AND e.day = '2026-01-01'",
        "SELECT id FROM plain WHERE id IN (SELECT id FROM events WHERE day > '2026-01-01')",
        "WITH e AS (SELECT id FROM events WHERE day > '2026-01-01') SELECT id FROM e",
    ],
)
def test_restricted(sql: str) -> None:
    assert _missing(sql) is None


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("SELECT id FROM events", "events"),
        ("SELECT id FROM events WHERE id = 3", "events"),
        ("SELECT id FROM events WHERE day = '2026-01-01' OR id = 3", "events"),
        ("SELECT id FROM events WHERE YEAR(day) = 2026", "events"),
        ("SELECT id FROM events WHERE NOT day = '2026-01-01'", "events"),
        ("SELECT id FROM events WHERE day <> '2026-01-01'", "events"),
        ("SELECT e.id FROM events e JOIN visits v ON v.id = e.id WHERE e.day = '2026-01-01'", "visits"),
        (
            "SELECT e.id FROM events e JOIN visits v ON v.id = e.id AND v.day = e.day WHERE e.day = '2026-01-01'",
            "visits",
        ),
        ("SELECT e.id FROM events e LEFT JOIN plain p ON p.id = e.id AND e.day = '2026-01-01'", "events"),
        ("SELECT id FROM plain WHERE id IN (SELECT id FROM events)", "events"),
        ("SELECT id FROM events WHERE day = '2026-01-01' UNION SELECT id FROM visits", "visits"),
        ("WITH e AS (SELECT id, day FROM events) SELECT id FROM e WHERE day > '2026-01-01'", "events"),
    ],
)
def test_not_restricted(sql: str, table: str) -> None:
    assert _missing(sql) == table


def _row(**values: Any) -> dict[str, Any]:
    return {"id": "1", "select_type": "SIMPLE", "table": "b", "type": "ref", "rows": "10", **values}


def test_numbers_of_nested_loops_multiply_and_of_selects_add() -> None:
    rows = [_row(rows="100", type="ALL"), _row(rows="7"), _row(id="2", rows="40", type="index", select_type="UNION")]
    assert plan_numbers(rows) == PlanNumbers(examined_rows=740, scanned_rows=100, full_scans=2)


def test_a_dependent_subquery_runs_for_every_row() -> None:
    rows = [_row(rows="100"), _row(id="2", rows="50", type="ALL", select_type="DEPENDENT SUBQUERY")]
    assert plan_numbers(rows).examined_rows == 100 + 50 * 100


def test_derived_tables_and_rows_without_numbers_are_no_scans() -> None:
    rows = [_row(table="<derived2>", type="ALL", rows="5"), _row(id="2", rows=None, type=None, table=None)]
    assert plan_numbers(rows) == PlanNumbers(5, 0, 0)


def test_verdicts() -> None:
    limits = SqlLimits(max_scan_rows=100, max_examined_rows=1000)
    assert judge_plan(PlanNumbers(1000, 100, 1), limits) is None
    scan, examined = judge_plan(PlanNumbers(1000, 101, 1), limits), judge_plan(PlanNumbers(1001, 0, 0), limits)
    assert scan is not None
    assert examined is not None
    assert (scan.code, examined.code) == ("full_scan", "too_many_rows_examined")


def test_every_code_becomes_a_refusal_without_the_servers_text() -> None:
    assert refusal_for(1969).code == "too_slow"
    assert refusal_for(1104).code == "too_many_rows_examined"
    assert refusal_for(4711).code == "database_refused"
    assert "4711" in refusal_for(4711).hint


@pytest.mark.parametrize(
    ("plan_gate", "max_join_size", "is_refused"),
    [(False, 0, True), (True, 0, False), (False, 1000, False), (True, 1000, False)],
)
def test_a_join_left_to_the_row_gate_needs_one(plan_gate: bool, max_join_size: int, is_refused: bool) -> None:
    side_by_side = check("SELECT COUNT(*) FROM plain p JOIN visits v WHERE v.day = '2026-01-01'", CATALOG)
    tied = check("SELECT COUNT(*) FROM plain p JOIN visits v ON v.id = p.id", CATALOG)
    assert isinstance(side_by_side, CheckedQuery)
    assert isinstance(tied, CheckedQuery)

    refusal = judge_row_gate(side_by_side, plan_gate=plan_gate, max_join_size=max_join_size)

    assert (refusal.code if refusal else None) == ("join_without_equality" if is_refused else None)
    assert judge_row_gate(tied, plan_gate=plan_gate, max_join_size=max_join_size) is None
