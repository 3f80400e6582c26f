"""What a FROM clause may look like for a tenant: one table, or tables joined along the catalog's join keys.

The decoding grammars give each shape rules of its own: that is how columns are tied to the tables that are there.
"""

from collections.abc import Iterator

import attrs

from sqlassist.catalog import Catalog, Column, Dialect, JoinKey, Table

MAX_SHAPES = 60


@attrs.frozen
class ShapeColumn:
    """One column as SQL of this shape writes it."""

    sql: str
    label: str
    """`table.column`, as JSON writes it."""
    column: Column
    table: Table


@attrs.frozen
class Shape:
    """One FROM clause with the columns that it offers."""

    tables: tuple[Table, ...]
    sql: str
    """From behind the word FROM."""
    label: str
    """`payments`, or `payments+players` where the second is joined."""
    columns: tuple[ShapeColumn, ...]


@attrs.frozen
class Shapes:
    """All shapes of a catalog, the simplest first."""

    kept: tuple[Shape, ...]
    dropped: int
    """Joins that the limit left out: a grammar must stay small enough to compile while somebody waits."""


def shapes_for(catalog: Catalog, limit: int = MAX_SHAPES) -> Shapes:
    """Single tables, then pairs, then chains of three. Single tables are never dropped."""
    singles = [_single(table, catalog.dialect) for table in catalog.tables]
    joined = [*_pairs(catalog), *_chains(catalog)]
    unique = list({shape.label: shape for shape in joined}.values())
    room = max(0, limit - len(singles))
    return Shapes((*singles, *unique[:room]), max(0, len(unique) - room))


def quoted(name: str, dialect: Dialect) -> str:
    """An identifier in quotes."""
    mark = "`" if dialect.is_mysql_like else '"'
    return mark + name.replace(mark, mark * 2) + mark


def _single(table: Table, dialect: Dialect) -> Shape:
    columns = tuple(
        ShapeColumn(quoted(column.name, dialect), f"{table.name}.{column.name}", column, table)
        for column in table.columns
    )
    return Shape((table,), quoted(table.name, dialect), table.name, columns)


def _joined(catalog: Catalog, first: Table, steps: tuple[tuple[int, JoinKey], ...]) -> Shape:
    """`steps` are (index of the table that is joined to, key from that table to the new one)."""
    dialect = catalog.dialect
    tables = [first]
    sql = f"{quoted(first.name, dialect)} AS {_alias(1, dialect)}"
    for index, key in steps:
        table = catalog.table(key.other_table)
        assert table is not None
        tables.append(table)
        new, old = _alias(len(tables), dialect), _alias(index + 1, dialect)
        condition = f"{old}.{quoted(key.column, dialect)} = {new}.{quoted(key.other_column, dialect)}"
        sql += f" JOIN {quoted(table.name, dialect)} AS {new} ON {condition}"
    columns = tuple(
        ShapeColumn(
            f"{_alias(number, dialect)}.{quoted(column.name, dialect)}", f"{table.name}.{column.name}", column, table
        )
        for number, table in enumerate(tables, start=1)
        for column in table.columns
    )
    return Shape(tuple(tables), sql, "+".join(table.name for table in tables), columns)


def _alias(number: int, dialect: Dialect) -> str:
    return quoted(f"t{number}", dialect)


def _pairs(catalog: Catalog) -> Iterator[Shape]:
    for key in catalog.joins:
        first = catalog.table(key.table)
        if first is not None and key.table != key.other_table:
            yield _joined(catalog, first, ((0, key),))


def _chains(catalog: Catalog) -> Iterator[Shape]:
    both_ways = [*catalog.joins, *(JoinKey(k.other_table, k.other_column, k.table, k.column) for k in catalog.joins)]
    for middle in catalog.tables:
        keys = [key for key in both_ways if key.table == middle.name]
        for index, left in enumerate(keys):
            for right in keys[index + 1 :]:
                if len({middle.name, left.other_table, right.other_table}) == 3:
                    yield _joined(catalog, middle, ((0, left), (0, right)))
