"""One reading of a question: items with one sense each become a draft, or nothing if a word stays unexplained."""

from collections.abc import Iterator, Mapping, Sequence

import attrs

from sqlassist.metric_query import Bucket, Comparison, MetricFilter
from sqlassist.parsing.calendar import Today
from sqlassist.parsing.draft import CannotReadError, Draft, DraftOrder
from sqlassist.parsing.items import Item, Kind, Sense
from sqlassist.parsing.quantities import MAX_LIMIT, Bound, Numbers
from sqlassist.parsing.times import Asked, Times, times_of, trend_buckets
from sqlassist.semantic import SemanticLayer

_SPLITTERS = frozenset({Kind.DIMENSION, Kind.TIME_UNIT})
_COUNTABLE = _SPLITTERS | {Kind.ENTITY}
_ORDERING = (Kind.SUPERLATIVE, Kind.RANKING, Kind.COMPARE)
_JOINS = frozenset({Kind.AND, Kind.OR, Kind.COMPARE, Kind.RANGE})
_MAY_STAY = frozenset(
    {Kind.AND, Kind.RANGE, Kind.ALL, Kind.BETWEEN, Kind.FOLLOW_UP, Kind.ADDED, Kind.RESPECTIVELY, Kind.PERIOD}
)
"""Kinds that change nothing where no rule has used them; periods are read apart."""


@attrs.frozen
class Setting:
    """What is the same for all readings of a question."""

    layer: SemanticLayer
    today: Today
    sizes: frozenset[str]
    """Dimensions that are numbers."""
    formats: Mapping[str, str]
    superlatives: Mapping[str, str]
    """Word → `high`, `low`, ...: a metric's own name may say it, as in `highest level`."""


def drafts_of(items: Sequence[Item], setting: Setting, *, is_fragment: bool = False) -> tuple[Draft, ...]:
    """The readings of items with one sense each, the likeliest first.

    Raises:
        CannotReadError: A word is left over, or what is said does not fit together.
    """
    return tuple(_Reader(items, setting, is_fragment=is_fragment).read())


def _structural(items: Sequence[Item]) -> Iterator[Item]:
    """Items that say something: fillers go, `what` becomes `which` before a dimension."""
    for number, item in enumerate(items):
        following = next((one for one in items[number + 1 :] if one.kind is not Kind.FILLER), None)
        if item.kind is Kind.LEFTOVER:
            raise CannotReadError("leftover", item.text)
        if item.kind is Kind.WHAT:
            if following is not None and following.kind in _SPLITTERS and following.start == item.end:
                yield attrs.evolve(item, senses=(Sense(Kind.WHICH),))
        elif item.kind is Kind.COMPARATOR and following is not None and following.kind is Kind.PERIOD:
            continue  # `over the last 7 days`
        elif item.kind is Kind.FOLLOW_UP and number and item.text.startswith("and "):
            yield attrs.evolve(item, senses=(Sense(Kind.AND),))
        elif item.kind is Kind.RANGE:
            earlier = items[number - 1].kind if number else Kind.FILLER
            if (
                earlier in {Kind.NUMBER, Kind.VALUE}
                and following is not None
                and following.kind
                in {
                    Kind.NUMBER,
                    Kind.VALUE,
                    Kind.DIMENSION,
                }
            ):
                yield item
        elif item.kind is not Kind.FILLER:
            yield item
        elif item.sense.name == "count" and number + 1 < len(items) and items[number + 1].kind in _COUNTABLE:
            raise CannotReadError("leftover", f"{item.text} {items[number + 1].text}")


def _without_entities(items: list[Item]) -> list[Item]:
    """`revenue of players in Europe`: the players say nothing. In `revenue and players` they would."""
    kept: list[Item] = []
    for number, item in enumerate(items):
        if item.kind is Kind.ENTITY:
            around = [items[at].kind for at in (number - 1, number + 1) if 0 <= at < len(items)]
            if {Kind.AND, Kind.OR, Kind.BY, Kind.WHICH, Kind.NOT} & set(around):
                raise CannotReadError("leftover", item.text)
        else:
            kept.append(item)
    return kept


class _Reader:
    def __init__(self, items: Sequence[Item], setting: Setting, *, is_fragment: bool) -> None:
        self.setting = setting
        self.layer = setting.layer
        self.said = frozenset(item.sense.name for item in items if item.kind is Kind.FILLER)
        self.is_fragment = is_fragment
        found = Numbers(setting.layer, setting.sizes, setting.formats).read(_without_entities(list(_structural(items))))
        self.items = list(found.items)
        self.bounds: tuple[Bound, ...] = found.bounds
        self.draft = Draft(filters=found.filters)
        self.used: set[int] = set()
        self.subjects: list[tuple[int, bool]] = []
        """(item, whether several are wanted) of each split that `which` or a superlative is about."""
        self.ordering_metric: str | None = None
        self.groups: list[tuple[str, str, bool]] = []
        """(dimension, text, whether they are several that are not joined by `or`) of values that are named together."""
        self.has_groups = False
        """Several values are put side by side."""

    def read(self) -> Iterator[Draft]:
        self._values()
        self._limit()
        self._splits()
        self._metrics()
        self._share()
        self._buckets()
        self._require_fit()
        alternatives = list(self._orders())
        for draft in self._with_times(alternatives):
            yield draft

    # --- walking ---------------------------------------------------------------------------------------------------
    def kind(self, at: int) -> Kind | None:
        return self.items[at].kind if 0 <= at < len(self.items) and at not in self.used else None

    def all_of(self, kind: Kind) -> list[int]:
        return [at for at, item in enumerate(self.items) if item.kind is kind and at not in self.used]

    def has(self, kind: Kind) -> bool:
        return bool(self.all_of(kind))

    # --- values ----------------------------------------------------------------------------------------------------
    def _values(self) -> None:
        at = 0
        while at < len(self.items):
            if self.kind(at) is Kind.VALUE:
                at = self._group(at)
            else:
                at += 1

    def _group(self, start: int) -> int:
        """Values of one dimension that belong together, from one of them on."""
        name = self.items[start].sense.name
        values, joins, end = [self.items[start].sense.value], [], start + 1
        self.used.add(start)
        while True:
            following = end
            while self.kind(following) in {Kind.AND, Kind.OR, Kind.COMPARE}:
                following += 1
            if self.kind(following) is Kind.DIMENSION and self.items[following].sense.name == name:
                following += 1
            is_joined = following > end or self.kind(start - 1) is Kind.COMPARE
            is_more = is_joined and self.kind(following) is Kind.VALUE
            if not is_more or self.items[following].sense.name != name:
                break
            between = [self.items[at].kind for at in range(end, following)]
            if Kind.DIMENSION in between and len(between) == 1:
                break
            joins += between
            values.append(self.items[following].sense.value)
            self.used.update(range(end, following + 1))
            end = following + 1
        opening = start
        for at in (start - 1, end):
            if self.kind(at) is Kind.DIMENSION and self.items[at].sense.name == name:
                is_of_next = at == end and self.kind(end + 1) is Kind.VALUE and self.items[end + 1].sense.name == name
                is_asked = at < start and self.kind(at - 1) in {Kind.BY, Kind.WHICH}
                if not is_of_next and not is_asked:
                    self.used.add(at)
                    opening, end = min(opening, at), max(end, at + 1)
        comparison = Comparison.IN
        if self.kind(opening - 1) is Kind.NOT and not self.items[opening - 1].sense.name:
            self.used.add(opening - 1)
            comparison = Comparison.NOT_IN
        if self.kind(end) is Kind.NOT and self.items[end].sense.name:
            self.used.add(end)
            comparison = Comparison.NOT_IN
            end += 1
            if self.kind(end) is Kind.DIMENSION and self.items[end].sense.name == name:
                self.used.add(end)
                end += 1
        self._add_filter(MetricFilter(name, comparison, tuple(dict.fromkeys(values))))
        text = self.items[start].text if end == start + 1 else f"{self.items[start].text} … {self.items[end - 1].text}"
        self.groups.append((name, text, len(values) > 1 and Kind.OR not in joins))
        is_set_apart = Kind.COMPARE in joins or (len(values) > 1 and self._is_set_apart())
        if comparison is Comparison.IN and len(values) > 1 and is_set_apart:
            self.has_groups = True
            self._add_dimension(name)
        return end

    def _is_set_apart(self) -> bool:
        return self.has(Kind.RESPECTIVELY) or self.has(Kind.COMPARE)

    def _add_filter(self, one: MetricFilter) -> None:
        for known in self.draft.filters:
            if known.dimension == one.dimension and (
                known.comparison is one.comparison or {known.comparison, one.comparison} & {Comparison.IN}
            ):
                raise CannotReadError("contradiction", *one.values)
        self.draft.filters += (one,)

    def _add_dimension(self, name: str) -> None:
        if name not in self.draft.dimensions:
            self.draft.dimensions += (name,)

    # --- how many rows ---------------------------------------------------------------------------------------------
    def _limit(self) -> None:
        for at in self.all_of(Kind.NUMBER):
            if self.kind(at) is not Kind.NUMBER:
                continue
            beside = next((one for one in (at - 1, at + 1) if self.kind(one) is Kind.SUPERLATIVE), None)
            is_counted = self.kind(at + 1) in _SPLITTERS and (
                self.has(Kind.SUPERLATIVE) or self.kind(at - 1) is Kind.WHICH
            )
            if beside is None and not is_counted:
                raise CannotReadError("leftover", self.items[at].text)
            number = self.items[at].sense
            if number.is_percent or number.number != int(number.number) or not 1 <= number.number <= MAX_LIMIT:
                raise CannotReadError("leftover", self.items[at].text)
            if self.draft.limit is not None:
                raise CannotReadError("contradiction", self.items[at].text)
            self.draft.limit = int(number.number)
            del self.items[at]
            self.used = {one - (one > at) for one in self.used}

    # --- splits ----------------------------------------------------------------------------------------------------
    def _splits(self) -> None:
        for at in range(len(self.items)):
            kind = self.kind(at)
            if kind is Kind.BY:
                self._by(at)
            elif kind is Kind.WHICH:
                self._which(at)
        self._bare()

    def _by(self, at: int) -> None:
        following = at + 1
        if self.kind(following) is Kind.METRIC:
            self.used.add(at)
            self.ordering_metric = self.items[following].sense.name
            if not (self.draft.limit or any(self.has(kind) for kind in _ORDERING)):
                raise CannotReadError("leftover", self.items[at].text)
            return
        if self.kind(at - 1) in _SPLITTERS and self.kind(following) in _SPLITTERS:
            if self.items[at - 1].sense == self.items[following].sense:
                self.used.add(at - 1)  # `region by region`
        if self.kind(following) not in _SPLITTERS:
            is_behind = at - 1 in self.used and self.items[at - 1].kind in _SPLITTERS
            if is_behind:
                self.used.add(at)  # `按渠道分`
                return
            if self.has_groups or (len(self.all_of(Kind.METRIC)) and self._is_alone(at)):
                self.used.add(at)
                return
            raise CannotReadError("leftover", self.items[at].text)
        self.used.add(at)
        self._take_list(following)

    def _is_alone(self, at: int) -> bool:
        """`revenue of iOS and Android, each`: behind several values of one dimension."""
        for one in self.draft.filters:
            if one.comparison is Comparison.IN and len(one.values) > 1 and at == len(self.items) - 1:
                self._add_dimension(one.dimension)
                self.has_groups = True
                return True
        return False

    def _take_list(self, at: int) -> None:
        """`server, channel and by week`: dimensions and units from an item on."""
        while self.kind(at) in _SPLITTERS:
            self._take(at)
            following = at + 1
            while self.kind(following) in {Kind.AND, Kind.BY}:
                following += 1
            if self.kind(following) not in _SPLITTERS or following == at + 1:
                return
            self.used.update(range(at + 1, following))
            at = following

    def _take(self, at: int) -> None:
        item = self.items[at]
        self.used.add(at)
        if item.kind is Kind.DIMENSION:
            is_again = any(self.items[one].sense == item.sense for one, _ in self.subjects if one != at)
            if item.sense.name in self.draft.dimensions and not self.has_groups and not is_again:
                raise CannotReadError("contradiction", item.text)
            self._add_dimension(item.sense.name)
        else:
            self._set_bucket(Bucket(item.sense.name), item.text)

    def _set_bucket(self, bucket: Bucket, text: str) -> None:
        if self.draft.bucket not in {None, bucket}:
            raise CannotReadError("contradiction", text)
        self.draft.bucket = bucket

    def _which(self, at: int) -> None:
        if self.kind(at + 1) in _SPLITTERS:
            self.used.add(at)
            is_plural = self.items[at + 1].is_plural or self.items[at].text.endswith(("些", "ones"))
            self.subjects.append((at + 1, is_plural))
            self._take_list(at + 1)
        elif self.kind(at - 1) in _SPLITTERS or (at - 1 in self.used and self.items[at - 1].kind in _SPLITTERS):
            self.used.add(at)

    def _bare(self) -> None:
        """Dimensions and units without a word before them, where something says that groups are wanted."""
        is_grouped = (
            self.has(Kind.SUPERLATIVE) or self.has(Kind.RANKING) or self.has(Kind.BREAKDOWN) or bool(self.bounds)
        )
        periods = len(self.all_of(Kind.PERIOD))
        compares = self.all_of(Kind.COMPARE)
        is_compared = bool(compares) and not self.has_groups
        for at in (*self.all_of(Kind.DIMENSION), *self.all_of(Kind.TIME_UNIT)):
            if self.kind(at) is None:
                continue
            item = self.items[at]
            is_all = self.kind(at - 1) is Kind.ALL
            if self._is_noun_of_value(at) and (not is_grouped or self.subjects):
                self.used.add(at)
                continue
            is_beside = not periods or (periods == 1 and at - 1 in compares and not self._names_last())
            if not is_grouped and not (is_compared and is_beside and item.kind is Kind.DIMENSION):
                if is_all and item.kind is Kind.DIMENSION:
                    raise CannotReadError("each_or_all", item.sense.name)
                raise CannotReadError("leftover", item.text)
            if self.has(Kind.SUPERLATIVE):
                self.subjects.append((at, item.is_plural or is_all))
            elif is_compared and not is_grouped:
                self.used.update(compares)
            self._take_list(at)
        if is_grouped and len({self.items[one].sense for one, _ in self.subjects}) > 1:
            raise CannotReadError("contradiction", self.items[self.subjects[-1][0]].text)
        if self.draft.dimensions or self.draft.bucket is not None or self.has(Kind.BUCKET):
            self.used.update(self.all_of(Kind.BREAKDOWN))
            if not self.has(Kind.PERIOD):
                self.used.update(self.all_of(Kind.COMPARE))

    def _is_noun_of_value(self, at: int) -> bool:
        """`European servers`: a value of one column, and another column of the same table as its noun."""
        if at == 0 or self.items[at].kind is not Kind.DIMENSION or self.items[at - 1].kind is not Kind.VALUE:
            return False
        columns = (self.layer.dimensions[self.items[one].sense.name].column for one in (at - 1, at))
        return len({column.partition(".")[0] for column in columns}) == 1

    def _names_last(self) -> bool:
        """`last month`, which a comparison may be with."""
        spans = (self.items[at].sense.span for at in self.all_of(Kind.PERIOD))
        return any(span.is_last or span.is_previous for span in spans if span is not None)

    # --- metrics ---------------------------------------------------------------------------------------------------
    def _metrics(self) -> None:
        bounded = [bound.metric for bound in self.bounds]
        every = self.all_of(Kind.METRIC)
        shown = [at for at in every if self.items[at] not in bounded] or every
        names = list(dict.fromkeys(self.items[at].sense.name for at in shown))
        last: int | None = None
        for at in shown:
            is_joined = last is None or any(self.items[one].kind in _JOINS for one in range(last + 1, at))
            is_order = self.items[at].sense.name == self.ordering_metric
            is_again = any(self.items[at].sense.name == self.items[one].sense.name for one in shown if one < at)
            if not is_joined and not is_order and not is_again:
                raise CannotReadError("contradiction", self.items[at].text)
            last = at
        if not names and not self.is_fragment:
            raise CannotReadError("no_metric")
        if len(names) > 1 and not self.has(Kind.PERIOD):
            self.used.update(self.all_of(Kind.COMPARE))
        self.draft.metrics = tuple(names)
        if self.bounds and not (
            self.draft.dimensions or self.draft.bucket is not None or self.has(Kind.BUCKET) or self.is_fragment
        ):
            raise CannotReadError("contradiction", self.bounds[0].metric.text)
        self.draft.thresholds = tuple(dict.fromkeys(bound.threshold for bound in self.bounds))
        self.metric_places = shown
        self.used.update(every)
        units = {self.layer.metrics[name].unit for name in names}
        for at in self.all_of(Kind.UNIT_OF_MEASURE):
            if self.items[at].sense.name in units:
                self.used.add(at)

    def _share(self) -> None:
        places = self.all_of(Kind.SHARE)
        if not places:
            return
        self.used.update(places)
        is_in_percent = all(self.items[at].sense.name == "percent" for at in places)
        if is_in_percent and (self.has(Kind.GROWTH) or self.has(Kind.OVER)):
            return
        draft = self.draft
        draft.share = True
        if self.has_groups or (draft.dimensions and any(one.dimension in draft.dimensions for one in draft.filters)):
            raise CannotReadError("contradiction", self.items[places[0]].text)
        if not draft.dimensions and not self.is_fragment and len(draft.filters) != 1:
            raise CannotReadError("contradiction", self.items[places[0]].text)

    # --- time as a split -------------------------------------------------------------------------------------------
    def _buckets(self) -> None:
        for at in self.all_of(Kind.BUCKET):
            self._set_bucket(Bucket(self.items[at].sense.name), self.items[at].text)
            self.used.add(at)
        averages = [at for at in self.all_of(Kind.AVERAGE) if not self._is_mean_already(at)]
        self.used.update(averages)
        named = {self.items[at].sense.name for at in averages if self.items[at].sense.name}
        if len(named) > 1:
            raise CannotReadError("contradiction", self.items[averages[-1]].text)
        if named:
            self.draft.average_per = Bucket(named.pop())
            if self.draft.bucket is self.draft.average_per:
                self.draft.bucket = None
        elif averages and self.draft.bucket is not None:
            self.draft.average_per, self.draft.bucket = self.draft.bucket, None
        if averages and self.draft.average_per is None and self.draft.dimensions:
            raise CannotReadError("leftover", self.items[averages[0]].text)
        self.is_average_of_what = bool(averages) and self.draft.average_per is None

    def _is_mean_already(self, at: int) -> bool:
        """`average revenue per payer`, where `revenue per payer` is the metric."""
        if self.items[at].sense.name or self.draft.bucket is not None or not self.draft.metrics:
            return False
        following = self.items[at + 1] if at + 1 < len(self.items) else self.items[at]
        if following.kind is Kind.METRIC and (" per " in following.text or following.text.startswith(("人均", "每"))):
            self.used.add(at)
            return True
        return False

    # --- order -----------------------------------------------------------------------------------------------------
    def _orders(self) -> Iterator[Draft]:
        """The draft with its order; several where the number of rows is left open."""
        draft = self.draft
        growths = self.all_of(Kind.GROWTH)
        superlatives = self.all_of(Kind.SUPERLATIVE)
        rankings = self.all_of(Kind.RANKING)
        self.used.update((*superlatives, *rankings))
        directions = {self.items[at].sense.name for at in superlatives}
        is_split = bool(draft.dimensions) or draft.bucket is not None
        if not directions and draft.limit is None:
            directions |= self._said_by_metric()
        if len(directions) > 1:
            raise CannotReadError("contradiction", self.items[superlatives[-1]].text)
        if rankings:
            self._require_split(is_split, rankings[0])
            metric = self.ordering_metric
            draft.order = DraftOrder(metric, "low" not in {self.items[at].sense.name for at in rankings})
        if not directions and draft.limit is None:
            if self.subjects and not (draft.thresholds or rankings or self.is_fragment or self.has_groups):
                if not self.has(Kind.COMPARE) and not self.has(Kind.BREAKDOWN) and not draft.share:
                    raise CannotReadError("leftover", self.items[self.subjects[0][0]].text)
            yield draft
            return
        at = superlatives[0] if superlatives else 0
        if not self.is_fragment:
            self._require_split(is_split, at)
            if len(draft.dimensions) + (draft.bucket is not None) > 1:
                raise CannotReadError("contradiction", self.items[at].text)
        direction = directions.pop() if directions else "top"
        metric = self._metric_beside(at) if superlatives else self.ordering_metric
        descending = self._is_descending(direction, metric)
        by_change = bool(growths)
        if by_change:
            falls = any(self.items[one].sense.name == "down" for one in growths)
            descending = (direction in {"high", "top", "best"}) is not falls
        draft.order = DraftOrder(metric, descending, by_change)
        if draft.limit is not None or self.is_fragment:
            yield draft
        elif rankings:
            yield attrs.evolve(draft)
        elif any(is_plural for _, is_plural in self.subjects) or not self.subjects:
            yield attrs.evolve(draft, because=self.items[at].text)
            yield attrs.evolve(draft, limit=1, because=self.items[at].text)
        else:
            yield attrs.evolve(draft, limit=1)

    def _require_split(self, is_split: bool, at: int) -> None:  # noqa: FBT001 - one of two facts, named at each call
        if not is_split and not self.is_fragment:
            raise CannotReadError("leftover", self.items[at].text)

    def _said_by_metric(self) -> set[str]:
        """`which server has the highest level`, where `highest level` is the metric's name."""
        if not any(True for _ in self.subjects) or self.draft.thresholds:
            return set()
        for at in self.metric_places:
            for word, direction in self.setting.superlatives.items():
                if self.items[at].text.startswith(word):
                    return {direction}
        return set()

    def _metric_beside(self, at: int) -> str | None:
        """Which metric a superlative is about."""
        if self.ordering_metric is not None:
            return self.ordering_metric
        places = self.metric_places
        if not places:
            return None
        before = max((one for one in places if one < at), default=None)
        behind = min((one for one in places if one > at), default=None)
        if self.items[at].is_han:
            chosen = before if before is not None else behind
        else:
            chosen = behind if behind is not None else before
        return self.items[chosen].sense.name if chosen is not None else None

    def _is_descending(self, direction: str, metric: str | None) -> bool:
        if direction in {"high", "top"}:
            return True
        if direction in {"low", "bottom"}:
            return False
        name = metric or next(iter(self.draft.metrics), "")
        lower_is_better = name in self.layer.metrics and self.layer.metrics[name].lower_is_better
        return (direction == "best") is not lower_is_better

    # --- times -----------------------------------------------------------------------------------------------------
    def _with_times(self, drafts: Sequence[Draft]) -> Iterator[Draft]:
        growths, overs, trends = (self.all_of(kind) for kind in (Kind.GROWTH, Kind.OVER, Kind.TREND))
        compares = self.all_of(Kind.COMPARE)
        self._require_than(compares)
        periods = [at for at, item in enumerate(self.items) if item.kind is Kind.PERIOD]
        is_open = bool(compares) and not self.has_groups
        asked = Asked(
            spans=tuple(span for span in (self.items[at].sense.span for at in periods) if span is not None),
            compares=is_open,
            together="together" in self.said,
            growth=self.items[growths[0]].sense.name if growths else "",
            over=self.items[overs[0]].sense.name if overs else "",
            has_bucket=self.draft.bucket is not None or bool(trends),
            are_listed=len(periods) > 1 and any(item.kind is Kind.AND for item in self.items[periods[0] : periods[-1]]),
        )
        self.used.update((*growths, *overs, *trends, *compares))
        self._require_nothing_left()
        for times in self._times(asked):
            for draft in drafts:
                found = attrs.evolve(
                    draft, period=times.period, compared=times.compared, compares_preceding=times.is_preceding
                )
                if not found.because:
                    found.because = next((self.items[at].text for at in (*trends, *growths, *overs, *periods)), "")
                if times.bucket is not None and found.bucket is None and found.average_per is None:
                    found.bucket = times.bucket
                yield from self._apart(found, wants_trend=bool(trends))

    def _require_than(self, compares: Sequence[int]) -> None:
        mores = [at for at in compares if self.items[at].sense.name == "more"]
        if mores and len(mores) == len(compares):
            raise CannotReadError("leftover", self.items[mores[0]].text)

    def _require_fit(self) -> None:
        """Words that change nothing, if the metric and the split are of the right kind."""
        is_cut = self.draft.bucket is not None or self.draft.average_per is not None
        if "cumulative" in self.said and (is_cut or self.has(Kind.TREND)):
            raise CannotReadError("contradiction", "cumulative")
        expressions = [self.layer.metrics[name].expression.upper() for name in self.draft.metrics]
        if "distinct" in self.said and not all("DISTINCT" in expression for expression in expressions):
            raise CannotReadError("leftover", "distinct")

    def _times(self, asked: Asked) -> Iterator[Times]:
        if self.is_fragment and asked.compares and len(asked.spans) == 1:
            yield Times(None, asked.spans[0].period)
            return
        yield from times_of(asked, self.setting.today)

    def _apart(self, draft: Draft, *, wants_trend: bool) -> Iterator[Draft]:
        """`average level in Europe and Asia`: of each, or of both as one, where the parts do not sum up."""
        several = [(name, text) for name, text, is_several in self.groups if is_several]
        additive = all(self.layer.metrics[name].additive for name in draft.metrics)
        is_open = several and not additive and not draft.dimensions and not self.is_fragment
        if is_open and "together" not in self.said:
            name, draft.because = several[0]
            yield from self._cut(attrs.evolve(draft, dimensions=(name,)), wants_trend=wants_trend)
        left_out = {one.dimension for one in draft.filters if one.comparison is Comparison.NOT_IN}
        if left_out & set(draft.dimensions) and "together" in self.said:
            rest = tuple(name for name in draft.dimensions if name not in left_out)
            yield from self._cut(attrs.evolve(draft, dimensions=rest), wants_trend=wants_trend)
        yield from self._cut(draft, wants_trend=wants_trend)

    def _cut(self, draft: Draft, *, wants_trend: bool) -> Iterator[Draft]:
        """Where a trend or a mean does not say of what length its pieces are."""
        if self.is_average_of_what:
            for bucket in (Bucket.DAY, Bucket.WEEK, Bucket.MONTH):
                yield attrs.evolve(draft, average_per=bucket)
        elif wants_trend and draft.bucket is None:
            for bucket in trend_buckets(draft.period):
                yield attrs.evolve(draft, bucket=bucket)
        else:
            yield draft

    def _require_nothing_left(self) -> None:
        left = [
            item.text
            for at, item in enumerate(self.items)
            if at not in self.used and item.kind not in _MAY_STAY and not (self.is_fragment and item.kind is Kind.WHICH)
        ]
        if left:
            raise CannotReadError("leftover", *left)
