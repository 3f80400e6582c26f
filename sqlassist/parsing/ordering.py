"""How many rows, and which come first: `top 3`, `the worst day`, `ranked by`."""

from collections.abc import Iterator

import attrs

from sqlassist.parsing.draft import CannotReadError, Draft, DraftOrder
from sqlassist.parsing.items import Kind
from sqlassist.parsing.quantities import MAX_LIMIT
from sqlassist.parsing.walk import SPLITTERS, Walk


def read_limit(walk: Walk) -> None:
    """The number beside a superlative is how many rows are wanted; any other number is left over."""
    for at in walk.all_of(Kind.NUMBER):
        if walk.kind(at) is not Kind.NUMBER:
            continue
        beside = next((one for one in (at - 1, at + 1) if walk.kind(one) is Kind.SUPERLATIVE), None)
        is_counted = walk.kind(at + 1) in SPLITTERS and (walk.has(Kind.SUPERLATIVE) or walk.kind(at - 1) is Kind.WHICH)
        if beside is None and not is_counted:
            raise CannotReadError("leftover", walk.items[at].text)
        if walk.kind(at + 1) is Kind.BY and walk.kind(at + 2) in SPLITTERS:
            raise CannotReadError("contradiction", walk.items[at].text)  # `top 3 per region`: of each, or regions?
        number = walk.items[at].sense
        if number.is_percent or number.number != int(number.number) or not 1 <= number.number <= MAX_LIMIT:
            raise CannotReadError("leftover", walk.items[at].text)
        if walk.draft.limit is not None:
            raise CannotReadError("contradiction", walk.items[at].text)
        walk.draft.limit = int(number.number)
        del walk.items[at]
        walk.used = {one - (one > at) for one in walk.used}


def ordered(walk: Walk) -> Iterator[Draft]:
    """The draft with its order; several where the number of rows is left open."""
    draft = walk.draft
    growths = walk.all_of(Kind.GROWTH)
    superlatives = walk.all_of(Kind.SUPERLATIVE)
    rankings = walk.all_of(Kind.RANKING)
    walk.used.update((*superlatives, *rankings))
    directions = {walk.items[at].sense.name for at in superlatives}
    is_split = bool(draft.dimensions) or draft.bucket is not None
    if not directions and draft.limit is None:
        directions |= _said_by_metric(walk)
    if len(directions) > 1:
        raise CannotReadError("contradiction", walk.items[superlatives[-1]].text)
    if rankings:
        _require_split(walk, is_split, rankings[0])
        metric = walk.ordering_metric
        draft.order = DraftOrder(metric, "low" not in {walk.items[at].sense.name for at in rankings})
    if not directions and draft.limit is None:
        is_settled = draft.thresholds or rankings or walk.is_fragment or walk.has_groups or draft.share
        if walk.subjects and not (is_settled or walk.has(Kind.COMPARE) or walk.has(Kind.BREAKDOWN)):
            raise CannotReadError("leftover", walk.items[walk.subjects[0][0]].text)
        yield draft
        return
    at = superlatives[0] if superlatives else 0
    if not walk.is_fragment:
        _require_split(walk, is_split, at)
        if len(draft.dimensions) + (draft.bucket is not None) > 1:
            raise CannotReadError("contradiction", walk.items[at].text)
    direction = directions.pop() if directions else "top"
    metric = _metric_beside(walk, at) if superlatives else walk.ordering_metric
    descending = _is_descending(walk, direction, metric)
    by_change = bool(growths)
    if by_change:
        if {walk.items[one].sense.name for one in growths} >= {"up", "down"}:
            raise CannotReadError("contradiction", walk.items[growths[0]].text)
        falls = any(walk.items[one].sense.name == "down" for one in growths)
        descending = (direction in {"high", "top", "best"}) is not falls
    draft.order = DraftOrder(metric, descending, by_change)
    if draft.limit is not None or walk.is_fragment:
        yield draft
    elif rankings:
        yield attrs.evolve(draft)
    elif any(is_plural for _, is_plural in walk.subjects) or not walk.subjects:
        yield attrs.evolve(draft, because=walk.items[at].text)
        yield attrs.evolve(draft, limit=1, because=walk.items[at].text)
    else:
        yield attrs.evolve(draft, limit=1)


def _require_split(walk: Walk, is_split: bool, at: int) -> None:
    if not is_split and not walk.is_fragment:
        raise CannotReadError("leftover", walk.items[at].text)


def _said_by_metric(walk: Walk) -> set[str]:
    """`which server has the highest level`, where `highest level` is the metric's name."""
    if not any(True for _ in walk.subjects) or walk.draft.thresholds:
        return set()
    for at in walk.metric_places:
        for word, direction in walk.setting.superlatives.items():
            if walk.items[at].text.startswith(word):
                return {direction}
    return set()


def _metric_beside(walk: Walk, at: int) -> str | None:
    """Which metric a superlative is about."""
    if walk.ordering_metric is not None:
        return walk.ordering_metric
    places = walk.metric_places
    if not places:
        return None
    before = max((one for one in places if one < at), default=None)
    behind = min((one for one in places if one > at), default=None)
    if walk.items[at].is_han:
        chosen = before if before is not None else behind
    else:
        chosen = behind if behind is not None else before
    return walk.items[chosen].sense.name if chosen is not None else None


def _is_descending(walk: Walk, direction: str, metric: str | None) -> bool:
    if direction in {"high", "top"}:
        return True
    if direction in {"low", "bottom"}:
        return False
    name = metric or next(iter(walk.draft.metrics), "")
    lower_is_better = name in walk.layer.metrics and walk.layer.metrics[name].lower_is_better
    return (direction == "best") is not lower_is_better
