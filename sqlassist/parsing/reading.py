"""One reading of a question: items with one sense each become a draft, or nothing if a word stays unexplained."""

from collections.abc import Iterator, Sequence

import attrs

from sqlassist.metric_query import Bucket, Comparison
from sqlassist.parsing.draft import CannotReadError, Draft
from sqlassist.parsing.items import Item, Kind
from sqlassist.parsing.ordering import ordered, read_limit
from sqlassist.parsing.splits import read_splits
from sqlassist.parsing.times import Asked, Times, times_of, trend_buckets
from sqlassist.parsing.tokens import words_of
from sqlassist.parsing.values import read_values
from sqlassist.parsing.walk import Setting, Walk

_JOINS = frozenset({Kind.AND, Kind.OR, Kind.COMPARE, Kind.RANGE})
_MAY_STAY = frozenset(
    {Kind.AND, Kind.RANGE, Kind.ALL, Kind.BETWEEN, Kind.FOLLOW_UP, Kind.ADDED, Kind.RESPECTIVELY, Kind.PERIOD}
)
"""Kinds that change nothing where no rule has used them; periods are read apart."""


def drafts_of(items: Sequence[Item], setting: Setting, *, is_fragment: bool = False) -> tuple[Draft, ...]:
    """The readings of items with one sense each, the likeliest first.

    Raises:
        CannotReadError: A word is left over, or what is said does not fit together.
    """
    walk = Walk(items, setting, is_fragment=is_fragment)
    read_values(walk)
    read_limit(walk)
    read_splits(walk)
    _metrics(walk)
    _share(walk)
    _buckets(walk)
    _require_fit(walk)
    return tuple(_with_times(walk, list(ordered(walk))))


def _metrics(walk: Walk) -> None:
    bounded = [bound.metric for bound in walk.bounds]
    every = walk.all_of(Kind.METRIC)
    shown = [at for at in every if walk.items[at] not in bounded] or every
    names = list(dict.fromkeys(walk.items[at].sense.name for at in shown))
    last: int | None = None
    for at in shown:
        is_joined = last is None or any(walk.items[one].kind in _JOINS for one in range(last + 1, at))
        is_order = walk.items[at].sense.name == walk.ordering_metric
        is_again = any(walk.items[at].sense.name == walk.items[one].sense.name for one in shown if one < at)
        if not is_joined and not is_order and not is_again:
            raise CannotReadError("contradiction", walk.items[at].text)
        last = at
    if not names and not walk.is_fragment:
        raise CannotReadError("no_metric")
    if len(names) > 1 and not walk.has(Kind.PERIOD):
        walk.used.update(walk.all_of(Kind.COMPARE))
    walk.draft.metrics = tuple(names)
    if walk.bounds and not (
        walk.draft.dimensions or walk.draft.bucket is not None or walk.has(Kind.BUCKET) or walk.is_fragment
    ):
        raise CannotReadError("contradiction", walk.bounds[0].metric.text)
    walk.draft.thresholds = tuple(dict.fromkeys(bound.threshold for bound in walk.bounds))
    walk.metric_places = shown
    walk.used.update(every)
    spoken = {word for name in names for phrase in walk.layer.metrics[name].names.every for word in words_of(phrase)}
    walk.used.update(at for at in walk.all_of(Kind.GROWTH) if walk.items[at].text in spoken)  # `dropped actions`
    units = {walk.layer.metrics[name].unit for name in names}
    for at in walk.all_of(Kind.UNIT_OF_MEASURE):
        if walk.items[at].sense.name in units:
            walk.used.add(at)


def _share(walk: Walk) -> None:
    places = walk.all_of(Kind.SHARE)
    if not places:
        return
    walk.used.update(places)
    is_in_percent = all(walk.items[at].sense.name == "percent" for at in places)
    if is_in_percent and (walk.has(Kind.GROWTH) or walk.has(Kind.OVER)):
        return
    draft = walk.draft
    draft.share = True
    if walk.has_groups or (draft.dimensions and any(one.dimension in draft.dimensions for one in draft.filters)):
        raise CannotReadError("contradiction", walk.items[places[0]].text)
    if not draft.dimensions and not walk.is_fragment and len(draft.filters) != 1:
        raise CannotReadError("contradiction", walk.items[places[0]].text)


def _buckets(walk: Walk) -> None:
    for at in walk.all_of(Kind.BUCKET):
        walk.set_bucket(Bucket(walk.items[at].sense.name), walk.items[at].text)
        walk.used.add(at)
    averages = [at for at in walk.all_of(Kind.AVERAGE) if not _is_mean_already(walk, at)]
    walk.used.update(averages)
    named = {walk.items[at].sense.name for at in averages if walk.items[at].sense.name}
    if len(named) > 1:
        raise CannotReadError("contradiction", walk.items[averages[-1]].text)
    if named:
        walk.draft.average_per = Bucket(named.pop())
        if walk.draft.bucket is walk.draft.average_per:
            walk.draft.bucket = None
    elif averages and walk.draft.bucket in {Bucket.HOUR_OF_DAY, Bucket.DAY_OF_WEEK}:
        raise CannotReadError("contradiction", walk.items[averages[0]].text)
    elif averages and walk.draft.bucket is not None:
        walk.draft.average_per, walk.draft.bucket = walk.draft.bucket, None
    if averages and walk.draft.average_per is None and walk.draft.dimensions:
        raise CannotReadError("leftover", walk.items[averages[0]].text)
    walk.is_average_of_what = bool(averages) and walk.draft.average_per is None


def _is_mean_already(walk: Walk, at: int) -> bool:
    """`average revenue per payer`, where `revenue per payer` is the metric."""
    if walk.items[at].sense.name or walk.draft.bucket is not None or not walk.draft.metrics:
        return False
    following = walk.items[at + 1] if at + 1 < len(walk.items) else walk.items[at]
    if following.kind is Kind.METRIC and (" per " in following.text or following.text.startswith(("人均", "每"))):
        walk.used.add(at)
        return True
    return False


def _with_times(walk: Walk, drafts: Sequence[Draft]) -> Iterator[Draft]:
    growths, overs, trends = (walk.all_of(kind) for kind in (Kind.GROWTH, Kind.OVER, Kind.TREND))
    compares = walk.all_of(Kind.COMPARE)
    _require_than(walk, compares)
    periods = [at for at, item in enumerate(walk.items) if item.kind is Kind.PERIOD]
    is_open = bool(compares) and not walk.has_groups
    asked = Asked(
        spans=tuple(span for span in (walk.items[at].sense.span for at in periods) if span is not None),
        compares=is_open,
        together="together" in walk.said,
        growth=walk.items[growths[0]].sense.name if growths else "",
        over=walk.items[overs[0]].sense.name if overs else "",
        has_bucket=walk.draft.bucket is not None or bool(trends),
        are_listed=len(periods) > 1 and any(item.kind is Kind.AND for item in walk.items[periods[0] : periods[-1]]),
    )
    walk.used.update((*growths, *overs, *trends, *compares))
    _require_nothing_left(walk)
    for times in _times(walk, asked):
        for draft in drafts:
            found = attrs.evolve(draft, period=times.period, compared=times.compared, grows_from=times.grows_from)
            if not found.because:
                found.because = next((walk.items[at].text for at in (*trends, *growths, *overs, *periods)), "")
            if times.bucket is not None and found.bucket is None and found.average_per is None:
                found.bucket = times.bucket
            yield from _apart(walk, found, wants_trend=bool(trends))


def _require_than(walk: Walk, compares: Sequence[int]) -> None:
    mores = [at for at in compares if walk.items[at].sense.name == "more"]
    if mores and len(mores) == len(compares):
        raise CannotReadError("leftover", walk.items[mores[0]].text)


def _require_fit(walk: Walk) -> None:
    """Words that change nothing, if the metric and the split are of the right kind."""
    is_cut = walk.draft.bucket is not None or walk.draft.average_per is not None
    if "cumulative" in walk.said and (is_cut or walk.has(Kind.TREND)):
        raise CannotReadError("contradiction", walk.said["cumulative"])
    expressions = [walk.layer.metrics[name].expression.upper() for name in walk.draft.metrics]
    if "amount" in walk.said and any(expression.startswith("COUNT(") for expression in expressions):
        raise CannotReadError("leftover", walk.said["amount"])  # of orders: what they cost, or how many?
    if "number" in walk.said and not all(expression.startswith("COUNT(") for expression in expressions):
        raise CannotReadError("leftover", walk.said["number"])
    if "distinct" in walk.said and not all("DISTINCT" in expression for expression in expressions):
        raise CannotReadError("leftover", walk.said["distinct"])


def _times(walk: Walk, asked: Asked) -> Iterator[Times]:
    if walk.is_fragment and asked.compares and len(asked.spans) == 1:
        yield Times(None, asked.spans[0].period)
        return
    if walk.is_fragment and not asked.spans and asked.over in {"", "previous", "year"} and (asked.over or asked.growth):
        yield Times(grows_from=asked.over or "previous")
        return
    yield from times_of(asked, walk.setting.today)


def _apart(walk: Walk, draft: Draft, *, wants_trend: bool) -> Iterator[Draft]:
    """`average level in Europe and Asia`: of each, or of both as one, where the parts do not sum up."""
    several = [(name, text) for name, text, is_several in walk.groups if is_several]
    additive = all(walk.layer.metrics[name].additive for name in draft.metrics)
    is_open = several and not draft.dimensions and not walk.is_fragment and (draft.share or not additive)
    for name, text in walk.open_splits:
        draft.because = text
        if "together" not in walk.said and name not in draft.dimensions:
            split = attrs.evolve(draft, dimensions=(*draft.dimensions, name))
            yield from _cut(walk, split, wants_trend=wants_trend)
    if is_open and "together" not in walk.said:
        name, draft.because = several[0]
        yield from _cut(walk, attrs.evolve(draft, dimensions=(name,)), wants_trend=wants_trend)
    left_out = {one.dimension for one in draft.filters if one.comparison is Comparison.NOT_IN}
    if left_out & set(draft.dimensions) and "together" in walk.said:
        rest = tuple(name for name in draft.dimensions if name not in left_out)
        yield from _cut(walk, attrs.evolve(draft, dimensions=rest), wants_trend=wants_trend)
    yield from _cut(walk, draft, wants_trend=wants_trend)


def _cut(walk: Walk, draft: Draft, *, wants_trend: bool) -> Iterator[Draft]:
    """Where a trend or a mean does not say of what length its pieces are."""
    if walk.is_average_of_what:
        for bucket in (Bucket.DAY, Bucket.WEEK, Bucket.MONTH):
            yield attrs.evolve(draft, average_per=bucket)
    elif wants_trend and draft.bucket is None:
        for bucket in trend_buckets(draft.period):
            yield attrs.evolve(draft, bucket=bucket)
    else:
        yield draft


def _require_nothing_left(walk: Walk) -> None:
    left = [
        item.text
        for at, item in enumerate(walk.items)
        if at not in walk.used and item.kind not in _MAY_STAY and not (walk.is_fragment and item.kind is Kind.WHICH)
    ]
    if left:
        raise CannotReadError("leftover", *left)
