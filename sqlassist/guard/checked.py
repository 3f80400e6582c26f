"""What the guard hands out: SQL that passed every check. Nothing else in the project can be executed."""

from typing import Any, NoReturn, final

import attrs

from sqlassist.catalog import Dialect


class _Sealed(type):
    """A class that calling does not make: only `guard.check` knows how."""

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{cls.__name__} has no public constructor: guard.check makes one of a text that it accepts")

    def _make(cls, **values: Any) -> Any:
        return super().__call__(**values)


@final
@attrs.frozen(kw_only=True)
class CheckedQuery(metaclass=_Sealed):
    """A statement that can read this tenant's tables and do nothing else.

    It is worth nothing in another process: it cannot be pickled, and the executor makes its own.
    """

    sql: str
    """The regenerated text. Running the guard on it gives the same text again."""
    source: str
    """What was written, for the audit and the diff. Never executed."""
    dialect: Dialect
    catalog_version: str
    tables: tuple[str, ...]
    """The tenant's tables that are read."""
    columns: tuple[str, ...]
    """Headings of the answer; empty texts where the server chooses one."""
    max_rows: int
    """The answer has at most as many rows."""
    is_clamped: bool
    """True where the guard set the LIMIT: an answer of exactly `max_rows` rows may be a part."""
    bounds: tuple[str, ...]
    """What bounds its cost: `limit` and `join_equality` are in the text; the executor must see to `row_gate`,
    `group_concat_max_len` and `statement_time`, or refuse."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a CheckedQuery does not leave its process: send the SQL, and check it there")
