"""Verified queries behind the pipeline's port: looked up in memory, written in threads, the same for all processes."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import attrs
import trio

from actors.asking import AskError
from runtime.ids import TenantId
from runtime.telemetry import counter, emit
from sqlassist.conversation import Turn
from sqlassist.decision import Decision
from sqlassist.generate import Shot
from sqlassist.language import folded
from sqlassist.messages import Asker, Refusal
from sqlassist.ports import Subject
from sqlassist.retrieve import Embed, Known, Rerank, Retriever
from sqlassist.verified import Match, Status, VerifiedQuery, match, rechecked
from sqlassist.verified_store import VerifiedStore, VerifiedStoreError, open_store

_STALE = counter("assistant_verified_stale_questions_total", "Verified queries that a changed schema made useless.")
_LOST = counter("assistant_verified_lost_questions_total", "Uses and fallbacks that could not be written down.")
Values = Mapping[str, Mapping[str, tuple[str, ...]]]


class LibraryError(AskError):
    """The verified queries cannot be read. The text says which file, and why."""


@attrs.define(eq=False)
class _Shelf:
    """What is approved for one tenant, as of one version of the store."""

    version: int
    queries: tuple[VerifiedQuery, ...]
    retriever: Retriever | None = None
    """Made when a model is first shown examples."""


class AssistantLibrary:
    """Made by `opened`. What other processes approve is seen at the next question."""

    def __init__(self, store: VerifiedStore, *, embed: Embed | None = None, rerank: Rerank | None = None) -> None:
        self.store = store
        self._embed = embed
        self._rerank = rerank
        self._shelves: dict[TenantId, _Shelf] = {}
        self._rechecked: dict[tuple[str, str, str], VerifiedQuery] = {}  # (id, SQL, catalog version): what came of it
        self._to_write: list[VerifiedQuery] = []

    @classmethod
    def opened(cls, state: Path, *, embed: Embed | None = None, rerank: Rerank | None = None) -> "AssistantLibrary":
        """The library of a state folder. Blocks for milliseconds.

        Args:
            state: The folder; it is made where there is none.
            embed: Finds examples beside BM25. Neither is needed.
            rerank: Orders them.

        Raises:
            LibraryError: it cannot be read.
        """
        try:
            return cls(open_store(state), embed=embed, rerank=rerank)
        except VerifiedStoreError as error:
            raise LibraryError(str(error)) from error

    def close(self) -> None:
        """Write down what is left, and let the file go."""
        try:
            self._write_rechecked()
        except VerifiedStoreError as error:
            _lost("recheck", error)
        self.store.close()

    def version(self, tenant: TenantId) -> str:
        """Changes with what is approved for a tenant: decisions that were cached before it no longer count."""
        return str(self._shelf(tenant).version)

    def match(
        self, tenant: TenantId, text: str, subjects: tuple[Subject, ...], today: dt.date, values: Values
    ) -> Decision | None:
        """See `Library`. Queries of another version of the schema are checked anew first."""
        found = []
        for subject in subjects:
            queries = self._current(tenant, subject)
            one = match(text, queries, tenant, subject.catalog, subject.layer, today, values.get(subject.source, {}))
            if one is not None:
                found.append((subject, one))
        if len(found) != 1:
            return None  # the same question was verified for several sources: whoever asked must say which
        subject, one = found[0]
        return Decision(one.sql, subject.source, "verified", described=_described(one), verified_id=one.query.id)

    def examples(self, tenant: TenantId, text: str, count: int) -> tuple[Shot, ...]:
        """See `Library`. Held-out questions are never shown."""
        return self.examples_without(tenant, text, count, ())

    def examples_without(self, tenant: TenantId, text: str, count: int, exclude: tuple[str, ...]) -> tuple[Shot, ...]:
        """As `examples`, without some folded questions: for evaluation."""
        shelf = self._shelf(tenant)
        if shelf.retriever is None:
            shelf.retriever = Retriever(_known(shelf.queries), embed=self._embed, rerank=self._rerank)
        found = shelf.retriever.examples(text, count, exclude)
        return tuple(Shot(one.question, one.sql) for one in found)

    async def used(self, tenant: TenantId, verified_id: str) -> None:
        """See `Library`. A count that cannot be written is lost, and told; it fails no question."""
        try:
            await trio.to_thread.run_sync(self._used, tenant, verified_id)
        except VerifiedStoreError as error:
            _lost("used", error)

    async def fell_back(self, asker: Asker, text: str, decision: Decision) -> None:
        """See `Library`. Proposals are made of it by `corral verified propose`."""
        try:
            await trio.to_thread.run_sync(self.store.fell_back, asker.tenant, text, decision.source, decision.sql)
        except VerifiedStoreError as error:
            _lost("fell_back", error)

    async def request_review(self, asker: Asker, turn: Turn, comment: str, correction_sql: str) -> str | Refusal:
        """Put an answer before the reviewers.

        Args:
            asker: Whose question it was.
            turn: The question.
            comment: What is wrong with the answer, or that it is right.
            correction_sql: What it should have been; empty where whoever asked knows only that it was not this.

        Returns:
            The id of the proposal, or why it was not taken.
        """
        query = VerifiedQuery(
            id="",
            tenant=asker.tenant,
            question=turn.standalone or turn.question,
            sql=correction_sql.strip() or turn.sql,
            source=turn.source,
            catalog_version="",
            wordings=(turn.question,) if folded(turn.question) != folded(turn.standalone) and turn.standalone else (),
            origin="review",
            asked_by=asker.user,
            comment=comment,
        )
        try:
            return (await trio.to_thread.run_sync(self.store.add, query, asker.user, comment)).id
        except VerifiedStoreError as error:
            return Refusal("review_not_taken", turn.id, str(error))

    # --- in memory -------------------------------------------------------------------------------------------------
    def _shelf(self, tenant: TenantId) -> _Shelf:
        """What is approved by now; the file is read again only where that has changed."""
        known = self._shelves.get(tenant)
        try:
            version = self.store.versions().get(tenant, 0)
            if known is None or known.version != version:
                queries = self.store.queries(tenant, Status.APPROVED)
                known = self._shelves[tenant] = _Shelf(version, queries)
        except VerifiedStoreError as error:
            emit("actors.library.unreadable", level="error", tenant=tenant, error=str(error))
            known = known if known is not None else _Shelf(0, ())
        return known

    def _current(self, tenant: TenantId, subject: Subject) -> tuple[VerifiedQuery, ...]:
        """The queries of one source, as the guard finds them for the present schema."""
        found = []
        for query in self._shelf(tenant).queries:
            if query.source != subject.source:
                continue
            if query.catalog_version != subject.catalog.version:
                query = self._checked_anew(query, subject)
            found.append(query)
        return tuple(found)

    def _checked_anew(self, query: VerifiedQuery, subject: Subject) -> VerifiedQuery:
        key = (query.id, query.sql, subject.catalog.version)
        if key not in self._rechecked:
            found = self._rechecked[key] = rechecked(query, subject.catalog)
            self._to_write.append(found)
            if found.status is Status.STALE:
                _STALE.inc()
                emit("actors.library.stale", level="warning", tenant=query.tenant, verified=query.id)
        return self._rechecked[key]

    # --- in threads ------------------------------------------------------------------------------------------------
    def _used(self, tenant: TenantId, verified_id: str) -> None:
        self._write_rechecked()
        self.store.used(tenant, verified_id)

    def _write_rechecked(self) -> None:
        waiting, self._to_write = self._to_write, []
        for query in waiting:
            self.store.recheck(query)


def _known(queries: tuple[VerifiedQuery, ...]) -> list[Known]:
    return [
        Known(one.id, one.question, one.sql, one.wordings)
        for one in queries
        if not one.held_out and not one.is_template  # placeholders in SQL would teach a model to write them
    ]


def _described(found: Match) -> str:
    filled = "; ".join(f"{slot} = {value}" for slot, value in found.filled.items())
    return found.query.question + (f" ({filled})" if filled else "")


def _lost(what: str, error: VerifiedStoreError) -> None:
    _LOST.inc()
    emit("actors.library.lost", level="error", what=what, error=str(error))
