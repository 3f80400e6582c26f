"""Asks a database what it says of its own tables: comments, keys and references. Rows are never read here."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from runtime.ids import TenantId
from sqlassist.config import SourceConfig
from sqlassist.execute.errors import DatabaseLost, ServerUnavailable
from sqlassist.semantic_draft import SeenColumn, SeenTable

if TYPE_CHECKING:
    from sqlassist.administration import Connection

_COMMENTS = (
    "SELECT table_name, column_name, column_comment FROM information_schema.columns WHERE table_schema = %s"
    " ORDER BY table_name, ordinal_position"
)
_TABLES = "SELECT table_name, table_comment FROM information_schema.tables WHERE table_schema = %s"
_KEYS = (
    "SELECT table_name, MIN(column_name) FROM information_schema.statistics WHERE table_schema = %s"
    " AND non_unique = 0 GROUP BY table_name, index_name HAVING COUNT(*) = 1"
)
_REFERENCES = (
    "SELECT table_name, MIN(column_name), MIN(referenced_table_name), MIN(referenced_column_name)"
    " FROM information_schema.key_column_usage WHERE table_schema = %s AND referenced_table_schema = %s"
    " GROUP BY table_name, constraint_name HAVING COUNT(*) = 1"
)


def look_at_server(source: SourceConfig) -> dict[str, SeenTable]:
    """The base tables of a server, by the names of the configuration, as its administrator sees them. Blocks.

    Raises:
        ServerUnavailable: it cannot be asked.
    """
    try:
        from sqlassist.administration import open_admin  # noqa: PLC0415  # an extra, which DuckDB files do without
    except ModuleNotFoundError as error:
        raise ServerUnavailable(f"a server needs more packages: pip install 'corral[sql]' ({error})") from error
    with open_admin(source) as connection:
        schema = source.schema
        return _seen(
            source,
            _rows(connection, _TABLES, schema),
            _rows(connection, _COMMENTS, schema),
            _rows(connection, _KEYS, schema),
            _rows(connection, _REFERENCES, schema, schema),
        )


def _rows(connection: "Connection[Any]", sql: str, *arguments: str) -> list[tuple[str, ...]]:
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, arguments)
            return [tuple(str(cell or "") for cell in row) for row in cursor.fetchall()]
    except Exception as error:
        raise ServerUnavailable(f"information_schema cannot be read: {error}") from error


def look_at_file(name: str, source: SourceConfig, tenant: TenantId) -> dict[str, SeenTable]:
    """The tables of a tenant's DuckDB file. Blocks.

    Raises:
        DatabaseLost: it cannot be opened.
    """
    path = Path(source.folder) / f"{tenant}.duckdb"
    if not path.is_file():
        raise DatabaseLost(f"there is no file {path}", source=name)
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            tables = connection.execute("SELECT table_name, comment FROM duckdb_tables()").fetchall()
            comments = connection.execute(
                "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
            ).fetchall()
            constraints = connection.execute(
                "SELECT table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names"
                " FROM duckdb_constraints()"
            ).fetchall()
    except duckdb.Error as error:
        raise DatabaseLost(f"{path} cannot be read: {error}", source=name) from error
    alone = [row for row in constraints if len(row[2]) == 1]
    return _seen(
        source,
        [(row[0], row[1] or "") for row in tables],
        [(row[0], row[1], row[2] or "") for row in comments],
        [(row[0], row[2][0]) for row in alone if row[1] in ("PRIMARY KEY", "UNIQUE")],
        [(row[0], row[2][0], row[3], row[4][0]) for row in alone if row[1] == "FOREIGN KEY"],
    )


def _seen(
    source: SourceConfig,
    tables: Iterable[tuple[str, ...]],
    comments: Iterable[tuple[str, ...]],
    keys: Iterable[tuple[str, ...]],
    references: Iterable[tuple[str, ...]],
) -> dict[str, SeenTable]:
    """By the names that the configuration gives to base tables."""
    names: Mapping[str, str] = {config.base or name: name for name, config in source.tables.items()}
    unique = set(keys)
    goals = {(table, column): (goal, key) for table, column, goal, key in references}
    columns: dict[str, dict[str, SeenColumn]] = {}
    for table, column, comment in comments:
        goal, key = goals.get((table, column), ("", ""))
        refers_to = f"{names[goal]}.{key}" if goal in names else ""
        columns.setdefault(table, {})[column] = SeenColumn(comment, (table, column) in unique, refers_to)
    return {names[table]: SeenTable(comment, columns.get(table, {})) for table, comment in tables if table in names}
