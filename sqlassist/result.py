"""The answer of a database as values that JSON keeps without loss, whatever the database."""

from collections.abc import Mapping
from enum import StrEnum

import attrs

MAX_SAFE_INTEGER = 2**53 - 1  # beyond it a reader that keeps numbers as doubles would see another one

Cell = str | int | float | bool | None


class ValueType(StrEnum):
    """How the cells of a column are to be read."""

    INTEGER = "integer"
    """A number; as text where it is beyond ±(2^53 - 1)."""
    DECIMAL = "decimal"
    """Text with every digit that the database gave."""
    FLOAT = "float"
    """A number; `NaN`, `Infinity` and `-Infinity` as text."""
    BOOLEAN = "boolean"
    TEXT = "text"
    DATE = "date"
    """`2026-01-31`"""
    DATETIME = "datetime"
    """`2026-01-31T12:00:00.123456`, in the session's time zone, which the configuration pins."""
    TIME = "time"
    """`[-]HHH:MM:SS[.ffffff]`: MySQL's TIME goes beyond a day."""
    BYTES = "bytes"
    """Base64."""
    OTHER = "other"
    """Text, as the database writes it."""


@attrs.frozen
class ResultColumn:
    """One column of an answer."""

    name: str
    type: ValueType


@attrs.frozen
class PlanNumbers:
    """What the database expects a query to cost. Numbers only: texts of a plan show what the tenant may not see."""

    examined_rows: int
    """Estimated, of the whole plan."""
    scanned_rows: int
    """Of the largest table that is read in full; 0 where none is."""
    full_scans: int
    """How many tables are read in full."""

    def as_json(self) -> Mapping[str, int]:
        """For the audit."""
        return attrs.asdict(self)


@attrs.frozen
class ResultSet:
    """Rows, and what getting them took."""

    columns: tuple[ResultColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_truncated: bool
    """There may be more rows: the guard's LIMIT, or the cap on rows or bytes, was reached."""
    seconds: float
    """From the request to the last row, waiting for a connection included."""
    plan: PlanNumbers | None = None
    source: str = ""
