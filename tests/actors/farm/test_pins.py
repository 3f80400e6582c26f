"""Pinned questions: when they are asked, as whom, what is kept, and who is told."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.analyst_limits import Admission, AssistantLimits
from actors.farm.database import open_database
from actors.farm.pin_answers import KEPT_ROWS, AnswerTaker
from actors.farm.pin_desk import NO_TOKEN, PinDesk
from actors.farm.pin_store import TooManyPins
from actors.farm.pins import Draft, Pin, PinWrong, draft_as_json, next_due, parse_pin
from actors.farm.store import Store, StoreDesk
from actors.notices import Notice
from actors.token_store import Role, TokenRecord, TokenStore, create_token, revoke_token
from runtime.ids import TenantId
from sqlassist.messages import Event, Stage
from tests.kit.pins import NumberAnswering

START = datetime(2027, 3, 1, 12, 0, tzinfo=UTC).timestamp()
GAMES = TenantId("games")


@attrs.define(eq=False)
class Bench:
    """A desk of pins over a real store, with a clock that is moved by hand."""

    folder: Path
    answering: NumberAnswering = attrs.field(factory=NumberAnswering)
    told: list[Notice] = attrs.field(factory=list)
    overs: list[str] = attrs.field(factory=list)
    now: float = START
    limits: AssistantLimits = attrs.field(factory=AssistantLimits)

    def tell(self, notice: Notice) -> None:
        self.told.append(notice)

    def over(self, key: str) -> None:
        self.overs.append(key)

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.json"

    def token(self, user: str = "ann", *roles: Role) -> TokenRecord:
        created = create_token(
            self.tokens, user=user, tenant=GAMES, roles=roles or (Role.VIEWER,), now=datetime.now(UTC)
        )
        return created[0]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[StoreDesk, PinDesk]]:
        """One life of the daemon; its end is a kill: nothing is tidied up in the state."""
        tokens = TokenStore(self.tokens)
        tokens.load()
        database = open_database(self.folder / "state.sqlite3")
        store = StoreDesk(Store(database))
        desk = PinDesk(store, self.answering, Admission(self.limits), tokens, self, lambda: self.now)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.run)
            yield store, desk
            nursery.cancel_scope.cancel()
        database.close()

    async def pass_minutes(self, desk: PinDesk, minutes: float) -> None:
        self.now += minutes * 60
        desk.look_again()


def pin(token: TokenRecord, draft: dict[str, Any], name: str = "p1", due_at: float | None = START) -> Pin:
    return Pin(name, GAMES, token.user, token.id, parse_pin({"question": "how many", **draft}), START, due_at=due_at)


async def add(store: StoreDesk, desk: PinDesk, one: Pin) -> None:
    await store.do(lambda known: known.pins.add(one, tenant_limit=10, user_limit=10))
    desk.look_again()


async def until(store: StoreDesk, condition: Callable[[Pin], bool], name: str = "p1") -> Pin:
    with trio.fail_after(30):
        while True:
            found = await store.do(lambda known: known.pins.find(name))
            if found is not None and condition(found):
                return found
            await trio.sleep(0.005)


def answered(one: Pin) -> bool:
    return one.began_at is None and one.last is not None


async def test_a_pin_is_asked_as_its_owner_and_keeps_its_answer(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    token = bench.token("ann", Role.VIEWER, Role.REVIEWER)
    bench.answering.numbers = ["12.5", 3, None]
    async with bench.open() as (store, desk):
        await add(store, desk, pin(token, {}))
        kept = await until(store, answered)

    assert kept.last is not None
    assert (kept.last["state"], kept.last["at"], kept.last["error"]) == ("succeeded", START, None)
    assert kept.last["columns"] == ["server", "n"]
    assert kept.last["rows"] == [["server 0", "12.5"], ["server 1", 3], ["server 2", None]]
    assert (kept.last["summary"], kept.last["sql"]) == ("3 servers", "SELECT n")
    assert kept.last["chart"]["mark"] == "bar"
    assert kept.due_at is None
    asker = bench.answering.asked[0][0]
    assert (asker.user, asker.tenant, sorted(asker.roles)) == ("ann", GAMES, ["reviewer", "viewer"])


async def test_schedules(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    token = bench.token()
    async with bench.open() as (store, desk):
        await add(store, desk, pin(token, {"schedule": {"every_minutes": 5}}))
        await until(store, answered)
        await bench.pass_minutes(desk, 4.9)
        await trio.sleep(0.05)
        assert len(bench.answering.asked) == 1
        await bench.pass_minutes(desk, 0.1)
        await until(store, lambda one: answered(one) and one.due_at == START + 600)
        await bench.pass_minutes(desk, 60 * 24)  # of what was missed, one is asked
        await until(store, lambda one: answered(one) and (one.due_at or 0) > bench.now)

    assert len(bench.answering.asked) == 3
    daily = parse_pin({"question": "q", "schedule": {"at": "08:30", "zone": "Asia/Shanghai"}}).schedule
    assert next_due(daily, START) == datetime(2027, 3, 2, 0, 30, tzinfo=UTC).timestamp()


async def test_a_threshold_is_told_once_and_again_only_after_it_was_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    token = bench.token()
    draft = {"title": "Crashes", "schedule": {"every_minutes": 5}, "threshold": {"column": "n", "above": 10}}
    told = []
    async with bench.open() as (store, desk):
        await add(store, desk, pin(token, draft))
        for numbers in ([1, 10], [2, "11"], [99], [10], [12]):
            bench.answering.numbers = numbers
            due = bench.now + 300
            desk.look_again()
            await until(store, lambda one, due=due: answered(one) and one.due_at == due)  # type: ignore[misc]
            told.append(len(bench.told))
            bench.now += 300

    assert told == [0, 1, 1, 1, 2]
    assert bench.told[0].title == "Crashes: n is 11, above 10"
    assert set(bench.overs) == {"pin:p1"}


async def test_a_restart_tells_nothing_twice(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    token = bench.token()
    draft = {"schedule": {"every_minutes": 5}, "threshold": {"column": "n", "below": 5}}
    async with bench.open() as (store, desk):
        await add(store, desk, pin(token, draft))
        await until(store, lambda one: one.beyond)
    bench.now += 300
    async with bench.open() as (store, desk):
        await until(store, lambda one: answered(one) and one.due_at == START + 600)

    assert len(bench.told) == 1


async def test_what_was_asked_during_a_kill_is_asked_again_but_not_for_ever(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    token = bench.token()
    bench.answering.waits = True
    for life in range(4):
        async with bench.open() as (store, desk):
            if life == 0:
                await add(store, desk, pin(token, {}))
            if life < 2:
                with trio.fail_after(30):
                    while len(bench.answering.asked) == life:
                        await trio.sleep(0.005)
            else:  # the daemon has died of it twice, as far as it can tell
                await until(store, lambda one: one.began_at is None)

    assert len(bench.answering.asked) == 2


async def test_a_revoked_token_pauses_the_pin_and_another_one_lets_it_go_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    token, other = bench.token(), bench.token()
    async with bench.open() as (store, desk):
        await add(store, desk, pin(token, {"schedule": {"every_minutes": 5}}))
        await until(store, answered)
        revoke_token(bench.tokens, token.id)
        await bench.pass_minutes(desk, 5)
        paused = await until(store, lambda one: one.paused is not None)
        await bench.pass_minutes(desk, 5)
        await trio.sleep(0.05)
        assert (paused.paused, len(bench.answering.asked)) == (NO_TOKEN, 1)
        assert not await store.do(lambda known: known.pins.ask_now("p1", bench.now, None))
        assert await store.do(lambda known: known.pins.ask_now("p1", bench.now, other.id))
        desk.look_again()
        await until(store, lambda one: one.paused is None and one.began_at is None and (one.due_at or 0) > bench.now)

    assert len(bench.answering.asked) == 2


async def test_a_token_of_somebody_else_asks_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    stranger = bench.token("bob")
    async with bench.open() as (store, desk):
        await add(store, desk, attrs.evolve(pin(stranger, {}), user="ann"))
        await until(store, lambda one: one.paused is not None)

    assert bench.answering.asked == []


FAILURES = [
    (Event(Stage.REFUSAL, {"code": "outside_scope", "text": "not yours"}), "not yours"),
    (Event(Stage.FAILED, {"code": "no_engine", "text": "no engine"}), "no engine"),
    (Event(Stage.CLARIFICATION, {"text": "which?", "choices": []}), "several ways"),
]


@pytest.mark.parametrize(("last", "why"), FAILURES)
async def test_what_fails_keeps_the_answer_before_and_says_why(tmp_path: Path, last: Event, why: str) -> None:
    bench = Bench(tmp_path)
    token = bench.token()
    async with bench.open() as (store, desk):
        await add(store, desk, pin(token, {"schedule": {"every_minutes": 5}}))
        await until(store, answered)
        bench.answering.last = last
        await bench.pass_minutes(desk, 5)
        kept = await until(store, lambda one: one.last is not None and one.last["state"] == "failed")

    assert kept.last is not None
    assert why in kept.last["error"]
    assert (kept.last["at"], kept.last["failed_at"]) == (START, START + 300)
    assert kept.last["rows"] == [["server 0", 1]]


async def test_mistakes_and_odd_answers_end_one_question(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    token = bench.token()
    bench.answering.numbers = [float("nan")]
    async with bench.open() as (store, desk):
        await add(store, desk, pin(token, {}))
        odd = await until(store, answered)
        bench.answering.crashes = True
        await add(store, desk, pin(token, {}, "p2"))
        crashed = await until(store, answered, "p2")
        bench.answering.crashes, bench.answering.numbers = False, [1]
        await add(store, desk, pin(token, {"threshold": {"column": "none", "above": 1}}, "p3"))
        fine = await until(store, answered, "p3")

    assert odd.last is not None
    assert crashed.last is not None
    assert fine.last is not None
    assert "internal" in odd.last["error"]
    assert "internal" in crashed.last["error"]
    assert "no number in a column 'none'" in fine.last["error"]
    assert fine.last["state"] == "succeeded"


async def test_whoever_may_not_ask_now_is_asked_later(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limits=AssistantLimits(tenant_questions=1))
    token = bench.token()
    bench.answering.waits = True
    async with bench.open() as (store, desk):
        await add(store, desk, pin(token, {}))
        await until(store, lambda one: one.began_at is not None)
        await add(store, desk, pin(token, {}, "p2"))
        later = await until(store, lambda one: one.due_at is not None and one.due_at > START, "p2")

    assert later.last is None
    assert (later.due_at or 0) >= START + 30
    assert len(bench.answering.asked) == 1


async def test_removing_ends_what_is_asked(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    token = bench.token()
    bench.answering.waits = True
    async with bench.open() as (store, desk):
        await add(store, desk, pin(token, {}))
        with trio.fail_after(30):
            while not bench.answering.asked:
                await trio.sleep(0.005)
            await store.do(lambda known: known.pins.remove("p1"))
            desk.forget("p1")
            while not bench.answering.cancelled:
                await trio.sleep(0.005)
        assert await store.do(lambda known: known.pins.all(10)) == []


async def test_there_are_limits(tmp_path: Path) -> None:
    store = Store(open_database(tmp_path / "state.sqlite3"))
    bench = Bench(tmp_path)
    ann, bob = bench.token("ann"), bench.token("bob")
    store.pins.add(pin(ann, {}, "a"), tenant_limit=2, user_limit=1)
    with pytest.raises(TooManyPins, match="this user has 1"):
        store.pins.add(pin(ann, {}, "b"), tenant_limit=2, user_limit=1)
    store.pins.add(pin(bob, {}, "c"), tenant_limit=2, user_limit=1)
    with pytest.raises(TooManyPins, match="this tenant has 2"):
        store.pins.add(pin(bench.token("eve"), {}, "d"), tenant_limit=2, user_limit=1)


async def test_large_answers_are_cut_and_compared_whole() -> None:
    taker = AnswerTaker(parse_pin({"question": "q", "threshold": {"column": "n", "above": 1}}).threshold)
    for offset in range(0, 1000, 100):
        rows = [[f"x{number}", number] for number in range(offset, offset + 100)]
        await taker.take(Event(Stage.ROWS, {"columns": ["a", "n"], "rows": rows, "offset": offset}))
    await taker.take(Event(Stage.CHART, {"spec": {"data": {"values": ["x" * 300_000]}}}))
    kept = taker.answered(Event(Stage.ANSWER), 1.0)

    assert (len(kept["rows"]), kept["row_count"], kept["truncated"]) == (KEPT_ROWS, 1000, True)
    assert taker.extreme == 999
    assert kept["chart"] is None


WRONG: list[dict[str, Any]] = [
    {"question": ""},
    {"question": None},
    {"question": "x" * 5000},
    {"question": 5},
    {"question": "\ud800"},
    {"title": " "},
    {"title": ["x"]},
    {"sql": 5},
    {"schedule": "daily"},
    {"schedule": {}},
    {"schedule": {"every_minutes": 4}},
    {"schedule": {"every_minutes": 5.5}},
    {"schedule": {"every_minutes": True}},
    {"schedule": {"every_minutes": 10**9}},
    {"schedule": {"every_minutes": 5, "at": "08:00"}},
    {"schedule": {"at": "24:00"}},
    {"schedule": {"at": "8:00"}},
    {"schedule": {"at": "٠٨:٠٠"}},
    {"schedule": {"at": "08:00", "zone": "Mars/North"}},
    {"schedule": {"at": "08:00", "zone": "../../etc/passwd"}},
    {"schedule": {"at": "08:00", "zone": 5}},
    {"threshold": 5},
    {"threshold": {"column": "n"}},
    {"threshold": {"above": 5}},
    {"threshold": {"column": "n", "above": 5, "below": 1}},
    {"threshold": {"column": "n", "above": "5"}},
    {"threshold": {"column": "n", "above": float("nan")}},
    {"threshold": {"column": "n", "above": 10**400}},
    {"token": "x"},
]


@pytest.mark.parametrize("parts", WRONG, ids=str)
def test_what_is_no_pin_is_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(PinWrong):
        parse_pin({"question": "how many", **parts})


def test_drafts_are_shown_as_they_came() -> None:
    for given in (
        {"title": "t", "question": "q", "sql": "SELECT 1", "schedule": {"at": "08:30", "zone": "Asia/Shanghai"}},
        {"title": "t", "question": "q", "sql": None, "threshold": {"column": "n", "below": -1.5}},
        {"title": "t", "question": "q", "sql": None, "schedule": {"every_minutes": 5}},
    ):
        shown = draft_as_json(parse_pin(given))
        assert shown == {"schedule": None, "threshold": None, **given}
    assert parse_pin({"question": "多少"}) == Draft("多少", "多少")
