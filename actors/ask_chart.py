"""Charts of answers: bars and lines of blocks for a terminal, and files of a Vega-Lite specification."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MOST_BARS = 30  # rows; more become a line
BLOCKS = " ▁▂▃▄▅▆▇█"
SUFFIXES = (".json", ".svg", ".png")


class ChartError(Exception):
    """A chart cannot be written: the text says why and what to do."""


def check_chart_path(path: Path) -> None:
    """Raises `ChartError` where no chart can be written into a file of this name."""
    if path.suffix.lower() not in SUFFIXES:
        raise ChartError(f"{path}: a chart is a .json (Vega-Lite), .svg or .png file")


def write_chart(spec: Mapping[str, Any], path: Path) -> None:
    """Write a Vega-Lite specification, or a picture of it.

    Raises:
        ChartError: vl-convert-python refuses the specification, or the file cannot be written.
    """
    suffix = path.suffix.lower()
    try:
        if suffix == ".json":
            path.write_text(json.dumps(dict(spec), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        elif suffix == ".svg":
            path.write_text(_converter().vegalite_to_svg(dict(spec), allowed_base_urls=[]), encoding="utf-8")
        else:
            path.write_bytes(_converter().vegalite_to_png(dict(spec), scale=2, allowed_base_urls=[]))
    except OSError as error:
        raise ChartError(f"{path} cannot be written: {error.strerror}") from error
    except ValueError as error:
        raise ChartError(f"{path}: the chart cannot be drawn: {error}") from error


def terminal_chart(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], spec: Mapping[str, Any], width: int
) -> tuple[str, ...]:
    """Lines that show the numbers of an answer; none where there is nothing to show.

    Args:
        columns: Names.
        rows: Cells; numbers may be texts, as decimals are.
        spec: Its `encoding` says which columns are meant; else the first label and the first numbers are.
        width: Characters of a line.
    """
    label, value = _chosen(columns, rows, spec)
    if value is None:
        return ()
    numbers = [_number(row[value]) for row in rows]
    known = [number for number in numbers if number is not None]
    if not known or len(rows) < 2:
        return ()
    if len(rows) > MOST_BARS:
        return _line(columns[value], numbers, width)
    labels = ["" if label is None else _cut(str(row[label]), width // 3) for row in rows]
    beside = max(map(len, labels))
    texts = [_shown(number) for number in numbers]
    room = max(8, width - beside - max(map(len, texts)) - 4)
    most = max(abs(number) for number in known) or 1.0
    bars = ["" if number is None else "█" * math.ceil(abs(number) / most * room) for number in numbers]
    return tuple(f"{name:<{beside}}  {bar} {text}" for name, bar, text in zip(labels, bars, texts, strict=True))


def _line(name: str, numbers: Sequence[float | None], width: int) -> tuple[str, ...]:
    known = [number for number in numbers if number is not None]
    low, high = min(known), max(known)
    step = max(1, math.ceil(len(numbers) / width))
    cells = []
    for start in range(0, len(numbers), step):
        some = [number for number in numbers[start : start + step] if number is not None]
        level = 0 if not some else 1 + round((max(some) - low) / ((high - low) or 1.0) * (len(BLOCKS) - 2))
        cells.append(BLOCKS[level])
    return ("".join(cells), f"{name}: {_shown(low)} to {_shown(high)}, {len(numbers)} rows")


def _chosen(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], spec: Mapping[str, Any]
) -> tuple[int | None, int | None]:
    """Indexes of the column of labels and of that of numbers."""
    encoding = spec.get("encoding")
    named = [_field(encoding, axis) for axis in ("x", "y")]
    numeric = [
        index
        for index in range(len(columns))
        if rows and all(row[index] is None or _number(row[index]) is not None for row in rows)
    ]
    found = [columns.index(name) for name in named if name in columns]
    value = next((index for index in reversed(found) if index in numeric), None)
    if value is None:
        value = next((index for index in numeric if index > 0), numeric[0] if numeric else None)
    label = next((index for index in found if index != value), None)
    if label is None:
        label = next((index for index in range(len(columns)) if index != value), None)
    return label, value


def _field(encoding: Any, axis: str) -> str | None:
    channel = encoding.get(axis) if isinstance(encoding, Mapping) else None
    name = channel.get("field") if isinstance(channel, Mapping) else None
    return name if isinstance(name, str) else None


def _number(cell: Any) -> float | None:
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        number = float(cell)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:,.6g}"


def _cut(text: str, most: int) -> str:
    clean = "".join(character if character.isprintable() else " " for character in text)
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def _converter() -> Any:
    import vl_convert  # noqa: PLC0415  # a JavaScript engine: loaded where a chart is drawn

    return vl_convert
