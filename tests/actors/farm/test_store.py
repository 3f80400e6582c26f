"""The state of a farm: nothing lost, nothing counted twice, whatever ends the process."""

import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.farm.afterwards import Finish, Next, next_for
from actors.farm.database import FarmRuns, StoreError, open_database, open_folder
from actors.farm.records import Action
from actors.farm.store import Refused, Store
from actors.farm.work import FINAL, AttemptOutcome, Daily, OnInterrupt, RunState, Work
from runtime.ids import TenantId

ROOT = Path(__file__).resolve().parents[3]
WORK = Work(
    TenantId("games"),
    "ann",
    "quickstart",
    2,
    labels=("pixel",),
    priority=7,
    not_before=None,
    repeats=1,
    on_interrupt=OnInterrupt.FAIL,
)


def following(now: float) -> "partial[Next]":
    return partial(_following, now)


def _following(now: float, work: Work, outcomes: Sequence[AttemptOutcome]) -> Next:
    return next_for(work, outcomes, now)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    database = open_database(tmp_path / "state.sqlite3")
    yield Store(database)
    database.close()


def test_a_run_from_submission_to_result(store: Store) -> None:
    submitted = store.submit(WORK, "r1", 10.0)
    attempt = store.start("r1", ["p0", "p1"], 20.0)
    after = store.end("r1", AttemptOutcome.SUCCEEDED, following(50.0), 50.0, exit_code=0, result={"episodes": 2})

    assert submitted.work == WORK
    assert (attempt.attempt, attempt.phones, attempt.number) == ("r1", ("p0", "p1"), 1)
    assert isinstance(after, Finish)
    run = store.run("r1")
    assert (run.state, run.ended_at, run.flaky) == (RunState.SUCCEEDED, 50.0, False)
    assert store.attempts("r1")[0].result == {"episodes": 2}
    assert store.reservations() == {}


def test_a_second_attempt_has_a_folder_of_its_own_and_its_success_is_flaky(store: Store) -> None:
    store.submit(WORK, "r1", 0.0)
    store.start("r1", ["p0"], 1.0)
    store.end("r1", AttemptOutcome.FAILED, following(2.0), 2.0)
    second = store.start("r1", ["p0"], 3.0)
    store.end(second.attempt, AttemptOutcome.SUCCEEDED, following(4.0), 4.0)

    assert second.attempt == "r1-2"
    assert store.run("r1").flaky


def test_an_attempt_ends_once(store: Store) -> None:
    store.submit(WORK, "r1", 0.0)
    store.start("r1", ["p0"], 1.0)
    store.end("r1", AttemptOutcome.SUCCEEDED, following(2.0), 2.0)

    assert store.end("r1", AttemptOutcome.FAILED, following(3.0), 3.0) is None
    assert store.run("r1").state is RunState.SUCCEEDED
    assert store.run("r1").ended_at == 2.0


def test_a_phone_is_reserved_once_and_nothing_of_the_refused_start_stays(store: Store) -> None:
    store.submit(WORK, "r1", 0.0)
    store.submit(WORK, "r2", 0.0)
    store.start("r1", ["p0", "p1"], 1.0)

    with pytest.raises(Refused, match="reserved already"):
        store.start("r2", ["p2", "p1"], 1.0)
    assert store.run("r2").state is RunState.QUEUED
    assert set(store.reservations()) == {"p0", "p1"}
    assert store.attempts("r2") == []
    with pytest.raises(Refused, match="does not wait"):
        store.start("r1", ["p3"], 1.0)


def test_holding_releasing_and_cancelling_what_waits(store: Store) -> None:
    store.submit(WORK, "r1", 0.0)
    store.hold("r1", "paused by ann")
    with pytest.raises(Refused):
        store.start("r1", ["p0"], 1.0)
    store.release("r1", 500.0)
    assert (store.run("r1").held, store.run("r1").ready_at) == (None, 500.0)
    store.cancel_waiting("r1", "cancelled by ann", 600.0)

    assert store.run("r1").state is RunState.CANCELLED
    for refused in (lambda: store.hold("r1", "x"), lambda: store.release("r1", 1.0), lambda: store.run("nobody")):
        with pytest.raises(Refused):
            refused()


def test_a_daily_run_makes_one_run_a_day_however_often_it_is_asked(store: Store) -> None:
    daily = attrs.evolve(WORK, daily=Daily("03:00"))
    store.submit(daily, "d", 0.0, due=100.0)

    assert store.spawn("d", "d-1", 99.0, 200.0) is None
    made = store.spawn("d", "d-1", 100.0, 200.0)
    assert store.spawn("d", "d-2", 101.0, 300.0) is None

    assert made is not None
    assert (made.state, made.origin, made.work.daily) == (RunState.QUEUED, "d", None)
    assert store.run("d").state is RunState.SCHEDULED
    assert store.run("d").ready_at == 200.0


def test_use_is_counted_in_phone_seconds_of_the_window(store: Store) -> None:
    for name, tenant, begin, end in (("r1", "a", 0.0, 100.0), ("r2", "a", 1000.0, 1100.0), ("r3", "b", 1000.0, 1001.0)):
        store.submit(attrs.evolve(WORK, tenant=TenantId(tenant)), name, begin)
        store.start(name, ["p0", "p1"], begin)
        store.end(name, AttemptOutcome.SUCCEEDED, following(end), end)
    store.submit(attrs.evolve(WORK, tenant=TenantId("c")), "r4", 1000.0)
    store.start("r4", ["p0", "p1", "p2"], 1050.0)

    assert store.used_seconds(500.0, 1150.0, 60.0) == {"a": 200.0, "b": 120.0, "c": 300.0}


def test_lists_are_of_one_tenant_and_in_pages(store: Store) -> None:
    for number in range(5):
        store.submit(attrs.evolve(WORK, tenant=TenantId("ab"[number % 2])), f"r{number}", 0.0)

    assert [one.run for one in store.runs(tenant=TenantId("a"))] == ["r4", "r2", "r0"]
    page = store.runs(limit=2)
    assert [one.run for one in page] == ["r4", "r3"]
    assert [one.run for one in store.runs(before=page[-1].number, limit=2)] == ["r2", "r1"]
    assert store.runs(states=[RunState.RUNNING]) == []


def test_the_audit_is_append_only(store: Store, tmp_path: Path) -> None:
    store.note(Action("ann", TenantId("games"), "0123", "cancel", "r1"), 1.0)

    assert store.actions()[0]["user"] == "ann"
    with sqlite3.connect(tmp_path / "state.sqlite3") as other:
        for sql in ("DELETE FROM audit", "UPDATE audit SET user = 'bob'"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                other.execute(sql)
    other.close()


def test_files_that_are_no_state_are_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"no database at all" * 100)
    newer = sqlite3.connect(tmp_path / "newer")
    newer.execute("PRAGMA user_version = 999")
    newer.close()

    with pytest.raises(StoreError, match="damaged"):
        open_database(tmp_path / "text")
    with pytest.raises(StoreError, match="use a newer one"):
        open_database(tmp_path / "newer")
    with pytest.raises(StoreError, match="cannot be opened"):
        open_database(tmp_path / "text" / "below")


def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    with open_folder(tmp_path / "farm"), pytest.raises(FarmRuns), open_folder(tmp_path / "farm"):
        raise AssertionError("two at a time")
    with open_folder(tmp_path / "farm"):
        pass


class StoreWorld(RuleBasedStateMachine):
    """Operations in any order, and the process ends in between; a dictionary knows what must be there."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "state.sqlite3"
        self.database = open_database(self.path)
        self.store = Store(self.database)
        self.now = 0.0
        self.states: dict[str, str] = {}
        self.phones: dict[str, str] = {}  # {phone: attempt}
        self.finished: dict[str, float] = {}

    def _tick(self) -> float:
        self.now += 1.0
        return self.now

    @rule(repeats=st.integers(0, 2))
    def submit(self, repeats: int) -> None:
        run = f"r{len(self.states)}"
        self.store.submit(Work(TenantId("t"), "u", "s", 1, repeats=repeats), run, self._tick())
        self.states[run] = "queued"

    @rule(index=st.integers(0, 20), phone=st.sampled_from(["p0", "p1", "p2"]))
    def start(self, index: int, phone: str) -> None:
        if not self.states:
            return
        run = sorted(self.states)[index % len(self.states)]
        if self.states[run] == "queued" and phone not in self.phones:
            self.phones[phone] = self.store.start(run, [phone], self._tick()).attempt
            self.states[run] = "running"
        else:
            with pytest.raises(Refused):
                self.store.start(run, [phone], self._tick())

    @rule(index=st.integers(0, 20), outcome=st.sampled_from([one for one in AttemptOutcome if one.value != "running"]))
    def end(self, index: int, outcome: AttemptOutcome) -> None:
        if not self.phones:
            return
        phone = sorted(self.phones)[index % len(self.phones)]
        attempt = self.phones.pop(phone)
        run = next(one.run for one in self.store.under_way() if one.attempt == attempt)
        now = self._tick()
        after = self.store.end(attempt, outcome, following(now), now)
        assert self.store.end(attempt, outcome, following(now), now) is None
        if isinstance(after, Finish):
            self.states[run] = after.state.value
            self.finished[run] = now
        else:
            self.states[run] = "held" if outcome is AttemptOutcome.PAUSED else "queued"

    @rule(index=st.integers(0, 20))
    def release(self, index: int) -> None:
        held = sorted(run for run, state in self.states.items() if state == "held")
        if held:
            run = held[index % len(held)]
            self.store.release(run, self._tick())
            self.states[run] = "queued"

    @rule(index=st.integers(0, 20))
    def cancel(self, index: int) -> None:
        waiting = sorted(run for run, state in self.states.items() if state in ("held", "queued"))
        if waiting:
            run = waiting[index % len(waiting)]
            now = self._tick()
            self.store.cancel_waiting(run, "cancelled", now)
            self.states[run] = "cancelled"
            self.finished[run] = now

    @rule()
    def reopen(self) -> None:
        self.database.close()
        self.database = open_database(self.path)
        self.store = Store(self.database)

    @invariant()
    def it_knows_what_was_done(self) -> None:
        runs = {one.run: one for one in self.store.runs(limit=1000)}
        assert {run: "held" if one.held else one.state.value for run, one in runs.items()} == self.states
        assert self.store.reservations() == self.phones
        assert {one.attempt for one in self.store.under_way()} == set(self.phones.values())
        assert {run: one.ended_at for run, one in runs.items() if one.state in FINAL} == self.finished

    def teardown(self) -> None:
        self.database.close()
        self.folder.cleanup()


TestStoreWorld = StoreWorld.TestCase
TestStoreWorld.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path, seed: int) -> None:
    """Killed after a different number of acknowledged operations each time, three times in a row on one state."""
    told: list[tuple[str, str]] = []
    for life in range(3):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.farm_kills", str(tmp_path), str(seed * 10 + life)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        told += [tuple(json.loads(process.stdout.readline())) for _ in range(20 + 7 * seed + 3 * life)]
        process.kill()
        rest = process.stdout.read()
        process.wait()
        process.stdout.close()
        told += [tuple(json.loads(line)) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        database = open_database(tmp_path / "state.sqlite3")
        store = Store(database)
        known = {one.run: one for one in store.runs(limit=1000)}
        attempts = {one.attempt: one for run in known for one in store.attempts(run)}
        submitted = [which for what, which in told if what == "submitted"]
        ended = [which for what, which in told if what == "ended"]
        assert set(submitted) <= set(known)
        assert len(known) - len(submitted) <= life + 1, "one more a life may have been written and not acknowledged"
        assert {which for what, which in told if what == "started"} <= set(attempts)
        assert len(set(ended)) == len(ended)
        assert all(attempts[one].outcome is not AttemptOutcome.RUNNING for one in ended)
        under_way = store.under_way()
        assert store.reservations() == {one.phones[0]: one.attempt for one in under_way}
        assert {one.run for one in under_way} == {run for run, one in known.items() if one.state is RunState.RUNNING}
        database.close()
