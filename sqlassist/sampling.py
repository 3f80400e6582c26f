"""Queries for what a question is read with: frequent values of a dimension, and how far a rollup goes."""

from sqlassist.catalog import Dialect
from sqlassist.shapes import quoted


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
