"""A question is a verified one when nothing about it is uncertain, and its tenant's alone."""

from functools import cache

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.assistant_subjects import subjects_of
from runtime.ids import TenantId
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.ports import Subject
from sqlassist.verified import (
    Match,
    Status,
    VerifiedQuery,
    filled,
    guard_refusal,
    match,
    moving_times,
    placeholders_of,
    problems_of,
    rechecked,
    value_literal,
)
from tests.kit.pipeline_world import ALPHA, BETA, TODAY, duckdb_config

SQL = (
    "SELECT SUM(p.amount) AS money FROM payments AS p JOIN servers AS s ON s.server_id = p.server_id"
    " WHERE s.name = :server AND p.paid_at >= :period_start AND p.paid_at < :period_end"
)


@cache
def subject() -> Subject:
    (one,) = subjects_of(duckdb_config(), ALPHA, with_grammar=False)
    return one


def template(**changes: object) -> VerifiedQuery:
    query = VerifiedQuery(
        id="v-1",
        tenant=ALPHA,
        question="money of {server} in {period}",
        wordings=("{period}{server}的钱", "how much did {server} take in {period}"),
        sql=SQL,
        source="game",
        catalog_version=subject().catalog.version,
        parameters={"period": "payments.paid_at"},
        status=Status.APPROVED,
    )
    return attrs.evolve(query, **changes)  # type: ignore[arg-type]


def plain(question: str = "what did whales buy", **changes: object) -> VerifiedQuery:
    query = template(question=question, wordings=(), sql="SELECT COUNT(*) AS n FROM payments", parameters={})
    return attrs.evolve(query, **changes)  # type: ignore[arg-type]


def found(text: str, *queries: VerifiedQuery, tenant: TenantId = ALPHA) -> Match | None:
    one = subject()
    return match(text, queries, tenant, one.catalog, one.layer, TODAY, {})


def test_equal_after_folding() -> None:
    query = plain(wordings=("大R都买了什么",))

    assert found("What did WHALES  buy?", query) is not None
    assert found("大R都买了什么？", query) is not None
    assert found("what did whales buy yesterday", query) is None


@pytest.mark.parametrize(
    ("text", "server", "start", "end"),
    [
        ("money of server 3 in May?", "S003", "2026-05-01", "2026-06-01"),
        ("Money of S012 in last week", "S012", "2026-06-22", "2026-06-29"),
        ("上个月3服的钱", "S003", "2026-05-01", "2026-06-01"),
        ("how much did s001 take in 2026-06-01", "S001", "2026-06-01", "2026-06-02"),
    ],
)
def test_slots_become_literals(text: str, server: str, start: str, end: str) -> None:
    one = found(text, template())

    assert one is not None
    assert f"s.name = '{server}'" in one.sql
    assert f">= '{start} 00:00:00'" in one.sql
    assert f"< '{end} 00:00:00'" in one.sql
    assert isinstance(check(one.sql, subject().catalog), CheckedQuery)


@pytest.mark.parametrize(
    "text",
    [
        "money of in May",
        "money of cats in May",
        "money of S003 or S004 in May",
        "money of server 3 in May or June",
        "money of S003 in S004",
        "money of server 3 in May without refunds",
        "money of S003' OR 1=1 -- in May",
        "the money of server 3 in May and its players",
    ],
)
def test_what_is_not_certain_is_no_match(text: str) -> None:
    assert found(text, template()) is None


def test_another_tenants_query_is_never_used() -> None:
    assert found("what did whales buy", plain(tenant=BETA)) is None
    assert found("what did whales buy", plain(), tenant=BETA) is None
    assert found("money of S003 in May", template(), tenant=BETA) is None


@pytest.mark.parametrize("status", [Status.PROPOSED, Status.REJECTED, Status.STALE])
def test_only_approved_ones_answer(status: Status) -> None:
    assert found("what did whales buy", plain(status=status)) is None


def test_a_query_of_another_schema_does_not_answer() -> None:
    assert found("what did whales buy", plain(catalog_version="older")) is None


def test_two_that_differ_are_none() -> None:
    other = plain(id="v-2", sql="SELECT MAX(amount) AS n FROM payments")

    assert found("what did whales buy", plain(), other) is None
    assert found("what did whales buy", plain(), plain(id="v-3")) is not None


def test_a_rule_of_the_guard_still_holds_for_verified_sql() -> None:
    assert guard_refusal(SQL, subject().catalog) is None
    refusal = guard_refusal("SELECT * FROM other_tenants_table", subject().catalog)
    assert refusal is not None
    assert refusal.code == "unknown_table"


def test_rechecking() -> None:
    catalog = subject().catalog
    again = rechecked(plain(catalog_version="older", status=Status.STALE, reason="before"), catalog)
    assert (again.status, again.catalog_version, again.reason) == (Status.APPROVED, catalog.version, "")

    gone = rechecked(template(sql=SQL.replace("amount", "amuont")), catalog)
    assert gone.status is Status.STALE
    assert "the schema has changed" in gone.reason
    assert "unknown_column" in gone.reason


def test_placeholders_stand_outside_texts() -> None:
    sql = "SELECT ':no', \":no\", `:no`, 'it''s :no', x::INTEGER, :yes -- :no\n/* :no */"

    assert placeholders_of(sql) == {"yes"}
    assert filled(sql, {"yes": "1", "no": "2"}) == sql.replace(":yes", "1")
    assert filled(sql, {}) is None


@given(st.text(max_size=30).filter(lambda text: "\0" not in text))
def test_any_value_is_one_literal(value: str) -> None:
    literal = value_literal(value, "servers.name", subject().catalog)

    assert literal is not None
    assert literal[0] == literal[-1] == "'"
    assert "'" not in literal[1:-1].replace("''", "")


def test_literals_of_numbers() -> None:
    assert value_literal("3", "players.level", subject().catalog) == "3"
    assert value_literal("3 OR 1=1", "players.level", subject().catalog) is None
    assert value_literal("x\0", "servers.name", subject().catalog) is None
    assert value_literal("3", "players.nowhere", subject().catalog) is None


def test_every_mistake_of_a_template_is_told() -> None:
    layer = subject().layer
    assert problems_of(template(), layer) == ()
    assert problems_of(plain(), layer) == ()

    wrong = template(wordings=("money of {server}",), parameters={"period": "nowhere.at", "other": "server"})
    problems = problems_of(wrong, layer)
    assert len(problems) == 3
    assert "has other slots" in problems[0]
    assert "'nowhere.at' is no dimension" in problems[1]
    assert "'other' belongs to no slot" in problems[2]

    (missing,) = problems_of(template(sql="SELECT COUNT(*) AS n FROM payments"), layer)
    assert "the slots need :period_end, :period_start, :server" in missing
    (twice,) = problems_of(template(question="money of {server} {server} in {period}", wordings=()), layer)
    assert "each slot once" in twice


def test_a_long_hostile_question_ends_soon() -> None:
    query = template(question="{a}{b}{server}{period}", wordings=(), parameters={"a": "server", "b": "server"})

    assert found("a" * 2000, query) is None


@pytest.mark.parametrize(
    ("text", "moving"),
    [
        ("revenue yesterday", ("yesterday",)),
        ("上周的收入", ("上周",)),
        ("revenue in May", ("may",)),
        ("revenue in May 2026", ()),
        ("revenue on 2026-05-01", ()),
        ("money of {server} in {period}", ()),
        ("revenue by month", ()),
    ],
)
def test_times_that_will_mean_other_days(text: str, moving: tuple[str, ...]) -> None:
    assert moving_times(text, subject().layer, TODAY) == moving
