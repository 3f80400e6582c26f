"""A whole run with everything real but the phones' hardware and the model: adb server, phones, engine, report."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree as ET

import trio

from actors.fleet import Fleet
from actors.live import render
from actors.phone_status import statuses
from actors.results.replay import episode_folders, replay_episode
from actors.results.summary import exit_code_for
from tests.kit.processes import descendants, wait_gone
from tests.kit.scenarios import needs_adb, run_text, scenario_text, summary_of

pytestmark = needs_adb

KEYS = {
    *("phone", "episode", "app", "seed", "bot", "outcome", "reason", "score", "steps", "seconds", "actions"),
    *("dropped", "no_effect", "plans", "stall_fraction", "latency_ms", "engines", "models", "replayable"),
    *("phone_lost", "pauses", "paused_seconds"),
}


async def test_a_run_plays_reports_and_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(descendants(os.getpid()))
    seen: list[str] = []

    async def watch(fleet: Fleet) -> None:
        while True:
            rows = statuses(fleet)
            seen.extend(row.state for row in rows)
            assert render(rows, fleet.pool.statistics(), 1.0, "t", width=120) is not None
            await trio.sleep(0.2)

    result = await run_text(scenario_text(seconds=15), tmp_path, watch)

    await wait_gone([pid for pid in descendants(os.getpid()) if pid not in before])
    assert "playing" in seen
    summary = summary_of(result)
    assert {row["app"] for row in summary["episodes"]} == {"battler", "errands"}
    for row in summary["episodes"]:
        assert set(row) >= KEYS
        assert row["outcome"] == "succeeded", row
        assert row["actions"]["planned"] > 3
        assert row["plans"]["completed"] > 3
        assert row["models"] == ["rehearsal-7b"]
        assert row["replayable"]
        assert row["latency_ms"]["capture"]["p95"] >= row["latency_ms"]["capture"]["p50"] > 0
    assert summary["rehearsal"] == ["rehearsal-7b"]
    assert exit_code_for(result.summaries) == 0
    assert result.recorder_failure is None
    assert result.report is not None
    suite = ET.parse(result.report.junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "0", "0")
    page = result.report.html.read_text("utf-8")
    assert "Rehearsal" in page
    assert "data:image/jpeg" in page
    assert "http://" not in page.replace("http://www.w3.org", ""), "the page is self-contained"
    for episode in episode_folders(result.folder):
        replay = replay_episode(episode)
        assert replay.differences == ()
        assert replay.steps > 30
        assert replay.ended
    events = [json.loads(line)["event"] for line in (result.folder / "events.jsonl").read_text().splitlines()]
    assert "policies.plan.joined" in events
    assert "policies.action.settled" in events
