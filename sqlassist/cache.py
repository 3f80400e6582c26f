"""What was decided, and what was answered: caches from cheap to dear, by the asker's scope. Pure: `now` is an argument.

A false hit is worse than a miss, so every key holds all that could change an answer.
The exact cache keeps what a question was found to ask (SQL that is checked and run again), the result cache keeps rows
for a short while, the semantic cache takes a question for another one, and is off unless somebody turns it on.
"""

import datetime as dt
import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence

import attrs

from runtime.ids import TenantId
from sqlassist.decision import Decision
from sqlassist.language import folded
from sqlassist.result import ResultSet

MAX_DECISIONS = 5000
MAX_RESULTS = 500
MAX_RESULT_BYTES = 64 << 20
RESULT_SECONDS = 30.0  # people ask again within seconds, and data of a game is minutes old anyway
SEMANTIC_THRESHOLD = 0.92  # of the cosine of n-grams


@attrs.frozen
class CacheScope:
    """For whom, and of what, something was computed."""

    tenant: TenantId
    roles: tuple[str, ...]
    """Sorted."""
    sources: tuple[str, ...]
    catalog_versions: tuple[str, ...]
    layer_versions: tuple[str, ...]
    """In the sources' order."""
    library_version: str = ""
    """Of what is approved for the tenant: a corrected answer is not given again. Empty where that changes nothing."""


@attrs.define(eq=False)
class ExactCache:
    """The folded standalone question and the business day → what it asks."""

    max_entries: int = MAX_DECISIONS
    hits: int = attrs.field(default=0, init=False)
    misses: int = attrs.field(default=0, init=False)
    _kept: "OrderedDict[tuple[CacheScope, str, dt.date], Decision]" = attrs.field(factory=OrderedDict, init=False)

    def get(self, scope: CacheScope, text: str, day: dt.date) -> Decision | None:
        """What the same words asked on the same day."""
        key = (scope, folded(text), day)
        found = self._kept.get(key)
        if found is None:
            self.misses += 1
            return None
        self._kept.move_to_end(key)
        self.hits += 1
        return found

    def put(self, scope: CacheScope, text: str, day: dt.date, decision: Decision) -> None:
        """Keep it; the entry that was used longest ago goes."""
        self._kept[scope, folded(text), day] = decision
        self._kept.move_to_end((scope, folded(text), day))
        while len(self._kept) > self.max_entries:
            self._kept.popitem(last=False)


@attrs.frozen
class _KeptResult:
    result: ResultSet
    kept_at: float
    size: int


@attrs.define(eq=False)
class ResultCache:
    """Source, checked SQL and the data's watermark → rows, for a short while."""

    seconds: float = RESULT_SECONDS
    max_entries: int = MAX_RESULTS
    max_bytes: int = MAX_RESULT_BYTES
    hits: int = attrs.field(default=0, init=False)
    misses: int = attrs.field(default=0, init=False)
    held_bytes: int = attrs.field(default=0, init=False)
    _kept: "OrderedDict[tuple[CacheScope, str, str, str], _KeptResult]" = attrs.field(factory=OrderedDict, init=False)

    def get(self, scope: CacheScope, source: str, sql: str, watermark: str, now: float) -> ResultSet | None:
        """Rows of the same statement over the same data, at most `seconds` old."""
        key = (scope, source, sql, watermark)
        found = self._kept.get(key)
        if found is None or not 0 <= now - found.kept_at < self.seconds:
            self.misses += 1
            if found is not None:
                self._drop(key)
            return None
        self.hits += 1
        return found.result

    def put(self, scope: CacheScope, source: str, sql: str, watermark: str, now: float, result: ResultSet) -> None:
        """Keep them; the oldest ones go where there is no room. What is too large for a quarter of it is not kept."""
        size = _size_of(result)
        if self.seconds <= 0 or size > self.max_bytes // 4:
            return
        key = (scope, source, sql, watermark)
        if key in self._kept:
            self._drop(key)
        self._kept[key] = _KeptResult(result, now, size)
        self.held_bytes += size
        while len(self._kept) > self.max_entries or self.held_bytes > self.max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[CacheScope, str, str, str]) -> None:
        self.held_bytes -= self._kept.pop(key).size


def _size_of(result: ResultSet) -> int:
    """About how many bytes a result takes."""
    return 200 + sum(60 + sum(60 if not isinstance(c, str) else 60 + 2 * len(c) for c in row) for row in result.rows)


@attrs.frozen
class Signature:
    """What must be equal before two questions may be taken for one, however alike their words are."""

    numbers: tuple[str, ...]
    names: frozenset[str]
    """Metrics, dimensions and values whose names stand in the text."""
    times: tuple[str, ...]
    """Words about time and order, which change an answer by one letter; sorted, each as often as it was said."""


_NUMBER = re.compile(r"\d+(?:[.,]\d+)?|[一二三四五六七八九十百千万零两]+")
_TIMES = re.compile(
    r"\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b|\bq[1-4]\b|"
    r"\b(today|yesterday|last|this|next|previous|past|since|until|before|after|between|day|week|month|quarter|year|daily|"
    r"weekly|monthly|not|no|without|except|excluding|top|bottom|best|worst|most|least|fewest|highest|lowest|more|less|above|"
    r"below|over|under|average|total|per|by|each|first|half|share|versus|vs|compared)\b|"
    r"[今昨前明]天|[上本这下前][个]?[周月年季]|同比|环比|不|非|除|最[高低多少大小好差]|前|后|倒数|平均|总|每|按|各|占比|以上|以下|超过|低于|上半|下半|[上中下]旬"
)


def signature_of(text: str, names: Sequence[str]) -> Signature:
    """Of a question.

    Args:
        text: The standalone question.
        names: Folded phrases of the layer: metrics, dimensions and values.
    """
    plain = folded(text)
    return Signature(
        tuple(sorted(_NUMBER.findall(plain))),
        frozenset(name for name in names if name in plain),
        tuple(sorted(found.group(0) for found in _TIMES.finditer(plain))),
    )


@attrs.define(eq=False)
class SemanticCache:
    """Questions that mean the same in other words. The strictest cache, and off by default.

    A hit needs an equal signature and very similar words, by character n-grams or by the embedding that is handed in.
    """

    threshold: float = SEMANTIC_THRESHOLD
    max_entries: int = 1000
    embed: Callable[[str], Sequence[float]] | None = None
    hits: int = attrs.field(default=0, init=False)
    misses: int = attrs.field(default=0, init=False)
    _kept: "OrderedDict[tuple[CacheScope, dt.date, Signature, str], Decision]" = attrs.field(
        factory=OrderedDict, init=False
    )

    def get(self, scope: CacheScope, text: str, day: dt.date, signature: Signature) -> Decision | None:
        """What the most similar question asked that may be taken for this one."""
        best: tuple[float, Decision] | None = None
        for (owner, kept_day, kept, words), decision in self._kept.items():
            if owner != scope or kept_day != day or kept != signature:
                continue
            likeness = self._likeness(folded(text), words)
            if likeness >= self.threshold and (best is None or likeness > best[0]):
                best = (likeness, decision)
        if best is None:
            self.misses += 1
            return None
        self.hits += 1
        return best[1]

    def put(self, scope: CacheScope, text: str, day: dt.date, signature: Signature, decision: Decision) -> None:
        """Keep it."""
        self._kept[scope, day, signature, folded(text)] = decision
        while len(self._kept) > self.max_entries:
            self._kept.popitem(last=False)

    def _likeness(self, one: str, other: str) -> float:
        if self.embed is None:
            return ngram_cosine(one, other)
        return _cosine_of(self.embed(one), self.embed(other))


def ngram_cosine(one: str, other: str, size: int = 3) -> float:
    """The cosine of two texts' counts of character n-grams: 1 for equal texts, 0 where they share none."""
    counts = [Counter(text[i : i + size] for i in range(max(1, len(text) - size + 1))) for text in (one, other)]
    shared = sum(counts[0][gram] * counts[1][gram] for gram in counts[0].keys() & counts[1].keys())
    norms = [math.sqrt(sum(count * count for count in of.values())) for of in counts]
    return shared / (norms[0] * norms[1]) if all(norms) else 0.0


def _cosine_of(one: Sequence[float], other: Sequence[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    norms = [math.sqrt(sum(a * a for a in vector)) for vector in (one, other)]
    return dot / (norms[0] * norms[1]) if all(norms) else 0.0
