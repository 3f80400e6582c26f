"""Values in a question: which belong together, which are left out, and which are put side by side."""

from sqlassist.metric_query import Comparison, MetricFilter
from sqlassist.parsing.draft import CannotReadError
from sqlassist.parsing.items import Kind
from sqlassist.parsing.walk import Walk


def read_values(walk: Walk) -> None:
    """All values become filters, and splits where they are put side by side."""
    at = 0
    while at < len(walk.items):
        if walk.kind(at) is Kind.VALUE:
            at = _group(walk, at)
        else:
            at += 1


def _group(walk: Walk, start: int) -> int:
    """Values of one dimension that belong together, from one of them on."""
    name = walk.items[start].sense.name
    values, joins, end = [walk.items[start].sense.value], [], start + 1
    walk.used.add(start)
    while True:
        following = end
        while walk.kind(following) in {Kind.AND, Kind.OR, Kind.COMPARE}:
            following += 1
        if walk.kind(following) is Kind.DIMENSION and walk.items[following].sense.name == name:
            following += 1
        is_joined = following > end or walk.kind(start - 1) is Kind.COMPARE
        is_more = is_joined and walk.kind(following) is Kind.VALUE
        if not is_more or walk.items[following].sense.name != name:
            break
        between = [walk.items[at].kind for at in range(end, following)]
        if Kind.DIMENSION in between and len(between) == 1:
            break
        joins += between
        values.append(walk.items[following].sense.value)
        walk.used.update(range(end, following + 1))
        end = following + 1
    opening = start
    for at in (start - 1, end):
        if walk.kind(at) is Kind.DIMENSION and walk.items[at].sense.name == name:
            is_of_next = at == end and walk.kind(end + 1) is Kind.VALUE and walk.items[end + 1].sense.name == name
            is_asked = at < start and walk.kind(at - 1) in {Kind.BY, Kind.WHICH}
            if not is_of_next and not is_asked:
                walk.used.add(at)
                opening, end = min(opening, at), max(end, at + 1)
    comparison = Comparison.IN
    if walk.kind(opening - 1) is Kind.NOT and not walk.items[opening - 1].sense.name:
        walk.used.add(opening - 1)
        comparison = Comparison.NOT_IN
    if walk.kind(end) is Kind.NOT and walk.items[end].sense.name:
        if comparison is Comparison.NOT_IN and not walk.items[opening - 1].text.startswith("除"):
            raise CannotReadError("contradiction", walk.items[end].text)  # `非欧洲以外`
        walk.used.add(end)
        comparison = Comparison.NOT_IN
        end += 1
        if walk.kind(end) is Kind.DIMENSION and walk.items[end].sense.name == name:
            walk.used.add(end)
            end += 1
    _add_filter(walk, MetricFilter(name, comparison, tuple(dict.fromkeys(values))))
    text = walk.items[start].text if end == start + 1 else f"{walk.items[start].text} … {walk.items[end - 1].text}"
    walk.groups.append((name, text, len(values) > 1 and Kind.OR not in joins))
    is_set_apart = Kind.COMPARE in joins or (len(values) > 1 and _is_set_apart(walk))
    if comparison is Comparison.IN and len(values) > 1 and is_set_apart:
        walk.has_groups = True
        walk.add_dimension(name)
    return end


def _is_set_apart(walk: Walk) -> bool:
    return walk.has(Kind.RESPECTIVELY) or walk.has(Kind.COMPARE)


def _add_filter(walk: Walk, one: MetricFilter) -> None:
    for known in walk.draft.filters:
        if known.dimension == one.dimension and (
            known.comparison is one.comparison or {known.comparison, one.comparison} & {Comparison.IN}
        ):
            raise CannotReadError("contradiction", *one.values)
    walk.draft.filters += (one,)
