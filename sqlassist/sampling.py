"""The query for the values of a dimension that may be sampled: the most frequent first."""

from sqlassist.catalog import Dialect
from sqlassist.shapes import quoted


def sampling_sql(place: str, dialect: Dialect, most: int) -> str:
    """SQL for the guard, like anybody's.

    Args:
        place: `table.column`.
        dialect: Of the source.
        most: How many values.
    """
    table, _, column = place.partition(".")
    name = quoted(column, dialect)
    return (
        f"SELECT {name} AS {quoted('value', dialect)}, COUNT(*) AS {quoted('uses', dialect)}"
        f" FROM {quoted(table, dialect)} GROUP BY 1 ORDER BY 2 DESC LIMIT {most}"
    )
