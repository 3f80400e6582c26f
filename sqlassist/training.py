"""Verified queries as training data for an adapter: chats like those that the assistant has, one a wording."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlassist.catalog import Catalog
from sqlassist.generate import question_text, schema_text, system_text, user_text
from sqlassist.language import folded
from sqlassist.verified import Status, VerifiedQuery


def chats_of(query: VerifiedQuery, catalog: Catalog, document: str) -> Iterator[Mapping[str, Any]]:
    """A chat for each wording: the prompt's own system text, the question, and the SQL.

    `reasoning_content` holds the reasoning where somebody wrote it, as chat templates of thinking models take it.
    """
    system = system_text(catalog.dialect, document, schema_text(catalog))
    reasoning = {"reasoning_content": query.reasoning} if query.reasoning else {}
    for text in query.phrasings:
        yield {
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": user_text([question_text(text)])},
                {"role": "assistant", **reasoning, "content": query.sql},
            ]
        }


def exportable(
    queries: Sequence[VerifiedQuery], catalog: Catalog, evaluation: frozenset[str]
) -> tuple[tuple[VerifiedQuery, ...], Mapping[str, int]]:
    """Which queries may be trained on.

    Args:
        queries: Of one tenant and source.
        catalog: The present schema.
        evaluation: Folded wordings of evaluation sets. A model that has seen one of them proves nothing with it.

    Returns:
        The queries, and how many were left out, by reason.
    """
    kept, left_out = [], Counter[str]()
    for query in queries:
        reason = _why_not(query, catalog, evaluation)
        if reason:
            left_out[reason] += 1
        else:
            kept.append(query)
    return tuple(kept), dict(sorted(left_out.items()))


def _why_not(query: VerifiedQuery, catalog: Catalog, evaluation: frozenset[str]) -> str:
    if query.status is not Status.APPROVED:
        return f"are {query.status}"
    if query.held_out:
        return "are held out"
    if evaluation & set(map(folded, query.phrasings)):
        return "are questions of an evaluation set"
    if query.is_template:
        return "have slots"
    if query.catalog_version != catalog.version:
        return "are for another schema: run recheck"
    return ""
