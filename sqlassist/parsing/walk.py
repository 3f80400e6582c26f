"""What is known while one reading of a question is made: its items, which of them are explained, what they said."""

from collections.abc import Iterator, Mapping, Sequence

import attrs

from sqlassist.metric_query import Bucket
from sqlassist.parsing.calendar import Today
from sqlassist.parsing.draft import CannotReadError, Draft
from sqlassist.parsing.items import Item, Kind, Sense
from sqlassist.parsing.quantities import Bound, Numbers
from sqlassist.semantic import SemanticLayer

SPLITTERS = frozenset({Kind.DIMENSION, Kind.TIME_UNIT})
_COUNTABLE = SPLITTERS | {Kind.ENTITY}


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


def _structural(items: Sequence[Item]) -> Iterator[Item]:
    """Items that say something: fillers go, `what` becomes `which` before a dimension."""
    behind: list[Item | None] = []
    latest: Item | None = None
    for item in reversed(items):
        behind.append(latest)
        latest = latest if item.kind is Kind.FILLER else item
    for number, (item, following) in enumerate(zip(items, reversed(behind), strict=True)):
        if item.kind is Kind.LEFTOVER:
            raise CannotReadError("leftover", item.text)
        if item.kind is Kind.WHAT:
            if following is not None and following.kind in SPLITTERS and following.start == item.end:
                yield attrs.evolve(item, senses=(Sense(Kind.WHICH),))
        elif item.text == "over" and following is not None and following.kind is Kind.PERIOD:
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


def _require_one_split(items: Sequence[Item]) -> None:
    """`revenue by server and payers by channel` are two questions: one answer to both would split each by either."""
    runs: list[tuple[bool, set[str]]] = []
    for number, item in enumerate(items):
        is_behind_by = number > 0 and items[number - 1].kind is Kind.BY
        is_split = item.kind is Kind.BUCKET or (is_behind_by and item.kind in {Kind.DIMENSION, Kind.TIME_UNIT})
        if not is_split and item.kind is not Kind.METRIC:
            continue
        if runs and runs[-1][0] == is_split:
            runs[-1][1].add(item.sense.name)
        else:
            runs.append((is_split, {item.sense.name}))
            splits = [names for is_one, names in runs if is_one]
            if len(runs) > 3 and splits[-1] != splits[-2]:
                raise CannotReadError("contradiction", item.text)


class Walk:
    """One reading on its way. Items that a rule explains are `used`; in the end all that say something are."""

    def __init__(self, items: Sequence[Item], setting: Setting, *, is_fragment: bool) -> None:
        self.setting = setting
        self.layer = setting.layer
        self.said = {item.sense.name: item.text for item in items if item.kind is Kind.FILLER}
        """Fillers by their name: `together` → `in total`."""
        self.is_fragment = is_fragment
        structural = list(_structural(items))
        _require_one_split(structural)
        found = Numbers(setting.layer, setting.sizes, setting.formats).read(_without_entities(structural))
        self.items = list(found.items)
        self.bounds: tuple[Bound, ...] = found.bounds
        self.draft = Draft(filters=found.filters)
        self.used: set[int] = set()
        self.subjects: list[tuple[int, bool]] = []
        """(item, whether several are wanted) of each split that `which` or a superlative is about."""
        self.ordering_metric: str | None = None
        self.groups: list[tuple[str, str, bool]] = []
        """(dimension, text, whether they are several that are not joined by `or`) of values that are named together."""
        self.metric_places: list[int] = []
        """Items of the metrics that are shown."""
        self.is_average_of_what = False
        """A mean is asked for, over nobody knows what."""
        self.open_splits: list[tuple[str, str]] = []
        """(dimension, text) of `all servers`, which may be each of them or all as one."""
        self.has_groups = False
        """Several values are put side by side."""

    def kind(self, at: int) -> Kind | None:
        """Of an item that no rule has explained; None elsewhere."""
        return self.items[at].kind if 0 <= at < len(self.items) and at not in self.used else None

    def all_of(self, kind: Kind) -> list[int]:
        """The places of what is unexplained."""
        return [at for at, item in enumerate(self.items) if item.kind is kind and at not in self.used]

    def has(self, kind: Kind) -> bool:
        """Whether any of it is unexplained."""
        return bool(self.all_of(kind))

    def add_dimension(self, name: str) -> None:
        """Split by it, once."""
        if name not in self.draft.dimensions:
            self.draft.dimensions += (name,)

    def set_bucket(self, bucket: Bucket, text: str) -> None:
        """Cut time; two ways at once contradict each other."""
        if self.draft.bucket not in {None, bucket}:
            raise CannotReadError("contradiction", text)
        self.draft.bucket = bucket
