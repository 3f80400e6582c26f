"""A semantic layer beside the data that it is about, as a tenant's own account sees it: one query a table and key."""

import datetime as dt
from collections.abc import Awaitable, Callable, Iterator, Mapping

import attrs

from runtime.ids import TenantId
from sqlassist.catalog import Catalog, Column, ColumnType, Table
from sqlassist.config import SqlConfig
from sqlassist.execute.errors import DatabaseDenied
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.guard.limits import Limits
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet, ValueType
from sqlassist.sampling import DAYS_LOOKED_AT, rows_between, sampling_sql
from sqlassist.scope import layer_for
from sqlassist.semantic_draft import Magnitude, SeenTable, is_time_candidate
from sqlassist.shapes import quoted

MOST_VALUES = 50  # of one dimension: more are no enumeration
Run = Callable[[str, TenantId, CheckedQuery], Awaitable[ResultSet | Refusal]]
"""Runs a query on a source as a tenant. Raises `DatabaseError`."""

_FITS: Mapping[ColumnType, frozenset[ValueType]] = {
    ColumnType.INTEGER: frozenset({ValueType.INTEGER, ValueType.BOOLEAN, ValueType.DECIMAL}),
    ColumnType.NUMBER: frozenset({ValueType.INTEGER, ValueType.DECIMAL, ValueType.FLOAT, ValueType.BOOLEAN}),
    ColumnType.TEXT: frozenset({ValueType.TEXT, ValueType.OTHER}),
    ColumnType.DATE: frozenset({ValueType.DATE}),
    ColumnType.DATETIME: frozenset({ValueType.DATETIME}),
    ColumnType.BOOLEAN: frozenset({ValueType.BOOLEAN, ValueType.INTEGER}),
}


@attrs.frozen
class LiveProblem:
    """Something that the data do not bear out."""

    source: str
    tenant: TenantId
    message: str
    is_certain: bool = True
    """False: it could not be looked at."""

    def __str__(self) -> str:
        return f"{self.source} as {self.tenant}: {self.message}"


async def live_problems(config: SqlConfig, source: str, tenant: TenantId, run: Run) -> list[LiveProblem]:
    """What is wrong with the tables, columns, types and keys of a source, as a tenant sees them.

    Raises:
        DatabaseError: the source cannot be asked at all.
    """
    catalog = config.catalog(source, tenant)
    found = [
        LiveProblem(source, tenant, message, is_certain=is_certain)
        for table in catalog.tables
        for message, is_certain in await _table_problems(table, catalog, source, tenant, run)
    ]
    layer = layer_for(config.sources[source].semantic, catalog)
    referred = {layer.references[place] for place in layer.references}
    for name, entity in layer.entities.items():
        if name not in referred or catalog.table(entity.table) is None:
            continue
        key, table = quoted(entity.key, catalog.dialect), quoted(entity.table, catalog.dialect)
        place = f"{entity.table}.{entity.key}"
        sql = f"SELECT COUNT({key}) AS a, COUNT(DISTINCT {key}) AS b FROM {table}"
        try:
            result = await _asked(sql, catalog, source, tenant, run)
        except DatabaseDenied:
            continue  # told of the table already
        if isinstance(result, Refusal):
            found.append(LiveProblem(source, tenant, f"{place} was not looked at: {result.hint}", is_certain=False))
            continue
        rows, keys = (int(str(cell)) for cell in result.rows[0])
        if rows != keys:
            text = f"{place} is no key of entity {name!r}: {rows} rows have {keys} values. Joins to it count rows twice"
            found.append(LiveProblem(source, tenant, text))
    return found


async def _table_problems(
    table: Table, catalog: Catalog, source: str, tenant: TenantId, run: Run
) -> list[tuple[str, bool]]:
    try:
        result = await _asked(_first_row(table, table.columns, catalog), catalog, source, tenant, run)
    except DatabaseDenied as error:  # what a view is made of is gone, or the account lacks a grant
        advice = "mend its columns in the configuration, then run `corral sql provision`"
        return [(f"table {table.name} cannot be read: {error.reason}: {advice}", True)]
    if isinstance(result, ResultSet):
        return [(text, True) for text in _type_problems(table, table.columns, result)]
    if result.code not in ("unknown_column", "unknown_table"):
        return [(f"table {table.name} was not looked at: {result.hint}", False)]
    found = []
    for column in table.columns:
        alone = await _asked(_first_row(table, (column,), catalog), catalog, source, tenant, run)
        if isinstance(alone, ResultSet):
            found += [(text, True) for text in _type_problems(table, (column,), alone)]
        else:
            found.append((f"there is no {table.name}.{column.name}: {alone.code}", True))
    return found


def _first_row(table: Table, columns: tuple[Column, ...], catalog: Catalog) -> str:
    """Its columns' types are known without any row, so that of a partitioned table a day without rows will do."""
    names = ", ".join(quoted(column.name, catalog.dialect) for column in columns)
    partition = rows_between(table, catalog.dialect, dt.date(1970, 1, 1), dt.date(1970, 1, 2))
    where = f" WHERE {partition}" if partition else ""
    return f"SELECT {names} FROM {quoted(table.name, catalog.dialect)}{where} LIMIT 1"


def _type_problems(table: Table, columns: tuple[Column, ...], result: ResultSet) -> Iterator[str]:
    for column, seen in zip(columns, result.columns, strict=True):
        fitting = _FITS.get(column.type)
        if fitting is not None and seen.type not in fitting:
            yield f"{table.name}.{column.name} is configured as {column.type}, but holds {seen.type}"


async def sampled(
    config: SqlConfig, source: str, tenant: TenantId, today: dt.date, run: Run
) -> dict[str, tuple[str, ...] | Refusal]:
    """Frequent values of every dimension that is marked enumerable.

    Args:
        config: The databases.
        source: Which of them.
        tenant: As whom.
        today: Of tables that are partitioned by time, the last month is looked at; the last year where that is empty.
        run: Runs a query.

    Returns:
        Dimension → its values, the most frequent first; or why they could not be had.
    """
    catalog = config.catalog(source, tenant)
    found: dict[str, tuple[str, ...] | Refusal] = {}
    for name, dimension in layer_for(config.sources[source].semantic, catalog).dimensions.items():
        if not dimension.enumerable:
            continue
        result = await _frequent(dimension.column, catalog, source, tenant, today, run)
        if isinstance(result, Refusal):
            found[name] = result
        elif len(result.rows) >= MOST_VALUES:
            found[name] = Refusal("too_many_values", name, f"it has {MOST_VALUES} values or more: it is no enumeration")
        else:
            found[name] = tuple(str(row[0]) for row in result.rows if row[0] is not None)
    return found


async def _frequent(
    place: str, catalog: Catalog, source: str, tenant: TenantId, today: dt.date, run: Run
) -> ResultSet | Refusal:
    table = catalog.table(place.partition(".")[0])
    assert table is not None, "the layer was cut to the catalog"
    result: ResultSet | Refusal = Refusal("no_rows", place, "it has no rows")
    for days in DAYS_LOOKED_AT if table.partition is not None else (0,):
        start, end = today - dt.timedelta(days=days), today + dt.timedelta(days=1)
        where = rows_between(table, catalog.dialect, start, end)
        sql = sampling_sql(place, catalog.dialect, MOST_VALUES, where)
        result = await _asked(sql, catalog, source, tenant, run, MOST_VALUES)
        if isinstance(result, Refusal) or result.rows:
            break
    return result


async def magnitudes(
    config: SqlConfig, source: str, tenant: TenantId, seen: Mapping[str, SeenTable], run: Run
) -> dict[str, Magnitude]:
    """The largest values of columns of integers that look like moments: seconds and milliseconds differ by far."""
    catalog = config.catalog(source, tenant)
    found = {}
    for table in catalog.tables:
        for column in table.columns:
            own = seen.get(table.name, SeenTable()).columns.get(column.name)
            if not is_time_candidate(column.name, own.comment if own is not None else "", column.type):
                continue
            name = quoted(column.name, catalog.dialect)
            sql = f"SELECT MAX({name}) AS a FROM {quoted(table.name, catalog.dialect)}"
            result = await _asked(sql, catalog, source, tenant, run)
            if isinstance(result, ResultSet) and result.rows[0][0] is not None:
                found[f"{table.name}.{column.name}"] = Magnitude(int(float(str(result.rows[0][0]))))
    return found


async def _asked(
    sql: str, catalog: Catalog, source: str, tenant: TenantId, run: Run, most: int = 1
) -> ResultSet | Refusal:
    query = check(sql, catalog, Limits(most))
    return query if isinstance(query, Refusal) else await run(source, tenant, query)
