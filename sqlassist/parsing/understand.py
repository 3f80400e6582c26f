"""A question in English or Chinese → what it asks for, by the semantic layer alone.

Every word is accounted for, or the question is not understood: a clarification costs a moment, a wrong number costs a
decision. The conventions of times (what `this month` is) are in docs/semantic-layer.md.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from types import MappingProxyType

import attrs

from sqlassist.catalog import Catalog
from sqlassist.language import language_of
from sqlassist.messages import Refusal
from sqlassist.metric_compile import compiled
from sqlassist.metric_query import MetricQuery
from sqlassist.parsing import words_en, words_zh
from sqlassist.parsing.calendar import Today
from sqlassist.parsing.draft import CannotReadError, Draft
from sqlassist.parsing.follow_up import merged
from sqlassist.parsing.items import Item, Kind, Sense
from sqlassist.parsing.reading import drafts_of
from sqlassist.parsing.segment import items_of
from sqlassist.parsing.spelling import corrected
from sqlassist.parsing.tokens import normalised, tokens_of
from sqlassist.parsing.vocabulary import Vocabulary, vocabulary_of
from sqlassist.parsing.walk import Setting
from sqlassist.semantic import SemanticLayer
from sqlassist.understanding import Ambiguous, NotUnderstood, Reading, Understanding, Understood

MAX_CHARACTERS = 4_000  # a longer text is no question; reading one this long stays below a second
MAX_ITEMS = 80  # phrases of a question; the longest of those seen has 30
MAX_READINGS = 128  # ways to take all words together; beyond, a question is too vague to be read
MAX_OFFERED = 4
MAX_SHARED_WORDS = 4
_CODES = {"not_splittable": "not_splittable", "metric_has_no_time": "not_splittable"}


def understand(
    text: str,
    layer: SemanticLayer,
    catalog: Catalog,
    *,
    today: dt.date,
    values: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    previous: MetricQuery | None = None,
) -> Understanding:
    """Read a question.

    Args:
        text: As it was typed.
        layer: What the tenant is answered about. Its vocabulary is kept by identity.
        catalog: What he may name; every query that is returned compiles over it.
        today: The business day of the question.
        values: Sampled at run time: dimension → values as stored.
        previous: The question before it in the conversation, for follow-ups.

    Returns:
        Understood with one query; Ambiguous with two to four; or NotUnderstood, which says what was left over.
    """
    if len(text) > MAX_CHARACTERS:
        return NotUnderstood((), "leftover")
    asked = _Question(text, layer, catalog, today, values, previous)
    answer = asked.answer()
    doubtful = asked.doubtful_values()
    if not doubtful:
        return answer
    plain_values = {name: tuple(v for v in kept if v not in doubtful.get(name, ())) for name, kept in values.items()}
    return _weighed(answer, _Question(text, layer, catalog, today, plain_values, previous).answer())


def _weighed(answer: Understanding, plain: Understanding) -> Understanding:
    """What rows made of a question's words, against what the words mean by themselves: never the rows' word alone."""
    if not isinstance(plain, Understood):
        return answer
    if not isinstance(answer, Understood):
        return plain if isinstance(answer, NotUnderstood) else answer
    if answer.query == plain.query:
        return answer
    return Ambiguous("", (Reading(plain.query), Reading(answer.query)))


class _Question:
    def __init__(
        self,
        text: str,
        layer: SemanticLayer,
        catalog: Catalog,
        today: dt.date,
        values: Mapping[str, tuple[str, ...]],
        previous: MetricQuery | None,
    ) -> None:
        self.text = normalised(text)
        self.language = language_of(text)
        self.layer = layer
        self.catalog = catalog
        self.previous = previous if previous is not None and _is_of(previous, layer) else None
        self.vocabulary: Vocabulary = vocabulary_of(layer, values)
        self.today = Today(today, layer.conventions.week_start)
        self.setting = Setting(layer, self.today, _sizes(layer, catalog), self.vocabulary.number_formats, _SUPERLATIVES)

    def answer(self) -> Understanding:
        items = self._items(self.text)
        if sum(item.kind is not Kind.FILLER for item in items) > MAX_ITEMS:
            return NotUnderstood((), "leftover")
        left = [item for item in items if item.kind is Kind.LEFTOVER]
        if left:
            better = corrected(self.text, [item.text for item in left], self.vocabulary.known_words)
            again = self._items(better) if better is not None else self._completed(self._turned(items))
            if any(item.kind is Kind.LEFTOVER for item in again):
                rest = tuple(item for item in items if item.kind is not Kind.LEFTOVER)
                return NotUnderstood(tuple(item.text for item in left), "leftover", self._nearest(rest))
            items = again
        return self._read(items)

    def doubtful_values(self) -> Mapping[str, tuple[str, ...]]:
        """All sampled values that mean something without them, where the question holds one of them; else none."""
        doubtful = self.vocabulary.doubtful
        is_held = any(normalised(value) in self.text for values in doubtful.values() for value in values)
        return doubtful if is_held else {}

    def _completed(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """`D1 and D7 retention`: with the end of the second name behind the first one, where that explains it."""
        if not any(item.kind is Kind.LEFTOVER for item in items):
            return items
        for number in range(1, len(items) - 1):
            words = items[number + 1].text.split() if not items[number + 1].is_han else list(items[number + 1].text)
            if items[number].kind is not Kind.AND or items[number + 1].kind is not Kind.METRIC:
                continue
            joint = "" if items[number + 1].is_han else " "
            for length in range(1, min(len(words), MAX_SHARED_WORDS + 1)):
                texts = [item.text for item in items]
                texts.insert(number, joint.join(words[-length:]))
                found = self._items(joint.join(texts))
                if not any(item.kind is Kind.LEFTOVER for item in found):
                    return found
        return items

    def _turned(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """`active iOS players`: with the value behind the metric's name, where that leaves nothing over."""
        for number in range(1, len(items) - 1):
            value = items[number]
            around = (items[number - 1].kind, items[number + 1].kind)
            if value.kind is not Kind.VALUE or value.is_han or Kind.LEFTOVER not in around:
                continue
            texts = [item.text for item in items]
            found = self._items(" ".join([*texts[:number], texts[number + 1], value.text, *texts[number + 2 :]]))
            if not any(item.kind is Kind.LEFTOVER for item in found):
                return found
        return items

    def _items(self, text: str) -> tuple[Item, ...]:
        return items_of(text, tokens_of(text), self.vocabulary, self.today)

    def _read(self, found_items: Sequence[Item]) -> Understanding:
        items = _without_vague(found_items)
        has_metric = any(sense.kind is Kind.METRIC for item in items for sense in item.senses)
        follows = self.previous is not None and (not has_metric or _is_follow_up(items))
        found = self._readings(items, is_fragment=follows)
        if follows and not found.queries and has_metric:
            follows = False
            found = self._readings(items, is_fragment=False)
        if len(found.queries) == 1:
            return Understood(found.queries[0].query, is_follow_up=follows)
        if found.queries:
            return Ambiguous(found.phrase, found.queries[:MAX_OFFERED])
        error = found.error or CannotReadError("no_metric")
        if not has_metric and self.previous is None:
            missing = self._with_metrics(items)
            if len(missing) > 1:
                return Ambiguous("", missing)
        code = error.code
        if code == "contradiction" and not has_metric:
            code = "no_metric"
        return NotUnderstood(error.leftover, code, self._offers(items, error))

    def _with_metrics(self, items: Sequence[Item]) -> tuple[Reading, ...]:
        """`best channel in May`: by the first metric of each table, where only the metric is missing."""
        kinds = {item.kind for item in items}
        if not kinds & {Kind.DIMENSION, Kind.VALUE} or not kinds & {Kind.SUPERLATIVE, Kind.RANKING, Kind.COMPARE}:
            return ()
        firsts: dict[str, str] = {}
        for name, metric in self.layer.metrics.items():
            if metric.table:
                firsts.setdefault(metric.table, name)
        readings: list[Reading] = []
        for name in firsts.values():
            label = self.layer.metrics[name].names.label(self.language, name)
            metric_item = Item(label, items[-1].end, items[-1].end, (Sense(Kind.METRIC, name),))
            found = self._readings((*items, metric_item), is_fragment=False)
            readings += [Reading(one.query, label) for one in found.queries[:1]]
        return tuple(readings[:MAX_OFFERED])

    # --- all ways to take the words --------------------------------------------------------------------------------
    def _readings(self, items: Sequence[Item], *, is_fragment: bool) -> "_Found":
        found: dict[int, list[_Way]] = {}
        error: CannotReadError | None = None
        if prod(len(senses) for senses in {item.text: item.senses for item in items}.values()) > MAX_READINGS:
            return _Found((), "", CannotReadError("contradiction"))
        for chosen in _ways(items):
            rank = sum(item.sense.rank for item in chosen)
            try:
                for draft in drafts_of(chosen, self.setting, is_fragment=is_fragment):
                    query = self._query(draft, chosen, is_fragment=is_fragment)
                    self._require_compiled(query)
                    found.setdefault(rank, []).append(_Way(query, chosen, draft.because))
            except CannotReadError as problem:
                if error is None or (error.code == "no_metric" and problem.code != "no_metric"):
                    error = problem
        best = found[min(found)] if found else []
        unique = {way.query: way for way in reversed(best)}
        ways = [unique[query] for query in dict.fromkeys(way.query for way in best)]
        at = next((n for n in range(len(items)) if len({way.items[n].sense for way in ways}) > 1), None)
        phrase = items[at].text if at is not None else ways[0].because if ways else ""
        readings = tuple(Reading(way.query, self._because(way, at)) for way in ways)
        return _Found(readings, phrase, error)

    def _because(self, way: "_Way", at: int | None) -> str:
        """How the word that readings differ by is taken."""
        if at is None:
            return way.because
        item = way.items[at]
        name = item.sense.value or item.sense.name
        owner = self.layer.metrics.get(name) if item.kind is Kind.METRIC else self.layer.dimensions.get(name)
        return f"{item.text}: {owner.names.label(self.language, name) if owner is not None else name}"

    def _query(self, draft: Draft, items: Sequence[Item], *, is_fragment: bool) -> MetricQuery:
        if not is_fragment or self.previous is None:
            return draft.finished()
        query = merged(draft, self.previous, is_added=any(item.kind is Kind.ADDED for item in items))
        if query is None:
            raise CannotReadError("no_metric")
        return query

    def _require_compiled(self, query: MetricQuery) -> None:
        for name in query.dimensions:
            dimension = self.layer.dimensions[name]
            is_bounded = query.limit is not None or query.thresholds or any(f.dimension == name for f in query.filters)
            if not dimension.enumerable and not dimension.number_format and not dimension.values and not is_bounded:
                raise CannotReadError("not_splittable", name)
        result = compiled(query, self.layer, self.catalog)
        if isinstance(result, Refusal):
            raise CannotReadError(_CODES.get(result.code, "contradiction"), str(result.where))

    # --- what may have been meant ----------------------------------------------------------------------------------
    def _nearest(self, items: Sequence[Item]) -> tuple[MetricQuery, ...]:
        return tuple(one.query for one in self._readings(items, is_fragment=False).queries[:MAX_OFFERED])

    def _offers(self, items: Sequence[Item], error: CannotReadError) -> tuple[MetricQuery, ...]:
        """Without the words that do not fit, or without splits and filters altogether."""
        unfit = set(error.leftover)
        kept = [
            item
            for item in items
            if item.text not in unfit and not any(sense.name in unfit for sense in item.senses if sense.name)
        ]
        found = self._nearest(kept) if len(kept) < len(items) else ()
        if found:
            return found
        plain = {Kind.METRIC, Kind.PERIOD, Kind.AND, Kind.FILLER}
        return self._nearest([item for item in items if any(sense.kind in plain for sense in item.senses)])


@attrs.frozen
class _Way:
    """One way to take the words."""

    query: MetricQuery
    items: tuple[Item, ...]
    because: str


@attrs.frozen
class _Found:
    queries: tuple[Reading, ...]
    phrase: str
    error: CannotReadError | None


def _is_of(query: MetricQuery, layer: SemanticLayer) -> bool:
    """Whether a layer, which may have changed since, still has all that a query names."""
    metrics = {*query.metrics, *(one.metric for one in query.thresholds)}
    dimensions = {*query.dimensions, *(one.dimension for one in query.filters)}
    return metrics <= set(layer.metrics) and dimensions <= set(layer.dimensions)


def _without_vague(items: Sequence[Item]) -> tuple[Item, ...]:
    """A word with several metrics says nothing beside a metric that is one of them: `how is revenue doing`.

    Of two such words the one with fewer meanings stays: `sales performance`.
    """
    metrics = {at: _metrics_in(item) for at, item in enumerate(items) if _metrics_in(item)}
    kept = list(items)
    for at, names in metrics.items():
        others = [
            place for place, other in metrics.items() if place != at and other & names and len(other) < len(names)
        ]
        same = [place for place, other in metrics.items() if other == names and len(names) > 1 and place < at]
        is_listed = at > 0 and items[at - 1].kind in {Kind.AND, Kind.OR}
        if (others or same) and len(names) > 1 and not is_listed:
            kept[at] = attrs.evolve(items[at], senses=(Sense(Kind.FILLER),))
    return tuple(kept)


def _metrics_in(item: Item) -> frozenset[str]:
    return frozenset(sense.name for sense in item.senses if sense.kind is Kind.METRIC and sense.rank == 0)


def _ways(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    """Each item with one sense; items with the same text are taken in the same sense."""
    texts = list(dict.fromkeys(item.text for item in items))
    senses: list[tuple[Sense, ...]] = []
    for text in texts:
        item = next(one for one in items if one.text == text)
        senses.append(tuple(sorted(item.senses, key=lambda sense: sense.rank)))
    for chosen in product(*senses):
        by_text = dict(zip(texts, chosen, strict=True))
        yield tuple(attrs.evolve(item, senses=(by_text[item.text],)) for item in items)


def _sizes(layer: SemanticLayer, catalog: Catalog) -> frozenset[str]:
    """Dimensions that are numbers."""
    found: set[str] = set()
    for name, dimension in layer.dimensions.items():
        table, _, column = dimension.column.partition(".")
        owner = catalog.table(table)
        known = owner.column(column) if owner is not None else None
        if known is not None and known.type.is_numeric:
            found.add(name)
    return frozenset(found)


def _is_follow_up(items: Iterable[Item]) -> bool:
    said = [item for item in items if item.kind is not Kind.FILLER]
    return bool(said) and (
        said[0].kind in {Kind.AND, Kind.FOLLOW_UP} or any(item.kind in {Kind.FOLLOW_UP, Kind.ADDED} for item in said)
    )


_SUPERLATIVES = {
    phrase.strip(): name
    for table in (words_en.PHRASES, words_zh.PHRASES)
    for (kind, name), text in table.items()
    if kind is Kind.SUPERLATIVE and name in {"high", "low"}
    for phrase in text.split("|")
}
