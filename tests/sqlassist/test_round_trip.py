"""What the guard regenerates means what was written: both texts on the real server, over generated rows."""

import contextlib
import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor

from sqlassist.catalog import Catalog, ColumnType, Dialect
from sqlassist.config import SourceConfig, SqlLimits
from sqlassist.execute.session import tenant_settings
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.guard.limits import Limits
from tests.kit.mariadb import MariaDb, mariadb, mariadb_marks, open_mariadb
from tests.kit.sql import lines_of, shared, spider

pytestmark = mariadb_marks

SEEDS = 20 if os.environ.get("CORRAL_SLOW") else 2  # of the rows
ROWS = 40
NULLS = 0.08
UNCLAMPED = Limits(max_rows=100_000)  # a LIMIT that the guard adds must not be what differs
TYPES = {ColumnType.NUMBER: "DECIMAL(10,1)", ColumnType.DATETIME: "DATETIME", ColumnType.BOOLEAN: "BOOLEAN"}
WORDS = ("apple", "Apple", "ant ", "", "it's", "100%", "a_b", "1990", "猫")

Row = tuple[Any, ...]


@cache
def _queries() -> dict[str, list[str]]:
    """Distinct gold queries by database."""
    by_database: dict[str, dict[str, None]] = {}
    for query in lines_of("spider-dev.jsonl"):
        by_database.setdefault(query["db"], {})[query["sql"]] = None
    return {name: list(texts) for name, texts in by_database.items()}


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDb]:
    """A server that takes names of tables in any case, as gold queries write them.

    Its statistics stay as they are: a LIMIT that cuts through ties shows which plan was taken.
    """
    shared("spider-dev.jsonl")
    with open_mariadb("--lower-case-table-names=1", "--innodb-stats-auto-recalc=0") as made:
        yield made


@contextlib.contextmanager
def _tables(server: MariaDb, catalog: Catalog) -> Iterator[Cursor]:
    """Empty tables of a catalog, in a session as tenants have it."""
    settings = tenant_settings(SourceConfig(dialect=Dialect.MARIADB, tables={}), SqlLimits(max_join_size=0))
    with contextlib.closing(server.admin()) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE `{catalog.name}` CHARACTER SET utf8mb4")
        try:
            cursor.execute(f"USE `{catalog.name}`")
            for table in catalog.tables:
                columns = [f"`{column.name}` {TYPES.get(column.type, 'VARCHAR(120)')}" for column in table.columns]
                cursor.execute(f"CREATE TABLE `{table.name}` ({', '.join(columns)})")
            cursor.execute(settings)
            yield cursor
        finally:
            cursor.execute("SET SESSION tx_read_only=0")
            cursor.execute(f"DROP DATABASE `{catalog.name}`")


def _rows(catalog: Catalog, queries: Sequence[str], seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Rows of few different values by table, the queries' own literals among them, so that much matches."""
    source = random.Random(f"{catalog.name} {seed}")
    written = [first or second for text in queries for first, second in re.findall(r"'([^']*)'|\"([^\"]*)\"", text)]
    texts = [*dict.fromkeys([*WORDS, *(word.strip("%") for word in written)])]
    numbers = [*range(1, 9), *(int(number) for text in queries for number in re.findall(r"\b\d{1,7}\b", text))]
    moments = [f"20{year:02}-0{month}-1{month} 0{month}:00:00" for year in (8, 17, 18) for month in (1, 3, 6)]

    def value(kind: ColumnType) -> object:
        if source.random() < NULLS:
            return None
        match kind:
            case ColumnType.NUMBER:
                return source.choice(numbers[:8] if source.random() < 0.5 else numbers)
            case ColumnType.DATETIME:
                return source.choice(moments)
            case ColumnType.BOOLEAN:
                return source.randrange(2)
            case _:
                return str(source.randrange(1, 9)) if source.random() < 0.3 else source.choice(texts)

    for table in catalog.tables:
        yield table.name, [tuple(value(column.type) for column in table.columns) for _ in range(ROWS)]


def _fill(cursor: Cursor, rows: Iterator[tuple[str, list[Row]]]) -> None:
    cursor.execute("SET SESSION tx_read_only=0")
    for table, values in rows:
        places = ", ".join(["%s"] * len(values[0]))
        cursor.execute(f"DELETE FROM `{table}`")
        cursor.executemany(f"INSERT INTO `{table}` VALUES ({places})", values)
        cursor.execute(f"ANALYZE TABLE `{table}`")
        cursor.fetchall()
    cursor.execute("SET SESSION tx_read_only=1")


def _answer(cursor: Cursor, sql: str) -> tuple[list[str], Counter[Row]]:
    """Headings and the multiset of rows."""
    cursor.execute(sql)
    return [column[0] for column in cursor.description or ()], Counter(cursor.fetchall())


def test_spider_answers_stay_the_same(server: MariaDb) -> None:
    differing: list[tuple[str, str]] = []
    not_taken: list[tuple[str, int]] = []
    compared = with_rows = 0
    for name, queries in _queries().items():
        catalog = spider(Dialect.MARIADB)[name]
        checked = {sql: check(sql, catalog, UNCLAMPED) for sql in queries}
        with _tables(server, catalog) as cursor:
            for seed in range(SEEDS):
                _fill(cursor, _rows(catalog, queries, seed))
                for sql, query in checked.items():
                    assert isinstance(query, CheckedQuery), f"{query}\n{sql}"
                    try:
                        headings, written = _answer(cursor, sql)
                    except pymysql.Error as error:
                        not_taken.append((sql, error.args[0]))
                        continue
                    compared += 1
                    with_rows += any(cell not in (None, 0) for row in written for cell in row)
                    if _answer(cursor, query.sql) != (headings, written):
                        differing.append((sql, query.sql))

    assert differing == []
    assert compared > 0.98 * (compared + len(not_taken)), not_taken
    assert with_rows > 0.7 * compared  # or the comparison says little


def test_regenerated_texts_spell_tables_as_the_catalog_does() -> None:
    """On a server that tells `City` from `city`, whatever the query wrote."""
    shared("spider-dev.jsonl")
    count = 0
    for name, queries in _queries().items():
        catalog = spider(Dialect.MARIADB)[name]
        with _tables(mariadb(), catalog) as cursor:
            for sql in queries:
                query = check(sql, catalog)
                assert isinstance(query, CheckedQuery), f"{query}\n{sql}"
                cursor.execute(query.sql)
                count += 1

    assert count > 500
