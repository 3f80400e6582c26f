"""A question that needs no model: metrics, split and filtered by dimensions, over days. Values only."""

import datetime as dt
from enum import StrEnum

import attrs

from sqlassist.semantic import Names, SemanticLayer


class Bucket(StrEnum):
    """What time is cut into."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    HOUR_OF_DAY = "hour_of_day"
    """0 to 23, over all days."""
    DAY_OF_WEEK = "day_of_week"
    """1 is Monday, 7 is Sunday, over all weeks."""


BUCKET_NAMES = {
    Bucket.DAY: Names(("day",), ("日",)),
    Bucket.WEEK: Names(("week",), ("周",)),
    Bucket.MONTH: Names(("month",), ("月",)),
    Bucket.QUARTER: Names(("quarter",), ("季度",)),
    Bucket.YEAR: Names(("year",), ("年",)),
    Bucket.HOUR_OF_DAY: Names(("hour of the day",), ("小时",)),
    Bucket.DAY_OF_WEEK: Names(("day of the week",), ("星期",)),
}


@attrs.frozen
class Period:
    """Business days from `start` up to, and without, `end`."""

    start: dt.date
    end: dt.date

    def __attrs_post_init__(self) -> None:
        assert self.start < self.end, "a period has at least one day"

    @property
    def days(self) -> int:
        """How many."""
        return (self.end - self.start).days

    def __str__(self) -> str:
        last = self.end - dt.timedelta(days=1)
        return f"{self.start}" if last == self.start else f"{self.start}..{last}"


class Comparison(StrEnum):
    """How a filter compares."""

    IN = "in"
    NOT_IN = "not_in"
    ABOVE = ">"
    AT_LEAST = ">="
    BELOW = "<"
    AT_MOST = "<="


@attrs.frozen
class MetricFilter:
    """Rows that count, by one dimension."""

    dimension: str
    comparison: Comparison
    values: tuple[str, ...]
    """As stored; one where the comparison is of size."""


@attrs.frozen
class Threshold:
    """Groups that count, by the value of a metric: one of the query's, or another one."""

    metric: str
    comparison: Comparison
    value: float


@attrs.frozen
class Order:
    """By which of the query's metrics the rows are sorted; by time where a query has a bucket and no order."""

    metric: str
    descending: bool = True
    by_change: bool = False
    """By the growth from the compared period to the period; needs `compared`."""


@attrs.frozen
class MetricQuery:
    """What to compute. Names are those of the layer's file."""

    metrics: tuple[str, ...]
    dimensions: tuple[str, ...] = ()
    bucket: Bucket | None = None
    filters: tuple[MetricFilter, ...] = ()
    period: Period | None = None
    compared: Period | None = None
    """A second period, beside which the first one is put: with columns for the earlier value and the growth."""
    thresholds: tuple[Threshold, ...] = ()
    order: Order | None = None
    limit: int | None = None
    average_per: Bucket | None = None
    """The mean over days, weeks, ... of the metrics' values in each of them: `average daily active players`."""
    share: bool = False
    """Add each group's part of the whole; without a split, the part of what the filters leave in all of it."""


def described(query: MetricQuery, layer: SemanticLayer, language: str) -> str:
    """The query in words, for whoever asked to see what was understood."""
    zh = language == "zh"
    name = {key: metric.names.label(language, key) for key, metric in layer.metrics.items()}
    parts = [("、" if zh else ", ").join(name[metric] for metric in query.metrics)]
    splits = [layer.dimensions[key].names.label(language, key) for key in query.dimensions]
    if query.bucket is not None:
        splits.append(BUCKET_NAMES[query.bucket].label(language, query.bucket))
    if query.average_per is not None:
        per = BUCKET_NAMES[query.average_per].label(language, query.average_per)
        parts.append(f"每{per}平均" if zh else f"average per {per}")
    if query.share:
        parts.append("占比" if zh else "share of the total")
    if splits:
        parts.append(("按" if zh else "by ") + ("、" if zh else " and ").join(splits))
    parts += [_filter_in_words(one, layer, language) for one in query.filters]
    if query.period is not None:
        parts.append(str(query.period))
    if query.compared is not None:
        parts.append(f"对比 {query.compared}" if zh else f"compared with {query.compared}")
    parts += [f"{name[one.metric]} {one.comparison} {one.value:g}" for one in query.thresholds]
    if query.limit is not None:
        descending = query.order is None or query.order.descending
        words = ("前" if descending else "后") if zh else ("top " if descending else "bottom ")
        parts.append(f"{words}{query.limit}")
    return ("，" if zh else "; ").join(parts)


def _filter_in_words(one: MetricFilter, layer: SemanticLayer, language: str) -> str:
    dimension = layer.dimensions[one.dimension]
    label = dimension.names.label(language, one.dimension)
    values = [
        dimension.values[value].label(language, value) if value in dimension.values else value for value in one.values
    ]
    sign = {Comparison.IN: "=", Comparison.NOT_IN: "≠"}.get(one.comparison, str(one.comparison))
    return f"{label} {sign} {('、' if language == 'zh' else ', ').join(values)}"
