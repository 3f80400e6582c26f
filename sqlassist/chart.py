"""A chart that fits the shape of a result, as a Vega-Lite specification (https://vega.github.io/vega-lite, version 6).

One number needs no chart; time is a line, few groups are bars, two splits are colours. What fits no shape has none.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from sqlassist.metric_query import BUCKET_NAMES, Bucket, MetricQuery
from sqlassist.result import Cell, ResultSet, ValueType
from sqlassist.semantic import SemanticLayer

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
MAX_BARS = 40  # more can neither be read nor told apart
MAX_LINES = 8
MAX_POINTS = 2000
_NUMBERS = (ValueType.INTEGER, ValueType.DECIMAL, ValueType.FLOAT)
_TIMES = (ValueType.DATE, ValueType.DATETIME)


@attrs.frozen
class _Field:
    name: str
    title: str
    kind: str
    """`temporal`, `quantitative` or `nominal`."""


def chart_for(
    result: ResultSet, layer: SemanticLayer, language: str, query: MetricQuery | None = None
) -> Mapping[str, Any] | None:
    """The chart of a result, or None where none says more than the rows.

    Args:
        result: Its rows become the chart's data.
        layer: For titles and units.
        language: `en` or `zh`.
        query: What was computed, where it is a metric query: tells splits from numbers that are groups.
    """
    if not 2 <= len(result.rows) <= MAX_POINTS or not result.columns:
        return None
    fields = [_field(index, result, layer, language, query) for index in range(len(result.columns))]
    splits = [field for field in fields if field.kind != "quantitative"]
    numbers = [field for field in fields if field.kind == "quantitative"]
    if not numbers or not 1 <= len(splits) <= 2:
        return None
    times = [field for field in splits if field.kind == "temporal"]
    groups = [field for field in splits if field.kind == "nominal"]
    number = numbers[0]
    if times and len(groups) <= 1 and _distinct(result, groups) <= MAX_LINES:
        mark, x, y = "line", times[0], number
        encoding = {"x": _axis(x), "y": _axis(y)}
        if groups:
            encoding["color"] = _axis(groups[0])
    elif not times and len(result.rows) <= MAX_BARS:
        mark = "bar"
        encoding = {"y": {**_axis(groups[0]), "sort": None}, "x": _axis(number)}
        if len(groups) == 2:
            encoding["color"] = _axis(groups[1])
    else:
        return None
    return {
        "$schema": SCHEMA,
        "data": {"values": [_row(result, row) for row in result.rows]},
        "mark": {"type": mark, "tooltip": True, **({"point": True} if mark == "line" else {})},
        "encoding": encoding,
        "width": "container",
    }


def _field(index: int, result: ResultSet, layer: SemanticLayer, language: str, query: MetricQuery | None) -> _Field:
    column = result.columns[index]
    title = column.name
    if column.name in layer.metrics:
        metric = layer.metrics[column.name]
        title = metric.names.label(language, column.name) + (f" ({metric.unit})" if metric.unit else "")
    elif column.name in layer.dimensions:
        title = layer.dimensions[column.name].names.label(language, column.name)
    elif column.name in BUCKET_NAMES:
        title = BUCKET_NAMES[Bucket(column.name)].label(language, column.name)
    is_split = column.name in layer.dimensions or column.name in ("hour_of_day", "day_of_week")
    if column.type in _TIMES:
        kind = "temporal"
    elif column.type in _NUMBERS and not (is_split and (query is None or column.name not in query.metrics)):
        kind = "quantitative"
    else:
        kind = "nominal"
    return _Field(column.name, title, kind)


def _axis(field: _Field) -> dict[str, Any]:
    escaped = field.name.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[").replace("]", "\\]")
    return {"field": escaped, "type": field.kind, "title": field.title}


def _distinct(result: ResultSet, groups: list[_Field]) -> int:
    if not groups:
        return 1
    index = [column.name for column in result.columns].index(groups[0].name)
    return len({row[index] for row in result.rows})


def _row(result: ResultSet, row: tuple[Cell, ...]) -> dict[str, Cell]:
    return {
        column.name: _number(cell) if column.type in _NUMBERS else cell
        for column, cell in zip(result.columns, row, strict=True)
    }


def _number(cell: Cell) -> Cell:
    """Decimals come as text; a chart has no more digits than a screen has pixels."""
    if not isinstance(cell, str):
        return cell
    try:
        return float(cell)
    except ValueError:
        return None
