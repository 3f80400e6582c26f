"""What a reviewer's decision is checked against before it is written down: the guard, the layer, and the calendar."""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from actors.assistant_subjects import subjects_of
from runtime.ids import TenantId
from sqlassist.config import SqlConfig
from sqlassist.language import folded
from sqlassist.ports import Subject
from sqlassist.training import chats_of, exportable
from sqlassist.verified import Status, VerifiedQuery, conflicts_of, guard_refusal, moving_times, problems_of, rechecked
from sqlassist.verified_store import VerifiedStore


class ReviewError(Exception):
    """A query cannot be approved or exported. `problems` holds every reason."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def subject_for(config: SqlConfig, tenant: TenantId, source: str) -> Subject:
    """What a query is about.

    Args:
        config: The databases.
        tenant: Whose.
        source: Its name; empty where the tenant has only one.

    Raises:
        ReviewError: there is no such tenant or source, or several and none is named.
    """
    found = {subject.source: subject for subject in subjects_of(config, tenant, with_grammar=False)}
    if not found:
        raise ReviewError([f"the tenant {tenant!r} has no database in this configuration"])
    if not source and len(found) > 1:
        raise ReviewError([f"name the source with --source: {', '.join(found)}"])
    if source and source not in found:
        raise ReviewError([f"the tenant {tenant!r} has no source {source!r}, but {', '.join(found)}"])
    return found[source or next(iter(found))]


def checked_for(
    query: VerifiedQuery, subject: Subject, today: dt.date, others: Sequence[VerifiedQuery] = ()
) -> VerifiedQuery:
    """The query, fit to be approved, with the source and the schema's version that it was checked for.

    Raises:
        ReviewError: the guard does not take it, slots and placeholders differ, the question's times move and the SQL's
            do not, or another approved query has one of its wordings.
    """
    query = attrs.evolve(query, source=subject.source)
    problems = [*problems_of(query, subject.layer), *conflicts_of(query, others)]
    if not problems:
        refusal = guard_refusal(query.sql, subject.catalog)
        if refusal is not None:
            problems.append(f"the guard does not take the SQL: {refusal}")
    for text in query.phrasings:
        moving = moving_times(text, subject.layer, today)
        if moving:
            words = ", ".join(repr(one) for one in moving)
            problems.append(f"{text!r}: {words} will mean other days: write a slot like {{period}} in its place")
    if problems:
        raise ReviewError(problems)
    return attrs.evolve(query, source=subject.source, catalog_version=subject.catalog.version)


def recheck_all(store: VerifiedStore, config: SqlConfig, tenant: TenantId | None) -> tuple[VerifiedQuery, ...]:
    """Let the guard look at all approved and stale queries again; returns what it said of each, and writes it down."""
    found = []
    for query in store.queries(tenant, Status.APPROVED, Status.STALE):
        try:
            again = rechecked(query, subject_for(config, query.tenant, query.source).catalog)
        except ReviewError as error:
            again = attrs.evolve(query, status=Status.STALE, reason=str(error))
        store.recheck(again)
        found.append(again)
    return tuple(found)


def export_chats(
    store: VerifiedStore, subject: Subject, tenant: TenantId, evaluation: Sequence[str], path: Path
) -> tuple[int, Mapping[str, int]]:
    """Write approved queries as JSON lines, for training an adapter.

    Args:
        store: Where they are.
        subject: Whose schema and document the chats begin with.
        tenant: Whose queries.
        evaluation: Wordings that must not be trained on.
        path: The file; a whole one or none.

    Returns:
        How many chats there are, and how many queries were left out, by reason.

    Raises:
        ReviewError: nothing is left to be exported.
        OSError: the file cannot be written.
    """
    queries = [query for query in store.queries(tenant, Status.APPROVED) if query.source == subject.source]
    kept, left_out = exportable(queries, subject.catalog, frozenset(map(folded, evaluation)))
    lines = [
        json.dumps(chat, ensure_ascii=False)
        for one in kept
        for chat in chats_of(one, subject.catalog, subject.document)
    ]
    if not lines:
        reasons = "; ".join(f"{count} {reason}" for reason, count in left_out.items()) or "none is approved"
        raise ReviewError([f"there is nothing to export: {reasons}"])
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draft.replace(path)
    return len(lines), left_out
