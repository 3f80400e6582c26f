"""Metric query → SQL, without any model. The guard checks the result like anybody's.

Metrics over one table are one SELECT. Several tables, or two periods, are SELECTs put on top of each other by UNION ALL
and brought together by the split: nothing is joined that is not a reference, so nothing is counted twice.
"""

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import attrs
from sqlglot import exp, parse_one

from sqlassist.business_days import DayRule, region_rule, rule_of
from sqlassist.catalog import Catalog, ColumnType, Dialect
from sqlassist.guard.regenerate import language_for
from sqlassist.messages import Refusal
from sqlassist.metric_query import Bucket, Comparison, MetricFilter, MetricQuery, Order, Period
from sqlassist.naming import text_literal
from sqlassist.references import Hop, path_between
from sqlassist.semantic import Metric, SemanticLayer, TimeColumn, TimeKind
from sqlassist.shapes import quoted
from sqlassist.time_sql import ClocksChange, PeriodNeeded, bucket_expression, period_condition

ONE_DAY = dt.timedelta(days=1)
COMPARED = ("_previous", "_change", "_growth")
"""What is added to a metric's name for columns beside a compared period."""


class _CannotError(Exception):
    def __init__(self, code: str, where: str, hint: str) -> None:
        super().__init__(hint)
        self.refusal = Refusal(code, where, hint)


@attrs.frozen
class _Leaf:
    """One aggregate over one table."""

    name: str
    metric: Metric
    rollup: str = ""


@attrs.frozen
class _Part:
    """One SELECT: leaves over one table, for one period."""

    leaves: tuple[_Leaf, ...]
    role: str
    """`now`, `before` (the compared period) or `whole` (without the filters)."""


NO_ROLLUPS: Mapping[str, dt.date] = MappingProxyType({})


def compiled(
    query: MetricQuery, layer: SemanticLayer, catalog: Catalog, rollup_days: Mapping[str, dt.date] = NO_ROLLUPS
) -> str | Refusal:
    """SQL that computes a metric query.

    Args:
        query: All its names are in the layer.
        layer: What the tenant is answered about.
        catalog: What he may name.
        rollup_days: Rollup → its last day. One is read only for periods that end by then, as that day may be half a
            one; one that is not named here is not read.

    Returns:
        SQL in the catalog's dialect, with columns called like metrics and dimensions; `x_previous`, `x_change` and
        `x_growth` (a fraction) beside a compared period; `x_share` (a fraction) where a share is wanted. Or a refusal:
        `not_splittable`, `metric_has_no_time`, `needs_period`, `clocks_change`, `not_additive`, `bad_value`,
        `not_comparable`.
    """
    try:
        if query.average_per is not None:
            return _averaged(query, layer, catalog, rollup_days)
        return _Compiler(query, layer, catalog, rollup_days).sql()
    except _CannotError as error:
        return error.refusal


def _averaged(query: MetricQuery, layer: SemanticLayer, catalog: Catalog, rollup_days: Mapping[str, dt.date]) -> str:
    """The mean of each metric over its values per bucket; buckets without rows do not count."""
    if query.compared is not None or query.share or query.bucket is not None:
        raise _CannotError(
            "not_comparable", query.metrics[0], "a mean per day or the like has no second period, trend or share"
        )
    inner = _Compiler(
        attrs.evolve(query, bucket=query.average_per, average_per=None, order=None, limit=None, thresholds=()),
        layer,
        catalog,
        rollup_days,
    )
    outer = _Compiler(attrs.evolve(query, average_per=None), layer, catalog, rollup_days)
    values = {leaf.name: "" for leaf in outer.leaves} | {
        metric: f"AVG({outer.name('groups')}.{outer.name(metric)})" for metric in query.metrics
    }
    heads = [f"{outer.name('groups')}.{outer.name(head)} AS {outer.name(head)}" for head in query.dimensions]
    items = [*heads, *(f"{values[metric]} AS {outer.name(metric)}" for metric in query.metrics)]
    if any(one.metric not in query.metrics for one in query.thresholds):
        raise _CannotError("not_comparable", query.thresholds[0].metric, "a threshold is about a metric that is shown")
    return f"SELECT {', '.join(items)} FROM ({inner.sql()}) AS {outer.name('groups')}" + outer.tail(values)


class _Compiler:
    def __init__(
        self,
        query: MetricQuery,
        layer: SemanticLayer,
        catalog: Catalog,
        rollup_days: Mapping[str, dt.date],
        bounded: tuple[str, ...] = (),
    ) -> None:
        self.query = query
        self.bounded = bounded  # metrics beside those of the query, for whoever selects from this one
        self.rollup_days = rollup_days
        self.layer = layer
        self.catalog = catalog
        self.dialect = catalog.dialect
        self.rule = rule_of(layer.conventions)
        if query.compared is not None and query.bucket is not None:
            raise _CannotError(
                "not_comparable", query.bucket, "two periods are compared as wholes: leave the trend out"
            )
        needed = [*query.metrics, *bounded, *(one.metric for one in query.thresholds)]
        names = [leaf for metric in needed for leaf in (layer.metrics[metric].ratio or (metric,))]
        self.leaves = tuple(self._leaf(name) for name in dict.fromkeys(names))
        self.slots = {leaf.name: f"m{number}" for number, leaf in enumerate(self.leaves, start=1)}
        self.heads = [*query.dimensions, *([str(query.bucket)] if query.bucket else [])]
        self._require_names()
        self.is_whole_share = query.share and not query.dimensions and bool(query.filters)

    def sql(self) -> str:
        self._require_share()
        if self.query.share and self.query.thresholds:
            return self._shares_before_thresholds()
        parts = list(self._parts())
        if len(parts) == 1:
            return self._single(parts[0])
        return self._stacked(parts)

    def _parts(self) -> Iterator[_Part]:
        roles = ["now"]
        if self.query.compared is not None:
            roles.append("before")
        if self.is_whole_share:
            roles.append("whole")
        groups: dict[tuple[str, str, str], list[_Leaf]] = {}
        for leaf in self.leaves:
            groups.setdefault((leaf.rollup or leaf.metric.table, leaf.metric.where, leaf.metric.time), []).append(leaf)
        for role in roles:
            for leaves in groups.values():
                yield _Part(tuple(leaves), role)

    def _shares_before_thresholds(self) -> str:
        """Shares are of the whole: groups that do not pass a threshold count for it, though they are not shown."""
        shown = self.query.metrics
        bounded = tuple(dict.fromkeys(one.metric for one in self.query.thresholds if one.metric not in shown))
        query = attrs.evolve(self.query, thresholds=(), order=None, limit=None)
        inner = _Compiler(query, self.layer, self.catalog, self.rollup_days, bounded)
        names = list(self.heads)
        for metric in shown:
            names += [metric, *(f"{metric}{suffix}" for suffix in (COMPARED if self.query.compared else ()))]
            names.append(f"{metric}_share")
        groups = self.name("groups")
        items = ", ".join(f"{groups}.{self.name(name)} AS {self.name(name)}" for name in names)
        conditions = []
        for one in self.query.thresholds:
            value = f"{groups}.{self.name(one.metric)}"
            if not self.layer.metrics[one.metric].ratio and self._is_zero_of_nothing(one.metric):
                value = f"COALESCE({value}, 0)"
            conditions.append(f"{value} {one.comparison} {_number(one.value)}")
        order = self._order({"": ""} if self.query.compared else {})
        text = f"SELECT {items} FROM ({inner.sql()}) AS {groups} WHERE {' AND '.join(conditions)}"
        text += f" ORDER BY {order}" if order and self.heads else ""
        return text + (f" LIMIT {self.query.limit}" if self.query.limit is not None else "")

    # --- one SELECT over one table ---------------------------------------------------------------------------------
    def _single(self, part: _Part) -> str:
        select = _Select(self, part)
        items = [f"{sql} AS {self.name(head)}" for head, sql in zip(self.heads, select.heads, strict=True)]
        values = {leaf.name: select.aggregate(leaf) for leaf in part.leaves}
        items += self._outputs(values, {}, {})
        text = f"SELECT {', '.join(items)} FROM {select.source()}{select.where()}"
        return text + self.tail(values)

    # --- several SELECTs on top of each other ----------------------------------------------------------------------
    def _stacked(self, parts: Sequence[_Part]) -> str:
        slots = [(role, leaf) for role in dict.fromkeys(part.role for part in parts) for leaf in self.leaves]
        names = {(role, leaf.name): f"{self.slots[leaf.name]}_{role}" for role, leaf in slots}
        arms = []
        for part in parts:
            select = _Select(self, part)
            own = {names[part.role, leaf.name]: select.aggregate(leaf) for leaf in part.leaves}
            items = [f"{sql} AS {self.name(f'd{i}')}" for i, sql in enumerate(select.heads)]
            items += [f"{own.get(name, 'NULL')} AS {self.name(name)}" for name in names.values()]
            grouped = f" GROUP BY {', '.join(select.heads)}" if select.heads else ""
            arms.append(f"SELECT {', '.join(items)} FROM {select.source()}{select.where()}{grouped}")
        outer = [f"{self.name(f'd{i}')} AS {self.name(head)}" for i, head in enumerate(self.heads)]
        kept = {
            role: {leaf.name: f"MAX({self.name(names[role, leaf.name])})" for leaf in self.leaves}
            for role in dict.fromkeys(part.role for part in parts)
        }
        outer += self._outputs(kept["now"], kept.get("before", {}), kept.get("whole", {}))
        text = f"SELECT {', '.join(outer)} FROM ({' UNION ALL '.join(arms)}) AS {self.name('parts')}"
        return text + self.tail(kept["now"], kept.get("before", {}))

    def _outputs(self, now: dict[str, str], before: dict[str, str], whole: dict[str, str]) -> Iterator[str]:
        for metric in self.query.metrics:
            value = self._value(metric, now, is_filled=bool(before))
            yield f"{value} AS {self.name(metric)}"
            if before:
                earlier = self._value(metric, before, is_filled=True)
                yield f"{earlier} AS {self.name(f'{metric}_previous')}"
                yield f"{value} - {earlier} AS {self.name(f'{metric}_change')}"
                yield f"{self._growth(metric, now, before)} AS {self.name(f'{metric}_growth')}"
            if self.query.share:
                total = self._value(metric, whole) if whole else f"SUM({value}) OVER ()"
                yield f"{value} / NULLIF({total}, 0) AS {self.name(f'{metric}_share')}"
        for metric in self.bounded:
            yield f"{self._value(metric, now, is_filled=bool(before))} AS {self.name(metric)}"

    def _growth(self, metric: str, now: dict[str, str], before: dict[str, str]) -> str:
        value, earlier = (self._value(metric, values, is_filled=True) for values in (now, before))
        return f"({value} - {earlier}) / NULLIF({earlier}, 0)"

    def _value(self, name: str, values: dict[str, str], *, is_filled: bool = False) -> str:
        metric = self.layer.metrics[name]
        if metric.ratio and name not in values:
            upper, lower = metric.ratio
            over = f"COALESCE({values[upper]}, 0)" if self._is_zero_of_nothing(upper) else values[upper]
            return f"{over} / NULLIF({values[lower]}, 0)"
        return f"COALESCE({values[name]}, 0)" if is_filled and self._is_zero_of_nothing(name) else values[name]

    def _is_zero_of_nothing(self, name: str) -> bool:
        """Whether a metric is 0 where there are no rows: sums and counts are, means and quotients are not known."""
        metric = self.layer.metrics[name]
        return metric.additive or self._is_count(metric)

    def _is_count(self, metric: Metric) -> bool:
        return bool(metric.expression) and isinstance(
            parse_one(metric.expression, dialect=language_for(self.dialect)), exp.Count
        )

    def tail(self, now: dict[str, str], before: Mapping[str, str] = MappingProxyType({})) -> str:
        """GROUP BY to LIMIT, by what each metric's value is in SQL."""
        text = f" GROUP BY {', '.join(str(number) for number in range(1, len(self.heads) + 1))}" if self.heads else ""
        conditions = [
            f"{self._value(one.metric, now, is_filled=True)} {one.comparison} {_number(one.value)}"
            for one in self.query.thresholds
        ]
        if conditions:
            text += f" HAVING {' AND '.join(conditions)}"
        order = self._order(before)
        if order and self.heads:
            text += f" ORDER BY {order}"
        if self.query.limit is not None:
            text += f" LIMIT {self.query.limit}"
        return text

    def _order(self, before: Mapping[str, str]) -> str:
        """By name of an output column, as both dialects know them there."""
        order = self.query.order
        if order is None and self.query.bucket is not None:
            rest = [self.name(head) for head in self.query.dimensions]
            return ", ".join([self.name(str(self.query.bucket)), *rest])
        if order is None:
            order = Order(self.query.metrics[0])
        if order.metric not in self.query.metrics:
            raise _CannotError("not_comparable", order.metric, "rows are sorted by a metric that is shown")
        column = order.metric
        if order.by_change:
            if not before:
                raise _CannotError("not_comparable", order.metric, "growth needs two periods")
            column = f"{order.metric}_change"
        name = self.name(column)
        if order.descending:
            return f"{name} DESC"
        # in MySQL nothing comes before the lowest number; DuckDB has it last in either order
        return name if self.dialect is Dialect.DUCKDB else f"{name} IS NULL, {name}"

    def _require_names(self) -> None:
        """Two columns of one name would be taken for each other."""
        query = self.query
        suffixes = [*(COMPARED if query.compared is not None else ()), *(["_share"] if query.share else [])]
        names = [*self.heads, *query.metrics, *(f"{metric}{suffix}" for metric in query.metrics for suffix in suffixes)]
        seen: set[str] = set()
        for name in names:
            if name.lower() in seen:
                raise _CannotError("not_comparable", name, f"two columns would be called {name}: ask for one at a time")
            seen.add(name.lower())

    def _require_share(self) -> None:
        if not self.query.share:
            return
        for name in self.query.metrics:
            metric = self.layer.metrics[name]
            if not (metric.additive or (self.is_whole_share and self._is_count(metric))):
                hint = f"the parts of {metric.names.label('en', name)} do not sum up to the whole: it has no shares"
                raise _CannotError("not_additive", name, hint)
        if not self.heads and not self.query.filters:
            raise _CannotError("not_additive", self.query.metrics[0], "say the share of what, or by what")

    # --- what a leaf is computed from ------------------------------------------------------------------------------
    def _leaf(self, name: str) -> _Leaf:
        metric = self.layer.metrics[name]
        return _Leaf(name, metric, metric.rollup if self._fits_rollup(metric) else "")

    def _fits_rollup(self, metric: Metric) -> bool:
        rollup = self.layer.rollups.get(metric.rollup)
        if rollup is None or self.catalog.table(metric.rollup) is None or metric.where or not metric.rollup_expression:
            return False
        query, last_day = self.query, self.rollup_days.get(metric.rollup)
        if query.bucket is Bucket.HOUR_OF_DAY or self.layer.conventions.regions:
            return False
        if last_day is None or query.period is None or query.period.end > last_day:
            return False
        if query.compared is not None and query.compared.end > last_day:
            return False
        time = self.layer.times.get(f"{metric.table}.{metric.time}")
        if metric.time != rollup.moment or time is None or time.kind is not TimeKind.DATE:
            return False
        return all(
            self._rollup_column(metric, dimension) is not None
            for dimension in (*query.dimensions, *(one.dimension for one in query.filters))
        )

    def _rollup_column(self, metric: Metric, dimension: str) -> str | None:
        """The rollup's column that a dimension is reached by: itself, or the key of a reference."""
        rollup = self.layer.rollups[metric.rollup]
        table, _, column = self.layer.dimensions[dimension].column.partition(".")
        way = path_between(self.layer, metric.table, table)
        if way is None:
            return None
        first = way[0].column if way else column
        return first if first in rollup.dimensions else None

    def name(self, text: str) -> str:
        """An identifier in the dialect's quotes."""
        return quoted(text, self.dialect)


class _Select:
    """The FROM, WHERE and split of one part."""

    def __init__(self, owner: _Compiler, part: _Part) -> None:
        self.owner = owner
        self.query = owner.query
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
        name = self.owner.name
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

    def aggregate(self, leaf: _Leaf) -> str:
        """A leaf's expression with its columns tied to the table."""
        return self._tied(leaf.metric.rollup_expression if leaf.rollup else leaf.metric.expression)

    def _tied(self, text: str) -> str:
        language = language_for(self.owner.dialect)
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
        table, _, column = self.owner.layer.dimensions[name].column.partition(".")
        way = path_between(self.owner.layer, self.metric.table, table)
        if way is None:
            raise _CannotError("not_splittable", name, f"{name} does not go with {self.part.leaves[0].name}")
        for length in range(1, len(way) + 1):
            self.joins.setdefault(way[:length], f"t{len(self.joins) + 1}")
        alias = self.joins[way] if way else "t0"
        return f"{self.owner.name(alias)}.{self.owner.name(column)}"

    def _time(self, name: str) -> tuple[str, TimeColumn]:
        metric = self.metric
        if not metric.time:
            raise _CannotError("metric_has_no_time", name, f"{name} has no time: ask for it without a period")
        if self.is_rollup:
            return f"{self.owner.name('t0')}.{self.owner.name('day')}", TimeColumn(TimeKind.DATE)
        column = f"{self.owner.name('t0')}.{self.owner.name(metric.time)}"
        return column, self.owner.layer.times[f"{metric.table}.{metric.time}"]

    def _rules(self, time: TimeColumn) -> list[tuple[str, DayRule]]:
        """(condition, rule of the rows that meet it), the last one of all others."""
        conventions = self.owner.layer.conventions
        if time.kind is TimeKind.DATE or not conventions.regions:
            return [("", self.owner.rule)]
        table = self.owner.layer.dimensions[conventions.region_dimension].column.partition(".")[0]
        if path_between(self.owner.layer, self.metric.table, table) is None:
            return [("", self.owner.rule)]
        column = self._dimension(conventions.region_dimension)
        found = [(f"{column} = {self._text(name)}", region_rule(r)) for name, r in conventions.regions.items()]
        listed = ", ".join(self._text(name) for name in conventions.regions)
        return [*found, (f"({column} NOT IN ({listed}) OR {column} IS NULL)", self.owner.rule)]

    def _in_period(self, period: Period) -> str:
        column, time = self._time(self.part.leaves[0].name)
        rules = self._rules(time)
        if len(rules) == 1:
            return period_condition(column, time, rules[0][1], period)
        arms = [f"({condition} AND {period_condition(column, time, rule, period)})" for condition, rule in rules]
        return f"({' OR '.join(arms)})"

    def _partition_bounds(self, period: Period) -> str:
        """A day more on either side of the period, for a table that is kept by another column than the metric's."""
        table = self.owner.catalog.table(self.table)
        if self.is_rollup or table is None or table.partition is None or table.partition == self.metric.time:
            return ""
        kept_by = self.owner.layer.times.get(f"{self.table}.{table.partition}")
        if kept_by is None or kept_by.kind is not TimeKind.DATE:
            return ""
        column = f"{self.owner.name('t0')}.{self.owner.name(table.partition)}"
        return f"{column} >= '{period.start - ONE_DAY}' AND {column} < '{period.end + ONE_DAY}'"

    def _bucket(self, bucket: Bucket) -> str:
        column, time = self._time(self.part.leaves[0].name)
        if bucket is Bucket.HOUR_OF_DAY and time.kind is TimeKind.DATE:
            raise _CannotError(
                "metric_has_no_time", bucket, f"{self.part.leaves[0].name} is counted by days, not hours"
            )
        week_start = self.owner.layer.conventions.week_start
        try:
            arms = [
                (condition, bucket_expression(bucket, column, time, rule, self.period, week_start, self.owner.dialect))
                for condition, rule in self._rules(time)
            ]
        except PeriodNeeded:
            hint = "clocks change in this zone: say a period to split it by time"
            raise _CannotError("needs_period", bucket, hint) from None
        except ClocksChange:
            hint = "clocks change within this period: ask for the hours of the days before or after it"
            raise _CannotError("clocks_change", bucket, hint) from None
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
        table, _, column = self.owner.layer.dimensions[dimension].column.partition(".")
        found = self.owner.catalog.table(table)
        known = found.column(column) if found is not None else None
        return known.type if known is not None else ColumnType.TEXT

    def _value(self, value: str, kind: ColumnType, dimension: str) -> str:
        if not kind.is_numeric:
            return self._text(value)
        if not re.fullmatch(r"-?\d{1,15}(\.\d{1,6})?", value):
            raise _CannotError("bad_value", value[:80], f"{dimension} is a number")
        return value

    def _text(self, value: str) -> str:
        if self.owner.dialect is Dialect.DUCKDB:
            return "'" + value.replace("\0", "").replace("'", "''") + "'"
        return text_literal(value.replace("\0", ""))


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
