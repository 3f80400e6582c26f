"""The guard against SQL that nobody here wrote: threats, Spider's gold queries, and collected attacks."""

import json
import random
import urllib.parse
from collections.abc import Iterator

import pytest
from sqlglot import exp, parse_one

from sqlassist.catalog import Dialect
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.guard.nodes import every_node
from sqlassist.messages import Refusal
from tests.kit.sql import lines_of, passed, shared, spider, threat_catalog

NAMED_BOUNDS = {"limit", "join_equality", "row_gate", "group_concat_max_len"}


@pytest.mark.parametrize("dialect", [Dialect.MARIADB, Dialect.MYSQL])
def test_every_threat_gets_its_verdict(dialect: Dialect) -> None:
    wrong = []
    count = 0
    for threat in lines_of("threats.jsonl"):
        if "sql" not in threat:
            continue
        count += 1
        result = check(threat["sql"], threat_catalog(dialect))
        is_passed = isinstance(result, CheckedQuery)
        is_bounded = isinstance(result, CheckedQuery) and bool(NAMED_BOUNDS & {*result.bounds})
        allowed = {
            "reject": not is_passed,
            "allow": is_passed,
            "bound": not is_passed or is_bounded,
            "either": not isinstance(result, Refusal) or result.code != "internal",
        }
        if not allowed[threat["verdict"]]:
            wrong.append((threat["label"], str(result)))

    assert wrong == []
    assert count >= 150


@pytest.mark.parametrize("dialect", [Dialect.MARIADB, Dialect.MYSQL])
def test_every_spider_query_passes(dialect: Dialect) -> None:
    queries = list(lines_of("spider-dev.jsonl"))
    results = [(query["sql"], check(query["sql"], spider(dialect)[query["db"]])) for query in queries]

    assert [(sql, str(result)) for sql, result in results if isinstance(result, Refusal)] == []
    assert len(results) == 1034


def test_spider_on_duckdb_passes_but_for_texts_in_double_quotes() -> None:
    codes = set()
    for query in lines_of("spider-dev.jsonl"):
        result = check(query["sql"], spider(Dialect.DUCKDB)[query["db"]])
        if isinstance(result, Refusal):
            codes.add(result.code)
            assert '"' in query["sql"], f"{result}\n{query['sql']}"

    assert codes <= {"unknown_column"}


def attack_lines() -> Iterator[str]:
    for path in sorted(shared("attacks").glob("sqli-*.txt")):
        for line in path.read_text("utf-8", "replace").splitlines():
            if line and not line.startswith("#"):
                yield line
                if "%" in line or "+" in line:
                    yield urllib.parse.unquote_plus(line)


EMBEDDINGS = {
    "literal": ("SELECT a FROM small WHERE b = '{}'", 1),
    "number": ("SELECT a FROM small WHERE a = {}", 1),
    "identifier": ("SELECT `{}` FROM small", 0),
    "order": ("SELECT a FROM small ORDER BY {}", 1),
    "limit": ("SELECT a FROM small LIMIT {}", 1),
    "comment": ("SELECT a FROM small /* {} */", 0),
    "whole": ("{}", 0),
    "union": ("SELECT a FROM small UNION SELECT {}", 1),
}
TABLES = {"small", "r1000"}
# What may stand in a regenerated statement, whatever was embedded. Everything else would be an effect.
HARMLESS_FUNCTIONS = (exp.Case, exp.Coalesce, exp.Nullif, exp.If, exp.Cast, exp.Concat, exp.And, exp.Or, exp.Xor)
EFFECTS = (
    exp.Parameter,
    exp.SessionParameter,
    exp.Placeholder,
    exp.Command,
    exp.Into,
    exp.Lock,
    exp.Hint,
    exp.DDL,
    exp.Introducer,
    exp.HexString,
    exp.Dot,
)
DANGEROUS = {
    "SLEEP", "BENCHMARK", "LOAD_FILE", "USER", "VERSION", "DATABASE", "SCHEMA", "EXTRACTVALUE", "UPDATEXML", "CHAR",
    "GET_LOCK", "CONNECTION_ID", "SYSTEM_USER", "CURRENT_USER", "SESSION_USER", "NAME_CONST", "RAND", "UUID",
}  # fmt: skip


def effects_of(sql: str) -> list[str]:
    """What a statement does beyond reading the tenant's tables and computing with them; decided on its own tree."""
    tree = parse_one(sql, read="mysql")
    found = [] if isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery) else [type(tree).__name__]
    for node in every_node(tree):
        if isinstance(node, EFFECTS) or node.comments:
            found.append(type(node).__name__)
        elif isinstance(node, exp.Table) and (node.name not in TABLES or node.args.get("db")):
            found.append(f"table {node.name}")
        elif isinstance(node, exp.Anonymous) and node.name.upper() in DANGEROUS:
            found.append(f"function {node.name}")
        elif isinstance(node, exp.Func) and not isinstance(node, HARMLESS_FUNCTIONS):
            name = type(node).sql_names()[0]
            if name.upper() in DANGEROUS or name.startswith(("CURRENT_USER", "SESSION", "CURRENT_SCHEMA")):
                found.append(f"function {name}")
    return found


@pytest.mark.parametrize("position", list(EMBEDDINGS))
def test_no_embedded_attack_has_an_effect(position: str) -> None:
    template, _ = EMBEDDINGS[position]
    catalog = threat_catalog()
    passes = 0
    for payload in attack_lines():
        result = check(template.replace("{}", payload), catalog)
        if isinstance(result, CheckedQuery):
            passes += 1
            assert effects_of(result.sql) == [], f"{payload!r} became {result.sql}"
            assert {*result.tables} <= TABLES
        else:
            assert result.code != "internal", f"{result}: {payload!r}"

    assert passes or position in ("whole", "limit", "identifier", "union")


def test_the_judge_of_effects_sees_them() -> None:
    assert effects_of("SELECT `a` FROM `small`") == []
    for sql in (
        "SELECT SLEEP(1)",
        "SELECT @x",
        "SELECT * FROM secret",
        "SELECT * FROM mysql.small",
        "DROP TABLE small",
    ):
        assert effects_of(sql), sql


def test_an_attack_in_an_escaped_literal_is_that_text_and_nothing_else() -> None:
    catalog = threat_catalog()
    for payload in attack_lines():
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in payload):
            continue
        literal = payload.replace("\\", "\\\\").replace("'", "''")

        made = passed(f"SELECT a FROM small WHERE b = '{literal}'", catalog)

        (value,) = [
            n for n in every_node(parse_one(made.sql, read="mysql")) if isinstance(n, exp.Literal) and n.is_string
        ]
        assert value.name == payload


def test_harmless_text_is_not_refused() -> None:
    catalog = threat_catalog()
    count = 0
    for line in shared("attacks/false_positives.txt").read_text("utf-8", "replace").splitlines():
        if not line or line.startswith("#"):
            continue
        literal = line.replace("\\", "\\\\").replace("'", "''")

        made = passed(f"SELECT a FROM small WHERE b = '{literal}'", catalog)

        (value,) = [
            n for n in every_node(parse_one(made.sql, read="mysql")) if isinstance(n, exp.Literal) and n.is_string
        ]
        assert value.name == line
        count += 1
    assert count > 400


def test_mutated_gold_queries_never_break_the_guard() -> None:
    """Words of real queries, swapped, doubled and dropped: nearly SQL is where parsers fail."""
    source = random.Random(7)
    queries = list(lines_of("spider-dev.jsonl"))
    for query in source.sample(queries, 250):
        catalog = spider(Dialect.MARIADB)[query["db"]]
        words = query["sql"].split()
        for _ in range(3):
            place, other = source.randrange(len(words)), source.randrange(len(words))
            words[place], words[other] = (
                words[other],
                source.choice([words[place], words[place] * 2, "", "(", "SELECT"]),
            )
            result = check(" ".join(words), catalog)
            assert not isinstance(result, Refusal) or result.code != "internal", json.dumps(" ".join(words))
            if isinstance(result, CheckedQuery):
                assert passed(result.sql, catalog).sql == result.sql
