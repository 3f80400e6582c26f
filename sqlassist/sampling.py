"""Queries for what a question is read with: frequent values of a dimension, and how far a rollup goes."""

import datetime as dt

from sqlassist.catalog import Dialect, Table
from sqlassist.shapes import quoted

DAYS_LOOKED_AT = (31, 366)
"""Of a partitioned table: a month, and a year where that has no rows."""


def sampling_sql(place: str, dialect: Dialect, most: int, where: str = "") -> str:
    """SQL for the guard, like anybody's.

    Args:
        place: `table.column`.
        dialect: Of the source.
        most: How many values.
        where: Which rows are looked at; empty is all of them.
    """
    table, _, column = place.partition(".")
    name = quoted(column, dialect)
    return (
        f"SELECT {name} AS {quoted('value', dialect)}, COUNT(*) AS {quoted('uses', dialect)}"
        f" FROM {quoted(table, dialect)}{f' WHERE {where}' if where else ''} GROUP BY 1 ORDER BY 2 DESC LIMIT {most}"
    )


def last_day_sql(rollup: str, dialect: Dialect) -> str:
    """SQL for the last day that a rollup holds; NULL where it is empty."""
    return f"SELECT MAX({quoted('day', dialect)}) AS {quoted('day', dialect)} FROM {quoted(rollup, dialect)}"


def rows_between(table: Table, dialect: Dialect, start: dt.date, end: dt.date) -> str:
    """A condition on the column that a table is partitioned by; empty where it is not."""
    if table.partition is None:
        return ""
    column = table.column(table.partition)
    name = quoted(table.partition, dialect)
    if column is not None and column.type.is_numeric:  # moments since 1970, in seconds or finer
        return f"{name} >= {_seconds(start)} AND {name} < {_seconds(end) * 1_000_000}"
    return f"{name} >= '{start}' AND {name} < '{end}'"


def _seconds(day: dt.date) -> int:
    return (day - dt.date(1970, 1, 1)).days * 86_400
