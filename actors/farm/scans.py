"""What the state knows of scans: which attempts were read, what each used, and what findings have cost."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from actors.farm.costs import Usage, usage_from_json, usage_sum
from actors.farm.database import Database
from actors.farm.records import AttemptRecord, attempt_from_row

MAX_NAMES = 500  # of one query


@attrs.define(eq=False)
class Scans:
    """That part of the state. All calls block, as those of `Store`."""

    _db: Database = attrs.field(alias="db")

    def unscanned(self) -> list[AttemptRecord]:
        """Attempts that have ended and were not read, the oldest first."""
        rows = self._db.rows(
            "SELECT * FROM attempts WHERE scanned_at IS NULL AND outcome != 'running' ORDER BY ended_at, attempt", ()
        )
        return [attempt_from_row(row) for row in rows]

    def unread(self, attempt: str) -> AttemptRecord | None:
        """It, if it has ended and was not read."""
        sql = "SELECT * FROM attempts WHERE attempt = ? AND scanned_at IS NULL AND outcome != 'running'"
        rows = self._db.rows(sql, (attempt,))
        return attempt_from_row(rows[0]) if rows else None

    def scanned(
        self, attempt: AttemptRecord, now: float, usage: Usage | None = None, costs: Mapping[str, Usage] | None = None
    ) -> None:
        """It was read, or cannot be; once more changes what it says and adds nothing.

        Args:
            attempt: Which.
            now: The time.
            usage: Of all its episodes; None: it cannot be read.
            costs: By finding: of the episodes in which it was seen.
        """
        with self._db.changing() as db:
            db.execute(
                "UPDATE attempts SET scanned_at = ?, usage = ? WHERE attempt = ?",
                (now, None if usage is None else json.dumps(attrs.asdict(usage)), attempt.attempt),
            )
            db.execute("DELETE FROM finding_costs WHERE attempt = ?", (attempt.attempt,))
            db.executemany(
                "INSERT INTO finding_costs VALUES (?, ?, ?, ?)",
                [
                    (attempt.tenant, finding, attempt.attempt, json.dumps(attrs.asdict(one)))
                    for finding, one in (costs or {}).items()
                ],
            )

    def finding_costs(self, tenant: str, findings: Sequence[str]) -> dict[str, Usage]:
        """By finding: of all episodes in which it was seen."""
        found: dict[str, list[Usage]] = {}
        sql = "SELECT finding, usage FROM finding_costs WHERE tenant = ? AND finding IN ({})"
        for row in self._of(sql, (tenant,), findings):
            found.setdefault(row["finding"], []).append(usage_from_json(json.loads(row["usage"])))
        return {finding: usage_sum(parts) for finding, parts in found.items()}

    def attempts_of(self, runs: Sequence[str]) -> dict[str, list[AttemptRecord]]:
        """By run, in order."""
        found: dict[str, list[AttemptRecord]] = {}
        for row in self._of("SELECT * FROM attempts WHERE run IN ({}) ORDER BY number", (), runs):
            found.setdefault(row["run"], []).append(attempt_from_row(row))
        return found

    def relatives(self, attempts: Sequence[str]) -> dict[str, AttemptRecord]:
        """These attempts, and all others of the runs that they belong to."""
        sql = "SELECT * FROM attempts WHERE run IN (SELECT run FROM attempts WHERE attempt IN ({}))"
        return {row["attempt"]: attempt_from_row(row) for row in self._of(sql, (), attempts)}

    def latest(self, tenant: str, scenario: str, count: int) -> list[AttemptRecord]:
        """The latest attempts at a tenant's runs of a scenario whose folders are there, one a run, the newest first."""
        rows = self._db.rows(
            "SELECT a.* FROM attempts a JOIN runs r USING (run) WHERE r.tenant = ? "
            "AND json_extract(r.work, '$.scenario') = ? AND a.outcome != 'running' AND a.removed IS NULL "
            "AND a.number = (SELECT max(number) FROM attempts b WHERE b.run = a.run AND b.outcome != 'running') "
            "ORDER BY r.number DESC LIMIT ?",
            (tenant, scenario, count),
        )
        return [attempt_from_row(row) for row in rows]

    def _of(self, sql: str, values: tuple[Any, ...], names: Sequence[str]) -> list[Any]:
        """Rows of a query with `IN ({})`, in parts that SQLite takes."""
        rows: list[Any] = []
        for start in range(0, len(names), MAX_NAMES):
            part = names[start : start + MAX_NAMES]
            rows += self._db.rows(sql.format(", ".join("?" * len(part))), (*values, *part))
        return rows
