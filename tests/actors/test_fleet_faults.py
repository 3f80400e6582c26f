"""Bad days: each fault has its right outcome, and the phones it does not touch play on."""

import json
import os
import signal
from pathlib import Path

import pytest
import trio

from actors import fleet as fleet_module
from actors.fleet import Fleet, FleetError
from policies.criteria import Outcome
from runtime.restart import Intensity
from tests.kit.processes import find
from tests.kit.scenarios import needs_adb, run_text, scenario_text, summary_of

pytestmark = [*needs_adb, pytest.mark.slow]

SECOND_ENGINE = """
[[engines]]
id = "e1"
model = "rehearsal-7b"
launch = { kind = "rehearsal", args = ["--latency-ms", "150"] }
"""


async def wait_steps(fleet: Fleet, steps: int) -> None:
    while any(job.session is not None and job.session.policy.tally.steps < steps for job in fleet.jobs):
        await trio.sleep(0.05)


def row_of(summary: dict[str, list[dict[str, object]]], app: str) -> dict[str, object]:
    (row,) = [row for row in summary["episodes"] if row["app"] == app]
    return row


async def test_a_killed_phone_comes_back_and_its_episode_goes_on(tmp_path: Path) -> None:
    async def kill(fleet: Fleet) -> None:
        await wait_steps(fleet, 15)
        os.kill(find("--app errands"), signal.SIGKILL)

    summary = summary_of(await run_text(scenario_text(seconds=18), tmp_path, kill))

    lost, other = row_of(summary, "errands"), row_of(summary, "battler")
    assert lost["phone_lost"] == 1 or lost["phone_lost"] == 2
    assert lost["steps"] > 40, "it played on after the phone was back"  # type: ignore[operator]
    assert lost["outcome"] in {"succeeded", "failed"}
    assert other["phone_lost"] == 0
    assert other["outcome"] == "succeeded"


async def test_a_frozen_phone_is_found_by_our_own_deadline(tmp_path: Path) -> None:
    """adb goes on calling it `device`; after it wakes up, the episode goes on."""
    states: list[str] = []

    async def freeze(fleet: Fleet) -> None:
        await wait_steps(fleet, 15)
        pid = find("--app errands")
        os.kill(pid, signal.SIGSTOP)
        (job,) = [job for job in fleet.jobs if job.app_name == "errands"]
        try:
            with trio.fail_after(6):
                while job.lost == 0:
                    await trio.sleep(0.05)
            states.append(job.state)
        finally:
            os.kill(pid, signal.SIGCONT)

    summary = summary_of(await run_text(scenario_text(seconds=20), tmp_path, freeze))

    assert states, "the freeze was found"
    assert row_of(summary, "errands")["phone_lost"] >= 1  # type: ignore[operator]
    assert row_of(summary, "errands")["steps"] > 40  # type: ignore[operator]
    assert row_of(summary, "battler")["phone_lost"] == 0


async def test_a_phone_that_stays_away_is_quarantined_and_the_other_plays_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = Intensity(max_restarts=1, period_seconds=60.0, base_seconds=0.1, cap_seconds=0.2)
    monkeypatch.setattr(fleet_module, "PHONE_INTENSITY", impatient)

    async def freeze(fleet: Fleet) -> None:
        await wait_steps(fleet, 10)
        pid = find("--app errands")
        os.kill(pid, signal.SIGSTOP)
        try:
            await trio.sleep_forever()
        finally:
            os.kill(pid, signal.SIGCONT)

    summary = summary_of(await run_text(scenario_text(seconds=25), tmp_path, freeze))

    assert row_of(summary, "errands")["outcome"] == "quarantined"
    assert "CORRAL" in str(row_of(summary, "errands")["reason"]) or "127.0.0.1" in str(
        row_of(summary, "errands")["reason"]
    )
    assert row_of(summary, "battler")["outcome"] == "succeeded"


async def test_our_adb_server_killed_is_one_event_and_all_phones_come_back(tmp_path: Path) -> None:
    async def kill(fleet: Fleet) -> None:
        await wait_steps(fleet, 15)
        os.kill(find("nodaemon"), signal.SIGKILL)

    summary = summary_of(await run_text(scenario_text(seconds=20), tmp_path, kill))

    for row in summary["episodes"]:
        assert row["phone_lost"] >= 1
        assert row["steps"] > 40, "it played on"
        assert row["outcome"] == "succeeded"
        assert row["replayable"], "no step was lost"
    assert summary["totals"]["adb_server_losses"] == 1


async def test_an_engine_killed_in_mid_request_is_restarted_and_plans_go_on(tmp_path: Path) -> None:
    async def kill(fleet: Fleet) -> None:
        await wait_steps(fleet, 15)
        os.kill(find("engine rehearse"), signal.SIGKILL)

    summary = summary_of(await run_text(scenario_text(seconds=20), tmp_path, kill))

    failed = sum(row["plans"]["failed"] for row in summary["episodes"])
    assert failed >= 1, "there was no second engine to take the plan"
    for row in summary["episodes"]:
        assert row["outcome"] == "succeeded"
        assert row["plans"]["completed"] > 10
        assert row["phone_lost"] == 0


async def test_with_a_second_engine_a_killed_one_costs_no_plan(tmp_path: Path) -> None:
    async def kill(fleet: Fleet) -> None:
        await wait_steps(fleet, 15)
        os.kill(find("engine rehearse"), signal.SIGKILL)

    result = await run_text(scenario_text(seconds=15, engines=SECOND_ENGINE), tmp_path, kill)

    summary = summary_of(result)
    lines = [json.loads(line) for line in (result.folder / "events.jsonl").read_text().splitlines()]
    failed = [line for line in lines if line["event"] == "policies.plan.failed"]
    lost = [(line["kind"], line["error"]) for line in failed if line["kind"] != "late"]
    assert lost == [], "a busy machine may be late, but nothing is lost"
    assert {row["outcome"] for row in summary["episodes"]} == {"succeeded"}


@pytest.mark.parametrize(
    ("engine_args", "overrides"),
    [
        (("--latency-ms", "50", "--garbage-rate", "1.0"), {}),
        (("--latency-ms", "4000"), {"planner.timeout_seconds": "0.5"}),
        (("--latency-ms", "50", "--fail-rate", "1.0"), {}),
    ],
    ids=["garbage", "too late", "errors"],
)
async def test_an_engine_that_gives_no_plan_fails_the_criteria_and_nothing_else(
    tmp_path: Path, engine_args: tuple[str, ...], overrides: dict[str, str]
) -> None:
    result = await run_text(scenario_text(seconds=6, engine_args=engine_args), tmp_path, _sleep, overrides)

    for summary in result.summaries:
        assert summary.outcome is Outcome.FAILED
        assert summary.reason.startswith("no score was ever read")
        assert summary.plans["failed"]
        assert summary.actions["planned"] == 0


async def _sleep(fleet: Fleet) -> None:
    await trio.sleep_forever()


async def test_no_engine_is_an_infrastructure_failure(tmp_path: Path) -> None:
    text = scenario_text(engine_args=("--slots", "0"))

    with pytest.raises(FleetError, match="no engine can be had"):
        await run_text(text, tmp_path, _sleep)


async def test_no_adb_is_an_infrastructure_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADB", str(tmp_path / "none"))

    with pytest.raises(FleetError, match="adb cannot be had"):
        await run_text(scenario_text(), tmp_path, _sleep)
