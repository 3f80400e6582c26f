"""Random SQL, SQL-like and not: the guard never breaks, and what passes comes out of it the same again."""

import contextlib
import random
import string

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlassist.catalog import Dialect
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.guard.patterns import check_pattern
from sqlassist.guard.refused import Refused
from sqlassist.messages import Refusal
from tests.kit.sql import game_catalog

_NAMES = [
    "id",
    "name",
    "players",
    "payments",
    "p",
    "`id`",
    "`na``me`",
    "secret",
    "t",
    "amount",
    "*",
    "p.id",
    "é",
    "收入",
]
_LITERALS = [
    "1",
    "0",
    "-1",
    "1.5",
    "'a'",
    "'a''b'",
    "'\\''",
    "'\\\\'",
    '"x"',
    "NULL",
    "TRUE",
    "0x41",
    "'a' 'b'",
    "1e9",
    "N'x'",
]
_NASTY = [
    "/*", "*/", "/*!", "--", "-- ", "#", ";", "@x", "@@v", ":=", "{", "}", "\\", "'", '"', "`", "\u00a0",
    "\u200b", "\x00", "ＳＬＥＥＰ", "||", "&&", "!", "<=>", "->", "->>", "::", "$$", "?", "INTO", "FOR UPDATE",
    "LATERAL", "RECURSIVE", "0x", "INTERVAL 1 DAY", "OVER", "WINDOW", "USING", "NATURAL", "VALUES", "ROW", "TABLE",
    "ANY", "ALL", "DUAL", "PROCEDURE",
]  # fmt: skip
_FUNCTIONS = [
    "COUNT",
    "SUM",
    "SLEEP",
    "CONCAT",
    "IF",
    "DATE_FORMAT",
    "LPAD",
    "CAST",
    "EXTRACT",
    "`SUM`",
    "db.f",
    "REPEAT",
]
_KEYWORDS = [
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET", "UNION", "UNION ALL", "JOIN", "ON",
    "AS", "AND", "OR", "XOR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "CASE", "WHEN", "THEN", "END", "EXISTS", "WITH",
    "DISTINCT", "(", ")", ",", "=", "<", "+", "-", "*", "/", "%",
]  # fmt: skip

words = st.lists(st.sampled_from(_NAMES + _LITERALS + _NASTY + _FUNCTIONS + _KEYWORDS), max_size=25).map(" ".join)
expressions = st.recursive(
    st.sampled_from(_NAMES[:9] + _LITERALS),
    lambda inner: st.one_of(
        st.tuples(
            inner, st.sampled_from([" + ", " = ", " AND ", " LIKE ", " IS NOT ", " XOR ", " - ", " % "]), inner
        ).map("".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"NOT {text}"),
        inner.map(lambda text: f"-{text}"),
        st.tuples(st.sampled_from(_FUNCTIONS), inner).map(lambda pair: f"{pair[0]}({pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"CASE WHEN {pair[0]} THEN {pair[1]} END"),
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]} IN ({pair[1]})"),
        st.tuples(inner, inner, inner).map(lambda three: f"{three[0]} BETWEEN {three[1]} AND {three[2]}"),
        inner.map(lambda text: f"(SELECT {text} FROM players LIMIT 1)"),
    ),
    max_leaves=8,
)
statements = st.builds(
    lambda item, where, order, tail: f"SELECT {item} FROM players WHERE {where} ORDER BY {order}{tail}",
    expressions,
    expressions,
    expressions,
    st.sampled_from(["", " LIMIT 5", " LIMIT 5 OFFSET 3", " UNION SELECT 1", " FOR UPDATE", "; DROP TABLE x", " -- x"]),
)
spliced = st.tuples(statements, st.sampled_from(_NASTY), st.integers(0, 200)).map(
    lambda parts: parts[0][: parts[2]] + parts[1] + parts[0][parts[2] :]
)


def hold(sql: str) -> None:
    """Never an internal error; what passes is a fixed point."""
    for dialect in Dialect:
        catalog = game_catalog(dialect)
        result = check(sql, catalog)
        if isinstance(result, Refusal):
            assert result.code != "internal", f"{result}: {sql!r}"
            continue
        again = check(result.sql, catalog)
        assert isinstance(again, CheckedQuery), f"{again}: {result.sql!r} of {sql!r}"
        assert again.sql == result.sql
        assert {*result.tables} <= {*catalog.table_names()}


@given(st.text(max_size=200))
@example("SELECT")
@example("SELECT 1 -- \\")
@settings(max_examples=100, deadline=None)
def test_any_text_at_all(sql: str) -> None:
    hold(sql)


@given(words)
@settings(max_examples=200, deadline=None)
def test_words_of_sql_in_any_order(sql: str) -> None:
    hold(sql)
    hold("SELECT " + sql)


@given(statements)
@settings(max_examples=250, deadline=None)
def test_statements_with_random_expressions(sql: str) -> None:
    hold(sql)


@given(spliced)
@settings(max_examples=200, deadline=None)
def test_statements_with_something_nasty_inside(sql: str) -> None:
    hold(sql)


@given(st.text(alphabet=string.printable + "é收😀\u200b", max_size=40))
@settings(max_examples=150, deadline=None)
def test_an_escaped_text_passes_as_itself(text: str) -> None:
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        return
    literal = text.replace("\\", "\\\\").replace("'", "''")

    result = check(f"SELECT id FROM players WHERE name = '{literal}'", game_catalog())

    assert isinstance(result, CheckedQuery), str(result)
    assert f" = '{literal}' " in result.sql


@given(st.text(alphabet="ab()[]|*+?{}1,9\\^$.-:", max_size=20))
@settings(max_examples=300, deadline=None)
def test_patterns_are_judged_without_an_exception(pattern: str) -> None:
    with contextlib.suppress(Refused):
        check_pattern(pattern, 200)


def test_bytes_read_as_text() -> None:
    source = random.Random(5)
    for _ in range(300):
        hold(bytes(source.randrange(256) for _ in range(40)).decode("latin-1"))
