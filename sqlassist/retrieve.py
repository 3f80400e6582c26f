"""Which verified questions are like a new one: a model is shown them with their SQL.

Verified questions are found by BM25 over words and, for Chinese, over single and paired characters, since nothing else
cuts Chinese into words that all people would agree on. An embedding model or a reranker can be put beside it.
"""

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence

import attrs
import bm25s

from sqlassist.language import HAN, folded

Embed = Callable[[str], Sequence[float]]
"""A text's vector; all of one length."""
Rerank = Callable[[str, Sequence[str]], Sequence[float]]
"""How well each text fits a question, the higher the better."""

RERANKED = 20  # candidates that a reranker sees: what BM25 puts behind these is hardly ever the best one
RANK_OFFSET = 60  # of reciprocal rank fusion (Cormack, Clarke and Buettcher 2009): two rankings without common scores
_WORD = re.compile(rf"[{HAN}]+|[^\W_]+")
_IS_HAN = re.compile(f"[{HAN}]")

logging.getLogger("bm25s").setLevel(logging.WARNING)  # it tells of every index that it builds


@attrs.frozen
class Known:
    """A question with the SQL that answers it, as it is looked for."""

    id: str
    question: str
    sql: str
    wordings: tuple[str, ...] = ()
    """Other ways to ask it: each is looked for, and the question is shown."""


@attrs.frozen
class Example:
    """A question like the one that was asked."""

    id: str
    question: str
    sql: str
    score: float
    """Comparable within one answer alone."""


def terms_of(text: str) -> list[str]:
    """What a text is indexed by: words without plural endings, single Han characters, and pairs of them."""
    found: list[str] = []
    for match in _WORD.finditer(folded(text)):
        word = match.group()
        if not _IS_HAN.match(word):
            found.append(word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word)
            continue
        found += word
        found += (word[at : at + 2] for at in range(len(word) - 1))
    return found


class Retriever:
    """An index over verified questions; made anew when they change. The same questions give the same answers."""

    def __init__(self, known: Sequence[Known], *, embed: Embed | None = None, rerank: Rerank | None = None) -> None:
        """Index questions.

        Args:
            known: Of one tenant.
            embed: Beside BM25; the two rankings are fused.
            rerank: Sees the best candidates, and has the last word about their order.
        """
        self._embed = embed
        self._rerank = rerank
        self._texts = [(one, text) for one in known for text in (one.question, *one.wordings)]
        self._folded = {one.id: frozenset(map(folded, (one.question, *one.wordings))) for one in known}
        self._index: bm25s.BM25 | None = None
        terms = [terms_of(text) for _, text in self._texts]
        if any(terms):  # an empty index cannot be made
            self._index = bm25s.BM25()
            self._index.index(terms, show_progress=False)
        self._vectors = [tuple(embed(text)) for _, text in self._texts] if embed is not None else []

    def examples(self, text: str, count: int, exclude: Sequence[str] = ()) -> tuple[Example, ...]:
        """The likest questions, the likest first; ties by id.

        Args:
            text: The question.
            count: How many at most; what shares no term with it is no example.
            exclude: Folded questions that must not be found, in none of their wordings.
        """
        if count <= 0:
            return ()
        hidden = frozenset(exclude)
        rankings = [self._by_terms(text), *([self._by_vector(text)] if self._embed is not None else [])]
        kept = [
            {one: score for one, score in ranking.items() if not hidden & self._folded[one.id]} for ranking in rankings
        ]
        fused = kept[0] if len(kept) == 1 else _fused(kept)
        best = sorted(fused, key=lambda one: (-fused[one], one.id))
        if self._rerank is not None and best:
            best = best[: max(count, RERANKED)]
            scores = self._rerank(text, [one.question for one in best])
            fused = dict(zip(best, scores, strict=True))
            best.sort(key=lambda one: (-fused[one], one.id))
        return tuple(Example(one.id, one.question, one.sql, round(float(fused[one]), 6)) for one in best[:count])

    def _by_terms(self, text: str) -> dict[Known, float]:
        terms = terms_of(text)
        if self._index is None or not terms:
            return {}
        scores = self._index.get_scores(terms)
        return self._best_of([float(score) for score in scores])

    def _by_vector(self, text: str) -> dict[Known, float]:
        assert self._embed is not None
        vector = self._embed(text)
        return self._best_of([_cosine(vector, other) for other in self._vectors])

    def _best_of(self, scores: Sequence[float]) -> dict[Known, float]:
        """A question is as like as its likest wording."""
        found: dict[Known, float] = {}
        for (one, _), score in zip(self._texts, scores, strict=True):
            if score > found.get(one, 0.0):
                found[one] = score
        return found


def _fused(rankings: Sequence[Mapping[Known, float]]) -> dict[Known, float]:
    found: dict[Known, float] = {}
    for ranking in rankings:
        ordered = sorted(ranking, key=lambda one: (-ranking[one], one.id))
        for rank, one in enumerate(ordered):
            found[one] = found.get(one, 0.0) + 1 / (RANK_OFFSET + rank + 1)
    return found


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    norms = math.sqrt(sum(a * a for a in one)) * math.sqrt(sum(b * b for b in other))
    return dot / norms if norms else 0.0
