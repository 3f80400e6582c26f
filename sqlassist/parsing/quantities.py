"""Numbers in a question: values of a dimension, bounds of one, bounds of a metric, and how many rows are wanted."""

from collections.abc import Mapping, Sequence

import attrs

from sqlassist.metric_query import Comparison, MetricFilter, Threshold
from sqlassist.parsing.draft import CannotReadError
from sqlassist.parsing.items import Item, Kind, Sense
from sqlassist.semantic import SemanticLayer

MAX_LIMIT = 1000
MAX_LISTED = 50  # `servers 3 to 40`: a longer range is no list of names any more
_INSIDE = (Kind.RANGE, Kind.AND, Kind.OR)


@attrs.frozen
class Bound:
    """A bound of a metric, and the item that says which."""

    threshold: Threshold
    metric: Item


@attrs.frozen
class Quantities:
    """What the numbers of a question were, and the items that are left of it."""

    items: tuple[Item, ...]
    filters: tuple[MetricFilter, ...]
    bounds: tuple[Bound, ...]


def _number_text(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


class Numbers:
    """Reads them, from left to right."""

    def __init__(self, layer: SemanticLayer, sizes: frozenset[str], formats: Mapping[str, str]) -> None:
        """`sizes`: dimensions that are numbers; `formats`: how a spoken number becomes a value."""
        self.layer = layer
        self.sizes = sizes
        self.formats = {**dict.fromkeys(sizes, "{}"), **formats}

    def read(self, items: Sequence[Item]) -> Quantities:
        """Take numbers beside dimensions and metrics out of a question."""
        rest, filters = self._dimensions(_expanded(items))
        rest, bounds = self._thresholds(rest)
        return Quantities(tuple(rest), tuple(filters), tuple(bounds))

    # --- dimensions ------------------------------------------------------------------------------------------------
    def _dimensions(self, items: list[Item]) -> tuple[list[Item], list[MetricFilter]]:
        kept: list[Item] = []
        filters: list[MetricFilter] = []
        position = 0
        while position < len(items):
            taken = self._dimension_at(items, position, kept)
            if taken is None:
                kept.append(items[position])
                position += 1
                continue
            position, found = taken
            if isinstance(found, Item):
                kept.append(found)
            else:
                filters += found
        return kept, filters

    def _dimension_at(
        self, items: list[Item], at: int, kept: list[Item]
    ) -> tuple[int, Item | list[MetricFilter]] | None:
        kinds = [item.kind for item in items[at : at + 7]]
        if kinds[:3] == [Kind.NUMBER, Kind.RANGE, Kind.DIMENSION] and kinds[3:4] == [Kind.NUMBER]:
            low, high = items[at].sense.number, items[at + 3].sense.number
            return at + 4, self._between(items[at + 2], low, high)
        if kinds[:2] == [Kind.NUMBER, Kind.DIMENSION]:
            number, dimension = items[at], items[at + 1]
            is_beside = number.end == dimension.start and dimension.is_han
            if is_beside and dimension.sense.name in self.formats and kinds[2:3] != [Kind.NUMBER]:
                return self._of(items, at + 2, dimension, number, kept)
            return None
        is_numbered = kinds[:2] == [Kind.DIMENSION, Kind.NUMBER] and items[at].sense.name in self.formats
        if is_numbered and (items[at].sense.name in self.sizes or items[at].end == items[at + 1].start):
            return self._of(items, at + 2, items[at], items[at + 1], kept)
        if kinds[:3] == [Kind.DIMENSION, Kind.COMPARATOR, Kind.NUMBER] and items[at].sense.name in self.sizes:
            return at + 3, [self._bound(items[at], items[at + 1].sense.name, items[at + 2].sense.number)]
        is_bounded = kinds[:3] == [Kind.DIMENSION, Kind.BETWEEN, Kind.NUMBER] and items[at].sense.name in self.sizes
        if is_bounded and kinds[3:5] in ([Kind.AND, Kind.NUMBER], [Kind.RANGE, Kind.NUMBER]):
            return at + 5, self._between(items[at], items[at + 2].sense.number, items[at + 4].sense.number)
        return None

    def _of(
        self, items: list[Item], at: int, dimension: Item, number: Item, kept: list[Item]
    ) -> tuple[int, Item | list[MetricFilter]]:
        """Behind a dimension and its number."""
        value = number.sense.number
        before = kept[-1].kind if kept else None
        if before is Kind.COMPARATOR:
            if dimension.sense.name not in self.sizes:
                raise CannotReadError("leftover", kept[-1].text)
            return at, [self._bound(dimension, kept.pop().sense.name, value)]
        if at < len(items) and items[at].kind is Kind.AND_MORE:
            return at + 1, [self._bound(dimension, items[at].sense.name, value)]
        high, behind = self._second(items, at, dimension, is_between=before is Kind.BETWEEN)
        if high is not None:
            if before is Kind.BETWEEN:
                kept.pop()
            return behind, self._between(dimension, value, high)
        return at, self._value(dimension, value, number)

    def _second(self, items: list[Item], at: int, dimension: Item, *, is_between: bool) -> tuple[float | None, int]:
        """The upper end behind `level 10`, as in `to 20`, `and level 20`."""
        if at < len(items) and items[at].kind in ((Kind.RANGE, Kind.AND) if is_between else (Kind.RANGE,)):
            behind = at + 1
            if behind < len(items) and items[behind].kind is Kind.DIMENSION:
                if items[behind].sense.name != dimension.sense.name:
                    return None, at
                behind += 1
            if behind < len(items) and items[behind].kind is Kind.NUMBER:
                return items[behind].sense.number, behind + 1
        return None, at

    def _value(self, dimension: Item, value: float, number: Item) -> Item:
        name = dimension.sense.name
        if value != int(value) or number.sense.is_percent:
            raise CannotReadError("leftover", number.text)
        stored = self.formats[name].format(int(value))
        start, end = min(dimension.start, number.start), max(dimension.end, number.end)
        text = f"{dimension.text} {number.text}"
        return Item(text, start, end, (Sense(Kind.VALUE, name, stored),), is_han=dimension.is_han)

    def _bound(self, dimension: Item, sign: str, value: float) -> MetricFilter:
        if dimension.sense.name not in self.sizes:
            raise CannotReadError("leftover", dimension.text)
        return MetricFilter(dimension.sense.name, Comparison(sign), (_number_text(value),))

    def _between(self, dimension: Item, low: float, high: float) -> list[MetricFilter]:
        if low > high:
            raise CannotReadError("contradiction", dimension.text)
        name = dimension.sense.name
        if name in self.sizes:
            return [self._bound(dimension, ">=", low), self._bound(dimension, "<=", high)]
        if name not in self.formats or high - low >= MAX_LISTED or low != int(low) or high != int(high):
            raise CannotReadError("leftover", dimension.text)
        listed = tuple(self.formats[name].format(number) for number in range(int(low), int(high) + 1))
        return [MetricFilter(name, Comparison.IN, listed)]

    # --- metrics ---------------------------------------------------------------------------------------------------
    def _thresholds(self, items: list[Item]) -> tuple[list[Item], list[Bound]]:
        bounds: list[Bound] = []
        position = 0
        while position < len(items):
            kinds = [item.kind for item in items[position : position + 3]]
            if kinds == [Kind.NUMBER, Kind.METRIC, Kind.AND_MORE]:
                number, metric, more = items[position : position + 3]  # `60 orders or more`
                value = self._scaled(metric, number, None)
                bounds.append(Bound(Threshold(metric.sense.name, Comparison(more.sense.name), value), metric))
                items = [*items[:position], metric, *items[position + 3 :]]
            found = _quantity_at(items, position)
            if found is None:
                position += 1
                continue
            end, signs, unit = found
            metric = _metric_of(items, position, end)
            amounts = [self._scaled(metric, number, unit) for _, number in signs]
            if amounts != sorted(amounts):  # `between 5 and 1`
                raise CannotReadError("contradiction", metric.text)
            bounds += [
                Bound(Threshold(metric.sense.name, Comparison(sign), amount), metric)
                for (sign, _), amount in zip(signs, amounts, strict=True)
            ]
            items = items[:position] + items[end:]
        return items, bounds

    def _scaled(self, metric: Item, number: Item, unit: Item | None) -> float:
        known = self.layer.metrics[metric.sense.name].unit
        value = number.sense.number
        if unit is not None and unit.sense.name != known:
            raise CannotReadError("leftover", unit.text)
        if number.sense.is_percent and known != "%":
            raise CannotReadError("leftover", number.text)
        return value / 100 if known == "%" and (number.sense.is_percent or value > 1) else value


def _expanded(items: Sequence[Item]) -> list[Item]:
    """`20级` as a dimension and its number."""
    found: list[Item] = []
    for item in items:
        if item.kind is Kind.VALUE and not item.sense.value:
            found.append(attrs.evolve(item, senses=(Sense(Kind.DIMENSION, item.sense.name),)))
            found.append(attrs.evolve(item, senses=(Sense(Kind.NUMBER, number=item.sense.number),), start=item.end))
        else:
            found.append(item)
    return found


def _quantity_at(items: list[Item], at: int) -> tuple[int, list[tuple[str, Item]], Item | None] | None:
    """(item behind it, signs with their numbers, unit) of `more than $ 500`, `500 or more`, `between 5 and 10`."""
    kind = items[at].kind
    if kind is Kind.COMPARATOR:
        number, unit, end = _amount(items, at + 1)
        if number is not None and end < len(items) and _is_how_long(number, items[end]):
            raise CannotReadError("leftover", f"{items[at].text} {number.text} {items[end].text}")
        return (end, [(items[at].sense.name, number)], unit) if number is not None else None
    if kind is Kind.BETWEEN:
        low, unit, end = _amount(items, at + 1)
        if low is None or end >= len(items) or items[end].kind not in _INSIDE:
            return None
        high, other, end = _amount(items, end + 1)
        return (end, [(">=", low), ("<=", high)], unit or other) if high is not None else None
    if kind in {Kind.NUMBER, Kind.UNIT_OF_MEASURE}:
        number, unit, end = _amount(items, at)
        is_of_metric = at > 0 and items[at - 1].kind is Kind.METRIC
        if number is not None and is_of_metric and end < len(items) and items[end].kind is Kind.RANGE:
            high, other, behind = _amount(items, end + 1)
            return (behind, [(">=", number), ("<=", high)], unit or other) if high is not None else None
        if number is not None and end < len(items) and items[end].kind is Kind.AND_MORE:
            behind = end + 1
            if unit is None and behind < len(items) and items[behind].kind is Kind.UNIT_OF_MEASURE:
                return behind + 1, [(items[end].sense.name, number)], items[behind]
            return behind, [(items[end].sense.name, number)], unit
    return None


def _is_how_long(number: Item, unit: Item) -> bool:
    """`over 3 days` is a time and no bound of a metric; `超过100的天` and `over 100 by day` are bounds."""
    return unit.kind is Kind.TIME_UNIT and unit.start - number.end <= (0 if unit.is_han else 1)


def _amount(items: list[Item], at: int) -> tuple[Item | None, Item | None, int]:
    unit: Item | None = None
    if at < len(items) and items[at].kind is Kind.UNIT_OF_MEASURE:
        unit, at = items[at], at + 1
    if at >= len(items) or items[at].kind is not Kind.NUMBER:
        return None, None, at
    number, at = items[at], at + 1
    if unit is None and at < len(items) and items[at].kind is Kind.UNIT_OF_MEASURE:
        unit, at = items[at], at + 1
    return number, unit, at


def _metric_of(items: list[Item], start: int, end: int) -> Item:
    """Which metric an amount is about: the one beside it, or the only one of the question."""
    behind = items[end] if end < len(items) and items[end].kind is Kind.METRIC else None
    before = items[start - 1] if start > 0 and items[start - 1].kind is Kind.METRIC else None
    if before is not None and (behind is None or before.is_han):
        return before
    if behind is not None and before is None:
        return behind
    known = [item for item in items if item.kind is Kind.METRIC]
    if len({item.sense.name for item in known}) == 1:
        return known[0]
    raise CannotReadError("leftover", items[start].text)
