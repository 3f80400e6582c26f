"""What one tenant may name: tables, their columns and types, and the joins between them. Nothing else exists for it."""

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

import attrs

MAX_HINTS = 3


class CatalogError(ValueError):
    """A catalog contradicts itself, or a schema file is not one. The text says where and what to change."""


class Dialect(StrEnum):
    """Which SQL the database speaks."""

    MYSQL = "mysql"
    MARIADB = "mariadb"
    DUCKDB = "duckdb"

    @property
    def is_mysql_like(self) -> bool:
        """True for MySQL and MariaDB, which share lexical rules, quoting and most functions."""
        return self is not Dialect.DUCKDB


class ColumnType(StrEnum):
    """What a column holds, as far as grammar and hints care."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    DATE = "date"
    DATETIME = "datetime"
    BOOLEAN = "boolean"
    OTHER = "other"

    @property
    def is_numeric(self) -> bool:
        """True where sums make sense."""
        return self in (ColumnType.INTEGER, ColumnType.NUMBER)

    @property
    def is_temporal(self) -> bool:
        """True where a value is a day or a moment."""
        return self in (ColumnType.DATE, ColumnType.DATETIME)


@attrs.frozen
class Column:
    """One column that the tenant may read."""

    name: str
    """In the catalog's spelling."""
    type: ColumnType = ColumnType.OTHER


@attrs.frozen
class Table:
    """One table or view that the tenant may read. Columns that are hidden from the tenant are not in it."""

    name: str
    """In the catalog's spelling: servers on Linux tell `Dogs` from `dogs`, so this is what regenerated SQL says."""
    columns: tuple[Column, ...]
    partition: str | None = None
    """The column that the table is partitioned by: queries should restrict it."""
    _by_name: dict[str, Column] = attrs.field(init=False, repr=False, eq=False, alias="_by_name")

    def __attrs_post_init__(self) -> None:
        by_name = {column.name.lower(): column for column in self.columns}
        if len(by_name) != len(self.columns):
            raise CatalogError(f"table {self.name!r} has two columns of one name: spell them apart or hide one")
        if not by_name:
            raise CatalogError(f"table {self.name!r} has no column that may be read: hide the table")
        if self.partition is not None and self.partition.lower() not in by_name:
            raise CatalogError(
                f"table {self.name!r} is partitioned by {self.partition!r}, which is none of its columns"
            )
        object.__setattr__(self, "_by_name", by_name)

    def column(self, name: str) -> Column | None:
        """Find a column, whatever its case."""
        return self._by_name.get(name.lower())


@attrs.frozen
class JoinKey:
    """Two columns that belong together: an equality between them is a join that makes sense."""

    table: str
    column: str
    other_table: str
    other_column: str


@attrs.frozen
class Catalog:
    """Everything that one tenant's SQL may name. Hidden tables and columns are absent, so nothing can leak them."""

    name: str
    """The tenant's, or the database's."""
    dialect: Dialect
    tables: tuple[Table, ...]
    joins: tuple[JoinKey, ...] = ()
    _by_name: dict[str, Table] = attrs.field(init=False, repr=False, eq=False, alias="_by_name")

    def __attrs_post_init__(self) -> None:
        by_name = {table.name.lower(): table for table in self.tables}
        if len(by_name) != len(self.tables):
            raise CatalogError(f"catalog {self.name!r} has two tables of one name but for case: rename one")
        object.__setattr__(self, "_by_name", by_name)
        for key in self.joins:
            for table, column in ((key.table, key.column), (key.other_table, key.other_column)):
                found = self.table(table)
                if found is None or found.column(column) is None:
                    raise CatalogError(f"catalog {self.name!r}: a join names {table}.{column}, which is not in it")

    def table(self, name: str) -> Table | None:
        """Find a table, whatever its case."""
        return self._by_name.get(name.lower())

    @cached_property
    def version(self) -> str:
        """Twelve hex digits that change with anything that SQL could name: part of cache keys and of audit lines."""
        text = json.dumps(attrs.asdict(self, filter=_is_public), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def restricted_to(self, tables: Iterable[str] | None = None, hidden: Iterable[str] = ()) -> "Catalog":
        """A smaller catalog.

        Args:
            tables: Names of tables to keep; None keeps all.
            hidden: `table` or `table.column` to leave out. Joins over what is left out go with it.

        Raises:
            CatalogError: a name that is not in the catalog: hiding it would hide nothing.
        """
        kept = {table.name for table in self.tables} if tables is None else {self._named(name).name for name in tables}
        without: dict[str, set[str]] = {}
        for name in hidden:
            table_name, _, column_name = name.partition(".")
            table = self._named(table_name)
            if not column_name:
                kept.discard(table.name)
                continue
            column = table.column(column_name)
            if column is None:
                raise CatalogError(f"catalog {self.name!r}: {name!r} is to be hidden, but there is no such column")
            without.setdefault(table.name, set()).add(column.name)
        made = tuple(_without(t, without.get(t.name, set())) for t in self.tables if t.name in kept)
        joins = tuple(key for key in self.joins if _joins_only(key, made))
        return Catalog(self.name, self.dialect, made, joins)

    def _named(self, name: str) -> Table:
        table = self.table(name)
        if table is None:
            raise CatalogError(f"catalog {self.name!r} has no table {name!r}{did_you_mean(name, self.table_names())}")
        return table

    def table_names(self) -> list[str]:
        """In the catalog's order and spelling."""
        return [table.name for table in self.tables]

    def tables_with(self, column: str) -> list[str]:
        """`table.column` of every column of this name."""
        found = ((table, table.column(column)) for table in self.tables)
        return [f"{table.name}.{hit.name}" for table, hit in found if hit is not None]


def _is_public(attribute: "attrs.Attribute[Any]", _: Any) -> bool:
    return not attribute.name.startswith("_")


def _without(table: Table, names: set[str]) -> Table:
    columns = tuple(column for column in table.columns if column.name not in names)
    partition = table.partition
    if partition is not None and all(column.name.lower() != partition.lower() for column in columns):
        partition = None
    return Table(table.name, columns, partition)


def _joins_only(key: JoinKey, tables: tuple[Table, ...]) -> bool:
    by_name = {table.name.lower(): table for table in tables}
    ends = ((key.table, key.column), (key.other_table, key.other_column))
    return all(t.lower() in by_name and by_name[t.lower()].column(c) is not None for t, c in ends)


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that look like `name`, best first."""
    by_lower = {entry.lower(): entry for entry in known}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=MAX_HINTS, cutoff=0.6)
    return [by_lower[entry] for entry in near]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`, did you mean 'x'?` where some known name looks like it; else nothing."""
    near = nearest(name, known)
    return f", did you mean {' or '.join(repr(entry) for entry in near)}?" if near else ""


_SPIDER_TYPES = {
    "number": ColumnType.NUMBER,
    "text": ColumnType.TEXT,
    "time": ColumnType.DATETIME,
    "boolean": ColumnType.BOOLEAN,
}


def catalog_for_schema(schema: Mapping[str, Any], dialect: Dialect) -> Catalog:
    """The catalog of one parsed line `{"db": ..., "tables": {table: [[column, type], ...]}}`.

    Columns of the same name and type in two tables are taken for join keys.

    Raises:
        CatalogError: the value does not have this form.
    """
    name, tables = schema.get("db"), schema.get("tables")
    if not isinstance(name, str) or not isinstance(tables, Mapping):
        raise CatalogError('a schema looks like {"db": "shop", "tables": {"items": [["id", "number"]]}}')
    made = tuple(Table(str(table), tuple(_columns(name, table, columns))) for table, columns in tables.items())
    return Catalog(name, dialect, made, tuple(_shared_names(made)))


def _columns(database: str, table: str, columns: Any) -> Iterator[Column]:
    if not isinstance(columns, list):
        raise CatalogError(f"schema {database!r}, table {table!r}: columns are a list of [name, type]")
    for entry in columns:
        match entry:
            case [str(name), str(kind)]:
                known = kind in ColumnType.__members__.values()
                yield Column(name, ColumnType(kind) if known else _SPIDER_TYPES.get(kind, ColumnType.OTHER))
            case _:
                raise CatalogError(f"schema {database!r}, table {table!r}: {entry!r} is no [name, type]")


def _shared_names(tables: tuple[Table, ...]) -> Iterator[JoinKey]:
    for index, table in enumerate(tables):
        for other in tables[index + 1 :]:
            for column in table.columns:
                twin = other.column(column.name)
                is_key = column.name.lower().endswith("id") or column.name.lower().endswith("code")
                if twin is not None and twin.type is column.type and is_key:
                    yield JoinKey(table.name, column.name, other.name, twin.name)
