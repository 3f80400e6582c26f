"""Verified queries: questions whose SQL a person has approved, and how a new question is found to be one of them.

A question is one of them when it is equal after folding, or when it fits a wording with slots, as
`revenue of {server} in {period}`, and each slot is filled by one value or period of the layer. Nothing is guessed: what
fits two queries fits none. The guard checks the SQL at each use, like anybody's.
"""

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property

import attrs

from runtime.ids import TenantId
from sqlassist.business_days import boundary, rule_of
from sqlassist.catalog import Catalog, ColumnType, Dialect
from sqlassist.guard.check import check
from sqlassist.language import folded
from sqlassist.messages import Refusal
from sqlassist.metric_query import Period
from sqlassist.naming import text_literal
from sqlassist.parsing.calendar import Today
from sqlassist.parsing.items import Item, Kind
from sqlassist.parsing.segment import items_of
from sqlassist.parsing.tokens import normalised, tokens_of
from sqlassist.parsing.vocabulary import vocabulary_of
from sqlassist.semantic import Dimension, SemanticLayer, TimeColumn, TimeKind

MAX_SLOTS = 4
MAX_SLOT_CHARACTERS = 60  # names and periods are shorter
MAX_SPLITS = 200  # ways to cut one question at one wording
DAYS = "days"
"""The parameter of a slot whose periods are compared with a column of days."""
_SLOT = re.compile(r"\{([a-z_][a-z0-9_]{0,39})\}")
_PLACEHOLDER = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|::|:([a-z_][a-z0-9_]{0,59})", re.DOTALL
)
_ON_A_DAY = TimeColumn(TimeKind.DATE)


class Status(StrEnum):
    """Where a query stands. Only approved ones answer."""

    PROPOSED = "proposed"
    """A review was asked for, or the question was answered by a model often."""
    APPROVED = "approved"
    REJECTED = "rejected"
    STALE = "stale"
    """It was approved for a schema that it no longer fits."""


@attrs.frozen
class VerifiedQuery:
    """A question, and SQL that answers it."""

    id: str
    tenant: TenantId
    question: str
    """As somebody asked it; it may have slots, as its wordings may."""
    sql: str
    """With a placeholder for each slot: `:server`, and `:period_start` with `:period_end`, the day behind the last."""
    source: str
    catalog_version: str
    """The schema that it was last checked against."""
    wordings: tuple[str, ...] = ()
    """Other ways to ask it."""
    parameters: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Slot → a dimension's name; or the `table.column` of the layer's time column that a period is compared with; or
    `days`, for columns of days."""
    status: Status = Status.PROPOSED
    verified_by: str = ""
    verified_at: str = ""
    """UTC, ISO 8601."""
    use_count: int = 0
    reasoning: str = ""
    """Why the SQL is right, in words: for training data."""
    held_out: bool = False
    """For evaluation: never shown to a model, never exported for training."""
    origin: str = "added"
    """`added`, `review` or `fallback`."""
    asked_by: str = ""
    comment: str = ""
    """What the person said who asked for the review."""
    reason: str = ""
    """Why it is stale or rejected."""

    @property
    def phrasings(self) -> tuple[str, ...]:
        """The question and its wordings."""
        return (self.question, *self.wordings)

    @cached_property
    def folded_phrasings(self) -> tuple[str, ...]:
        """What questions are compared with."""
        return tuple(map(folded, self.phrasings))

    @cached_property
    def is_template(self) -> bool:
        """Whether it has slots."""
        return any(_SLOT.search(text) for text in self.phrasings)


@attrs.frozen
class Match:
    """A question that is a verified one."""

    query: VerifiedQuery
    sql: str
    """With its slots filled."""
    filled: Mapping[str, str]
    """Slot → the value as stored, or the period."""


def match(
    text: str,
    queries: Sequence[VerifiedQuery],
    tenant: TenantId,
    catalog: Catalog,
    layer: SemanticLayer,
    today: dt.date,
    values: Mapping[str, tuple[str, ...]],
) -> Match | None:
    """The approved query of a tenant that a question is.

    Args:
        text: The standalone question.
        queries: Of one source. Those of other tenants or schemas, and those that are not approved, are passed over.
        tenant: Who asks.
        catalog: What he may name.
        layer: What he is answered about.
        today: The business day of the question.
        values: Sampled: dimension → values as stored.

    Returns:
        None where there is none, or several that differ.
    """
    usable = [
        one
        for one in queries
        if one.tenant == tenant and one.status is Status.APPROVED and one.catalog_version == catalog.version
    ]
    plain = folded(text)
    equal = [one for one in usable if not one.is_template and plain in one.folded_phrasings]
    if equal:
        return Match(equal[0], equal[0].sql, {}) if len({one.sql for one in equal}) == 1 else None
    reader = _SlotReader(catalog, layer, today, values)
    fitting = [found for one in usable if one.is_template for found in _fitting(plain, one, reader)]
    return fitting[0] if len({found.sql for found in fitting}) == 1 else None


def _fitting(plain: str, query: VerifiedQuery, reader: "_SlotReader") -> Iterator[Match]:
    for phrasing in query.folded_phrasings:
        for texts in _splits(plain, phrasing):
            literals: dict[str, str] = {}
            told: dict[str, str] = {}
            for slot, said in texts.items():
                read = reader.read(said, slot, query.parameters.get(slot, slot))
                if read is None:
                    break
                told[slot] = read[0]
                literals |= read[1]
            else:
                sql = filled(query.sql, literals)
                if sql is not None:
                    yield Match(query, sql, told)


def _splits(plain: str, wording: str) -> Iterator[Mapping[str, str]]:
    """Every way to cut a question into a wording's fixed texts and its slots, up to `MAX_SPLITS`."""
    pieces = _SLOT.split(wording)  # fixed, slot, fixed, slot, ..., fixed
    fixed, slots = pieces[::2], pieces[1::2]
    if not slots or len(slots) > MAX_SLOTS or not plain.startswith(fixed[0]):
        return
    tried = 0
    waiting: list[tuple[int, int, tuple[str, ...]]] = [(len(fixed[0]), 0, ())]
    while waiting and tried < MAX_SPLITS:
        tried += 1
        at, number, found = waiting.pop()
        if number == len(slots):
            if at == len(plain):
                yield dict(zip(slots, found, strict=True))
            continue
        following = fixed[number + 1]
        is_last = number + 1 == len(slots)
        ends = range(at + 1, min(len(plain), at + MAX_SLOT_CHARACTERS) + 1)
        for end in ends:
            if not plain.startswith(following, end) or (is_last and end + len(following) != len(plain)):
                continue
            said = plain[at:end].strip()
            if said:
                waiting.append((end + len(following), number + 1, (*found, said)))


class _SlotReader:
    """What the words in a slot mean: exactly one value, or one period."""

    def __init__(
        self, catalog: Catalog, layer: SemanticLayer, today: dt.date, values: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._catalog = catalog
        self._layer = layer
        self._today = Today(today, layer.conventions.week_start)
        self._vocabulary = vocabulary_of(layer, values)
        self._known: dict[tuple[str, str], tuple[str, Mapping[str, str]] | None] = {}

    def read(self, said: str, slot: str, parameter: str) -> tuple[str, Mapping[str, str]] | None:
        """What it means in words, and literals by placeholder; None where that is not certain."""
        key = (said, slot)
        if key not in self._known:
            self._known[key] = self._read(said, slot, parameter)
        return self._known[key]

    def _read(self, said: str, slot: str, parameter: str) -> tuple[str, Mapping[str, str]] | None:
        text = normalised(said)
        items = items_of(text, tokens_of(text), self._vocabulary, self._today)
        meant = [item for item in items if item.kind is not Kind.FILLER]
        dimension = self._layer.dimensions.get(parameter)
        if dimension is not None:
            value = self._value(meant, parameter, dimension)
            literal = None if value is None else value_literal(value, dimension.column, self._catalog)
            return None if value is None or literal is None else (value, {slot: literal})
        time = _ON_A_DAY if parameter == DAYS else self._layer.times.get(parameter)
        if time is None or len(meant) != 1 or len(meant[0].senses) != 1 or meant[0].sense.span is None:
            return None
        span = meant[0].sense.span
        return None if span.otherwise else (str(span.period), self._period(slot, span.period, time))

    def _period(self, slot: str, period: Period, time: TimeColumn) -> Mapping[str, str]:
        rule = rule_of(self._layer.conventions)
        return {
            f"{slot}_start": boundary(rule, period.start, time),
            f"{slot}_end": boundary(rule, period.end, time),
        }

    def _value(self, meant: Sequence[Item], name: str, dimension: Dimension) -> str | None:
        if len(meant) == 2 and any(one.kind is Kind.DIMENSION and one.name == name for one in meant[0].senses):
            meant = meant[1:]  # `server 3`
        elif len(meant) == 2 and any(one.kind is Kind.DIMENSION and one.name == name for one in meant[1].senses):
            meant = meant[:1]  # `3服`, `Asia region`
        if len(meant) != 1:
            return None
        found = {
            one.value or (dimension.number_format.format(int(one.number)) if dimension.number_format else "")
            for one in meant[0].senses
            if one.kind is Kind.VALUE and one.name == name
        }
        if not found and dimension.number_format:
            found = {dimension.number_format.format(number) for number in _whole_numbers(meant[0])}
        return next(iter(found)) if len(found) == 1 and "" not in found else None


def _whole_numbers(item: Item) -> set[int]:
    """What it says as a number: also where its digits are a value of another dimension as well."""
    if item.text.isdecimal():
        return {int(item.text)}
    said = [one for one in item.senses if one.kind is Kind.NUMBER and not one.is_percent]
    return {int(one.number) for one in said if one.number.is_integer()}


def value_literal(value: str, column: str, catalog: Catalog) -> str | None:
    """A dimension's value as a literal of its column's type; None where it cannot be one."""
    table_name, _, name = column.partition(".")
    table = catalog.table(table_name)
    found = table.column(name) if table is not None else None
    if found is None or "\0" in value:
        return None
    if found.type.is_numeric:
        return value if re.fullmatch(r"-?\d{1,18}(\.\d{1,9})?", value) else None
    if found.type is ColumnType.BOOLEAN and value.lower() in {"true", "false", "0", "1"}:
        return value.upper() if value.isalpha() else value
    return "'" + value.replace("'", "''") + "'" if catalog.dialect is Dialect.DUCKDB else text_literal(value)


def placeholders_of(sql: str) -> frozenset[str]:
    """The names behind colons that stand outside texts, quoted names and comments."""
    return frozenset(found.group(1) for found in _PLACEHOLDER.finditer(sql) if found.group(1))


def filled(sql: str, literals: Mapping[str, str]) -> str | None:
    """SQL with literals for its placeholders; None where one is missing."""
    if not placeholders_of(sql) <= literals.keys():
        return None
    return _PLACEHOLDER.sub(lambda found: literals[found.group(1)] if found.group(1) else found.group(), sql)


def problems_of(query: VerifiedQuery, layer: SemanticLayer) -> tuple[str, ...]:
    """What keeps a query from being matched and filled: every mistake, in words."""
    found = []
    if not folded(query.question):
        found.append("the question is empty")
    slots = [frozenset(_SLOT.findall(text)) for text in query.folded_phrasings]
    for text, own in zip(query.phrasings, slots, strict=True):
        if own != slots[0]:
            found.append(f"{text!r} has other slots than the question: {_listed(own)} and {_listed(slots[0])}")
        if len(_SLOT.findall(folded(text))) != len(own) or len(own) > MAX_SLOTS:
            found.append(f"{text!r} must have each slot once, and at most {MAX_SLOTS}")
    expected: set[str] = set()
    for slot in sorted(slots[0]):
        parameter = query.parameters.get(slot, slot)
        if parameter in layer.dimensions:
            expected.add(slot)
        elif parameter == DAYS or parameter in layer.times:
            expected |= {f"{slot}_start", f"{slot}_end"}
        else:
            text = (
                f"{{{slot}}} means nothing: {parameter!r} is no dimension, no time column (table.column), and not days"
            )
            found.append(text)
    if not found and expected != placeholders_of(query.sql):
        found.append(f"the SQL has {_listed(placeholders_of(query.sql))}, the slots need {_listed(expected)}")
    found += [f"parameter {name!r} belongs to no slot" for name in query.parameters if name not in slots[0]]
    return tuple(found)


def moving_times(text: str, layer: SemanticLayer, today: dt.date) -> tuple[str, ...]:
    """The times in a question that mean other days later on, as `yesterday`, or `May` without a year.

    SQL that says days as literals answers such a question for a while only: it needs a slot.
    """
    plain = normalised(_SLOT.sub(" ", folded(text)))
    vocabulary = vocabulary_of(layer, {})
    found = [
        [
            (item.text, sense.span.period)
            for item in items_of(plain, tokens_of(plain), vocabulary, Today(day, layer.conventions.week_start))
            for sense in item.senses
            if sense.span is not None
        ]
        for day in (today, today + dt.timedelta(days=400))
    ]
    return tuple(dict.fromkeys(words for words, _ in set(found[0]) ^ set(found[1])))


def _listed(names: frozenset[str] | set[str]) -> str:
    return ", ".join(f":{name}" for name in sorted(names)) or "no placeholders"


def conflicts_of(query: VerifiedQuery, others: Sequence[VerifiedQuery]) -> tuple[str, ...]:
    """Approved queries that would share a wording with another answer: then neither would be given.

    One with the same question is none of them: it is replaced.
    """
    found = []
    for other in others:
        is_beside = other.status is Status.APPROVED and (other.tenant, other.source) == (query.tenant, query.source)
        if not is_beside or other.id == query.id or other.sql == query.sql:
            continue
        if other.folded_phrasings[0] == query.folded_phrasings[0]:
            continue
        shared = sorted(set(query.folded_phrasings) & set(other.folded_phrasings))
        found += [f"{text!r} is a wording of {other.id} with other SQL: neither would answer" for text in shared]
    return tuple(found)


def rechecked(query: VerifiedQuery, catalog: Catalog) -> VerifiedQuery:
    """An approved or stale query after its schema has changed.

    Returns:
        Approved for the new version where the guard still takes it, else stale with the reason.
    """
    refusal = guard_refusal(query.sql, catalog)
    if refusal is None:
        return attrs.evolve(query, status=Status.APPROVED, catalog_version=catalog.version, reason="")
    reason = f"the schema has changed: {refusal.code}: {refusal.hint}"
    return attrs.evolve(query, status=Status.STALE, catalog_version=catalog.version, reason=reason)


def guard_refusal(sql: str, catalog: Catalog) -> Refusal | None:
    """Why the guard does not take a query, whatever its slots are filled with; None where it does."""
    sample = filled(sql, dict.fromkeys(placeholders_of(sql), "'2026-01-01'"))
    assert sample is not None, "every placeholder has a literal"
    found = check(sample, catalog)
    return found if isinstance(found, Refusal) else None
