"""Which charts are drawn: Vega-Lite specifications with their data inside, of parts that are known one by one. Pure.

What is not named here is refused, so nothing that fetches (`url`, images, loaders), links (`href`), computes
(expressions, parameters, transforms) or grows without bound (steps, facets, generated data) reaches the library.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

MAX_ROWS = 5000
MAX_COLUMNS = 50
MAX_TEXT = 1000  # characters of a cell or a title
MAX_LISTED = 500  # values of a sort or a domain
MAX_PIXELS = 4000
DEFAULT_WIDTH = 640  # for `container`: there is none
SCHEMA_START = "https://vega.github.io/schema/vega-lite/"

_FORMAT = re.compile(r"(?!.*[0-9]{3})[-+ (,.$%~#a-zA-Z0-9/:_]{0,24}")  # a long number in it is a long text
_WORD = re.compile(r"[A-Za-z0-9-]{1,40}")
_COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}|[a-z]{3,24}")
_MARKS = frozenset({"arc", "area", "bar", "circle", "line", "point", "rect", "rule", "square", "text", "tick", "trail"})
_CHANNELS = frozenset(
    {
        *("x", "y", "x2", "y2", "xOffset", "yOffset", "theta", "color", "fill", "stroke", "opacity", "size", "shape"),
        *("detail", "order", "text", "tooltip"),
    }
)


class ChartRefused(Exception):
    """It is not drawn; the text says what of it, and why."""


Check = Callable[[Any, str], None]


def drawable(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification as it is drawn, with a size.

    Raises:
        ChartRefused: it is none that is drawn.
    """
    _object(_SPEC)(spec, "")
    for key in ("data", "mark", "encoding"):
        if key not in spec:
            raise ChartRefused(f"'{key}' is missing")
    width = spec.get("width", "container")
    sized = {**spec, "width": DEFAULT_WIDTH if width == "container" else width}
    if sized.get("height") == "container":
        del sized["height"]
    return sized


def _object(keys: Mapping[str, Check]) -> Check:
    def check(value: Any, at: str) -> None:
        if not isinstance(value, Mapping):
            raise ChartRefused(f"{at or 'a chart'} must be an object")
        for key, part in value.items():
            where = f"{at}.{key}"[:80].lstrip(".")
            if key not in keys:
                raise ChartRefused(f"'{where}' is not drawn here")
            keys[key](part, where)

    return check


def _either(*checks: Check) -> Check:
    """The last one says what is wrong."""

    def check(value: Any, at: str) -> None:
        for one in checks[:-1]:
            try:
                return one(value, at)
            except ChartRefused:
                continue
        return checks[-1](value, at)

    return check


def _one_of(*values: Any) -> Check:
    def check(value: Any, at: str) -> None:
        if not isinstance(value, str | bool | None) or value not in values:
            raise ChartRefused(f"'{at}' is one of {', '.join(str(one) for one in values)}")

    return check


def _matching(pattern: re.Pattern[str], what: str) -> Check:
    def check(value: Any, at: str) -> None:
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            raise ChartRefused(f"'{at}' must be {what}")

    return check


def _number(least: float, most: float) -> Check:
    def check(value: Any, at: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ChartRefused(f"'{at}' must be a number from {least:g} to {most:g}")

    return check


def _text(value: Any, at: str) -> None:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ChartRefused(f"'{at}' must be a text of at most {MAX_TEXT} characters")


def _cell(value: Any, at: str) -> None:
    if isinstance(value, str):
        return _text(value, at)
    if value is None or isinstance(value, bool):
        return None
    # the comparison is exact for integers of any size, and false for what is no number
    if not isinstance(value, int | float) or not -1e300 <= value <= 1e300:
        raise ChartRefused(f"'{at}' must be a text, a number, true, false or null")
    return None


def _cells(value: Any, at: str) -> None:
    if not isinstance(value, list) or len(value) > MAX_LISTED:
        raise ChartRefused(f"'{at}' must be a list of at most {MAX_LISTED} values")
    for one in value:
        _cell(one, at)


def _rows(value: Any, at: str) -> None:
    if not isinstance(value, list) or len(value) > MAX_ROWS:
        raise ChartRefused(f"'{at}' must be a list of at most {MAX_ROWS} rows")
    for number, row in enumerate(value):
        where = f"{at}[{number}]"
        if not isinstance(row, Mapping) or len(row) > MAX_COLUMNS:
            raise ChartRefused(f"'{where}' must be an object of at most {MAX_COLUMNS} values")
        for key, cell in row.items():
            _text(key, where)
            _cell(cell, where)


def _schema(value: Any, at: str) -> None:
    if not isinstance(value, str) or not value.startswith(SCHEMA_START) or len(value) > MAX_TEXT:
        raise ChartRefused(f"'{at}' must name a schema of Vega-Lite")


def _channel(value: Any, at: str) -> None:
    if isinstance(value, list):  # of details and tooltips
        if len(value) > MAX_COLUMNS:
            raise ChartRefused(f"'{at}' has more than {MAX_COLUMNS} fields")
        for one in value:
            _object(_CHANNEL)(one, at)
    else:
        _object(_CHANNEL)(value, at)


_NOTHING = _one_of(None)
_FLAG = _one_of(True, False)
_FORMATTED = _matching(_FORMAT, "a short format of numbers or times")
_NAME = _matching(_WORD, "a name")
_PIXELS = _number(1, MAX_PIXELS)
_SMALL = _number(-360, 1000)
_PAINT = _matching(_COLOUR, "a colour")
_AXIS = _object(
    {
        "title": _either(_NOTHING, _text),
        "format": _FORMATTED,
        "formatType": _one_of("number", "time"),
        "grid": _FLAG,
        "labels": _FLAG,
        "ticks": _FLAG,
        "labelAngle": _SMALL,
        "labelLimit": _PIXELS,
        "orient": _NAME,
    }
)
_SCALE = _object(
    {
        "type": _one_of("linear", "log", "pow", "sqrt", "symlog", "time", "utc", "ordinal", "band", "point"),
        "zero": _FLAG,
        "nice": _FLAG,
        "reverse": _FLAG,
        "clamp": _FLAG,
        "scheme": _NAME,
        "domain": _cells,
    }
)
_CHANNEL: Mapping[str, Check] = {
    "field": _text,
    "type": _one_of("quantitative", "temporal", "ordinal", "nominal"),
    "title": _either(_NOTHING, _text),
    "aggregate": _one_of("count", "sum", "mean", "average", "median", "min", "max", "distinct", "stdev", "q1", "q3"),
    "bin": _either(_FLAG, _object({"maxbins": _number(2, 200)})),
    "timeUnit": _matching(re.compile("(utc)?(year|quarter|month|week|day|date|hours|minutes){1,5}"), "a unit of time"),
    "sort": _either(_NOTHING, _matching(re.compile("ascending|descending|-?(x|y|color)"), "an order"), _cells),
    "stack": _one_of(None, True, False, "zero", "normalize", "center"),
    "scale": _either(_NOTHING, _SCALE),
    "axis": _either(_NOTHING, _AXIS),
    "legend": _either(_NOTHING, _AXIS),
    "format": _FORMATTED,
    "value": _either(_number(-1e6, 1e6), _text),
    "datum": _cell,
}
_MARK: Mapping[str, Check] = {
    "type": _one_of(*sorted(_MARKS)),
    "tooltip": _either(_FLAG, _NOTHING),
    "point": _either(_FLAG, _NOTHING),
    "interpolate": _NAME,
    "orient": _one_of("horizontal", "vertical"),
    "color": _PAINT,
    "opacity": _number(0, 1),
    "size": _number(0, 10_000),
    "strokeWidth": _number(0, 100),
    "filled": _FLAG,
    "clip": _FLAG,
}
_SPEC: Mapping[str, Check] = {
    "$schema": _schema,
    "title": _text,
    "description": _text,
    "data": _object({"values": _rows}),
    "mark": _either(_one_of(*sorted(_MARKS)), _object(_MARK)),
    "encoding": _object(dict.fromkeys(sorted(_CHANNELS), _channel)),
    "width": _either(_one_of("container"), _PIXELS),
    "height": _either(_one_of("container"), _PIXELS),
    "background": _PAINT,
}
