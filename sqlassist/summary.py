"""A result in a sentence or two. Every number in it is a cell of the rows, or is computed from them here.

No model writes it: what it says can be checked, and `numbers_not_in` checks what a model adds.
"""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from sqlassist.metric_query import BUCKET_NAMES, MetricQuery
from sqlassist.result import Cell, ResultSet, ValueType
from sqlassist.semantic import SemanticLayer

MAX_LISTED = 3
_NUMBERS = (ValueType.INTEGER, ValueType.DECIMAL, ValueType.FLOAT)


def summary_for(
    result: ResultSet, layer: SemanticLayer, language: str, query: MetricQuery | None = None, described: str = ""
) -> str:
    """What the rows say.

    Args:
        result: The rows.
        layer: For names, units and decimals.
        language: `en` or `zh`.
        query: What was computed, where it is a metric query.
        described: The question as it was understood; stands first.
    """
    zh = language == "zh"
    start = f"{described}{'：' if zh else ': '}" if described else ""
    if not result.rows or all(cell is None for row in result.rows for cell in row):
        return start + ("没有数据。" if zh else "no data.")
    end = ("。" if zh else ".") + _counted(query, zh=zh)
    if len(result.rows) == 1:
        return start + _single(result, layer, language) + end
    parts = [_count(result, zh=zh), *_extremes(result, layer, language, query)]
    return start + ("；" if zh else "; ").join(parts) + end


def _counted(query: MetricQuery | None, *, zh: bool) -> str:
    """What a mean is over, which its number does not show."""
    if query is None or query.average_per is None:
        return ""
    per = BUCKET_NAMES[query.average_per].label("zh" if zh else "en", query.average_per)
    return f"没有数据的{per}不计入平均。" if zh else f" Each {per} without rows is left out of the mean."


def _single(result: ResultSet, layer: SemanticLayer, language: str) -> str:
    zh = language == "zh"
    cells = [
        f"{_title(column.name, layer, language)}{'为' if zh else ' '}{_shown(cell, column.name, layer)}"
        if len(result.columns) > 1
        else _shown(cell, column.name, layer)
        for column, cell in zip(result.columns, result.rows[0], strict=True)
    ]
    return ("，" if zh else ", ").join(cells)


def _count(result: ResultSet, *, zh: bool) -> str:
    rows = len(result.rows)
    if result.is_truncated:
        return f"前 {rows} 行（还有更多）" if zh else f"the first {rows} rows, there may be more"
    return f"共 {rows} 行" if zh else f"{rows} rows"


def _extremes(result: ResultSet, layer: SemanticLayer, language: str, query: MetricQuery | None) -> Iterator[str]:
    """The highest and the lowest row of the first number, and its sum where sums make sense."""
    zh = language == "zh"
    index = _value_column(result, layer, query)
    if index is None:
        return
    name = result.columns[index].name
    heads = [i for i, column in enumerate(result.columns) if i < index and column.name not in layer.metrics]
    valued = [(number, row) for row in result.rows if (number := _decimal(row[index])) is not None]
    if not valued or not heads:
        return
    highest, lowest = max(valued, key=lambda one: one[0]), min(valued, key=lambda one: one[0])
    if highest[0] == lowest[0]:
        shown = _shown(highest[1][index], name, layer)
        yield f"全部为 {shown}" if zh else f"all of them {shown}"
        return
    for word, (_, row) in ((("最高" if zh else "highest"), highest), (("最低" if zh else "lowest"), lowest)):
        label = " / ".join(_shown(row[i], result.columns[i].name, layer, language) for i in heads)
        yield f"{word}{'：' if zh else ': '}{label} ({_shown(row[index], name, layer)})"
    metric = layer.metrics.get(name)
    is_whole = not result.is_truncated and (query is None or (query.limit is None and query.average_per is None))
    if metric is not None and metric.additive and is_whole:
        total = sum(number for number, _ in valued)
        yield f"{'合计' if zh else 'total'} {_shown(str(total), name, layer)}"


def _value_column(result: ResultSet, layer: SemanticLayer, query: MetricQuery | None) -> int | None:
    wanted = query.metrics[0] if query is not None else None
    names = [column.name for column in result.columns]
    if wanted in names:
        return names.index(wanted)
    numbers = [
        index
        for index, column in enumerate(result.columns)
        if index and column.type in _NUMBERS and column.name not in layer.dimensions
    ]
    return numbers[0] if len(numbers) == 1 else None  # of several, ids perhaps, nobody said which one is meant


def _title(name: str, layer: SemanticLayer, language: str) -> str:
    if name in layer.metrics:  # first: a metric may itself be called `x_share`
        return layer.metrics[name].names.label(language, name)
    for suffix, en, zh in (
        ("_previous", "before", "上期"),
        ("_change", "change", "变化"),
        ("_growth", "growth", "增长"),
        ("_share", "share", "占比"),
    ):
        stem = name.removesuffix(suffix)
        if stem != name and stem in layer.metrics:
            return zh if language == "zh" else en
    if name in layer.dimensions:
        return layer.dimensions[name].names.label(language, name)
    return name


def _shown(cell: Cell, name: str, layer: SemanticLayer, language: str = "en") -> str:
    """A cell as people read it: thousands apart, decimals as the metric says, fractions of 1 as per cent."""
    if cell is None:
        return "-"
    if name in layer.dimensions:
        values = layer.dimensions[name].values
        return values[str(cell)].label(language, str(cell)) if str(cell) in values else str(cell)
    number = None if isinstance(cell, bool) else _decimal(cell)
    if number is None:
        return str(cell)
    metric = layer.metrics.get(name)
    if metric is None and name.endswith(("_growth", "_share")) and name.rpartition("_")[0] in layer.metrics:
        return f"{number * 100:,.1f} %"
    metric = metric or layer.metrics.get(name.removesuffix("_previous").removesuffix("_change"))
    if metric is None:
        return f"{number:,}" if number == number.to_integral_value() else f"{number:,.2f}"
    if metric.unit == "%":
        return f"{number * 100:,.1f} %"
    text = f"{number:,.{metric.decimals}f}"
    return f"{text} {metric.unit}" if metric.unit else text


def _decimal(cell: Cell) -> Decimal | None:
    if isinstance(cell, bool) or cell is None:
        return None
    try:
        number = Decimal(str(cell))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(\s*%)?")
_SCALED = re.compile(
    r"\d\s*(?:hundred|thousand|million|billion|trillion|bn|[kmb])(?![a-z])|\d\s*[十百千万亿萬億]", re.IGNORECASE
)
_IN_WORDS = re.compile(
    r"\b(?:hundreds?|thousands?|millions?|billions?|dozens?|twice|double[ds]?|tripled?|halved?|half|"
    r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|sixty|seventy|eighty|"
    r"ninety)(?:-\w+)?)\b|[一二三四五六七八九十两]+[十百千万亿萬億]|[十百千万亿萬億][一二三四五六七八九十]|[一二三四五六七八九两十]成|翻[一二两]?番|一半",
    re.IGNORECASE,
)
"""Numbers that no cell is written as: a model that counts in words cannot be held against the rows."""


def numbers_not_in(text: str, result: ResultSet, question: str) -> tuple[str, ...]:
    """Numbers of a text that stand neither in the rows nor in the question: what a model has made up.

    A number is in the rows when some cell, rounded as the text writes it, is the same; a percentage when the cell
    times 100 is.
    """
    known = [number for row in result.rows for cell in row if (number := _decimal(cell)) is not None]
    asked = {found.group(0).replace(",", "").strip(" %") for found in _NUMBER.finditer(question)}
    words = {cell for row in result.rows for cell in row if isinstance(cell, str) and _decimal(cell) is None}
    known += [Decimal(len(result.rows))]
    missing = [
        found.group(0)
        for pattern in (_SCALED, _IN_WORDS)
        for found in pattern.finditer(text)
        if found.group(0) not in question and not any(found.group(0) in word for word in words)
    ]
    for found in _NUMBER.finditer(text):
        plain = found.group(0).replace(",", "").strip(" %")
        places = len(plain.partition(".")[2])
        wanted = Decimal(plain)
        scale = 100 if found.group(1) else 1
        in_rows = any(round(number * scale, places) == wanted or round(number, places) == wanted for number in known)
        if not in_rows and plain not in asked and not any(plain in word for word in words):
            missing.append(found.group(0).strip())
    return tuple(missing)
