"""Rows of an answer as a file for a spreadsheet: CSV or XLSX, in which no text is a formula. No disk is used."""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import attrs
import xlsxwriter  # type: ignore[import-untyped]

MAX_ROWS = 50_000
MAX_COLUMNS = 500
MAX_CELLS = 200_000
MAX_TEXT = 32_767  # characters of a cell, as Excel has it
MAX_NAME = 80
MOST_EXACT = 10**15  # a spreadsheet rounds what is longer
_FORMULA = re.compile("[=+\\-@\t\r\n＝＋－＠]")  # also the wide ones, which some programs take for the others
_NUMBER = re.compile(r"[-+]?[0-9]{1,15}(\.[0-9]{1,15})?")
_UNSAFE = frozenset("/\\:*?\"<>|%;'")


class TableFormat(StrEnum):
    """Which file."""

    CSV = "csv"
    XLSX = "xlsx"

    @property
    def media_type(self) -> str:
        """Of the file."""
        if self is TableFormat.CSV:
            return "text/csv; charset=utf-8"
        return "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


class TableWrong(Exception):
    """It is no table of an answer; the text says what is wrong with it."""


@attrs.frozen
class Table:
    """What is written."""

    format: TableFormat
    name: str
    """Of the file, without its suffix."""
    columns: tuple[str, ...]
    types: tuple[str, ...]
    """Of the columns, as the assistant tells them; empty: not known. Those of `decimal` are numbers as texts."""
    rows: Sequence[Sequence[Any]]


def parse_table(body: Mapping[str, Any]) -> Table:
    """The table of a request.

    Raises:
        TableWrong: it is none, or too large.
    """
    unknown = sorted(set(body) - {"format", "columns", "types", "rows", "name"})
    if unknown:
        raise TableWrong(f"there is no {unknown[0][:40]!r} in a table")
    if body.get("format") not in [one.value for one in TableFormat]:
        raise TableWrong(f"'format' is one of {', '.join(TableFormat)}")
    columns = _texts(body.get("columns"), "columns")
    types = _texts(body.get("types") or [], "types")
    if not columns or len(columns) > MAX_COLUMNS:
        raise TableWrong(f"there must be 1 to {MAX_COLUMNS} columns")
    if types and len(types) != len(columns):
        raise TableWrong("there must be as many types as columns")
    rows, name = body.get("rows"), body.get("name", "")
    if not isinstance(rows, list) or len(rows) > MAX_ROWS or len(rows) * len(columns) > MAX_CELLS:
        raise TableWrong(f"'rows' must be a list of at most {MAX_ROWS} rows and {MAX_CELLS} cells")
    if not isinstance(name, str):
        raise TableWrong("'name' must be a text")
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(columns):
            raise TableWrong(f"row {number} must be a list of {len(columns)} cells")
        for cell in row:
            _check_cell(cell, number)
    return Table(TableFormat(body["format"]), file_name(name), columns, types, rows)


def file_name(text: str) -> str:
    """A name that every file system takes, of whatever text; `answer` where nothing is left."""
    kept = "".join(one if one.isprintable() and one not in _UNSAFE else " " for one in _clean(text))
    return " ".join(kept.split())[:MAX_NAME].strip(" .") or "answer"


def disposition(table: Table) -> str:
    """The header that gives the file its name (RFC 6266), for old clients in ASCII."""
    name = f"{table.name}.{table.format}"
    plain = name if name.isascii() else f"answer.{table.format}"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def write_table(table: Table) -> bytes:
    """The file. Takes seconds for the largest: for a worker thread."""
    return _csv(table) if table.format is TableFormat.CSV else _xlsx(table)


def _csv(table: Table) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([_plain(name) for name in table.columns])
    writer.writerows([_plain(cell) for cell in row] for row in table.rows)
    return text.getvalue().encode("utf-8-sig")  # the mark tells Excel that Chinese is UTF-8


def _plain(cell: Any) -> Any:
    """A cell of a CSV: a text that a spreadsheet would take for a formula begins with an apostrophe."""
    if not isinstance(cell, str):
        return cell
    text = _clean(cell)
    is_formula = _FORMULA.match(text.lstrip(" ")) is not None and _NUMBER.fullmatch(text) is None
    return f"'{text}" if is_formula else text


def _xlsx(table: Table) -> bytes:
    out = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(out, options) as book:
        bold, quoted = book.add_format({"bold": True}), book.add_format({"quote_prefix": True})
        sheet = book.add_worksheet()
        sheet.freeze_panes(1, 0)
        for index, name in enumerate(table.columns):
            sheet.write_string(0, index, _clean(name), bold)
        decimals = {index for index, kind in enumerate(table.types) if kind == "decimal"}
        for line, row in enumerate(table.rows, start=1):
            for index, cell in enumerate(row):
                number = _as_number(cell, is_decimal=index in decimals)
                if number is not None:
                    sheet.write_number(line, index, number)
                elif isinstance(cell, bool):
                    sheet.write_boolean(line, index, cell)
                elif cell is not None:
                    text = _clean(str(cell))
                    # its type is text, so it is no formula; the prefix keeps it one when somebody edits it
                    sheet.write_string(line, index, text, quoted if _FORMULA.match(text) else None)
    return out.getvalue()


def _as_number(cell: Any, *, is_decimal: bool) -> float | int | None:
    """A number that a spreadsheet shows as it is."""
    if isinstance(cell, str):
        return float(cell) if is_decimal and _NUMBER.fullmatch(cell) and len(cell) <= 16 else None
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, int):
        return cell if abs(cell) < MOST_EXACT else None
    return float(cell) if math.isfinite(cell) else None


def _clean(text: str) -> str:
    """Without halves of characters, which no file can hold."""
    return text.encode(errors="replace").decode()


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and len(one) <= MAX_TEXT for one in value):
        raise TableWrong(f"{name!r} must be a list of texts")
    return tuple(value)


def _check_cell(cell: Any, row: int) -> None:
    if isinstance(cell, str) and len(cell) > MAX_TEXT:
        raise TableWrong(f"row {row} has a text of more than {MAX_TEXT} characters")
    if cell is not None and not isinstance(cell, str | int | float):
        raise TableWrong(f"row {row} has a cell that is no text, no number, and not true, false or null")
