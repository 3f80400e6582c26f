"""Looks into the runs that play, while somebody watches: asks their doors, and shares the answers among all viewers."""

import base64
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import trio

from actors.control import ControlError, KeptDoor
from actors.farm.access import Caller
from actors.farm.daemon import Farm
from actors.farm.live_views import placed, with_live
from actors.farm.records import AttemptRecord, Pause
from actors.farm.store import Missing, Store
from actors.farm.views import phone_views, run_view
from actors.farm.work import RunState

LOOK_SECONDS = 0.5  # a look that is not older serves the next one too
DOOR_SECONDS = 2.0  # for a run to say how its phones are; one that hangs must not hold up the wall
SCREEN_SECONDS = 5.0  # for pictures of all its phones
RUNS_SHOWN = 100


@attrs.frozen
class Seat:
    """A phone of the farm as the run that plays on it knows it."""

    phone: str
    attempt: AttemptRecord
    name: str
    """In the run."""


@attrs.frozen
class Picture:
    """What a phone showed."""

    seq: int
    captured_at: float
    """The daemon's clock."""
    width: int
    height: int
    jpeg: bytes

    def header(self, now: float) -> dict[str, Any]:
        """For whoever draws it."""
        ago = round((now - self.captured_at) * 1000, 1)
        return {"seq": self.seq, "captured_ms_ago": ago, "width": self.width, "height": self.height}


@attrs.define
class Look:
    """The farm at one moment."""

    at: float
    reservations: Mapping[str, str]
    pauses: Mapping[str, Pause]
    attempts: Mapping[str, AttemptRecord]
    statuses: Mapping[str, Mapping[str, Any]]
    """Farm's phone → what its run says of it."""

    def attempt_on(self, phone: str, caller: Caller) -> AttemptRecord | None:
        """What plays there, if the caller may know."""
        found = self.attempts.get(self.reservations.get(phone, ""))
        return found if found is not None and caller.sees(found.tenant) else None


@attrs.define
class _Shelf:
    """Pictures of one attempt in one size."""

    door: KeptDoor
    used_at: float
    lock: trio.Lock = attrs.field(factory=trio.Lock)
    asked_at: dict[str, float] = attrs.field(factory=dict)
    pictures: dict[str, Picture] = attrs.field(factory=dict)


@attrs.define(eq=False)
class Live:
    """What can be seen of a farm while it plays, and done there. Nothing is asked of runs unless somebody looks."""

    farm: Farm
    _look: Look | None = attrs.field(default=None, init=False)
    _looking: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _doors: dict[str, KeptDoor] = attrs.field(factory=dict, init=False)  # {attempt: ...}
    _shelves: dict[tuple[str, int], _Shelf] = attrs.field(factory=dict, init=False)  # {(attempt, side): ...}

    # looking

    async def look(self, max_age: float = LOOK_SECONDS) -> Look:
        """How everything is, at most `max_age` seconds old."""
        async with self._looking:
            if self._look is None or trio.current_time() - self._look.at > max_age:
                self._look = await self._new_look()
            return self._look

    def rows(self, look: Look, caller: Caller) -> dict[str, dict[str, Any]]:
        """Every phone that the caller may use, by name; of what plays there only what is of its tenant."""
        tenant = caller.only_tenant
        shown = [one.attempt for one in look.attempts.values() if caller.sees(one.tenant)]
        config = self.farm.config
        rows = phone_views(config, reservations=look.reservations, pauses=look.pauses, shown=shown, tenant=tenant)
        found: dict[str, dict[str, Any]] = {}
        for row in rows:
            phone = row["phone"]
            attempt = look.attempt_on(phone, caller)
            found[phone] = with_live(row, attempt, None if attempt is None else look.statuses.get(phone))
        return found

    async def runs(self, caller: Caller) -> dict[str, dict[str, Any]]:
        """The newest runs of the caller's tenant, by id."""
        tenant = caller.only_tenant
        found = await self.farm.store.do(partial(Store.runs, tenant=tenant, limit=RUNS_SHOWN))
        return {
            one.run: run_view(
                one,
                self.farm.reason_for(one.run) if one.state is RunState.QUEUED else "",
                stands=self.farm.stands(one),
            )
            for one in found
        }

    def seats(self, look: Look, caller: Caller, phones: Collection[str] | None = None) -> dict[str, Seat]:
        """The phones that something of the caller's plays on."""
        seats: dict[str, Seat] = {}
        for phone, status in look.statuses.items():
            attempt = look.attempt_on(phone, caller)
            if attempt is not None and (phones is None or phone in phones):
                seats[phone] = Seat(phone, attempt, str(status["phone"]))
        return seats

    async def seat(self, phone: str, caller: Caller) -> Seat:
        """Where something of the caller's plays.

        Raises:
            Missing: there is no such phone, or nothing that the caller may know of.
        """
        found = self.seats(await self.look(), caller, (phone,)).get(phone)
        if found is None:
            raise Missing("nothing plays on this phone")
        return found

    async def detail(self, phone: str, caller: Caller) -> dict[str, Any]:
        """A phone's row, and all that its run says of it.

        Raises:
            Missing: there is no such phone for the caller.
        """
        look = await self.look()
        row = self.rows(look, caller).get(phone)
        if row is None:
            raise Missing("there is no such phone")
        told: dict[str, Any] = {"actions": [], "plan": None, "ledger": [], "log": [], "needs_human": None}
        seat = self.seats(look, caller, (phone,)).get(phone)
        if seat is not None:
            answer = await self._told(seat.attempt.attempt, {"command": "phone", "phone": seat.name})
            told |= {key: value for key, value in (answer or {}).items() if key in told}
        return {**row, **told}

    async def pictures(self, seats: Sequence[Seat], side: int, max_age: float) -> dict[str, Picture]:
        """Farm's phone → the newest picture; a run is asked for one only where the last asking is older than that."""
        found: dict[str, Picture] = {}
        by_attempt: dict[str, list[Seat]] = {}
        for seat in seats:
            by_attempt.setdefault(seat.attempt.attempt, []).append(seat)

        async def take(attempt: str, mine: list[Seat]) -> None:
            shelf = await self._shelf(attempt, side, [seat.name for seat in mine], max_age)
            found.update({seat.phone: shelf.pictures[seat.name] for seat in mine if seat.name in shelf.pictures})

        async with trio.open_nursery() as nursery:
            for attempt, mine in by_attempt.items():
                nursery.start_soon(take, attempt, mine)
        return found

    # doing

    async def do(self, seat: Seat, caller: Caller, command: str, **request: Any) -> dict[str, Any]:
        """Have the run do something on that phone.

        Raises:
            Refused: it refuses, or does not answer; the text says why.
        """
        by = user_of(caller, seat.attempt.tenant)
        asked = {"command": command, "phone": seat.name, "by": by, **request}
        answer = await self.farm.ask_attempt(seat.attempt.attempt, asked)
        self._look = None  # whoever looks next sees it
        return answer

    def close(self) -> None:
        """Hang up everywhere: the daemon ends."""
        for door in [*self._doors.values(), *(shelf.door for shelf in self._shelves.values())]:
            door.close()
        self._doors.clear()
        self._shelves.clear()

    # asking runs

    async def _new_look(self) -> Look:
        def read(store: Store) -> tuple[dict[str, str], dict[str, Pause], list[AttemptRecord]]:
            return store.reservations(), store.pauses(), store.under_way()

        reservations, pauses, under_way = await self.farm.store.do(read)
        simulated = frozenset(
            phone for one in under_way for phone in one.phones if self.farm.config.is_simulated(phone)
        )
        statuses: dict[str, Mapping[str, Any]] = {}

        async def take(attempt: AttemptRecord) -> None:
            answer = await self._told(attempt.attempt, {"command": "status"})
            statuses.update(placed(attempt, answer["phones"] if answer else (), simulated))

        async with trio.open_nursery() as nursery:
            for attempt in under_way:
                if self.farm.attempts.plays(attempt.attempt):
                    nursery.start_soon(take, attempt)
        attempts = {one.attempt: one for one in under_way}
        await self._forget(attempts)
        return Look(trio.current_time(), reservations, pauses, attempts, statuses)

    async def _told(self, attempt: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """What a run answers; None where it does not in time: it is just starting, or ending, or hangs."""
        door = self._doors.setdefault(attempt, KeptDoor(self.farm.files(attempt).folder))
        with trio.move_on_after(DOOR_SECONDS):
            try:
                return await door.ask(request)
            except ControlError:
                return None
        return None

    async def _shelf(self, attempt: str, side: int, names: Sequence[str], max_age: float) -> _Shelf:
        now = trio.current_time()
        fresh = _Shelf(KeptDoor(self.farm.files(attempt).folder), now)
        shelf = self._shelves.setdefault((attempt, side), fresh)
        shelf.used_at = now
        async with shelf.lock:
            due = [name for name in names if now - shelf.asked_at.get(name, float("-inf")) >= max_age]
            with trio.move_on_after(SCREEN_SECONDS):
                await self._fill(shelf, side, due)
        return shelf

    async def _fill(self, shelf: _Shelf, side: int, names: Sequence[str]) -> None:
        more, began = bool(names), trio.current_time()
        while more:
            known = {name: shelf.pictures[name].seq if name in shelf.pictures else None for name in names}
            try:
                answer = await shelf.door.ask({"command": "screens", "phones": known, "side": side})
            except ControlError:
                return
            now = trio.current_time()
            for one in answer["screens"]:
                taken_at = now - one["captured_ms_ago"] / 1000
                jpeg = base64.b64decode(one["jpeg"])
                shelf.pictures[one["phone"]] = Picture(one["seq"], taken_at, one["width"], one["height"], jpeg)
            # from when it was asked, not from when all came: else whoever asks once a period gets every second picture
            shelf.asked_at.update(dict.fromkeys(names, began))
            more = answer["more"] and bool(answer["screens"])

    async def _forget(self, attempts: Collection[str]) -> None:
        """Of attempts that are over, and sizes that nobody looks at any more, nothing is kept."""
        now = trio.current_time()
        for attempt in [one for one in self._doors if one not in attempts]:
            await self._doors.pop(attempt).aclose()
        for key, shelf in [*self._shelves.items()]:
            if key[0] not in attempts or now - shelf.used_at > 10 * SCREEN_SECONDS:
                del self._shelves[key]
                await shelf.door.aclose()


def user_of(caller: Caller, tenant: str) -> str:
    """Whom a run names: a user, and of another tenant's (an admin) also whose."""
    user = caller.token.user
    return user if caller.tenant == tenant else f"{user} ({caller.tenant})"
