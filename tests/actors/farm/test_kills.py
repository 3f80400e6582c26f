"""The daemon is killed again and again: every run ends once, and no phone ever has two runs."""

import random
import subprocess
import sys
import time
from pathlib import Path

from actors.farm.afterwards import MAX_INTERRUPTIONS
from actors.farm.database import open_database
from actors.farm.records import AttemptRecord, RunRecord
from actors.farm.store import Store
from actors.farm.work import AttemptOutcome, RunState
from actors.results.finding_words import FindingKind
from actors.results.findings_store import load_findings
from tests.kit.farm import PATIENCE_SECONDS, write_scenario
from tests.kit.farm_records import leave

ROOT = Path(__file__).resolve().parents[3]
RUNS = 5
KILLS = 2


def start(folder: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kit.farm_daemon", str(folder), str(RUNS)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def look(folder: Path) -> tuple[list[RunRecord], dict[str, list[AttemptRecord]]]:
    database = open_database(folder / "farm" / "state.sqlite3")
    try:
        store = Store(database)
        runs = store.runs(limit=1000)
        return runs, {one.run: store.attempts(one.run) for one in runs}
    finally:
        database.close()


def wait_until_over(folder: Path, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sum(one.is_over for one in look(folder)[0]) < count:
        assert time.monotonic() < deadline, look(folder)
        time.sleep(0.05)


def test_every_run_ends_once_however_often_the_daemon_is_killed(tmp_path: Path) -> None:
    write_scenario(tmp_path, "one", "seconds=0.15 linger=0.3")
    write_scenario(tmp_path, "two", "seconds=0.15 linger=0.3", phones=2)
    draw = random.Random(7)
    finished: dict[str, float | None] = {}
    for life in range(KILLS):
        process = start(tmp_path)
        wait_until_over(tmp_path, life + 1)
        time.sleep(draw.uniform(0.0, 0.2))
        kill(process)
        runs, _ = look(tmp_path)
        over = {one.run: one.ended_at for one in runs if one.is_over}
        assert finished.items() <= over.items(), "a finished result stays as it was"
        finished = over
    last = start(tmp_path)
    wait_until_over(tmp_path, RUNS)
    kill(last)

    runs, attempts = look(tmp_path)
    assert len(runs) == RUNS
    assert {one.state for one in runs} == {RunState.SUCCEEDED}
    for one in runs:
        outcomes = [attempt.outcome for attempt in attempts[one.run]]
        assert outcomes.count(AttemptOutcome.SUCCEEDED) == 1
        assert outcomes[-1] is AttemptOutcome.SUCCEEDED
        assert set(outcomes[:-1]) <= {AttemptOutcome.INTERRUPTED}
        assert len(outcomes) < MAX_INTERRUPTIONS
    assert not (tmp_path / "farm" / "violations").exists()
    assert not list((tmp_path / "farm" / "held").iterdir())


def test_phones_of_a_killed_daemon_are_used_again_once_its_processes_are_gone(tmp_path: Path) -> None:
    write_scenario(tmp_path, "one", "seconds=0.5 linger=3", phones=3)
    write_scenario(tmp_path, "two", "seconds=0.5 linger=3", phones=3)
    first = start(tmp_path)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not list((tmp_path / "farm").glob("held/*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    kill(first)
    second = start(tmp_path)
    wait_until_over(tmp_path, 1)
    kill(second)

    assert not (tmp_path / "farm" / "violations").exists()


def test_what_a_killed_daemon_has_not_read_is_read_once_by_the_next(tmp_path: Path) -> None:
    for attempt in (1, 2, 3):
        leave(tmp_path, attempt)
    write_scenario(tmp_path, "one", "seconds=0.05")
    write_scenario(tmp_path, "two", "seconds=0.05")
    first = start(tmp_path)
    wait_until_over(tmp_path, 2)
    kill(first)  # a scan takes seconds
    unread = [one for attempts in look(tmp_path)[1].values() for one in attempts if one.scanned_at is None]
    second = start(tmp_path)
    wait_until_over(tmp_path, RUNS)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(one.scanned_at is None for attempts in look(tmp_path)[1].values() for one in attempts):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    kill(second)

    assert unread
    played = [one for attempts in look(tmp_path)[1].values() for one in attempts if one.usage and one.usage.plans]
    for tenant in "ab":
        (crash,) = [
            one
            for one in load_findings(tmp_path / "farm" / "findings" / f"{tenant}.json").findings.values()
            if one.kind is FindingKind.CRASH
        ]
        assert crash.counts == {one.attempt: 1 for one in played if one.tenant == tenant}
