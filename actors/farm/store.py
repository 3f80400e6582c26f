"""The state of a farm: runs, attempts, reservations, pauses and the audit; what is acknowledged here is on disk.

Every change is one transaction. All calls block: `StoreDesk` gives them a thread, one at a time. The database itself
refuses two attempts of one run at a time and two runs on one phone; an attempt ends exactly once.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
import trio

from actors.farm.afterwards import Again, Finish, Hold, Next
from actors.farm.database import Database
from actors.farm.engine_store import EngineStore
from actors.farm.pin_store import PinStore
from actors.farm.records import (
    Action,
    AttemptRecord,
    Pause,
    RunRecord,
    attempt_from_row,
    attempt_id_for,
    run_from_row,
    work_as_json,
    work_from_json,
)
from actors.farm.retention import StoredAttempt
from actors.farm.scans import Scans
from actors.farm.work import AttemptOutcome, RunState, Work
from runtime.ids import TenantId

T = TypeVar("T")
MAX_LISTED = 1000


class Refused(Exception):
    """What was asked for does not fit the present state; the text says why."""


class Missing(Refused):
    """There is no such run."""


@attrs.define(eq=False)
class Store:
    """What a farm knows, in a database that is open. Times are seconds since 1970."""

    _db: Database = attrs.field(alias="db")
    scans: Scans = attrs.field(init=False)
    """What is known of reading what they left."""

    def __attrs_post_init__(self) -> None:
        self.scans = Scans(self._db)

    # runs

    def submit(
        self, work: Work, run: str, now: float, *, due: float | None = None, origin: str | None = None
    ) -> RunRecord:
        """Add a run.

        Args:
            work: What to run.
            run: Its id, which no other has.
            now: The time.
            due: Of a daily one, when it is due first.
            origin: The daily one that it comes from.
        """
        state = RunState.QUEUED if work.daily is None else RunState.SCHEDULED
        ready_at = max(now, due if due is not None else work.not_before or now)
        with self._db.changing() as db:
            self._insert(db, work, run, now, state, ready_at, origin)
        return self.run(run)

    def spawn(self, daily: str, run: str, now: float, next_due: float) -> RunRecord | None:
        """Add today's run of a daily one, and say when it is due next: both or neither. None: it is not due."""
        with self._db.changing() as db:
            row = db.execute(
                "UPDATE runs SET ready_at = ? WHERE run = ? AND state = 'scheduled' AND held IS NULL AND ready_at <= ? "
                "RETURNING work",
                (next_due, daily, now),
            ).fetchone()
            if row is None:
                return None
            work = attrs.evolve(work_from_json(json.loads(row["work"])), daily=None)
            self._insert(db, work, run, now, RunState.QUEUED, now, daily)
        return self.run(run)

    def run(self, run: str) -> RunRecord:
        """One run.

        Raises:
            Missing: there is none.
        """
        found = self._db.rows("SELECT * FROM runs WHERE run = ?", (run,))
        if not found:
            raise Missing(f"there is no run {run!r}")
        return run_from_row(found[0])

    def runs(
        self,
        *,
        tenant: TenantId | None = None,
        states: Sequence[RunState] = (),
        before: int | None = None,
        limit: int = 100,
    ) -> list[RunRecord]:
        """The newest runs first.

        Args:
            tenant: Of this one alone; None: of all.
            states: In one of these; none: in any.
            before: Of smaller number, to go on from the last of a page.
            limit: At most so many.
        """
        where, values = ["1"], list[Any]()
        if tenant is not None:
            where.append("tenant = ?")
            values.append(tenant)
        if states:
            where.append(f"state IN ({', '.join('?' * len(states))})")
            values += [state.value for state in states]
        if before is not None:
            where.append("number < ?")
            values.append(before)
        sql = f"SELECT * FROM runs WHERE {' AND '.join(where)} ORDER BY number DESC LIMIT ?"  # noqa: S608  # no values
        return [run_from_row(row) for row in self._db.rows(sql, (*values, min(limit, MAX_LISTED)))]

    def waiting(self) -> list[RunRecord]:
        """The queue, held ones and those of later included, and daily ones, in the order of their numbers."""
        rows = self._db.rows("SELECT * FROM runs WHERE state IN ('queued', 'scheduled') ORDER BY number", ())
        return [run_from_row(row) for row in rows]

    def waiting_count(self, tenant: TenantId) -> int:
        """How many runs of a tenant wait."""
        sql = "SELECT count(*) AS n FROM runs WHERE tenant = ? AND state IN ('queued', 'scheduled')"
        return int(self._db.rows(sql, (tenant,))[0]["n"])

    def hold(self, run: str, reason: str) -> None:
        """Keep a waiting run in the queue.

        Raises:
            Refused: it does not wait.
        """
        self._change_waiting(run, "held = ?", (reason,), "only runs that wait can be paused so")

    def release(self, run: str, ready_at: float) -> None:
        """A held run may start; how long it was held does not count as waiting.

        Args:
            run: Its id.
            ready_at: From when on; the present time, or when a daily one is due next.

        Raises:
            Refused: it does not wait.
        """
        sql = "held = NULL, ready_at = max(ready_at, ?)"
        self._change_waiting(run, sql, (ready_at,), "only runs that wait can be resumed so")

    def cancel_waiting(self, run: str, reason: str, now: float) -> None:
        """End a run that waits.

        Raises:
            Refused: it does not wait.
        """
        sql = "state = 'cancelled', held = NULL, reason = ?, ended_at = ?"
        self._change_waiting(run, sql, (reason, now), "it does not wait (any more)")

    def pin(self, run: str, *, pinned: bool) -> None:
        """Keep a run's folders, or no longer."""
        with self._db.changing() as db:
            db.execute("UPDATE runs SET pinned = ? WHERE run = ?", (int(pinned), run))

    # attempts

    def start(self, run: str, phones: Sequence[str], now: float) -> AttemptRecord:
        """A run begins an attempt, on phones that are its own until the attempt ends.

        Raises:
            Refused: it does not wait any more, or one of the phones is reserved.
        """
        with self._db.changing() as db:
            row = db.execute(
                "UPDATE runs SET state = 'running', reason = '' WHERE run = ? AND state = 'queued' AND held IS NULL "
                "RETURNING tenant",
                (run,),
            ).fetchone()
            if row is None:
                raise Refused(f"run {run} does not wait any more")
            last = db.execute("SELECT max(number) AS n FROM attempts WHERE run = ?", (run,)).fetchone()["n"]
            number = (last or 0) + 1
            attempt = attempt_id_for(run, number)
            db.execute(
                "INSERT INTO attempts (attempt, run, tenant, number, phones, outcome, started_at) "
                "VALUES (?, ?, ?, ?, ?, 'running', ?)",
                (attempt, run, row["tenant"], number, json.dumps(list(phones)), now),
            )
            try:
                db.executemany("INSERT INTO reservations VALUES (?, ?)", [(phone, attempt) for phone in phones])
            except sqlite3.IntegrityError as error:
                raise Refused(f"a phone of {', '.join(phones)} is reserved already") from error
        return self.attempts(run)[-1]

    def end(
        self,
        attempt: str,
        outcome: AttemptOutcome,
        following: Callable[[Work, Sequence[AttemptOutcome]], Next],
        now: float,
        *,
        reason: str = "",
        exit_code: int | None = None,
        result: Mapping[str, Any] | None = None,
        size_bytes: int | None = None,
    ) -> Next | None:
        """An attempt is over: its result, its phones and what follows, in one transaction.

        Args:
            attempt: Its id.
            outcome: How it ended.
            following: Says what follows, of the work and of the outcomes of all its attempts.
            now: The time.
            reason: Why it ended so.
            exit_code: Of its process.
            result: Totals of what it played.
            size_bytes: Of its folder.

        Returns:
            What follows; None: it had ended already, and nothing was changed.
        """
        with self._db.changing() as db:
            row = db.execute(
                "UPDATE attempts SET outcome = ?, reason = ?, exit_code = ?, ended_at = ?, result = ?, size_bytes = ? "
                "WHERE attempt = ? AND outcome = 'running' RETURNING run",
                (
                    *(outcome.value, reason, exit_code, now),
                    *(None if result is None else json.dumps(dict(result)), size_bytes, attempt),
                ),
            ).fetchone()
            if row is None:
                return None
            db.execute("DELETE FROM reservations WHERE attempt = ?", (attempt,))
            run = row["run"]
            work = work_from_json(
                json.loads(db.execute("SELECT work FROM runs WHERE run = ?", (run,)).fetchone()["work"])
            )
            ends = db.execute("SELECT outcome FROM attempts WHERE run = ? ORDER BY number", (run,)).fetchall()
            after = following(work, [AttemptOutcome(one["outcome"]) for one in ends])
            match after:
                case Finish(state, why, flaky):
                    sql = "UPDATE runs SET state = ?, reason = ?, flaky = ?, ended_at = ? WHERE run = ?"
                    db.execute(sql, (state.value, why, int(flaky), now, run))
                case Again(at, why):
                    sql = "UPDATE runs SET state = 'queued', reason = ?, ready_at = ? WHERE run = ?"
                    db.execute(sql, (why, at, run))
                case Hold(why):
                    sql = "UPDATE runs SET state = 'queued', held = ?, reason = ?, ready_at = ? WHERE run = ?"
                    db.execute(sql, (why, why, now, run))
        return after

    def attempts(self, run: str) -> list[AttemptRecord]:
        """Those of a run, in order."""
        return [
            attempt_from_row(row)
            for row in self._db.rows("SELECT * FROM attempts WHERE run = ? ORDER BY number", (run,))
        ]

    def under_way(self) -> list[AttemptRecord]:
        """Attempts that have not ended."""
        return [attempt_from_row(row) for row in self._db.rows("SELECT * FROM attempts WHERE outcome = 'running'", ())]

    def may_go(self, attempt: str) -> bool:
        """Its folder is there, and nobody has pinned it."""
        sql = "SELECT 1 FROM attempts a JOIN runs r USING (run) WHERE attempt = ? AND removed IS NULL AND NOT pinned"
        return bool(self._db.rows(sql, (attempt,)))

    def stored(self) -> list[StoredAttempt]:
        """Ended attempts whose folders have not been removed."""
        rows = self._db.rows(
            "SELECT a.*, r.pinned FROM attempts a JOIN runs r USING (run) "
            "WHERE a.removed IS NULL AND a.outcome != 'running'",
            (),
        )
        return [
            StoredAttempt(
                row["attempt"],
                AttemptOutcome(row["outcome"]),
                row["ended_at"],
                row["size_bytes"] or 0,
                bool(row["pinned"]),
                row["scanned_at"] is not None,
            )
            for row in rows
        ]

    def mark_removed(self, attempt: str, why: str) -> None:
        """Its folder is gone."""
        with self._db.changing() as db:
            db.execute("UPDATE attempts SET removed = ? WHERE attempt = ?", (why, attempt))

    def used_seconds(self, since: float, now: float, least: float) -> dict[TenantId, float]:
        """Phone seconds by tenant from a time on, those of attempts under way included.

        Args:
            since: What was used before does not count.
            now: The time.
            least: What a phone counts for at least, however short the attempt.
        """
        # two parts, so that each is found by an index however long the farm has worked
        rows = self._db.rows(
            "SELECT tenant, sum(phones * max(?, ended_at - max(started_at, ?))) AS used FROM ("
            "SELECT tenant, json_array_length(phones) AS phones, started_at, ended_at FROM attempts WHERE ended_at > ? "
            "UNION ALL "
            "SELECT tenant, json_array_length(phones), started_at, ? FROM attempts WHERE outcome = 'running'"
            ") GROUP BY tenant",
            (least, since, since, now),
        )
        return {TenantId(row["tenant"]): float(row["used"]) for row in rows}

    # phones, audit

    def reservations(self) -> dict[str, str]:
        """Phone → attempt."""
        return {row["phone"]: row["attempt"] for row in self._db.rows("SELECT * FROM reservations", ())}

    def pauses(self) -> dict[str, Pause]:
        """By phone."""
        return {row["phone"]: Pause(**dict(row)) for row in self._db.rows("SELECT * FROM pauses", ())}

    def pause(self, phone: str, user: str, now: float) -> None:
        """Start nothing on a phone, or on any."""
        with self._db.changing() as db:
            db.execute("INSERT INTO pauses VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (phone, user, now))

    def unpause(self, phone: str) -> bool:
        """Let it be used again; False: it was not paused."""
        with self._db.changing() as db:
            return db.execute("DELETE FROM pauses WHERE phone = ?", (phone,)).rowcount > 0

    def note(self, action: Action, now: float) -> None:
        """Keep what an operator did."""
        with self._db.changing() as db:
            db.execute(
                "INSERT INTO audit (at, user, tenant, token, action, target, detail) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (now, *attrs.astuple(action)),
            )

    def actions(self, limit: int = 100) -> list[dict[str, Any]]:
        """What operators did, the newest first."""
        rows = self._db.rows("SELECT * FROM audit ORDER BY number DESC LIMIT ?", (min(limit, MAX_LISTED),))
        return [dict(row) for row in rows]

    @property
    def pins(self) -> PinStore:
        """Questions that are asked again by themselves, in the same database."""
        return PinStore(self._db)

    @property
    def engines(self) -> EngineStore:
        """What outlives a restart of the engines that runs share, in the same database."""
        return EngineStore(self._db)

    def check(self) -> None:
        """Read and write nothing, as a sign of life.

        Raises:
            StoreError: it cannot be done.
        """
        self._db.rows("SELECT count(*) FROM pauses", ())

    def _insert(
        self,
        db: sqlite3.Connection,
        work: Work,
        run: str,
        now: float,
        state: RunState,
        ready_at: float,
        origin: str | None,
    ) -> None:
        db.execute(
            "INSERT INTO runs (run, tenant, work, origin, state, submitted_at, ready_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (run, work.tenant, json.dumps(work_as_json(work)), origin, state.value, now, ready_at),
        )

    def _change_waiting(self, run: str, change: str, values: tuple[Any, ...], otherwise: str) -> None:
        sql = f"UPDATE runs SET {change} WHERE run = ? AND state IN ('queued', 'scheduled')"  # noqa: S608  # ours
        with self._db.changing() as db:
            if db.execute(sql, (*values, run)).rowcount == 0:
                raise Refused(f"run {run} is {self.run(run).state.value}: {otherwise}")


@attrs.define(eq=False)
class StoreDesk:
    """A store for tasks: its calls run in a worker thread, one at a time, and are never cut in the middle."""

    _store: Store = attrs.field(alias="store")
    _one: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1), init=False)

    async def do(self, work: Callable[[Store], T]) -> T:
        """Call with the store; what it raises is raised here."""
        return await trio.to_thread.run_sync(work, self._store, limiter=self._one)
