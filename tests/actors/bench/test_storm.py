"""A small storm, played for real: outcomes and counts, no times."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.bench.storm import Journal, bench_storm
from actors.cli.main import corral
from actors.devices.adb.server import bundled_adb

needs_adb = pytest.mark.skipif(
    bundled_adb() is None and not os.environ.get("CI"), reason="no adb: install the package adbutils"
)


@pytest.mark.adb
@pytest.mark.xdist_group("fleet")
@pytest.mark.slow
@pytest.mark.timeout(300)
@needs_adb
def test_every_episode_of_a_small_storm_ends_with_an_outcome_and_a_reason() -> None:
    result = bench_storm(phones=8, seconds=25.0, seed=1, warm_up_seconds=0.0)
    summary = result.summary

    assert (summary["nothing_crashed"], summary["bugs"], summary["failure"]) == (True, "", "")
    assert summary["every_episode_has_an_outcome_and_a_reason"], summary
    assert [row["phone"] for row in result.rows] == [f"CORRAL000{number}" for number in range(8)]
    assert all(sum(row["outcomes"].values()) == 1 and all(row["reasons"]) for row in result.rows)
    spared = {"CORRAL0003", "CORRAL0007"}
    by_phone = {row["phone"]: row for row in result.rows}
    assert [by_phone[phone]["outcomes"] for phone in sorted(spared)] == [{"succeeded": 1}] * 2
    assert all(by_phone[phone]["steps"] > 0 for phone in spared)
    assert summary["times_lost"] >= 1, "a storm that nobody notices is none"
    assert summary["bad_frames"] >= 1
    assert min(summary["faults_by_kind"].values()) >= 1


def test_the_journal_counts_events_and_keeps_our_own_mistakes() -> None:
    journal = Journal()
    lost = {"event": "actors.phone.lost", "error": "gone"}
    bug = {"event": "runtime.child.failed", "error": "KeyError: 3", "exception": "Traceback ..."}

    journal.write("".join(json.dumps(line) + "\n" for line in (lost, bug, lost)) + "no line of ours\n")

    assert journal.events == {"actors.phone.lost": 2, "runtime.child.failed": 1}
    (kept,) = journal.bugs
    assert "KeyError: 3" in kept


def test_the_command_says_what_it_lacks_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADB", str(tmp_path / "none"))
    done = CliRunner().invoke(corral, ["bench", "storm", "--phones", "2", "--seconds", "20"])

    assert done.exit_code == 3
    assert done.output.splitlines()[-1].startswith("Error: adb cannot be had")
