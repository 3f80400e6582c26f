"""What every account is made to try, so that isolation is a fact of the server and not of its configuration file."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import attrs

from sqlassist.config import SqlConfig
from sqlassist.naming import account_name, qualified, quoted, rollup_schema, schema_name, service_account
from sqlassist.views import base_of

DENIED = frozenset({1044, 1049, 1142, 1143, 1227, 1370, 1345, 1792, 1288, 1290, 1348, 1471})
"""Codes with which a server says no: no access, no such schema for you, not updatable, not with these options."""


class Expected(StrEnum):
    """What shows that all is well."""

    WORKS = "works"
    """Else the other attempts would prove nothing."""
    DENIED = "denied"
    ZERO = "zero"
    """The one value that comes back is 0."""
    NULL = "null"


@attrs.frozen
class Attempt:
    """One statement under one account."""

    account: str
    what: str
    sql: str
    expected: Expected
    schema: str = ""


@attrs.frozen
class Tried:
    """What came of it."""

    attempt: Attempt
    passed: bool
    outcome: str


def attempts_for(config: SqlConfig, source: str) -> tuple[Attempt, ...]:
    """Everything that the accounts of a source are made to try."""
    owner = config.sources[source]
    made = [a for tenant in config.tenants_of(source) for a in _tenant_attempts(config, source, tenant)]
    services = []
    if owner.watchdog:
        services.append("watchdog")
    if owner.rollups and owner.writes:
        services.append("rollup")
    for role in services:
        account = service_account(config, source, role)
        reads = {owner.rollups[name].table for name in owner.rollups} if role == "rollup" else set()
        for base in _bases(config, source):
            if base[1] not in reads:
                sql = f"SELECT 1 FROM {qualified(*base)} LIMIT 1"
                made.append(Attempt(account, f"the {role} reads base table {base[1]}", sql, Expected.DENIED))
    if owner.explainer:
        account = service_account(config, source, "explainer")
        for base in _bases(config, source):
            sql = f"DELETE FROM {qualified(*base)} WHERE FALSE"
            made.append(Attempt(account, f"the explainer writes base table {base[1]}", sql, Expected.DENIED))
    return tuple(made)


def _bases(config: SqlConfig, source: str) -> list[tuple[str, str]]:
    """(schema, table) of everything that is read; without views it is in every tenant's schema."""
    owner = config.sources[source]
    if owner.views:
        return [base_of(config, source, name) for name in owner.tables]
    return [(config.own_schema(source, tenant), name) for tenant in config.tenants_of(source) for name in owner.tables]


def _tenant_attempts(config: SqlConfig, source: str, tenant: Any) -> Iterator[Attempt]:
    account, own = account_name(config, source, tenant), schema_name(config, source, tenant)

    def denied(what: str, sql: str) -> Attempt:
        return Attempt(account, what, sql, Expected.DENIED, own)

    has_rollups = bool(config.sources[source].rollups) and config.sources[source].writes
    tables = config.catalog(source, tenant).table_names()
    for name in tables:
        count = f"SELECT COUNT(*) FROM {quoted(name)}"
        yield Attempt(account, f"reads own {name}", count, Expected.WORKS, own)
    for other in config.tenants_of(source):
        if other == tenant:
            continue
        for name in config.catalog(source, other).table_names():
            foreign = qualified(schema_name(config, source, other), name)
            yield denied(f"reads {name} of {other}", f"SELECT COUNT(*) FROM {foreign}")
            yield denied(f"reads {name} of {other} in a subquery", f"SELECT (SELECT COUNT(*) FROM {foreign})")
    owner = config.sources[source]
    for schema, name in _bases(config, source):
        if not owner.views and (schema != own or name in tables):
            continue  # without views: his own tables, and those of others, which were tried above
        base = qualified(schema, name)
        yield denied(f"reads base table {name}", f"SELECT 1 FROM {base} LIMIT 1")
        yield denied(f"reads base table {name} by EXISTS", f"SELECT 1 WHERE EXISTS (SELECT 1 FROM {base})")
    for name in (*config.sources[source].rollups, "watermarks") if has_rollups else ():
        table = qualified(rollup_schema(config, source), name)
        yield denied(f"reads rollup table {name}", f"SELECT 1 FROM {table} LIMIT 1")
    yield from _server_attempts(account, own)
    if tables:
        yield from _view_attempts(account, own, tables[0]) if owner.views else _table_attempts(account, own, tables[0])


def _server_attempts(account: str, own: str) -> Iterator[Attempt]:
    for name in ("mysql.user", "mysql.db", "mysql.tables_priv", "performance_schema.threads", "sys.version"):
        schema, _, table = name.partition(".")
        sql = f"SELECT 1 FROM {qualified(schema, table)} LIMIT 1"
        yield Attempt(account, f"reads {name}", sql, Expected.DENIED, own)
    hidden = (
        ("schemas", "schemata", f"schema_name NOT IN ('information_schema', 'performance_schema', '{own}')"),
        ("tables", "tables", f"table_schema NOT IN ('information_schema', 'performance_schema', '{own}')"),
        ("columns", "columns", f"table_schema NOT IN ('information_schema', 'performance_schema', '{own}')"),
        ("connections", "processlist", f"user <> '{account}'"),
        ("view definitions", "views", "view_definition <> ''"),
        ("privileges on the whole server", "user_privileges", "privilege_type <> 'USAGE'"),
        ("privileges on a whole schema", "schema_privileges", "TRUE"),
        ("privileges on tables", "table_privileges", f"privilege_type <> 'SELECT' OR table_schema <> '{own}'"),
        ("privileges on columns", "column_privileges", f"privilege_type <> 'SELECT' OR table_schema <> '{own}'"),
    )
    for what, table, condition in hidden:
        sql = f"SELECT COUNT(*) FROM information_schema.{table} WHERE {condition}"
        yield Attempt(account, f"has {what} that are not his", sql, Expected.ZERO, own)
    yield Attempt(account, "reads a file", "SELECT LOAD_FILE('/etc/passwd')", Expected.NULL, own)
    statements = (
        ("writes a file", "SELECT 1 INTO OUTFILE '/tmp/corral-verify.txt'"),
        ("creates a table", "CREATE TABLE corral_verify (a INT)"),
        ("creates a temporary table", "CREATE TEMPORARY TABLE corral_verify (a INT)"),
        ("creates a schema", "CREATE DATABASE corral_verify"),
        ("creates an account", "CREATE USER corral_verify IDENTIFIED BY 'x'"),
        ("changes a setting for all", "SET GLOBAL max_connections = 100"),
    )
    yield from _denied(account, own, statements)


def _view_attempts(account: str, own: str, view: str) -> Iterator[Attempt]:
    name = quoted(view)
    statements = (
        ("deletes through his view", f"DELETE FROM {name} WHERE FALSE"),
        ("sees how his view is made", f"SHOW CREATE VIEW {name}"),
        ("drops his view", f"DROP VIEW {name}"),
        ("replaces his view", f"CREATE OR REPLACE VIEW {name} AS SELECT 1"),
        ("passes his right on", f"GRANT SELECT ON {name} TO root"),
    )
    yield from _denied(account, own, statements)


def _table_attempts(account: str, own: str, table: str) -> Iterator[Attempt]:
    """Without views. No attempt could harm the table, should it go through."""
    name = quoted(table)
    statements = (
        ("deletes from his table", f"DELETE FROM {name} WHERE FALSE"),
        ("writes into his table", f"INSERT INTO {name} SELECT * FROM {name} WHERE FALSE"),
        ("makes a view of his table", f"CREATE VIEW corral_verify AS SELECT * FROM {name}"),
        ("passes his right on", f"GRANT SELECT ON {name} TO root"),
    )
    yield from _denied(account, own, statements)


def _denied(account: str, own: str, statements: Sequence[tuple[str, str]]) -> Iterator[Attempt]:
    for what, sql in statements:
        yield Attempt(account, what, sql, Expected.DENIED, own)


def judge(attempt: Attempt, rows: Sequence[tuple[Any, ...]] | None, code: int) -> Tried:
    """Whether an attempt ended as it should.

    Args:
        attempt: What was tried.
        rows: What came back; None where the server refused.
        code: The server's error code, where it refused.
    """
    if rows is None:
        expected = attempt.expected is not Expected.WORKS and code in DENIED
        return Tried(attempt, expected, f"refused with {code}")
    value = rows[0][0] if rows and rows[0] else None
    match attempt.expected:
        case Expected.WORKS:
            return Tried(attempt, bool(rows), f"{value} rows")
        case Expected.ZERO:
            return Tried(attempt, value == 0, f"{value}")
        case Expected.NULL:
            return Tried(attempt, value is None, "NULL" if value is None else "a value")
        case Expected.DENIED:
            return Tried(attempt, passed=False, outcome=f"went through, {len(rows)} rows")
