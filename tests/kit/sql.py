"""Catalogs for tests of the SQL assistant, and the public data that they read in place."""

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sqlassist.catalog import Catalog, Column, ColumnType, Dialect, JoinKey, Table, catalog_for_schema
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "sql"


def shared(name: str) -> Path:
    """A file of the shared data; skips the test where the folder is missing."""
    path = DATA / name
    if not path.exists():
        if os.environ.get("CI") and DATA.exists():
            pytest.fail(f"{path} is missing, though its folder is there")
        pytest.skip(f"the shared test data ({path}) are not here")
    return path


def lines_of(name: str) -> Iterator[Any]:
    """The JSON lines of a shared file."""
    with shared(name).open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file)


@cache
def spider(dialect: Dialect) -> dict[str, Catalog]:
    """Catalogs of the Spider development databases."""
    return {schema["db"]: catalog_for_schema(schema, dialect) for schema in lines_of("spider-schemas.jsonl")}


@cache
def threat_catalog(dialect: Dialect = Dialect.MARIADB) -> Catalog:
    """What the threat list calls the tenant's scope."""
    small = Table(
        "small", _columns(a=ColumnType.INTEGER, b=ColumnType.TEXT, select=ColumnType.TEXT, js=ColumnType.OTHER)
    )
    integer, text = ColumnType.INTEGER, ColumnType.TEXT
    r1000 = Table(
        "r1000", _columns(id=integer, day=ColumnType.DATE, server=integer, dau=integer, rev=integer, note=text)
    )
    return Catalog("threats", dialect, (small, r1000))


@cache
def game_catalog(dialect: Dialect = Dialect.MARIADB) -> Catalog:
    """A small game's metrics; `Servers` and `order` are there for their spelling."""
    integer, text, number = ColumnType.INTEGER, ColumnType.TEXT, ColumnType.NUMBER
    day, moment = ColumnType.DATE, ColumnType.DATETIME
    return Catalog(
        "acme",
        dialect,
        (
            Table(
                "players", _columns(id=integer, name=text, server_id=integer, created_at=moment, vip=ColumnType.BOOLEAN)
            ),
            Table(
                "payments",
                _columns(id=integer, player_id=integer, amount=number, paid_at=moment, channel=text),
                partition="paid_at",
            ),
            Table("Servers", _columns(id=integer, Name=text, region=text, opened_on=day)),
            Table("order", _columns(id=integer, player_id=integer, key=text)),
        ),
        (
            JoinKey("payments", "player_id", "players", "id"),
            JoinKey("players", "server_id", "Servers", "id"),
            JoinKey("order", "player_id", "players", "id"),
        ),
    )


def _columns(**kinds: ColumnType) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in kinds.items())


def passed(sql: str, catalog: Catalog) -> CheckedQuery:
    """The checked query; fails with the refusal where there is none."""
    result = check(sql, catalog)
    assert isinstance(result, CheckedQuery), f"{result}\n{sql}"
    return result


def refused(sql: str, catalog: Catalog) -> Refusal:
    """The refusal; fails with the regenerated text where it passed."""
    result = check(sql, catalog)
    assert isinstance(result, Refusal), f"passed as {result.sql}\n{sql}"
    return result
