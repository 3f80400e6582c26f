"""Verified queries on disk: one SQLite file, in which several processes may read and write at the same time.

SQLite, and not lines of JSON, because use counts change often, a server and `corral verified` work on it together, and
a crash must never leave half a decision. Whoever decided what stays on record in the table `decisions`.
"""

import datetime as dt
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from runtime.ids import TenantId
from sqlassist.language import folded
from sqlassist.verified import Status, VerifiedQuery

FILE = "verified.sqlite"
SCHEMA_VERSION = 1
BUSY_SECONDS = 10.0  # writers take turns; each holds the file for a few milliseconds
MAX_QUEUED = 5000  # of one tenant: reviewers never come to the end of more, and users cannot fill a disk
MAX_FALLBACKS = 20_000  # of one tenant; beyond, those asked once and longest ago are forgotten
MAX_TEXT = 4000  # characters of a question or a comment
MAX_SQL = 20_000
_TABLES = """
CREATE TABLE queries (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, status TEXT NOT NULL, source TEXT NOT NULL, folded TEXT NOT NULL,
    use_count INTEGER NOT NULL, body TEXT NOT NULL, created_at TEXT NOT NULL) STRICT;
CREATE INDEX queries_by_tenant ON queries (tenant, status);
CREATE TABLE fallbacks (
    tenant TEXT NOT NULL, folded TEXT NOT NULL, question TEXT NOT NULL, source TEXT NOT NULL, sql TEXT NOT NULL,
    times INTEGER NOT NULL, last_at TEXT NOT NULL, PRIMARY KEY (tenant, folded)) STRICT;
CREATE TABLE decisions (
    at TEXT NOT NULL, by TEXT NOT NULL, id TEXT NOT NULL, what TEXT NOT NULL, note TEXT NOT NULL) STRICT;
CREATE TABLE versions (tenant TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT;
"""


class VerifiedStoreError(Exception):
    """The file cannot be used, or what was asked of it cannot be done: the text says why and what to do."""


@attrs.frozen
class Fallback:
    """A question that a model answered, and how often."""

    tenant: TenantId
    question: str
    source: str
    sql: str
    """As it was written the last time."""
    times: int
    last_at: str


@attrs.frozen
class DecisionRecord:
    """Who decided what about a query."""

    at: str
    by: str
    id: str
    what: str
    note: str


class VerifiedStore:
    """Made by `open_store`. Every method blocks, most for milliseconds; threads take turns.

    Raises, in all methods:
        VerifiedStoreError: the file cannot be read or written.
    """

    def __init__(self, path: Path, writer: sqlite3.Connection, reader: sqlite3.Connection) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader
        self._writing = threading.Lock()
        self._reading = threading.Lock()

    def close(self) -> None:
        """Let the file go."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()

    # --- reading ---------------------------------------------------------------------------------------------------
    def versions(self) -> Mapping[TenantId, int]:
        """Tenant → a number that grows whenever what is approved for him changes. Use counts change nothing."""
        return {TenantId(tenant): number for tenant, number in self._read("SELECT tenant, number FROM versions")}

    def queries(self, tenant: TenantId | None = None, *statuses: Status) -> tuple[VerifiedQuery, ...]:
        """The queries of a tenant, or of all, in the order in which they came.

        Args:
            tenant: None: all of them.
            statuses: None named: all of them.
        """
        conditions, arguments = ["1 = 1"], []
        if tenant is not None:
            conditions.append("tenant = ?")
            arguments.append(str(tenant))
        if statuses:
            conditions.append(f"status IN ({', '.join('?' * len(statuses))})")
            arguments += [status.value for status in statuses]
        rows = self._read(
            f"SELECT body, use_count FROM queries WHERE {' AND '.join(conditions)} ORDER BY created_at, id", arguments
        )
        return tuple(self._query(body, uses) for body, uses in rows)

    def query(self, verified_id: str) -> VerifiedQuery:
        """One query. Raises `VerifiedStoreError` where there is none of this id."""
        rows = self._read("SELECT body, use_count FROM queries WHERE id = ?", [verified_id])
        if not rows:
            raise VerifiedStoreError(f"there is no query {verified_id!r}: see `corral verified list`")
        return self._query(*rows[0])

    def fallbacks(self, at_least: int, tenant: TenantId | None = None) -> tuple[Fallback, ...]:
        """Questions that models answered so often, the most frequent first."""
        rows = self._read(
            "SELECT tenant, question, source, sql, times, last_at FROM fallbacks WHERE times >= ?"
            " AND (? IS NULL OR tenant = ?) ORDER BY times DESC, tenant, folded",
            [at_least, tenant, tenant],
        )
        return tuple(Fallback(TenantId(row[0]), *row[1:]) for row in rows)

    def decisions(self, verified_id: str) -> tuple[DecisionRecord, ...]:
        """What was decided about a query, in order."""
        rows = self._read("SELECT at, by, id, what, note FROM decisions WHERE id = ? ORDER BY rowid", [verified_id])
        return tuple(DecisionRecord(*row) for row in rows)

    # --- writing ---------------------------------------------------------------------------------------------------
    def add(self, query: VerifiedQuery, by: str, note: str = "") -> VerifiedQuery:
        """Take a query in, as a proposal or approved; it gets an id where it has none.

        An approved one takes the place of others with the same question for the same source.
        """
        query = attrs.evolve(query, id=query.id or f"v-{secrets.token_hex(5)}")
        problem = _too_large(query)
        if problem:
            raise VerifiedStoreError(problem)
        with self._change() as cursor:
            if query.status is Status.PROPOSED:
                _require_room(cursor, query.tenant)
            if cursor.execute("SELECT 1 FROM queries WHERE id = ?", [query.id]).fetchone():
                raise VerifiedStoreError(f"there is a query {query.id!r} already")
            _put(cursor, query)
            _record(cursor, by, query.id, query.status, note)
            _settle(cursor, query, by)
        return query

    def decide(self, verified_id: str, status: Status, by: str, note: str = "", **changes: Any) -> VerifiedQuery:
        """Approve, reject or mark a query, with corrections if there are any.

        Args:
            verified_id: Whose.
            status: What it becomes.
            by: Who decided.
            note: Why, in words.
            changes: Fields of `VerifiedQuery` that are corrected, as `sql` or `wordings`.

        Returns:
            The query as it is now.
        """
        with self._change() as cursor:
            before = _one(cursor, verified_id)
            if status is Status.APPROVED:
                changes |= {"verified_by": by, "verified_at": _now()}
            after = attrs.evolve(before, status=status, **changes)
            problem = _too_large(after)
            if problem:
                raise VerifiedStoreError(problem)
            _put(cursor, after)
            _record(cursor, by, after.id, status, note)
            if before.status is Status.APPROVED or status is Status.APPROVED:
                _settle(cursor, after, by, was_approved=before.status is Status.APPROVED)
        return after

    def recheck(self, found: VerifiedQuery) -> bool:
        """Write down what the guard said of a query for a new schema; not where a person has changed it meanwhile.

        Args:
            found: As `sqlassist.verified.rechecked` returned it.

        Returns:
            Whether it was written.
        """
        with self._change() as cursor:
            before = _one(cursor, found.id)
            if before.sql != found.sql or before.status not in (Status.APPROVED, Status.STALE):
                return False
            _put(cursor, attrs.evolve(found, use_count=before.use_count))
            if before.status is not found.status:
                _record(cursor, "recheck", found.id, found.status, found.reason)
                _settle(cursor, found, "recheck", was_approved=True)
        return True

    def used(self, tenant: TenantId, verified_id: str) -> None:
        """Count a use; a query that is gone is no mistake."""
        with self._change() as cursor:
            cursor.execute(
                "UPDATE queries SET use_count = use_count + 1 WHERE id = ? AND tenant = ?", [verified_id, tenant]
            )

    def fell_back(self, tenant: TenantId, question: str, source: str, sql: str) -> int:
        """Count a question that a model answered; returns how often that was so by now."""
        key = folded(question)[:MAX_TEXT]
        if len(sql) > MAX_SQL:
            return 0
        with self._change() as cursor:
            cursor.execute(
                "INSERT INTO fallbacks VALUES (?, ?, ?, ?, ?, 1, ?) ON CONFLICT (tenant, folded) DO UPDATE SET"
                " times = times + 1, sql = excluded.sql, source = excluded.source, last_at = excluded.last_at",
                [tenant, key, question[:MAX_TEXT], source, sql, _now()],
            )
            (times,) = cursor.execute(
                "SELECT times FROM fallbacks WHERE tenant = ? AND folded = ?", [tenant, key]
            ).fetchone()
            (count,) = cursor.execute("SELECT COUNT(*) FROM fallbacks WHERE tenant = ?", [tenant]).fetchone()
            if count > MAX_FALLBACKS:
                cursor.execute(
                    "DELETE FROM fallbacks WHERE rowid IN (SELECT rowid FROM fallbacks WHERE tenant = ?"
                    " ORDER BY times, last_at LIMIT ?)",
                    [tenant, count - MAX_FALLBACKS],
                )
        return int(times)

    def propose(self, at_least: int, tenant: TenantId | None = None) -> tuple[VerifiedQuery, ...]:
        """Put questions that models answered so often before the reviewers, each once; returns the new proposals.

        What was rejected before is not proposed again.
        """
        proposed = []
        known = {(one.tenant, folded(text)) for one in self.queries(tenant) for text in one.phrasings}
        for one in self.fallbacks(at_least, tenant):
            if (one.tenant, folded(one.question)) in known:
                continue
            comment = f"a model answered it {one.times} times"
            query = VerifiedQuery(
                "", one.tenant, one.question, one.sql, one.source, "", origin="fallback", comment=comment
            )
            proposed.append(self.add(query, by="propose", note=comment))
        return tuple(proposed)

    # --- the file --------------------------------------------------------------------------------------------------
    def _query(self, body: str, uses: int) -> VerifiedQuery:
        try:
            return _structured(json.loads(body), uses)
        except (ValueError, TypeError, KeyError) as error:
            raise VerifiedStoreError(f"{self.path}: a query cannot be read: {error}") from error

    def _read(self, sql: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._reading:
                return self._reader.execute(sql, arguments).fetchall()
        except sqlite3.Error as error:
            raise VerifiedStoreError(f"{self.path} cannot be read: {error}") from error

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Cursor]:
        """One transaction: on disk when the block is over, or nothing of it."""
        try:
            with self._writing:
                cursor = self._writer.cursor()
                cursor.execute("BEGIN IMMEDIATE")
                try:
                    yield cursor
                except BaseException:
                    cursor.execute("ROLLBACK")
                    raise
                cursor.execute("COMMIT")
        except sqlite3.Error as error:
            raise VerifiedStoreError(f"{self.path} cannot be written: {error}") from error


def open_store(folder: Path) -> VerifiedStore:
    """The verified queries of a state folder; none at first. The file has mode 0600.

    Raises:
        VerifiedStoreError: it cannot be opened, is no such file, or was made by a newer release.
    """
    path = folder / FILE
    connections: list[sqlite3.Connection] = []
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # SQLite would make it readable to all
        writer = _connected(path)
        connections.append(writer)
        reader = _connected(path)  # readers never wait for a writer's disk
        connections.append(reader)
        _prepared(writer, path)
        reader.execute("PRAGMA query_only = ON")
    except (OSError, sqlite3.Error, VerifiedStoreError) as error:
        for connection in connections:
            connection.close()
        if isinstance(error, VerifiedStoreError):
            raise
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise VerifiedStoreError(f"{path}: the verified queries cannot be opened: {why}") from error
    return VerifiedStore(path, writer, reader)


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _prepared(writer: sqlite3.Connection, path: Path) -> None:
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA synchronous = FULL")
    writer.execute("BEGIN IMMEDIATE")
    (version,) = writer.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        writer.execute("ROLLBACK")
        raise VerifiedStoreError(f"{path} was made by a newer release (version {version}, this one reads 1)")
    if version == 0:
        for statement in _TABLES.split(";\n"):
            writer.execute(statement)
        writer.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    writer.execute("COMMIT")


def _structured(body: Mapping[str, Any], uses: int) -> VerifiedQuery:
    fields = {
        **body,
        "tenant": TenantId(body["tenant"]),
        "status": Status(body["status"]),
        "wordings": tuple(body["wordings"]),
        "use_count": uses,
    }
    return VerifiedQuery(**fields)


def _put(cursor: sqlite3.Cursor, query: VerifiedQuery) -> None:
    body = json.dumps(attrs.asdict(query), ensure_ascii=False)
    cursor.execute(
        "INSERT INTO queries VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET status = excluded.status,"
        " source = excluded.source, folded = excluded.folded, body = excluded.body",
        [
            query.id,
            query.tenant,
            query.status.value,
            query.source,
            folded(query.question),
            query.use_count,
            body,
            _now(),
        ],
    )


def _one(cursor: sqlite3.Cursor, verified_id: str) -> VerifiedQuery:
    row = cursor.execute("SELECT body, use_count FROM queries WHERE id = ?", [verified_id]).fetchone()
    if row is None:
        raise VerifiedStoreError(f"there is no query {verified_id!r}: see `corral verified list`")
    return _structured(json.loads(row[0]), row[1])


def _settle(cursor: sqlite3.Cursor, query: VerifiedQuery, by: str, *, was_approved: bool = False) -> None:
    """An approved query replaces those with its question; whoever keeps approved ones in memory reads them anew."""
    if query.status is Status.APPROVED:
        others = cursor.execute(
            "SELECT body, use_count FROM queries WHERE tenant = ? AND source = ? AND folded = ? AND id <> ?"
            " AND status IN ('approved', 'stale')",
            [query.tenant, query.source, folded(query.question), query.id],
        ).fetchall()
        for body, uses in others:
            old = _structured(json.loads(body), uses)
            reason = f"replaced by {query.id}"
            _put(cursor, attrs.evolve(old, status=Status.REJECTED, reason=reason))
            _record(cursor, by, old.id, Status.REJECTED, reason)
    if query.status is Status.APPROVED or was_approved:
        cursor.execute(
            "INSERT INTO versions VALUES (?, 1) ON CONFLICT (tenant) DO UPDATE SET number = number + 1", [query.tenant]
        )


def _record(cursor: sqlite3.Cursor, by: str, verified_id: str, status: Status, note: str) -> None:
    cursor.execute(
        "INSERT INTO decisions VALUES (?, ?, ?, ?, ?)", [_now(), by, verified_id, status.value, note[:MAX_TEXT]]
    )


def _require_room(cursor: sqlite3.Cursor, tenant: TenantId) -> None:
    (count,) = cursor.execute(
        "SELECT COUNT(*) FROM queries WHERE tenant = ? AND status = 'proposed'", [tenant]
    ).fetchone()
    if count >= MAX_QUEUED:
        raise VerifiedStoreError(f"{count} proposals of {tenant} wait for review: decide about some of them first")


def _too_large(query: VerifiedQuery) -> str:
    if len(query.sql) > MAX_SQL:
        return f"the SQL has {len(query.sql)} characters, at most {MAX_SQL} are kept"
    longest = max(len(text) for text in (*query.phrasings, query.comment, query.reasoning))
    return f"a text has {longest} characters, at most {MAX_TEXT} are kept" if longest > MAX_TEXT else ""


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
