"""The grammar's alternative for engines that decode JSON only: a query as an object, its schema, and its SQL.

The schema uses no `pattern`. One branch a FROM clause, so that columns are tied to tables here too:

    {"from": "payments", "select": [{"column": "payments.channel"}, {"measure": "sum", "column": "payments.amount"}],
     "where": [{"column": "payments.paid_at", "op": ">=", "days_ago": 7}], "order": [{"item": 2, "descending": true}]}
"""

import calendar
import json
from collections.abc import Mapping
from typing import Any

import attrs

from sqlassist.catalog import Catalog, ColumnType, Dialect
from sqlassist.messages import Refusal
from sqlassist.shapes import MAX_SHAPES, Shape, ShapeColumn, shapes_for

MAX_ITEMS = 6
MAX_CONDITIONS = 5
MAX_LIST = 8
MAX_TEXT = 48
MAX_NUMBER = 10**12
MAX_DAYS = 3660
MAX_LIMIT = 999
_COMPARE = ["=", "<>", "<", "<=", ">", ">="]
_MEASURES = ["sum", "avg", "min", "max"]
_BUCKETS = ["day", "month", "year"]


class _Unfit(Exception):
    """The object is none that the schema describes."""


def json_schema_for(catalog: Catalog, max_shapes: int = MAX_SHAPES) -> str:
    """The schema of a query object, as JSON text."""
    branches = [_branch(shape) for shape in shapes_for(catalog, max_shapes).kept]
    return json.dumps({"anyOf": branches}, ensure_ascii=False, separators=(",", ":"))


def _branch(shape: Shape) -> dict[str, Any]:
    every = [column.label for column in shape.columns]
    numbers = [column.label for column in shape.columns if column.column.type.is_numeric]
    moments = [column.label for column in shape.columns if column.column.type.is_temporal]
    items = [_object({"column": _enum(every)}), _object({"measure": _enum(["count"])})]
    items.append(_object({"measure": _enum(["count_distinct"]), "column": _enum(every)}))
    if numbers:
        items.append(_object({"measure": _enum(_MEASURES), "column": _enum(numbers)}))
    if moments:
        items.append(_object({"bucket": _enum(_BUCKETS), "column": _enum(moments)}))
    order = _object(
        {"item": {"type": "integer", "minimum": 1, "maximum": MAX_ITEMS}, "descending": {"type": "boolean"}}
    )
    properties = {
        "from": _enum([shape.label]),
        "select": {"type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "items": {"anyOf": items}},
        "where": {"type": "array", "maxItems": MAX_CONDITIONS, "items": {"anyOf": _conditions(shape)}},
        "order": {"type": "array", "maxItems": 2, "items": order},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
    }
    return {**_object(properties), "required": ["from", "select"]}


def _conditions(shape: Shape) -> list[dict[str, Any]]:
    by_type: dict[ColumnType, list[str]] = {}
    for column in shape.columns:
        by_type.setdefault(column.column.type, []).append(column.label)
    every = _enum([column.label for column in shape.columns])
    number = {"type": "number", "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER}
    text = {"type": "string", "maxLength": MAX_TEXT}
    date = _object(
        {
            "year": {"type": "integer", "minimum": 1970, "maximum": 2100},
            "month": {"type": "integer", "minimum": 1, "maximum": 12},
            "day": {"type": "integer", "minimum": 1, "maximum": 31},
        }
    )
    made = [_object({"column": every, "op": _enum(["is null", "is not null"])})]
    if numbers := by_type.get(ColumnType.INTEGER, []) + by_type.get(ColumnType.NUMBER, []):
        made.append(_object({"column": _enum(numbers), "op": _enum(_COMPARE), "value": number}))
        made.append(_object({"column": _enum(numbers), "op": _enum(["in"]), "values": _list(number)}))
    if texts := by_type.get(ColumnType.TEXT):
        made.append(_object({"column": _enum(texts), "op": _enum(["=", "<>", "like", "not like"]), "text": text}))
        made.append(_object({"column": _enum(texts), "op": _enum(["in"]), "texts": _list(text)}))
    if moments := by_type.get(ColumnType.DATE, []) + by_type.get(ColumnType.DATETIME, []):
        made.append(_object({"column": _enum(moments), "op": _enum(_COMPARE), "date": date}))
        days = {"type": "integer", "minimum": 0, "maximum": MAX_DAYS}
        made.append(_object({"column": _enum(moments), "op": _enum(_COMPARE), "days_ago": days}))
    if flags := by_type.get(ColumnType.BOOLEAN):
        made.append(_object({"column": _enum(flags), "op": _enum(["="]), "flag": {"type": "boolean"}}))
    return made


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _enum(values: list[str]) -> dict[str, Any]:
    return {"enum": values}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "maxItems": MAX_LIST, "items": item}


def sql_for(query: Any, catalog: Catalog) -> str | Refusal:
    """A query object as SQL, for the guard.

    Plain columns beside measures are grouped by. A day that the month does not have becomes its last one.

    Returns:
        The SQL, or `bad_query` where the object is none that the schema describes.
    """
    try:
        return _Renderer(catalog).statement(query)
    except (_Unfit, KeyError, TypeError, ValueError) as error:
        return Refusal("bad_query", type(error).__name__, f"this is no query object: {error}")


@attrs.define(eq=False)
class _Renderer:
    catalog: Catalog
    columns: dict[str, ShapeColumn] = attrs.field(factory=dict)

    def statement(self, query: Mapping[str, Any]) -> str:
        shape = next((s for s in shapes_for(self.catalog).kept if s.label == query["from"]), None)
        if shape is None:
            raise _Unfit(f"nothing can be read from {query['from']!r}")
        self.columns = {column.label: column for column in shape.columns}
        items = [self._item(item) for item in query["select"]]
        if not items:
            raise _Unfit("select is empty")
        groups = [str(place) for place, item in enumerate(query["select"], start=1) if "measure" not in item]
        parts = ["SELECT " + ", ".join(items), f"FROM {shape.sql}"]
        if conditions := [self._condition(condition) for condition in query.get("where", [])]:
            parts.append("WHERE " + " AND ".join(conditions))
        if groups and len(groups) < len(items):
            parts.append("GROUP BY " + ", ".join(groups))
        if order := [self._order(entry, len(items)) for entry in query.get("order", [])]:
            parts.append("ORDER BY " + ", ".join(order))
        if "limit" in query:
            parts.append(f"LIMIT {int(query['limit'])}")
        return " ".join(parts)

    def _named(self, entry: Mapping[str, Any]) -> ShapeColumn:
        label = entry["column"]
        if label not in self.columns:
            raise _Unfit(f"there is no column {label!r} here")
        return self.columns[label]

    def _item(self, item: Mapping[str, Any]) -> str:
        match item:
            case {"measure": "count"}:
                return "COUNT(*)"
            case {"measure": "count_distinct"}:
                return f"COUNT(DISTINCT {self._named(item).sql})"
            case {"measure": measure} if measure in _MEASURES:
                return f"{measure.upper()}({self._named(item).sql})"
            case {"bucket": bucket} if bucket in _BUCKETS:
                return self._bucket(bucket, self._named(item).sql)
            case {"column": _, **rest} if not rest:
                return self._named(item).sql
            case _:
                raise _Unfit(f"{item} cannot be selected")

    def _bucket(self, bucket: str, sql: str) -> str:
        if bucket == "year":
            return f"YEAR({sql})"
        if self.catalog.dialect is Dialect.DUCKDB:
            return f"CAST({sql} AS DATE)" if bucket == "day" else f"STRFTIME({sql}, '%Y-%m')"
        return f"DATE({sql})" if bucket == "day" else f"DATE_FORMAT({sql}, '%Y-%m')"

    def _condition(self, condition: Mapping[str, Any]) -> str:
        sql, op = self._named(condition).sql, condition["op"]
        match condition:
            case {"op": "is null" | "is not null"}:
                return f"{sql} {op.upper()}"
            case {"op": "in", "values": values}:
                return f"{sql} IN ({', '.join(_number(value) for value in values)})"
            case {"op": "in", "texts": texts}:
                return f"{sql} IN ({', '.join(self._text(text) for text in texts)})"
            case {"op": "like" | "not like" | "=" | "<>", "text": text}:
                return f"{sql} {op.upper()} {self._text(text)}"
            case {"op": "=", "flag": bool(flag)}:
                return f"{sql} = {'TRUE' if flag else 'FALSE'}"
            case {"value": value} if op in _COMPARE:
                return f"{sql} {op} {_number(value)}"
            case {"date": date} if op in _COMPARE:
                return f"{sql} {op} {_date(date)}"
            case {"days_ago": days} if op in _COMPARE:
                return f"{sql} {op} CURRENT_DATE - INTERVAL {int(days)} DAY"
            case _:
                raise _Unfit(f"{condition} is no condition")

    def _text(self, text: Any) -> str:
        if not isinstance(text, str):
            raise _Unfit(f"{text!r} is no text")
        escaped = text.replace("\\", "\\\\") if self.catalog.dialect.is_mysql_like else text
        return "'" + escaped.replace("'", "''") + "'"

    @staticmethod
    def _order(entry: Mapping[str, Any], count: int) -> str:
        place = min(int(entry["item"]), count)
        return f"{max(place, 1)}{' DESC' if entry['descending'] else ''}"


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_NUMBER:
        raise _Unfit(f"{value!r} is no number of at most {MAX_NUMBER}")
    return str(value) if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")


def _date(date: Mapping[str, Any]) -> str:
    year, month = int(date["year"]), int(date["month"])
    if not (1 <= month <= 12 and 1900 <= year <= 9999):
        raise _Unfit(f"{date} is no date")
    day = min(max(int(date["day"]), 1), calendar.monthrange(year, month)[1])
    return f"'{year:04d}-{month:02d}-{day:02d}'"
