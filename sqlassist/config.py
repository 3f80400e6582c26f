"""What an operator says about databases: sources, tables, tenants, limits, and where credentials are (never what)."""

import re
from collections.abc import Mapping

import attrs

from runtime.ids import TenantId
from sqlassist.catalog import Catalog, Column, ColumnType, Dialect, JoinKey, Table
from sqlassist.semantic import NAME_PATTERN, RollupConfig, SemanticLayer

ACCOUNT_PATTERN = r"[a-z][a-z0-9_]{0,20}"  # with the prefix it fits MySQL's 32 characters
PREFIX_PATTERN = r"[a-z][a-z0-9]{0,9}"
ENVIRONMENT_PATTERN = r"[A-Z_][A-Z0-9_]*"
RESERVED_ACCOUNTS = ("definer", "explainer", "watchdog", "rollup", "rollups")
_NAME = {"pattern": NAME_PATTERN, "means": "a plain name of letters, digits and _"}


@attrs.frozen
class Everyone:
    """Every tenant may read every row: for calendars and the like. It must be said; it is never the default."""


@attrs.frozen
class Equality:
    """A row is the tenant's when a column has the one value that the tenant has under `key`."""

    column: str = attrs.field(metadata=_NAME)
    key: str = "tenant"


@attrs.frozen
class Within:
    """A row is the tenant's when a column has one of the values that the tenant has under `key`."""

    column: str = attrs.field(metadata=_NAME)
    key: str = "tenant"


@attrs.frozen
class Join:
    """A row is the tenant's when the row of another table that it points to is."""

    column: str = attrs.field(metadata=_NAME)
    table: str = attrs.field(metadata=_NAME)
    """A configured table of the same source."""
    other_column: str = attrs.field(metadata=_NAME)


Filter = Everyone | Equality | Within | Join
FILTER_KINDS: Mapping[str, type] = {"everyone": Everyone, "equality": Equality, "in": Within, "join": Join}


@attrs.frozen
class TableConfig:
    """One base table. A table without a filter is hidden from everybody."""

    columns: Mapping[str, ColumnType]
    """What may be read; a filter's column need not be among them."""
    filter: Filter | None = None
    base: str = attrs.field(default="", metadata={"pattern": rf"|{NAME_PATTERN}", "means": "a plain name"})
    """Its name in the base schema where that is another one."""
    partition: str | None = None
    filter_type: ColumnType = ColumnType.INTEGER
    """Of the filter's column, where that is hidden."""


@attrs.frozen
class Credentials:
    """Where passwords are. Exactly one of the two is set."""

    folder: str = ""
    """One file of mode 0600 an account, `<account>.password`. `corral sql provision --apply` makes missing ones."""
    environment: str = attrs.field(default="", metadata={"pattern": f"|{ENVIRONMENT_PATTERN}"})
    """Prefix of variables: `<prefix><ACCOUNT>`, in capitals."""


@attrs.frozen
class Admin:
    """The account that provisions and verifies. The assistant never uses it."""

    user: str
    file: str = ""
    """Holds the password, mode 0600."""
    environment: str = attrs.field(default="", metadata={"pattern": f"|{ENVIRONMENT_PATTERN}"})


@attrs.frozen
class SqlLimits:
    """What a tenant's queries may cost. Each bound works without the others."""

    pool: int = attrs.field(default=4, metadata={"min": 1, "max": 64})
    """Connections a tenant. Queries a second <= pool / mean seconds a query."""
    waiting: int = attrs.field(default=32, metadata={"min": 0, "max": 10_000})
    """Queries that may wait for a connection; one more is refused as `overloaded`."""
    max_rows: int = attrs.field(default=1000, metadata={"min": 1, "max": 100_000})
    max_result_bytes: int = attrs.field(default=8 << 20, metadata={"min": 1024, "max": 256 << 20})
    statement_seconds: float = attrs.field(default=10.0, metadata={"above": 0, "max": 3600})
    """Enforced by the server."""
    deadline_seconds: float = attrs.field(default=12.0, metadata={"above": 0, "max": 3600})
    """Enforced by us: then the query is killed. Longer than `statement_seconds`, as the server's way is the gentler."""
    watchdog_seconds: float = attrs.field(default=15.0, metadata={"above": 0, "max": 3600})
    """What still runs then is killed by the watchdog."""
    max_join_size: int = attrs.field(default=10_000_000, metadata={"min": 0})
    """Rows that the server may expect to examine; 0 is no bound."""
    plan_gate: bool = True
    """Ask the explainer account for the plan, and refuse by its numbers."""
    max_scan_rows: int = attrs.field(default=2_000_000, metadata={"min": 1})
    """Of one table read in full."""
    max_examined_rows: int = attrs.field(default=10_000_000, metadata={"min": 1})
    """Of the whole plan."""
    require_partition_filter: bool = True
    """A partitioned table needs a condition on its partition column."""


@attrs.frozen
class DuckDbLimits:
    """What an embedded database may use."""

    memory_megabytes: int = attrs.field(default=256, metadata={"min": 32})
    threads: int = attrs.field(default=1, metadata={"min": 1, "max": 64})


@attrs.frozen
class SourceConfig:
    """One database server, or one folder of DuckDB files."""

    dialect: Dialect
    tables: Mapping[str, TableConfig]
    host: str = "127.0.0.1"
    port: int = attrs.field(default=3306, metadata={"min": 1, "max": 65535})
    socket: str = ""
    replica_host: str = ""
    """Queries go here when it is set; provisioning goes to `host`."""
    replica_port: int = attrs.field(default=3306, metadata={"min": 1, "max": 65535})
    tls_ca: str = ""
    """File with the CA of the server's certificate; empty is no TLS, which fits loopback and sockets alone."""
    schema: str = attrs.field(default="", metadata={"pattern": rf"|{NAME_PATTERN}"})
    """The base schema. Tenants cannot read it."""
    prefix: str = attrs.field(default="corral", metadata={"pattern": PREFIX_PATTERN})
    """Of every account and schema that is provisioned here."""
    account_host: str = attrs.field(default="%", metadata={"pattern": r"[A-Za-z0-9.%_:/-]{1,60}"})
    """The host part of provisioned accounts."""
    credentials: Credentials = Credentials()
    admin: Admin | None = None
    explainer: bool = True
    """False where the DBA refuses that account: max_join_size and time limits remain."""
    watchdog: bool = True
    """False where the DBA refuses PROCESS and CONNECTION ADMIN: own threads are still killed."""
    views: bool = True
    """False where the DBA refuses CREATE VIEW: a tenant then has a schema with his rows alone, or is the only one."""
    writes: bool = True
    """False where nothing may be written: rollups then need `rollup_folder`, or there are none."""
    rollup_folder: str = ""
    """With `writes = false`: DuckDB files with the rollups, one a tenant. They are a source `<this source>_rollups`."""
    time_zone: str = attrs.field(default="+00:00", metadata={"pattern": r"[+-]\d\d:\d\d"})
    folder: str = ""
    """Of DuckDB files, one a tenant: `<tenant>.duckdb`."""
    duckdb: DuckDbLimits = DuckDbLimits()
    limits: SqlLimits = SqlLimits()
    semantic_file: str = ""
    """The semantic layer file, beside this one unless it is an absolute path."""
    semantic: SemanticLayer = attrs.field(factory=SemanticLayer)
    """Its content, or a short one written here."""
    joins: tuple[tuple[str, str], ...] = ()
    """Pairs of `table.column` that belong together."""

    @property
    def rollups(self) -> Mapping[str, RollupConfig]:
        """The pre-aggregated tables that the semantic layer declares."""
        return self.semantic.rollups

    def rollup_table(self, name: str) -> TableConfig:
        """The table that a rollup makes, with the filter of the table that it is made of."""
        rollup = self.rollups[name]
        base = self.tables[rollup.table]
        columns = {"day": ColumnType.DATE}
        columns |= {column: base.columns[column] for column in rollup.dimensions}
        for measure, expression in rollup.measures.items():
            inner = re.fullmatch(r"(sum|min|max)\((\w+)\)", expression)
            columns[measure] = ColumnType.INTEGER if inner is None else base.columns[inner.group(2)]
        return TableConfig(columns=columns, filter=base.filter, filter_type=filter_column_type(base))

    def readable_tables(self) -> dict[str, TableConfig]:
        """Rollups first, as they answer soonest; then every table with a filter."""
        made = {name: self.rollup_table(name) for name in self.rollups} if self.writes else {}
        return made | {name: table for name, table in self.tables.items() if table.filter is not None}


@attrs.frozen
class TenantConfig:
    """One tenant: which rows are his."""

    keys: Mapping[str, tuple[str, ...]]
    """Values for filters, by key; numbers are written as text."""
    account: str = attrs.field(default="", metadata={"pattern": f"|{ACCOUNT_PATTERN}"})
    """The end of his account's name, where the id itself cannot be it."""
    sources: tuple[str, ...] = ()
    """Which he may use; none named is all."""
    schemas: Mapping[str, str] = attrs.field(factory=dict)
    """Source with `views = false` → the schema there that holds his rows and nobody else's."""
    hidden: tuple[str, ...] = ()
    """`table` or `table.column` that others see and he does not."""


@attrs.frozen
class SqlConfig:
    """The whole file."""

    sources: Mapping[str, SourceConfig]
    tenants: Mapping[str, TenantConfig]

    def account(self, tenant: TenantId) -> str:
        """The end of a tenant's account and schema names."""
        return self.tenants[tenant].account or tenant

    def tenants_of(self, source: str) -> tuple[TenantId, ...]:
        """Who uses a source, in the file's order."""
        return tuple(
            TenantId(name) for name, tenant in self.tenants.items() if not tenant.sources or source in tenant.sources
        )

    def own_schema(self, source: str, tenant: TenantId) -> str:
        """Where his tables are on a source without views; the base schema where he is the only one."""
        return self.tenants[tenant].schemas.get(source, self.sources[source].schema)

    def sources_of(self, tenant: TenantId) -> tuple[str, ...]:
        """What a tenant uses, in the file's order."""
        return tuple(name for name in self.sources if tenant in self.tenants_of(name))

    def catalog(self, source: str, tenant: TenantId) -> Catalog:
        """What a tenant's SQL may name on a source.

        Raises:
            CatalogError: the tenant has no table there.
        """
        config = self.sources[source]
        tables = tuple(
            Table(name, tuple(Column(column, kind) for column, kind in table.columns.items()), table.partition)
            for name, table in config.readable_tables().items()
        )
        names = {table.name for table in tables}
        joins = []
        for left, right in config.joins:
            (table, column), (other, other_column) = left.split("."), right.split(".")
            if table in names and other in names:
                joins.append(JoinKey(table, column, other, other_column))
        catalog = Catalog(tenant, config.dialect, tables, tuple(joins))
        hidden = [name for name in self.tenants[tenant].hidden if name.partition(".")[0] in names]
        return catalog.restricted_to(hidden=hidden) if hidden else catalog


def filter_column_type(table: TableConfig) -> ColumnType:
    """What the filter's column holds."""
    column = table.filter.column if isinstance(table.filter, Equality | Within) else ""
    return table.columns.get(column, table.filter_type)


def rollup_source(source: str) -> str:
    """What the source is called that holds the rollups of a source without writes."""
    return f"{source}_rollups"


def with_rollup_sources(config: SqlConfig) -> SqlConfig:
    """The configuration with a DuckDB source after each source whose rollups are kept in a folder.

    Each has its owner's tenants and limits. The configuration must have no problems.
    """
    sources: dict[str, SourceConfig] = {}
    for name, source in config.sources.items():
        sources[name] = source
        if keeps_rollup_files(source):
            sources[rollup_source(name)] = SourceConfig(
                dialect=Dialect.DUCKDB,
                tables={rollup: source.rollup_table(rollup) for rollup in source.rollups},
                folder=source.rollup_folder,
                duckdb=source.duckdb,
                limits=source.limits,
            )
    tenants = {
        name: attrs.evolve(
            tenant,
            sources=tuple(
                one
                for used in tenant.sources
                for one in ((used, rollup_source(used)) if keeps_rollup_files(config.sources[used]) else (used,))
            ),
        )
        for name, tenant in config.tenants.items()
    }
    return SqlConfig(sources, tenants)


def keeps_rollup_files(source: SourceConfig) -> bool:
    """True where a source's rollups are DuckDB files, as nothing may be written on the server."""
    return bool(source.rollup_folder and source.rollups) and not source.writes
