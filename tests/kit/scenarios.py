"""Small scenarios for tests: bundled games on simulated phones, through genuine adb."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from actors.assets import load_assets
from actors.fleet import Fleet
from actors.run import RunResult, run_scenario
from actors.scenario import parse_scenario

ROOT = Path(__file__).resolve().parent.parent.parent
SCENARIOS = ROOT / "scenarios"

needs_adb = [pytest.mark.adb, pytest.mark.xdist_group("fleet")]

BASE = """
name = "test"
seed = 3
[limits]
seconds = {seconds}
[capture]
every_seconds = 0.15
timeout_seconds = 1.5
[planner]
timeout_seconds = 3.0
[[engines]]
id = "e0"
model = "rehearsal-7b"
launch = {{ kind = "rehearsal", args = {engine_args} }}
{engines}
[apps.battler]
package = "dev.corral.battler"
goal = "Survive."
rules = "battler.rules.toml"
score = {{ kind = "logcat", pattern = "battler: .*score=([0-9]+)" }}
criteria = {{ min_score = 1 }}
[apps.errands]
package = "dev.corral.errands"
goal = "Do what the banner asks."
rules = "errands.rules.toml"
score = {{ kind = "logcat", pattern = "errands: .*score=([0-9]+)" }}
criteria = {{ min_score = 1 }}
[[phones]]
kind = "simulated"
app = "battler"
size = "360x640"
[[phones]]
kind = "simulated"
app = "errands"
size = "360x640"
"""


def scenario_text(
    *, seconds: float = 12.0, engine_args: tuple[str, ...] = ("--latency-ms", "150"), engines: str = ""
) -> str:
    """Two phones, two games, one engine and what else is given."""
    return BASE.format(seconds=seconds, engine_args=json.dumps(list(engine_args)), engines=engines)


async def run_text(
    text: str, out: Path, during: Callable[[Fleet], Awaitable[None]], overrides: dict[str, str] | None = None
) -> RunResult:
    """Run a scenario; `during` is called with the fleet once its phones play."""
    scenario = parse_scenario(text.encode(), "test.toml", overrides)
    assets = load_assets(scenario, SCENARIOS)
    return await run_scenario(scenario, assets, source=text.encode(), out=out, view=during)


def summary_of(result: RunResult) -> dict[str, Any]:
    """`summary.json` as it was written."""
    assert result.report is not None, result.report_failure
    loaded: dict[str, Any] = json.loads(result.report.summary.read_text("utf-8"))
    return loaded
