"""One SELECT of a metric query: its FROM along references, its WHERE by literals, and what it is split by."""

import datetime as dt
import re
from collections.abc import Iterator

import attrs
from sqlglot import exp, parse_one

from sqlassist.business_days import DayRule, region_rule, rule_of
from sqlassist.catalog import Catalog, ColumnType, Dialect
from sqlassist.guard.regenerate import language_for
from sqlassist.messages import Refusal
from sqlassist.metric_query import Bucket, Comparison, MetricFilter, MetricQuery, Period
from sqlassist.naming import text_literal
from sqlassist.references import Hop, path_between
from sqlassist.semantic import Metric, SemanticLayer, TimeColumn, TimeKind
from sqlassist.shapes import quoted
from sqlassist.time_sql import ClocksChange, PeriodNeeded, bucket_expression, period_condition

ONE_DAY = dt.timedelta(days=1)


class CannotCompileError(Exception):
    """A metric query cannot be computed; `refusal` says why, and what to do."""

    def __init__(self, code: str, where: str, hint: str) -> None:
        super().__init__(hint)
        self.refusal = Refusal(code, where, hint)


@attrs.frozen
class Leaf:
    """One aggregate over one table."""

    name: str
    metric: Metric
    rollup: str = ""


@attrs.frozen
class Part:
    """One SELECT: leaves over one table, for one period."""

    leaves: tuple[Leaf, ...]
    role: str
    """`now`, `before` (the compared period) or `whole` (without the filters)."""


@attrs.frozen
class Ground:
    """What all parts of one query are made of."""

    query: MetricQuery
    layer: SemanticLayer
    catalog: Catalog

    @property
    def dialect(self) -> Dialect:
        """Of the source."""
        return self.catalog.dialect

    @property
    def rule(self) -> DayRule:
        """When days begin, but for regions with days of their own."""
        return rule_of(self.layer.conventions)

    def name(self, text: str) -> str:
        """An identifier in the dialect's quotes."""
        return quoted(text, self.dialect)


class PartSelect:
    """The FROM, WHERE and split of one part."""

    def __init__(self, ground: Ground, part: Part) -> None:
        self.ground = ground
        self.query = ground.query
        self.part = part
        first = part.leaves[0]
        self.metric = first.metric
        self.table = first.rollup or self.metric.table
        self.is_rollup = bool(first.rollup)
        self.joins: dict[tuple[Hop, ...], str] = {}
        self.heads = [self._dimension(name) for name in self.query.dimensions]
        self.period = {"now": self.query.period, "before": self.query.compared, "whole": self.query.period}[part.role]
        if self.query.bucket is not None:
            self.heads.append(self._bucket(self.query.bucket))
        self.conditions = list(self._conditions())

    def source(self) -> str:
        """From behind the word FROM."""
        name = self.ground.name
        text = f"{name(self.table)} AS {name('t0')}"
        for way, alias in self.joins.items():
            last = way[-1]
            owner = self.joins[way[:-1]] if len(way) > 1 else "t0"
            text += (
                f" LEFT JOIN {name(last.to_table)} AS {name(alias)}"
                f" ON {name(owner)}.{name(last.column)} = {name(alias)}.{name(last.to_key)}"
            )
        return text

    def where(self) -> str:
        """With its word, or nothing."""
        return f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""

    def aggregate(self, leaf: Leaf) -> str:
        """A leaf's expression with its columns tied to the table."""
        return self._tied(leaf.metric.rollup_expression if leaf.rollup else leaf.metric.expression)

    def _tied(self, text: str) -> str:
        language = language_for(self.ground.dialect)
        tree = parse_one(text, dialect=language)
        for column in tree.find_all(exp.Column):
            column.set("this", exp.to_identifier(column.name, quoted=True))
            column.set("table", exp.to_identifier("t0", quoted=True))
        return tree.sql(dialect=language)

    def _conditions(self) -> Iterator[str]:
        if self.metric.where and not self.is_rollup:
            yield f"({self._tied(self.metric.where)})"
        if self.part.role != "whole":
            for one in self.query.filters:
                yield self._filter(one)
        if self.period is not None:
            yield self._in_period(self.period)
            widened = self._partition_bounds(self.period)
            if widened:
                yield widened

    def _dimension(self, name: str) -> str:
        table, _, column = self.ground.layer.dimensions[name].column.partition(".")
        way = path_between(self.ground.layer, self.metric.table, table)
        if way is None:
            raise CannotCompileError("not_splittable", name, f"{name} does not go with {self.part.leaves[0].name}")
        for length in range(1, len(way) + 1):
            self.joins.setdefault(way[:length], f"t{len(self.joins) + 1}")
        alias = self.joins[way] if way else "t0"
        return f"{self.ground.name(alias)}.{self.ground.name(column)}"

    def _time(self, name: str) -> tuple[str, TimeColumn]:
        metric = self.metric
        if not metric.time:
            raise CannotCompileError("metric_has_no_time", name, f"{name} has no time: ask for it without a period")
        if self.is_rollup:
            return f"{self.ground.name('t0')}.{self.ground.name('day')}", TimeColumn(TimeKind.DATE)
        column = f"{self.ground.name('t0')}.{self.ground.name(metric.time)}"
        return column, self.ground.layer.times[f"{metric.table}.{metric.time}"]

    def _rules(self, time: TimeColumn) -> list[tuple[str, DayRule]]:
        """(condition, rule of the rows that meet it), the last one of all others."""
        conventions = self.ground.layer.conventions
        if time.kind is TimeKind.DATE or not conventions.regions:
            return [("", self.ground.rule)]
        table = self.ground.layer.dimensions[conventions.region_dimension].column.partition(".")[0]
        if path_between(self.ground.layer, self.metric.table, table) is None:
            return [("", self.ground.rule)]
        column = self._dimension(conventions.region_dimension)
        found = [(f"{column} = {self._text(name)}", region_rule(r)) for name, r in conventions.regions.items()]
        listed = ", ".join(self._text(name) for name in conventions.regions)
        return [*found, (f"({column} NOT IN ({listed}) OR {column} IS NULL)", self.ground.rule)]

    def _in_period(self, period: Period) -> str:
        column, time = self._time(self.part.leaves[0].name)
        rules = self._rules(time)
        if len(rules) == 1:
            return period_condition(column, time, rules[0][1], period)
        arms = [f"({condition} AND {period_condition(column, time, rule, period)})" for condition, rule in rules]
        return f"({' OR '.join(arms)})"

    def _partition_bounds(self, period: Period) -> str:
        """A day more on either side of the period, for a table that is kept by another column than the metric's."""
        table = self.ground.catalog.table(self.table)
        if self.is_rollup or table is None or table.partition is None or table.partition == self.metric.time:
            return ""
        kept_by = self.ground.layer.times.get(f"{self.table}.{table.partition}")
        if kept_by is None or kept_by.kind is not TimeKind.DATE:
            return ""
        column = f"{self.ground.name('t0')}.{self.ground.name(table.partition)}"
        return f"{column} >= '{period.start - ONE_DAY}' AND {column} < '{period.end + ONE_DAY}'"

    def _bucket(self, bucket: Bucket) -> str:
        column, time = self._time(self.part.leaves[0].name)
        if bucket is Bucket.HOUR_OF_DAY and time.kind is TimeKind.DATE:
            raise CannotCompileError(
                "metric_has_no_time", bucket, f"{self.part.leaves[0].name} is counted by days, not hours"
            )
        week_start = self.ground.layer.conventions.week_start
        try:
            arms = [
                (condition, bucket_expression(bucket, column, time, rule, self.period, week_start, self.ground.dialect))
                for condition, rule in self._rules(time)
            ]
        except PeriodNeeded:
            hint = "clocks change in this zone: say a period to split it by time"
            raise CannotCompileError("needs_period", bucket, hint) from None
        except ClocksChange:
            hint = "clocks change within this period: ask for the hours of the days before or after it"
            raise CannotCompileError("clocks_change", bucket, hint) from None
        if len(arms) == 1:
            return arms[0][1]
        cases = " ".join(f"WHEN {condition} THEN {value}" for condition, value in arms[:-1])
        return f"CASE {cases} ELSE {arms[-1][1]} END"

    def _filter(self, one: MetricFilter) -> str:
        column = self._dimension(one.dimension)
        kind = self._type(one.dimension)
        values = [self._value(value, kind, one.dimension) for value in one.values]
        match one.comparison:
            case Comparison.IN:
                return f"{column} = {values[0]}" if len(values) == 1 else f"{column} IN ({', '.join(values)})"
            case Comparison.NOT_IN:
                left_out = f"{column} <> {values[0]}" if len(values) == 1 else f"{column} NOT IN ({', '.join(values)})"
                return f"({left_out} OR {column} IS NULL)"  # what has no value has none of these
            case _:
                return f"{column} {one.comparison} {values[0]}"

    def _type(self, dimension: str) -> ColumnType:
        table, _, column = self.ground.layer.dimensions[dimension].column.partition(".")
        found = self.ground.catalog.table(table)
        known = found.column(column) if found is not None else None
        return known.type if known is not None else ColumnType.TEXT

    def _value(self, value: str, kind: ColumnType, dimension: str) -> str:
        if not kind.is_numeric:
            return self._text(value)
        if not re.fullmatch(r"-?\d{1,15}(\.\d{1,6})?", value):
            raise CannotCompileError("bad_value", value[:80], f"{dimension} is a number")
        return value

    def _text(self, value: str) -> str:
        if self.ground.dialect is Dialect.DUCKDB:
            return "'" + value.replace("\0", "").replace("'", "''") + "'"
        return text_literal(value.replace("\0", ""))
