"""Metric query → SQL, without any model. The guard checks the result like anybody's.

Metrics over one table are one SELECT. Several tables, or two periods, are SELECTs put on top of each other by UNION ALL
and brought together by the split: nothing is joined that is not a reference, so nothing is counted twice.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import attrs
from sqlglot import exp, parse_one

from sqlassist.catalog import Catalog, Dialect
from sqlassist.guard.regenerate import language_for
from sqlassist.messages import Refusal
from sqlassist.metric_query import Bucket, MetricQuery, Order
from sqlassist.metric_select import CannotCompileError, Ground, Leaf, Part, PartSelect
from sqlassist.references import path_between
from sqlassist.semantic import Metric, SemanticLayer, TimeKind

COMPARED = ("_previous", "_change", "_growth")
"""What is added to a metric's name for columns beside a compared period."""


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
    except CannotCompileError as error:
        return error.refusal


def _averaged(query: MetricQuery, layer: SemanticLayer, catalog: Catalog, rollup_days: Mapping[str, dt.date]) -> str:
    """The mean of each metric over its values per bucket; buckets without rows do not count."""
    if query.compared is not None or query.share or query.bucket is not None:
        raise CannotCompileError(
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
        raise CannotCompileError(
            "not_comparable", query.thresholds[0].metric, "a threshold is about a metric that is shown"
        )
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
        self.ground = Ground(query, layer, catalog)
        if query.compared is not None and query.bucket is not None:
            raise CannotCompileError(
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

    def _parts(self) -> Iterator[Part]:
        roles = ["now"]
        if self.query.compared is not None:
            roles.append("before")
        if self.is_whole_share:
            roles.append("whole")
        groups: dict[tuple[str, str, str], list[Leaf]] = {}
        for leaf in self.leaves:
            groups.setdefault((leaf.rollup or leaf.metric.table, leaf.metric.where, leaf.metric.time), []).append(leaf)
        for role in roles:
            for leaves in groups.values():
                yield Part(tuple(leaves), role)

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
    def _single(self, part: Part) -> str:
        select = PartSelect(self.ground, part)
        items = [f"{sql} AS {self.name(head)}" for head, sql in zip(self.heads, select.heads, strict=True)]
        values = {leaf.name: select.aggregate(leaf) for leaf in part.leaves}
        items += self._outputs(values, {}, {})
        text = f"SELECT {', '.join(items)} FROM {select.source()}{select.where()}"
        return text + self.tail(values)

    # --- several SELECTs on top of each other ----------------------------------------------------------------------
    def _stacked(self, parts: Sequence[Part]) -> str:
        slots = [(role, leaf) for role in dict.fromkeys(part.role for part in parts) for leaf in self.leaves]
        names = {(role, leaf.name): f"{self.slots[leaf.name]}_{role}" for role, leaf in slots}
        arms = []
        for part in parts:
            select = PartSelect(self.ground, part)
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
            raise CannotCompileError("not_comparable", order.metric, "rows are sorted by a metric that is shown")
        column = order.metric
        if order.by_change:
            if not before:
                raise CannotCompileError("not_comparable", order.metric, "growth needs two periods")
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
                raise CannotCompileError(
                    "not_comparable", name, f"two columns would be called {name}: ask for one at a time"
                )
            seen.add(name.lower())

    def _require_share(self) -> None:
        if not self.query.share:
            return
        for name in self.query.metrics:
            metric = self.layer.metrics[name]
            if not (metric.additive or (self.is_whole_share and self._is_count(metric))):
                hint = f"the parts of {metric.names.label('en', name)} do not sum up to the whole: it has no shares"
                raise CannotCompileError("not_additive", name, hint)
        if not self.heads and not self.query.filters:
            raise CannotCompileError("not_additive", self.query.metrics[0], "say the share of what, or by what")

    # --- what a leaf is computed from ------------------------------------------------------------------------------
    def _leaf(self, name: str) -> Leaf:
        metric = self.layer.metrics[name]
        return Leaf(name, metric, metric.rollup if self._fits_rollup(metric) else "")

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
        return self.ground.name(text)


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
