"""All phrases that a layer's questions are made of, in one tree of words: made once for each layer."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from sqlassist.language import has_han
from sqlassist.parsing import words_en, words_zh
from sqlassist.parsing.items import Kind, Sense
from sqlassist.parsing.tokens import Token, singular, words_of
from sqlassist.semantic import Entity, SemanticLayer

MAX_KEPT = 16  # layers of tenants that are asked at the same time; one is a few hundred KB
MAX_NAME = 200  # characters of a value that a question is searched for; longer ones are texts, and no names
MAX_BETWEEN = 2  # words between those of a name: `money that was made`
_HOW_MANY = ("多少", "多少个", "有多少", "有多少个", "几个", "有几个")
_KINDS = tuple(words_of(phrase) for phrase in ("type", "kind", "category", "类型", "种类", "类别"))
"""`activities by type`: the last word of a dimension's name will do, if only one dimension fits."""
_SPOKEN_TIMES = (
    "jan feb mar apr may june jun july jul aug sep sept oct nov dec mon tue wed thu fri sat sun friday sunday "
    "today tomorrow last this next previous past current recent ago since until till before after from to now "
    "minute hour day week weekend month quarter q half h year date ytd mtd"
)
_SPOKEN_TIMES_ZH = "今昨前明后去上本这下个近最天日号周月年季度旬时分秒初末底至到从一二三四五六七八九十百千万零两半"
_LAYER_KINDS = frozenset({Kind.METRIC, Kind.DIMENSION, Kind.VALUE, Kind.ENTITY})


@attrs.frozen
class Entry:
    """A phrase as it is written in the layer or in a list of words, and what it means."""

    words: tuple[str, ...]
    sense: Sense
    needs_gap: bool = False
    """Its words are turned round, which only reads well with a verb between: `players were active`."""


@attrs.define(eq=False)
class _Node:
    children: "dict[str, _Node]" = attrs.field(factory=dict)
    entries: list[Entry] = attrs.field(factory=list)


@attrs.frozen
class Match:
    """A phrase found in a question."""

    end: int
    senses: tuple[Sense, ...]
    is_plural: bool


@attrs.frozen(eq=False)
class Vocabulary:
    """Of one layer and the values that were sampled for it."""

    root: _Node
    known_words: frozenset[str]
    """English ones of six letters or more, which a typing mistake may be meant to be."""
    number_formats: Mapping[str, str]
    """Dimension → how a spoken number becomes a value."""
    counters: Mapping[str, str]
    """A Han character behind a number → the dimension whose name ends with it: `20级`."""
    doubtful: Mapping[str, tuple[str, ...]]
    """Sampled values, by dimension, whose words mean something without them: rows may hold `last week` or `not ios`."""

    def matches(self, tokens: Sequence[Token], start: int) -> Iterator[Match]:
        """Every phrase that begins at a token."""
        states: list[tuple[_Node, int, int, bool]] = [(self.root, start, 0, False)]
        while states:
            node, position, gaps, is_in_gap = states.pop()
            if node.entries and position > start and not is_in_gap:
                found = _match(node.entries, tokens[start:position], position, has_gap=gaps > 0)
                if found is not None:
                    yield found
            if position == len(tokens):
                continue
            token = tokens[position]
            following = node.children.get(singular(token.text))
            if following is not None:
                states.append((following, position + 1, gaps, False))
            elif position > start and token.is_silent:
                states.append((node, position + 1, gaps, True))
            if position > start and token.text in words_en.BETWEEN_WORDS and gaps < MAX_BETWEEN:
                states.append((node, position + 1, gaps + 1, True))


def _match(entries: Iterable[Entry], tokens: Sequence[Token], end: int, *, has_gap: bool) -> Match | None:
    words = tuple(token.text for token in tokens if not token.is_silent)
    senses: list[Sense] = []
    for entry in entries:
        is_exact = words == entry.words
        if entry.sense.kind in _LAYER_KINDS:
            if has_gap is not entry.needs_gap and (entry.needs_gap or entry.sense.kind is not Kind.METRIC):
                continue
            is_one_of_many = words[-1] != entry.words[-1] and singular(words[-1]) == words[-1]
            if entry.sense.kind is Kind.METRIC and is_one_of_many:
                continue  # `a paying player` is not how many of them there are
            senses.append(entry.sense if is_exact else attrs.evolve(entry.sense, rank=max(entry.sense.rank, 1)))
        elif is_exact:
            senses.append(entry.sense)
    if not senses:
        return None
    owned = [sense for sense in senses if sense.kind in _LAYER_KINDS]
    last = words[-1]
    return Match(end, tuple(dict.fromkeys(owned or senses)), singular(last) != last)


_kept: "OrderedDict[int, tuple[SemanticLayer, tuple[tuple[str, tuple[str, ...]], ...], Vocabulary]]" = OrderedDict()


def vocabulary_of(layer: SemanticLayer, values: Mapping[str, tuple[str, ...]]) -> Vocabulary:
    """The vocabulary of a layer, kept for the layers that were asked last.

    Args:
        layer: What the tenant is answered about. It is known again by identity.
        values: Sampled at run time: dimension → values as stored.
    """
    sampled = tuple((name, tuple(values[name])) for name in sorted(values))
    key = hash((id(layer), sampled))
    known = _kept.get(key)
    if known is not None and known[0] is layer and known[1] == sampled:
        _kept.move_to_end(key)
        return known[2]
    made = _made(layer, values)
    _kept[key] = (layer, sampled, made)
    while len(_kept) > MAX_KEPT:
        _kept.popitem(last=False)
    return made


def _made(layer: SemanticLayer, values: Mapping[str, tuple[str, ...]]) -> Vocabulary:
    root = _Node()
    known: set[str] = set(words_en.TIME_WORDS)
    taken: set[tuple[str, ...]] = set()
    for entry in (*_general(layer), *_of_layer(layer, values)):
        if not entry.words:
            continue
        _add(root, entry)
        taken.add(entry.words)
        if entry.sense.kind in _LAYER_KINDS:
            known.update(word for word in entry.words if len(word) >= 6 and word.isascii() and word.isalpha())
    for entry in tuple(_of_layer(layer, values)):
        if not entry.words:
            continue
        turned = entry.words[::-1]
        is_english = len(turned) == 2 and all(word.isascii() and word.isalpha() for word in turned)
        if is_english and entry.sense.kind is Kind.METRIC and turned not in taken:
            _add(root, Entry(turned, attrs.evolve(entry.sense, rank=1), needs_gap=True))
        if entry.sense.kind is Kind.METRIC:
            for other in _as_asked(entry.words, is_count=_counts(layer, entry.sense.name)):
                if other not in taken:
                    _add(root, Entry(other, attrs.evolve(entry.sense, rank=int(other == entry.words[: len(other)]))))
    formats = {name: one.number_format for name, one in layer.dimensions.items() if one.number_format}
    return Vocabulary(root, frozenset(known), formats, _counters(layer), _doubtful(layer, values))


def _doubtful(layer: SemanticLayer, values: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    meant = {singular(word) for entry in (*_general(layer), *_of_layer(layer, {})) for word in entry.words}
    meant.update(singular(word) for word in (*words_en.TIME_WORDS, *_SPOKEN_TIMES.split(), *_SPOKEN_TIMES_ZH))
    found: dict[str, tuple[str, ...]] = {}
    for name in values.keys() & layer.dimensions.keys():
        declared = layer.dimensions[name].values
        mine = tuple(
            stored
            for stored in values[name]
            if len(stored) <= MAX_NAME
            and stored not in declared
            and stored.strip()
            and all(singular(word) in meant or word[0].isdigit() for word in words_of(stored))
        )
        if mine:
            found[name] = mine
    return found


def _counts(layer: SemanticLayer, name: str) -> bool:
    return layer.metrics[name].expression.upper().startswith("COUNT(")


def _as_asked(phrase: Sequence[str], *, is_count: bool) -> Iterator[tuple[str, ...]]:
    """How a metric is called when it is asked for: `how many orders`, `mean level`, `多少订单` of `订单数`."""
    words = list(phrase)
    if words[0] == "average" and len(words) > 1:
        yield from ((other, *words[1:]) for other in ("mean", "avg"))
    if is_count and has_han(words[-1]) and words[-1] not in {"数", "量", "次"}:
        yield from ((*words, "数"), (*words, "数", "量"))
    if words[:2] == ["number", "of"]:
        yield ("how", "many", *words[2:])
    endings = (["数", "量"], ["数"])
    for ending in endings:
        if words[-len(ending) :] == ending and len(words) - len(ending) >= 2 and has_han(words[0]):
            rest = words[: -len(ending)]
            if rest[-1] not in {"次", "人", "笔", "个", "总"}:
                yield tuple(rest)
                yield (*rest, "量")
                yield from ((*asked, *rest) for asked in _HOW_MANY)
            return


def _add(root: _Node, entry: Entry) -> None:
    node = root
    for word in entry.words:
        node = node.children.setdefault(singular(word), _Node())
    if entry not in node.entries:
        node.entries.append(entry)


def _general(layer: SemanticLayer) -> Iterator[Entry]:
    for phrases in (words_en.PHRASES, words_zh.PHRASES):
        for (kind, name), text in phrases.items():
            for phrase in text.split("|"):
                yield Entry(words_of(phrase), Sense(kind, name))
    for measure in words_zh.MEASURES:
        yield Entry((measure,), Sense(Kind.FILLER, "measure"))
        for kind, prefixes in (
            (Kind.WHICH, ("哪", "哪一", "在哪", "是哪", "哪几")),
            (Kind.BY, ("每", "每一", "各", "按每", "按各", "在每")),
        ):
            yield from (Entry((*prefix, measure), Sense(kind)) for prefix in prefixes)
    yield from (Entry((one,), Sense(Kind.FILLER, "measure")) for one in words_zh.COUNTED if len(one) == 1)
    for measure in dict.fromkeys((*words_zh.MEASURES, *words_zh.COUNTED)):
        if measure != "人":
            for asked in ("几", "有几", "多少", "有多少"):
                yield Entry(words_of(asked + measure), Sense(Kind.FILLER, "count"))
    units = {metric.unit for metric in layer.metrics.values() if metric.unit and metric.unit != "%"}
    for unit in units:
        written = {unit.casefold(), *words_en.UNITS.get(unit, ()), *words_zh.UNITS.get(unit, ())}
        yield from (Entry(words_of(phrase), Sense(Kind.UNIT_OF_MEASURE, unit)) for phrase in sorted(written))


def _of_layer(layer: SemanticLayer, values: Mapping[str, tuple[str, ...]]) -> Iterator[Entry]:
    for name, metric in layer.metrics.items():
        for phrase in (*metric.names.every, *_spoken_key(name)):
            yield Entry(words_of(phrase), Sense(Kind.METRIC, name))
    yield from _of_dimensions(layer)
    for dimension_name, stored_values in values.items():
        if dimension_name in layer.dimensions:
            for stored in stored_values:
                if len(stored) <= MAX_NAME and not _is_number(
                    stored
                ):  # `top 3` is no value; numbers are values beside their dimension alone
                    yield Entry(words_of(stored), Sense(Kind.VALUE, dimension_name, stored))
    for name, entity in layer.entities.items():
        for phrase in sorted(_counted_things(layer, entity)):
            yield Entry(words_of(phrase), Sense(Kind.ENTITY, name, rank=2))
    yield from _rows(layer)
    yield from _counted_dimensions(layer)
    for one in layer.disambiguations:
        meant = (one.prefer,) if one.prefer else (*one.metrics, *one.dimensions)
        for phrase in one.phrases.every:
            for name in meant:
                kind = Kind.METRIC if name in layer.metrics else Kind.DIMENSION
                yield Entry(words_of(phrase), Sense(kind, name))


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("-", "", 1).isdecimal()


def _of_dimensions(layer: SemanticLayer) -> Iterator[Entry]:
    for name, dimension in layer.dimensions.items():
        for phrase in (*dimension.names.every, *_spoken_key(name)):
            words = words_of(phrase)
            yield Entry(words, Sense(Kind.DIMENSION, name))
            yield from (
                Entry(kind, Sense(Kind.DIMENSION, name, rank=1)) for kind in _KINDS if words[-len(kind) :] == kind
            )
        nouns = {phrase[-1] for phrase in dimension.names.zh if has_han(phrase[-1])}
        for stored, names in dimension.values.items():
            for phrase in (*names.every, stored):
                words = words_of(phrase)
                yield Entry(words, Sense(Kind.VALUE, name, stored))
                if words and has_han(words[-1]) and words[-1] not in nouns:
                    yield from (Entry((*words, noun), Sense(Kind.VALUE, name, stored)) for noun in sorted(nouns))


def _counted_dimensions(layer: SemanticLayer) -> Iterator[Entry]:
    """A metric that is the number of a dimension's things, by all their names: `how many shards`, `几个服`."""
    for name, metric in layer.metrics.items():
        for dimension in layer.dimensions.values():
            called = dimension.names
            is_english = any(
                singular(phrase.casefold().removeprefix("number of ")) in {one.casefold() for one in called.en}
                for phrase in metric.names.en
                if phrase.casefold().startswith("number of ")
            )
            is_chinese = any(phrase.removesuffix("量").removesuffix("数") in called.zh for phrase in metric.names.zh)
            if is_english or is_chinese:
                many = [f"{asked} {phrase}s" for phrase in called.en for asked in ("how many", "number of")]
                many += [asked + phrase for phrase in called.zh for asked in _HOW_MANY]
                yield from (Entry(words_of(phrase), Sense(Kind.METRIC, name)) for phrase in many)


def _rows(layer: SemanticLayer) -> Iterator[Entry]:
    """What one row of a table is called in the file, `one cohort of one server`: beside its metric it adds nothing."""
    names = {
        singular(word)
        for called in (*(m.names for m in layer.metrics.values()), *(d.names for d in layer.dimensions.values()))
        for phrase in called.en
        for word in words_of(phrase)
    }
    general = {word for phrases in words_en.PHRASES.values() for word in phrases.split()}
    for word in sorted({word for metric in layer.metrics.values() for word in words_of(metric.grain)}):
        if len(word) > 3 and word.isascii() and word.isalpha() and singular(word) not in names and word not in general:
            yield Entry((word,), Sense(Kind.ENTITY, "row", rank=2))


def _spoken_key(name: str) -> tuple[str, ...]:
    """The name in the file, where it is no everyday word: a metric may be called `servers` there."""
    return (name,) if "_" in name else ()


def _counted_things(layer: SemanticLayer, entity: Entity) -> set[str]:
    """What an entity is called, if it is not one that questions are split by: players, but not servers."""
    own = {name: one for name, one in layer.dimensions.items() if one.column.partition(".")[0] == entity.table}
    personal = [one for one in own.values() if not (one.enumerable or one.number_format or one.values)]
    split_by = {phrase for one in layer.dimensions.values() if one not in personal for phrase in one.names.every}
    called = {*entity.names.every, *(phrase for one in personal for phrase in one.names.every)}
    return called if not (set(entity.names.every) & split_by) else set()


def _counters(layer: SemanticLayer) -> dict[str, str]:
    """The last character of a dimension's Chinese name, where a number goes before it and time is not written so."""
    found: dict[str, tuple[int, str]] = {}
    for name, dimension in layer.dimensions.items():
        if not dimension.number_format:
            continue
        for phrase in dimension.names.zh:
            last = phrase[-1]
            if not has_han(last) or last in "天日月周年季时分秒数量率额值":
                continue
            known = found.get(last)
            if known is None or len(phrase) < known[0]:
                found[last] = (len(phrase), name)
    return {last: name for last, (_, name) in found.items()}
