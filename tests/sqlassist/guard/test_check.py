"""What is promised of the guard as a whole: it never raises, and nothing else makes a checked query."""

import ast
import copy
import pickle
from pathlib import Path

import attrs
import pytest
import sqlglot

from sqlassist.catalog import Dialect
from sqlassist.guard import check as check_module
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.guard.difference import rewrite_diff
from sqlassist.guard.limits import Limits
from sqlassist.messages import Refusal
from tests.kit.sql import game_catalog, passed, refused

ROOT = Path(__file__).resolve().parents[3]


def test_a_checked_query_has_no_public_constructor() -> None:
    made = passed("SELECT id FROM players", game_catalog())
    values = {field.name: getattr(made, field.name) for field in attrs.fields(CheckedQuery)}

    with pytest.raises(TypeError, match="no public constructor"):
        CheckedQuery(**values)
    with pytest.raises(TypeError, match="no public constructor"):
        attrs.evolve(made, sql="DROP TABLE players")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        made.sql = "DROP TABLE players"  # type: ignore[misc]


def test_a_checked_query_does_not_leave_its_process() -> None:
    made = passed("SELECT id FROM players", game_catalog())

    with pytest.raises(TypeError, match="does not leave its process"):
        pickle.dumps(made)
    with pytest.raises(TypeError, match="does not leave its process"):
        copy.copy(made)


def test_only_the_guard_makes_one() -> None:
    makers = []
    for room in ("runtime", "inference", "policies", "sqlassist", "actors"):
        for path in (ROOT / room).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            if any(isinstance(node, ast.Attribute) and node.attr == "_make" for node in ast.walk(tree)):
                makers.append(str(path.relative_to(ROOT)))

    assert makers == ["sqlassist/guard/check.py"]


def test_a_bug_in_a_check_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(check_module, "check_nodes", broken)

    assert refused("SELECT 1", game_catalog()).code == "internal"


def test_a_regeneration_that_does_not_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = iter(["SELECT `id` FROM `players` LIMIT 1000", "SELECT `id`, `name` FROM `players` LIMIT 1000"])
    monkeypatch.setattr(check_module, "regenerated", lambda *_: next(texts))

    assert refused("SELECT id FROM players", game_catalog()).code == "no_fixed_point"


def test_a_regeneration_that_says_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "regenerated", lambda *_: "CREATE TABLE x AS SELECT 1")

    assert refused("SELECT id FROM players", game_catalog()).code == "no_fixed_point"


def test_what_a_checked_query_says() -> None:
    catalog = game_catalog()

    made = passed(
        "SELECT p.name, sum(amount) FROM payments q JOIN players P ON q.player_id = p.id GROUP BY 1 LIMIT 7", catalog
    )

    assert made.tables == ("payments", "players")
    assert made.columns == ("name", "sum(amount)")
    assert (made.max_rows, made.is_clamped) == (7, False)
    assert made.bounds == ("join_equality", "statement_time")
    assert made.catalog_version == catalog.version
    assert made.dialect is Dialect.MARIADB


def test_a_join_without_an_equality_says_that_it_leans_on_the_row_gate() -> None:
    made = passed("SELECT 1 AS x FROM players JOIN payments WHERE amount > 100", game_catalog())

    assert "row_gate" in made.bounds


def test_limits_are_the_callers() -> None:
    result = check("SELECT id FROM players", game_catalog(), Limits(max_rows=3))

    assert isinstance(result, CheckedQuery)
    assert (result.max_rows, result.is_clamped) == (3, True)
    assert result.sql.endswith("LIMIT 3")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 3000 + "1" + ")" * 3000,
        "SELECT " + "NOT " * 1900 + "1",
        "SELECT " + "-" * 1900 + "1",
        "SELECT " + "~" * 3000 + "1",
        "SELECT " + "1+" * 990 + "1",
        "SELECT " + "ABS(" * 39 + "1" + ")" * 39,
        "SELECT id FROM players WHERE " + " AND ".join(["id = 1"] * 450),
        "SELECT id FROM players WHERE " + " OR ".join(["id = 1"] * 450),
        "SELECT id FROM players WHERE id IN (" + "1," * 980 + "1)",
        " UNION ".join(["SELECT 1"] * 400),
        "SELECT " + "CASE 1 WHEN " * 500 + "1" + " THEN 1 END" * 500,
        "SELECT * FROM " + "(SELECT * FROM " * 39 + "players" + ") t" * 39,
        "WITH a AS (" * 39 + "SELECT 1" + ") SELECT 1" * 39,
        "SELECT '" + "\\" * 4001,
        "SELECT " + "`" * 4001,
        "\ud800" * 100,
        "é" * 5000,
        "SELECT\r\n\t1",
    ],
)
def test_hostile_sizes_end_quickly_and_without_an_exception(sql: str) -> None:
    result = check(sql, game_catalog())

    assert isinstance(result, Refusal | CheckedQuery)
    assert not isinstance(result, Refusal) or result.code != "internal", result


def test_the_guard_does_not_change_its_parser_for_others() -> None:
    """The repairs are the guard's own: another user of sqlglot in the process sees none of them."""
    passed("SELECT name REGEXP 'a' AS x FROM players", game_catalog())

    assert sqlglot.transpile("SELECT a REGEXP 'x'", read="mysql", write="mysql") == ["SELECT REGEXP_LIKE(a, 'x')"]


def test_the_rewrite_is_shown_clause_by_clause() -> None:
    made = passed("select  id\nfrom players where id > 3", game_catalog())

    lines = rewrite_diff(made.source, made.sql).splitlines()

    assert "-from players" in lines
    assert "+LIMIT 1000" in lines
    assert rewrite_diff("SELECT 1", "SELECT  1\n") == ""


def test_a_refusal_reads_well() -> None:
    refusal = refused("SELECT nme FROM players", game_catalog())

    assert str(refusal) == "unknown_column: there is no column 'nme' here, did you mean 'name'? (at nme)"
