"""Whatever the grammar can say passes the guard, and runs."""

import os
import random
from collections.abc import Iterator

import duckdb
import pytest

from sqlassist.catalog import Catalog, Column, ColumnType, Dialect, JoinKey, Table
from sqlassist.grammar import SqlGrammar, grammar_for, is_current
from sqlassist.shapes import shapes_for
from tests.kit.grammar_sampler import Sampler
from tests.kit.sql import game_catalog, passed, spider

DUCKDB_TYPES = {
    ColumnType.INTEGER: "INTEGER",
    ColumnType.NUMBER: "DOUBLE",
    ColumnType.TEXT: "VARCHAR",
    ColumnType.DATE: "DATE",
    ColumnType.DATETIME: "TIMESTAMP",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.OTHER: "VARCHAR",
}
ODD_NAMES = Catalog(
    "odd",
    Dialect.MARIADB,
    (
        Table(
            'a`b"c\\d',
            (Column("select", ColumnType.INTEGER), Column("日期", ColumnType.DATE), Column("x y", ColumnType.TEXT)),
        ),
    ),
)


def drawn(grammar: SqlGrammar, seed: int, count: int) -> Iterator[str]:
    sampler, source = Sampler(grammar.ebnf), random.Random(seed)
    return (sampler.draw(source) for _ in range(count))


LONG = bool(os.environ.get("CORRAL_SLOW"))  # the long form: 10,000 strings for every dialect, and run


@pytest.mark.parametrize(
    ("dialect", "count"),
    [
        (Dialect.MARIADB, 10_000),
        (Dialect.MYSQL, 10_000 if LONG else 700),
        (Dialect.DUCKDB, 10_000 if LONG else 700),
    ],
)
def test_random_strings_pass_the_guard(dialect: Dialect, count: int) -> None:
    catalog = game_catalog(dialect)
    grammar = grammar_for(catalog)
    for sql in drawn(grammar, seed=11, count=count):
        made = passed(sql, catalog)

        assert len(sql) <= grammar.max_characters
        assert made.is_clamped == (" LIMIT " not in sql.rsplit("'", 1)[-1])


def test_random_strings_run_on_duckdb() -> None:
    catalog = game_catalog(Dialect.DUCKDB)
    count = 10_000 if LONG else 1000
    with duckdb.connect() as database:
        for table in catalog.tables:
            columns = ", ".join(f'"{column.name}" {DUCKDB_TYPES[column.type]}' for column in table.columns)
            database.execute(f'CREATE TABLE "{table.name}" ({columns})')
        database.execute(
            "INSERT INTO players SELECT i, 'p' || i, i % 3, TIMESTAMP '2026-01-01', true FROM range(20) t(i)"
        )
        database.execute("INSERT INTO payments SELECT i, i % 20, i, TIMESTAMP '2026-02-01', 'web' FROM range(50) t(i)")
        for sql in drawn(grammar_for(catalog), seed=13, count=count):
            database.execute(passed(sql, catalog).sql).fetchall()


@pytest.mark.parametrize("database", ["dog_kennels", "flight_2", "concert_singer"])
def test_grammars_of_public_schemas_pass_the_guard(database: str) -> None:
    catalog = spider(Dialect.MARIADB)[database]
    for sql in drawn(grammar_for(catalog), seed=14, count=150):
        passed(sql, catalog)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_names_that_need_quotes_are_quoted(dialect: Dialect) -> None:
    catalog = Catalog("odd", dialect, ODD_NAMES.tables)
    for sql in drawn(grammar_for(catalog), seed=15, count=200):
        assert passed(sql, catalog).tables == ('a`b"c\\d',)


def test_columns_are_tied_to_the_tables_of_the_from_clause() -> None:
    catalog = game_catalog()
    for sql in drawn(grammar_for(catalog), seed=16, count=400):
        outside = "".join(sql.split("'")[::2])
        if "`amount`" in outside:
            assert "`payments`" in outside, sql
        if "`region`" in outside:
            assert "`Servers`" in outside, sql


def test_every_shape_is_reachable_and_joins_follow_the_join_keys() -> None:
    catalog = game_catalog()
    labels = {shape.label for shape in shapes_for(catalog).kept}

    assert {"players", "payments+players", "players+Servers+payments"} <= labels
    assert not any({"payments", "Servers"} == {*label.split("+")} for label in labels)


def test_a_grammar_stays_small_and_says_what_it_left_out() -> None:
    names = [f"t{number}" for number in range(12)]
    tables = tuple(Table(name, (Column("id", ColumnType.INTEGER),)) for name in names)
    joins = tuple(JoinKey(a, "id", b, "id") for i, a in enumerate(names) for b in names[i + 1 :])

    grammar = grammar_for(Catalog("wide", Dialect.MYSQL, tables, joins), max_shapes=20)

    assert grammar.shapes == 20
    assert grammar.dropped_shapes > 60
    assert grammar.rules < 250


def test_a_changed_schema_needs_a_new_grammar() -> None:
    catalog = game_catalog()
    grammar = grammar_for(catalog)

    assert is_current(grammar, catalog)
    assert not is_current(grammar, catalog.restricted_to(hidden=["players.vip"]))


def test_hidden_columns_are_not_in_the_grammar() -> None:
    grammar = grammar_for(game_catalog().restricted_to(hidden=["players.vip", "order"]))

    assert "vip" not in grammar.ebnf
    assert "order`" not in grammar.ebnf
    assert "vip" not in grammar.json_schema
