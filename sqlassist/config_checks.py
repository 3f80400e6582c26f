"""What is wrong with a configuration of databases beyond a single key: every mistake at once."""

import re
from collections.abc import Iterator

from runtime.ids import TenantId
from sqlassist.catalog import CatalogError, ColumnType, Dialect
from sqlassist.config import (
    ACCOUNT_PATTERN,
    RESERVED_ACCOUNTS,
    Equality,
    Everyone,
    Join,
    SourceConfig,
    SqlConfig,
    Within,
    filter_column_type,
    keeps_rollup_files,
    rollup_source,
    with_rollup_sources,
)
from sqlassist.semantic import NAME_PATTERN, RollupConfig
from sqlassist.semantic_checks import layer_problems

SYSTEM_SCHEMAS = frozenset({"mysql", "information_schema", "performance_schema", "sys"})


def config_problems(config: SqlConfig) -> list[tuple[str, str]]:
    """(message, path) of everything that no single key shows."""
    found = [problem for name in config.sources for problem in _source_problems(config, name)]
    found += [problem for name in config.sources for problem in _rollup_folder_problems(config, name)]
    found += [problem for name in config.sources for problem in _layer_problems(config, name)]
    accounts: dict[str, str] = {}
    for name, tenant in config.tenants.items():
        at = f"$.tenants.{name}"
        account = config.account(TenantId(name))
        if not re.fullmatch(ACCOUNT_PATTERN, account):
            found.append((f"{account!r} cannot be part of an account's name: set account = like {ACCOUNT_PATTERN}", at))
        if account in RESERVED_ACCOUNTS:
            found.append((f"{account!r} is the name of an account of our own: set account", at))
        if account in accounts:
            found.append((f"tenants {accounts[account]!r} and {name!r} would have one account: set account", at))
        accounts[account] = name
        found += [
            (f"there is no source {source!r}", f"{at}.sources")
            for source in tenant.sources
            if source not in config.sources
        ]
        found += [
            (f"no table is called {entry.partition('.')[0]!r}, so hiding it hides nothing", f"{at}.hidden")
            for entry in tenant.hidden
            if not any(
                entry.partition(".")[0] in source.readable_tables()
                or (keeps_rollup_files(source) and entry.partition(".")[0] in source.rollups)
                for source in config.sources.values()
            )
        ]
    found += list(_schema_problems(config))
    if not found:
        found += list(_catalog_problems(with_rollup_sources(config)))
    return found


def _schema_problems(config: SqlConfig) -> Iterator[tuple[str, str]]:
    """Whatever begins with the prefix is ours to drop, so nobody's data may."""
    for name, source in config.sources.items():
        if source.dialect is Dialect.DUCKDB:
            continue
        if source.schema.lower() in SYSTEM_SCHEMAS:
            yield f"{source.schema!r} is the server's own: nobody's data is there", f"$.sources.{name}.schema"
        if source.schema.startswith(f"{source.prefix}_"):
            yield (
                f"{source.schema!r} begins like what provision drops: choose another prefix",
                f"$.sources.{name}.prefix",
            )
        if not source.views:
            yield from _viewless_problems(config, name)
    for tenant in config.tenants:
        yield from ((message, f"$.tenants.{tenant}.schemas") for message in _own_schema_problems(config, tenant))


def _viewless_problems(config: SqlConfig, name: str) -> Iterator[tuple[str, str]]:
    source, at = config.sources[name], f"$.sources.{name}"
    for table_name, table in source.tables.items():
        place = f"{at}.tables.{table_name}"
        if table.base and table.base != table_name:
            yield "without views a table cannot be called otherwise: leave base out", f"{place}.base"
        if not isinstance(table.filter, Everyone | None):
            message = 'without views nothing keeps rows apart but the schema: the filter is { kind = "everyone" }'
            yield message, f"{place}.filter"
    if source.rollups and source.writes:
        yield "rollups without views need writes = false and rollup_folder", f"{at}.semantic.rollups"
    users: dict[str, str] = {}
    for tenant in config.tenants_of(name):
        own = config.own_schema(name, tenant)
        if own in users:
            yield (
                f"source {name!r} has no views, and tenants {users[own]!r} and {tenant!r} both read schema {own!r}:"
                f" give each one of his own, schemas = {{ {name} = ... }}",
                f"$.tenants.{tenant}.schemas",
            )
        users[own] = tenant


def _own_schema_problems(config: SqlConfig, tenant: str) -> Iterator[str]:
    for name, schema in config.tenants[tenant].schemas.items():
        source = config.sources.get(name)
        if source is None:
            yield f"there is no source {name!r}"
        elif source.views:
            yield f"the schemas of source {name!r} are made: set views = false there, or leave this out"
        elif not _is_name(schema):
            yield f"{schema!r} is no plain name"
        elif schema.lower() in SYSTEM_SCHEMAS:
            yield f"{schema!r} is the server's own: nobody's data is there"
        elif schema.startswith(f"{source.prefix}_"):
            yield f"{schema!r} begins like what provision drops: choose another prefix for {name!r}"


def _catalog_problems(config: SqlConfig) -> Iterator[tuple[str, str]]:
    for source in config.sources:
        for tenant in config.tenants_of(source):
            try:
                config.catalog(source, tenant)
            except CatalogError as error:
                yield str(error), f"$.tenants.{tenant}"


def _source_problems(config: SqlConfig, name: str) -> Iterator[tuple[str, str]]:
    source, at = config.sources[name], f"$.sources.{name}"
    if source.dialect is Dialect.DUCKDB:
        if not source.folder:
            yield "a DuckDB source needs folder", at
        return
    if not source.schema and (source.views or not all(config.own_schema(name, t) for t in config.tenants_of(name))):
        yield "a server needs schema: where the base tables are", at
    if bool(source.credentials.folder) == bool(source.credentials.environment):
        yield "needs exactly one of folder and environment", f"{at}.credentials"
    if source.admin is not None and bool(source.admin.file) and bool(source.admin.environment):
        yield "needs at most one of file and environment", f"{at}.admin"
    for table_name, table in source.tables.items():
        place = f"{at}.tables.{table_name}"
        if not re.fullmatch(NAME_PATTERN, table_name):
            yield f"{table_name!r} is no plain name", place
        yield from ((f"{c!r} is no plain name", f"{place}.columns") for c in table.columns if not _is_name(c))
        if table.partition is not None and table.partition not in table.columns:
            yield f"partition {table.partition!r} is none of its columns", place
        yield from ((message, f"{place}.filter") for message in _filter_problems(config, name, table_name))
    for rollup_name, rollup in source.rollups.items():
        place = f"{at}.semantic.rollups.{rollup_name}"
        yield from ((message, place) for message in _rollup_problems(source, rollup_name, rollup))
    for pair in source.joins:
        for end in pair:
            table_name, _, column = end.partition(".")
            if table_name not in source.tables or column not in source.tables[table_name].columns:
                yield f"there is no {end!r}: write table.column", f"{at}.joins"


def _layer_problems(config: SqlConfig, name: str) -> Iterator[tuple[str, str]]:
    source = config.sources[name]
    if source.dialect is Dialect.DUCKDB and source.semantic.rollups:
        yield "DuckDB files have nothing pre-aggregated: leave this out", f"$.sources.{name}.semantic.rollups"
    tables = {table: config_.columns for table, config_ in source.tables.items() if config_.filter is not None}
    for message, at in layer_problems(source.semantic, tables, config.tenants_of(name), source.dialect):
        yield message, f"$.sources.{name}.semantic.{at}"


def _rollup_folder_problems(config: SqlConfig, name: str) -> Iterator[tuple[str, str]]:
    source, at = config.sources[name], f"$.sources.{name}.rollup_folder"
    if not source.rollup_folder:
        return
    if source.dialect is Dialect.DUCKDB or source.writes or not source.rollups:
        yield "is for rollups of a server with writes = false: leave it out here", at
        return
    if rollup_source(name) in config.sources:
        yield f"makes a source {rollup_source(name)!r}, which is there already: rename that one", at
    if any(
        source.rollup_folder in (other.rollup_folder, other.folder)
        for key, other in config.sources.items()
        if key != name
    ):
        yield "is another source's folder as well: give each its own", at
    for tenant in config.tenants_of(name):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", tenant):
            yield f"tenant {tenant!r} cannot be the name of a file: use letters, digits and _ . -", at
    for rollup_name, rollup in source.rollups.items():
        table = source.tables.get(rollup.table)
        if table is None:
            continue
        place = f"$.sources.{name}.semantic.rollups.{rollup_name}"
        if rollup.sequence not in table.columns:
            yield f"{rollup.sequence!r} must be a column of {rollup.table!r}: it is read through tenants' views", place
        needed = {rollup.table, *(f"{rollup.table}.{column}" for column in rollup.reads())}
        for tenant in config.tenants_of(name):
            hidden = set(config.tenants[tenant].hidden)
            if rollup_name not in hidden and needed & hidden:
                yield f"tenant {tenant!r} does not see {min(needed & hidden)}: hide {rollup_name!r} from him too", place


def _is_name(text: str) -> bool:
    return bool(re.fullmatch(NAME_PATTERN, text))


def _filter_problems(config: SqlConfig, source: str, table_name: str) -> Iterator[str]:
    tables = config.sources[source].tables
    seen, table = {table_name}, tables[table_name]
    while isinstance(table.filter, Join):
        join = table.filter
        if join.table not in tables:
            yield f"there is no table {join.table!r}"
            return
        if join.table in seen:
            yield f"the filters of {', '.join(sorted(seen))} point at each other: one needs a value"
            return
        seen.add(join.table)
        table = tables[join.table]
        if table.filter is None:
            yield f"{join.table!r} has no filter itself, so it says nothing about whose a row is"
            return
    if not isinstance(table.filter, Equality | Within):
        return
    for tenant in config.tenants_of(source):
        values = config.tenants[tenant].keys.get(table.filter.key, ())
        if not values or (isinstance(table.filter, Equality) and len(values) != 1):
            wanted = "one value" if isinstance(table.filter, Equality) else "a value"
            yield f"tenant {tenant!r} needs {wanted} under keys.{table.filter.key}"
        elif filter_column_type(table) is ColumnType.INTEGER:
            wrong = [value for value in values if not re.fullmatch(r"-?\d{1,19}", value)]
            if wrong:
                yield f"tenant {tenant!r}: {wrong[0]!r} is no integer, as the column {table.filter.column!r} needs"


def _rollup_problems(source: SourceConfig, name: str, rollup: RollupConfig) -> Iterator[str]:
    if not _is_name(name):
        yield f"{name!r} is no plain name"
    if name in source.tables:
        yield f"a table is called {name!r} as well"
    base = source.tables.get(rollup.table)
    if base is None:
        yield f"there is no table {rollup.table!r}"
        return
    if not isinstance(base.filter, Equality | Within if source.views else Everyone):
        wanted = "an equality or IN: its column becomes a dimension" if source.views else "everyone: there are no views"
        yield f"the filter of {rollup.table!r} must be {wanted}"
    for column in (*rollup.dimensions, rollup.moment):
        if column not in base.columns:
            yield f"{rollup.table!r} has no column {column!r}"
    for measure, expression in rollup.measures.items():
        found = re.fullmatch(r"count|(?:sum|min|max)\((\w+)\)", expression)
        if found is None:
            yield f"measure {measure!r} is count, sum(column), min(column) or max(column): {expression!r}"
        elif found.group(1) and found.group(1) not in base.columns:
            yield f"measure {measure!r}: {rollup.table!r} has no column {found.group(1)!r}"
        if not _is_name(measure):
            yield f"measure {measure!r} is no plain name"
