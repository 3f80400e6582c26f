"""What a database server needs before any question is asked: accounts, per-tenant views, grants, limits. A plan.

The plan compares what should be with what is, so that a second run finds nothing to grant, to revoke or to create.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property

import attrs

from runtime.ids import TenantId
from sqlassist.catalog import ColumnType, Dialect
from sqlassist.config import Equality, SqlConfig, Within
from sqlassist.naming import (
    account_name,
    qualified,
    quoted,
    rollup_schema,
    schema_name,
    service_account,
    text_literal,
)
from sqlassist.views import base_of, view_bases, view_statement

SPARE_CONNECTIONS = 4  # beside the pool: those that send KILL, and lost ones that the server has not seen end yet
WITHOUT_VIEWS = "set views = false: a schema for each tenant (tenants.<id>.schemas), or a single tenant"
WITHOUT_EXPLAINER = "set explainer = false: max_join_size and the time limits remain"
WITHOUT_WATCHDOG = "set watchdog = false: a query is still killed by its own account at its deadline"
WITHOUT_WRITES = "set writes = false and rollup_folder: rollups are then kept in DuckDB files"


@attrs.frozen(order=True)
class Grant:
    """One privilege of one account: on the whole server, on a schema, on a table, or on a column of it."""

    account: str
    privilege: str
    schema: str = ""
    table: str = ""
    column: str = ""

    def kind(self) -> str:
        """What stands before ON."""
        return f"{self.privilege} ({quoted(self.column)})" if self.column else self.privilege

    def target(self) -> str:
        """What stands behind ON."""
        if not self.schema:
            return "*.*"
        return qualified(self.schema, self.table) if self.table else f"{quoted(self.schema)}.*"


@attrs.frozen
class ServerState:
    """What is there of ours: everything whose name begins with the prefix."""

    accounts: frozenset[str] = frozenset()
    schemas: frozenset[str] = frozenset()
    views: frozenset[tuple[str, str]] = frozenset()
    """(schema, view)"""
    grants: frozenset[Grant] = frozenset()


@attrs.frozen
class Step:
    """One statement, and what it is for."""

    sql: str
    what: str
    if_refused: str = ""
    """The way to go on without it; empty where there is none."""


@attrs.frozen
class Provisioning:
    """What should be on one server."""

    config: SqlConfig
    source: str
    authentication: Mapping[str, str]
    """Account → `IDENTIFIED ...` clause."""

    def steps(self, state: ServerState) -> tuple[Step, ...]:
        """From what is to what should be. Rights are taken away before any are given."""
        return (*self._removals(state), *self._creations(state), *self._grants(state))

    def undo(self) -> tuple[Step, ...]:
        """Removes everything that provisioning makes; base tables are not touched."""
        schemas = sorted({*self._tenant_schemas, *self._rollup_schemas()})
        dropped = [Step(f"DROP DATABASE IF EXISTS {quoted(name)}", f"schema {name}") for name in schemas]
        accounts = [
            Step(f"DROP USER IF EXISTS {self._user(name)}", f"account {name}") for name in sorted(self.accounts())
        ]
        return (*dropped, *accounts)

    def accounts(self) -> dict[str, str]:
        """Account → role: `tenant`, `definer`, `explainer`, `watchdog`, `rollup`."""
        config, source = self.config, self.source
        owner = config.sources[source]
        made = {service_account(config, source, "definer"): "definer"} if owner.views else {}
        made |= {account_name(config, source, tenant): "tenant" for tenant in config.tenants_of(source)}
        if owner.explainer:
            made[service_account(config, source, "explainer")] = "explainer"
        if owner.watchdog:
            made[service_account(config, source, "watchdog")] = "watchdog"
        if owner.rollups and owner.writes:
            made[service_account(config, source, "rollup")] = "rollup"
        return made

    def grants(self) -> frozenset[Grant]:
        """Every privilege that an account of ours should have, and no other."""
        config, source = self.config, self.source
        definer, explainer = (service_account(config, source, role) for role in ("definer", "explainer"))
        made: set[Grant] = set()
        owner = config.sources[source]
        for tenant in config.tenants_of(source):
            schema = schema_name(config, source, tenant)
            if not owner.views:
                made |= set(self._column_grants(tenant, schema))
                continue
            for table in config.catalog(source, tenant).table_names():
                made.add(Grant(account_name(config, source, tenant), "SELECT", schema, table))
                bases = view_bases(config, source, table)
                made |= {Grant(definer, "SELECT", *base) for base in bases}
                if owner.explainer:
                    made |= {Grant(explainer, privilege, schema, table) for privilege in ("SELECT", "SHOW VIEW")}
                    made |= {Grant(explainer, "SELECT", *base) for base in bases}
        if owner.watchdog:
            name = "CONNECTION ADMIN" if owner.dialect is Dialect.MARIADB else "CONNECTION_ADMIN"
            made |= {Grant(service_account(config, source, "watchdog"), p) for p in ("PROCESS", name)}
        if owner.rollups and owner.writes:
            made |= set(self._rollup_grants())
        return frozenset(made)

    def _column_grants(self, tenant: TenantId, schema: str) -> Iterator[Grant]:
        """Without views: what the tenant may read of his own schema, column by column; the explainer too."""
        config, source = self.config, self.source
        accounts = [account_name(config, source, tenant)]
        if config.sources[source].explainer:
            accounts.append(service_account(config, source, "explainer"))
        for table in config.catalog(source, tenant).tables:
            for column in table.columns:
                yield from (Grant(account, "SELECT", schema, table.name, column.name) for account in accounts)

    def _rollup_grants(self) -> Iterator[Grant]:
        config, source = self.config, self.source
        account, schema = service_account(config, source, "rollup"), rollup_schema(config, source)
        for name, rollup in config.sources[source].rollups.items():
            yield Grant(account, "SELECT", *base_of(config, source, rollup.table))
            yield from (Grant(account, p, schema, name) for p in ("SELECT", "INSERT", "DELETE"))
        yield from (Grant(account, p, schema, "watermarks") for p in ("SELECT", "INSERT", "UPDATE"))

    @cached_property
    def _tenant_schemas(self) -> tuple[str, ...]:
        """Those that are ours: without views there are none, as a tenant's own schema is never made or dropped."""
        if not self.config.sources[self.source].views:
            return ()
        return tuple(schema_name(self.config, self.source, t) for t in self.config.tenants_of(self.source))

    def _rollup_schemas(self) -> tuple[str, ...]:
        owner = self.config.sources[self.source]
        return (rollup_schema(self.config, self.source),) if owner.rollups and owner.writes else ()

    def _user(self, account: str) -> str:
        return f"{text_literal(account)}@{text_literal(self.config.sources[self.source].account_host)}"

    def _removals(self, state: ServerState) -> Iterator[Step]:
        accounts, grants = self.accounts(), self.grants()
        for account in sorted(state.accounts - set(accounts)):
            yield Step(f"DROP USER {self._user(account)}", f"account {account} is nobody's any more")
        for grant in sorted(state.grants - grants):
            if grant.account in accounts:
                yield Step(
                    f"REVOKE {grant.kind()} ON {grant.target()} FROM {self._user(grant.account)}",
                    f"{grant.account} must not have this",
                )
        wanted = self._views()
        schemas = {*self._tenant_schemas, *self._rollup_schemas()}
        for schema in sorted(state.schemas - schemas):
            yield Step(f"DROP DATABASE {quoted(schema)}", f"schema {schema} is nobody's any more")
        for schema, view in sorted(state.views - wanted):
            if schema in schemas:
                yield Step(f"DROP VIEW {qualified(schema, view)}", f"{view} is not in the catalog any more")

    def _views(self) -> set[tuple[str, str]]:
        if not self.config.sources[self.source].views:
            return set()
        return {
            (schema_name(self.config, self.source, tenant), table)
            for tenant in self.config.tenants_of(self.source)
            for table in self.config.catalog(self.source, tenant).table_names()
        }

    def _creations(self, state: ServerState) -> Iterator[Step]:
        config, source = self.config, self.source
        for account, role in self.accounts().items():
            if account not in state.accounts:
                clause = "ACCOUNT LOCK" if role == "definer" else self.authentication[account]
                yield Step(f"CREATE USER {self._user(account)} {clause}", f"account of the {role}", _way_on(role))
            if limits := self._limits(role):
                yield Step(f"ALTER USER {self._user(account)} {limits}", f"limits of {account}", _way_on(role))
        for schema in (*self._tenant_schemas, *self._rollup_schemas()):
            if schema not in state.schemas:
                yield Step(f"CREATE DATABASE {quoted(schema)} CHARACTER SET utf8mb4", f"schema {schema}", WITHOUT_VIEWS)
        if self._rollup_schemas():
            yield from self._rollup_tables()
        # the definer's rights come first: a view over what its definer may not read is refused
        definer = service_account(config, source, "definer")
        for grant in sorted(self.grants() - state.grants):
            if grant.account == definer:
                yield self._grant(grant, "definer")
        for tenant in config.tenants_of(source) if config.sources[source].views else ():
            for table in config.catalog(source, tenant).table_names():
                yield Step(view_statement(config, source, tenant, table), f"{table} as {tenant} sees it", WITHOUT_VIEWS)

    def _limits(self, role: str) -> str:
        owner = self.config.sources[self.source]
        clauses = "REQUIRE SSL " if owner.tls_ca else ""
        if role == "tenant":
            clauses += f"WITH MAX_USER_CONNECTIONS {2 * owner.limits.pool + SPARE_CONNECTIONS}"
            if owner.dialect is Dialect.MARIADB:  # MySQL has no such limit of an account
                clauses += f" MAX_STATEMENT_TIME {owner.limits.statement_seconds:g}"
        return clauses.strip() if role != "definer" else ""

    def _rollup_tables(self) -> Iterator[Step]:
        owner, schema = self.config.sources[self.source], rollup_schema(self.config, self.source)
        for name, rollup in owner.rollups.items():
            table = owner.rollup_table(name)
            assert isinstance(table.filter, Equality | Within)
            columns = {table.filter.column: table.filter_type} | dict(table.columns)
            parts = [f"{quoted(column)} {_SQL_TYPES[kind]}" for column, kind in columns.items()]
            yield Step(
                f"CREATE TABLE IF NOT EXISTS {qualified(schema, name)} ({', '.join(parts)},"
                f" INDEX ({quoted(table.filter.column)}, day), INDEX (day))",
                f"{rollup.table} by day and {', '.join(rollup.dimensions)}",
                WITHOUT_WRITES,
            )
        yield Step(
            f"CREATE TABLE IF NOT EXISTS {qualified(schema, 'watermarks')} (rollup VARCHAR(64) PRIMARY KEY,"
            " watermark BIGINT NOT NULL, refreshed_at DATETIME NOT NULL)",
            "how far each rollup has read",
            WITHOUT_WRITES,
        )

    def _grants(self, state: ServerState) -> Iterator[Step]:
        roles = self.accounts()
        for grant in sorted(self.grants() - state.grants):
            if roles[grant.account] != "definer":
                yield self._grant(grant, roles[grant.account])

    def _grant(self, grant: Grant, role: str) -> Step:
        sql = f"GRANT {grant.kind()} ON {grant.target()} TO {self._user(grant.account)}"
        way_on = WITHOUT_VIEWS if role == "tenant" and self.config.sources[self.source].views else _way_on(role)
        return Step(sql, f"the {role} may", way_on)


def _way_on(role: str) -> str:
    ways = {"definer": WITHOUT_VIEWS, "explainer": WITHOUT_EXPLAINER, "watchdog": WITHOUT_WATCHDOG}
    return ways.get(role, WITHOUT_WRITES if role == "rollup" else "")


_SQL_TYPES = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.NUMBER: "DECIMAL(38,9)",
    ColumnType.TEXT: "VARCHAR(190)",
    ColumnType.DATE: "DATE",
    ColumnType.DATETIME: "DATETIME(6)",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.OTHER: "VARCHAR(190)",
}


def script_for(steps: tuple[Step, ...], title: str) -> str:
    """SQL that a DBA can read and run."""
    lines = [f"-- {title}"]
    for step in steps:
        lines += [f"-- {step.what}" + (f"; if refused: {step.if_refused}" if step.if_refused else ""), f"{step.sql};"]
    return "\n".join(lines) + "\n"
