"""What the numbers are split by: `by server and week`, `which channel`, `servers with more than ...`."""

from sqlassist.metric_query import Bucket, Comparison
from sqlassist.parsing.draft import CannotReadError
from sqlassist.parsing.items import Kind
from sqlassist.parsing.walk import SPLITTERS, Walk

_ORDERING = (Kind.SUPERLATIVE, Kind.RANKING, Kind.COMPARE)


def read_splits(walk: Walk) -> None:
    """Dimensions and units of time that the numbers are split by; afterwards none is unexplained."""
    for at in range(len(walk.items)):
        kind = walk.kind(at)
        if kind is Kind.BY:
            _by(walk, at)
        elif kind is Kind.WHICH:
            _which(walk, at)
    _bare(walk)


def _by(walk: Walk, at: int) -> None:
    following = at + 1
    if walk.kind(following) is Kind.METRIC:
        walk.used.add(at)
        walk.ordering_metric = walk.items[following].sense.name
        if not (walk.draft.limit or any(walk.has(kind) for kind in _ORDERING)):
            raise CannotReadError("leftover", walk.items[at].text)
        return
    is_between = walk.kind(at - 1) in SPLITTERS and walk.kind(following) in SPLITTERS
    if is_between and walk.items[at - 1].sense == walk.items[following].sense:
        walk.used.add(at - 1)  # `region by region`
    if walk.kind(following) not in SPLITTERS:
        is_behind = at - 1 in walk.used and walk.items[at - 1].kind in SPLITTERS
        if is_behind:
            walk.used.add(at)  # `按渠道分`
            return
        if walk.has_groups or (len(walk.all_of(Kind.METRIC)) and _is_alone(walk, at)):
            walk.used.add(at)
            return
        raise CannotReadError("leftover", walk.items[at].text)
    walk.used.add(at)
    _take_list(walk, following)


def _is_alone(walk: Walk, at: int) -> bool:
    """`revenue of iOS and Android, each`: behind several values of one dimension."""
    for one in walk.draft.filters:
        if one.comparison is Comparison.IN and len(one.values) > 1 and at == len(walk.items) - 1:
            walk.add_dimension(one.dimension)
            walk.has_groups = True
            return True
    return False


def _take_list(walk: Walk, at: int) -> None:
    """`server, channel and by week`: dimensions and units from an item on."""
    while walk.kind(at) in SPLITTERS:
        _take(walk, at)
        following = at + 1
        while walk.kind(following) in {Kind.AND, Kind.BY}:
            following += 1
        if walk.kind(following) not in SPLITTERS or following == at + 1:
            return
        walk.used.update(range(at + 1, following))
        at = following


def _take(walk: Walk, at: int) -> None:
    item = walk.items[at]
    walk.used.add(at)
    if item.kind is Kind.DIMENSION:
        is_again = any(walk.items[one].sense == item.sense for one, _ in walk.subjects if one != at)
        if item.sense.name in walk.draft.dimensions and not walk.has_groups and not is_again:
            raise CannotReadError("contradiction", item.text)
        walk.add_dimension(item.sense.name)
    else:
        walk.set_bucket(Bucket(item.sense.name), item.text)


def _which(walk: Walk, at: int) -> None:
    if walk.kind(at + 1) in SPLITTERS:
        walk.used.add(at)
        is_plural = walk.items[at + 1].is_plural or walk.items[at].text.endswith(("些", "ones"))
        walk.subjects.append((at + 1, is_plural))
        _take_list(walk, at + 1)
    elif walk.kind(at + 1) is Kind.SUPERLATIVE:
        walk.used.add(at)  # `which are the top 3 servers`
    elif walk.kind(at - 1) in SPLITTERS or (at - 1 in walk.used and walk.items[at - 1].kind in SPLITTERS):
        walk.used.add(at)


def _bare(walk: Walk) -> None:
    """Dimensions and units without a word before them, where something says that groups are wanted."""
    is_grouped = walk.has(Kind.SUPERLATIVE) or walk.has(Kind.RANKING) or walk.has(Kind.BREAKDOWN) or bool(walk.bounds)
    periods = len(walk.all_of(Kind.PERIOD))
    compares = walk.all_of(Kind.COMPARE)
    is_compared = bool(compares) and not walk.has_groups
    for at in (*walk.all_of(Kind.DIMENSION), *walk.all_of(Kind.TIME_UNIT)):
        if walk.kind(at) is None:
            continue
        item = walk.items[at]
        is_all = walk.kind(at - 1) is Kind.ALL
        if _is_noun_of_value(walk, at) and (not is_grouped or walk.subjects):
            walk.used.add(at)
            continue
        is_beside = not periods or (periods == 1 and at - 1 in compares and not _names_last(walk))
        if not is_grouped and not (is_compared and is_beside and item.kind is Kind.DIMENSION):
            if is_all and item.kind is Kind.DIMENSION:
                walk.used.add(at)
                walk.open_splits.append((item.sense.name, item.text))
                continue
            raise CannotReadError("leftover", item.text)
        if walk.has(Kind.SUPERLATIVE):
            walk.subjects.append((at, item.is_plural or is_all))
        elif is_compared and not is_grouped:
            walk.used.update(compares)
        _take_list(walk, at)
    if is_grouped and len({walk.items[one].sense for one, _ in walk.subjects}) > 1:
        raise CannotReadError("contradiction", walk.items[walk.subjects[-1][0]].text)
    if walk.draft.dimensions or walk.draft.bucket is not None or walk.has(Kind.BUCKET):
        walk.used.update(walk.all_of(Kind.BREAKDOWN))
        if not walk.has(Kind.PERIOD):
            walk.used.update(walk.all_of(Kind.COMPARE))


def _is_noun_of_value(walk: Walk, at: int) -> bool:
    """`European servers`: a value of one column, and another column of the same table as its noun."""
    if at == 0 or walk.items[at].kind is not Kind.DIMENSION or walk.items[at - 1].kind is not Kind.VALUE:
        return False
    columns = (walk.layer.dimensions[walk.items[one].sense.name].column for one in (at - 1, at))
    return len({column.partition(".")[0] for column in columns}) == 1


def _names_last(walk: Walk) -> bool:
    """`last month`, which a comparison may be with."""
    spans = (walk.items[at].sense.span for at in walk.all_of(Kind.PERIOD))
    return any(span.is_last or span.is_previous for span in spans if span is not None)
