"""Pins in the farm's state. Every change is one transaction; all calls block, see `actors.farm.store.StoreDesk`."""

import json
from collections.abc import Mapping
from typing import Any

import attrs

from actors.farm.database import Database
from actors.farm.pins import Draft, Pin, draft_as_json, parse_pin
from runtime.ids import TenantId

MAX_TRIES = 2  # begun and never ended: a question that the daemon did not survive is left alone after them


_LIGHT = (
    "pin, tenant, user, token, draft, created_at, due_at, began_at, tries, paused, beyond, "
    "json_remove(last, '$.columns', '$.rows', '$.chart', '$.sql') AS last"
)


class TooManyPins(Exception):
    """There are as many as there may be; the text says whose."""


@attrs.define(eq=False)
class PinStore:
    """Pins, in a database that is open."""

    _db: Database = attrs.field(alias="db")

    def add(self, pin: Pin, *, tenant_limit: int, user_limit: int) -> None:
        """Keep a new one.

        Raises:
            TooManyPins: its tenant, or its owner, has as many as it may have.
        """
        with self._db.changing() as db:
            for sql, values, most, whose in (
                ("tenant = ?", (pin.tenant,), tenant_limit, "this tenant"),
                ("tenant = ? AND user = ?", (pin.tenant, pin.user), user_limit, "this user"),
            ):
                count = db.execute(f"SELECT count(*) AS n FROM pins WHERE {sql}", values).fetchone()["n"]  # noqa: S608
                if count >= most:
                    raise TooManyPins(f"{whose} has {most} pins already: remove one first")
            db.execute(
                "INSERT INTO pins (pin, tenant, user, token, draft, created_at, due_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(pin.id, pin.tenant, pin.user, pin.token, json.dumps(draft_as_json(pin.draft))),
                    *(pin.created_at, pin.due_at),
                ),
            )

    def find(self, pin: str) -> Pin | None:
        """One; None: there is none."""
        rows = self._db.rows("SELECT * FROM pins WHERE pin = ?", (pin,))
        return _pin(rows[0]) if rows else None

    def of(self, tenant: TenantId, user: str) -> list[Pin]:
        """Those of an owner, the oldest first; their answers without rows and charts, which may be large."""
        sql = f"SELECT {_LIGHT} FROM pins WHERE tenant = ? AND user = ? ORDER BY created_at, pin"  # noqa: S608  # ours
        return [_pin(row) for row in self._db.rows(sql, (tenant, user))]

    def all(self, limit: int) -> list[Pin]:
        """As `of`, those of everybody."""
        sql = f"SELECT {_LIGHT} FROM pins ORDER BY created_at, pin LIMIT ?"  # noqa: S608  # ours
        return [_pin(row) for row in self._db.rows(sql, (limit,))]

    def remove(self, pin: str) -> bool:
        """It is asked no more, and its answer is forgotten; False: there is none."""
        with self._db.changing() as db:
            return db.execute("DELETE FROM pins WHERE pin = ?", (pin,)).rowcount > 0

    def due(self, now: float, limit: int) -> list[Pin]:
        """Those that are to be asked now, whoever waits longest first."""
        sql = (
            "SELECT * FROM pins WHERE due_at <= ? AND paused IS NULL AND began_at IS NULL ORDER BY due_at, pin LIMIT ?"
        )
        return [_pin(row) for row in self._db.rows(sql, (now, limit))]

    def next_due_at(self) -> float | None:
        """When the next one is due that is not being asked."""
        sql = "SELECT min(due_at) AS at FROM pins WHERE paused IS NULL AND began_at IS NULL"
        at = self._db.rows(sql, ())[0]["at"]
        return None if at is None else float(at)

    def begin(self, pin: str, now: float, next_due: float | None) -> bool:
        """It is being asked; when it is due next is known from now on. False: it is not there, or is asked already."""
        with self._db.changing() as db:
            sql = (
                "UPDATE pins SET began_at = ?, tries = tries + 1, due_at = ? "
                "WHERE pin = ? AND began_at IS NULL AND paused IS NULL"
            )
            return db.execute(sql, (now, next_due, pin)).rowcount > 0

    def end(self, pin: str, last: Mapping[str, Any], *, beyond: bool | None) -> bool:
        """It was asked.

        Args:
            pin: Its id.
            last: What is kept of the answer.
            beyond: Whether it is beyond the threshold; None: nobody knows, as there was no answer.

        Returns:
            It was not beyond before, and is now.
        """
        with self._db.changing() as db:
            row = db.execute("SELECT beyond FROM pins WHERE pin = ?", (pin,)).fetchone()
            if row is None:
                return False  # removed meanwhile
            before = bool(row["beyond"])
            after = before if beyond is None else beyond
            sql = "UPDATE pins SET began_at = NULL, tries = 0, last = ?, beyond = ? WHERE pin = ?"
            db.execute(sql, (json.dumps(dict(last)), int(after), pin))
            return after and not before

    def put_off(self, pin: str, due_at: float) -> None:
        """It could not be asked now, and is asked later."""
        with self._db.changing() as db:
            db.execute("UPDATE pins SET began_at = NULL, tries = 0, due_at = ? WHERE pin = ?", (due_at, pin))

    def pause(self, pin: str, why: str) -> None:
        """It is not asked any more, until its owner asks it."""
        with self._db.changing() as db:
            db.execute("UPDATE pins SET began_at = NULL, tries = 0, paused = ? WHERE pin = ?", (why, pin))

    def ask_now(self, pin: str, now: float, token: str | None) -> bool:
        """It is due now.

        Args:
            pin: Its id.
            now: The time.
            token: Id of its owner's token with which it goes on, even if it was paused; None: as it is.

        Returns:
            False: it is being asked, or is paused.
        """
        with self._db.changing() as db:
            if token is None:
                sql = "UPDATE pins SET due_at = ? WHERE pin = ? AND began_at IS NULL AND paused IS NULL"
                return db.execute(sql, (now, pin)).rowcount > 0
            sql = "UPDATE pins SET due_at = ?, token = ?, paused = NULL WHERE pin = ? AND began_at IS NULL"
            return db.execute(sql, (now, token, pin)).rowcount > 0

    def recover(self, now: float) -> None:
        """After a start: those that were being asked when the daemon ended are due again, unless that was so before."""
        with self._db.changing() as db:
            db.execute(
                "UPDATE pins SET due_at = ? WHERE began_at IS NOT NULL AND tries < ?",
                (now, MAX_TRIES),
            )
            db.execute("UPDATE pins SET tries = 0 WHERE began_at IS NOT NULL AND tries >= ?", (MAX_TRIES,))
            db.execute("UPDATE pins SET began_at = NULL")


def _pin(row: Any) -> Pin:
    draft: Draft = parse_pin(json.loads(row["draft"]))
    return Pin(
        id=row["pin"],
        tenant=TenantId(row["tenant"]),
        user=row["user"],
        token=row["token"],
        draft=draft,
        created_at=row["created_at"],
        due_at=row["due_at"],
        began_at=row["began_at"],
        tries=row["tries"],
        paused=row["paused"],
        beyond=bool(row["beyond"]),
        last=None if row["last"] is None else json.loads(row["last"]),
    )
