"""A run leaves its rows: what the published file says is what the run's own report says."""

import contextlib
from pathlib import Path
from typing import Any

import duckdb
import pytest
import trio

from actors.assets import load_assets
from actors.cli.scenarios import _conclude
from actors.fleet import Fleet
from actors.run import RunResult, run_scenario
from actors.scenario import parse_scenario
from actors.warehouse.publisher import publish_now
from tests.kit.scenarios import SCENARIOS, needs_adb, scenario_text, summary_of

pytestmark = needs_adb


async def nothing(_: Fleet) -> None:
    await trio.sleep_forever()


async def played(folder: Path, **overrides: str) -> RunResult:
    text = scenario_text(seconds=6.5)
    scenario = parse_scenario(text.encode(), "test.toml", {key.replace("__", "."): v for key, v in overrides.items()})
    assets = load_assets(scenario, SCENARIOS)
    with trio.fail_after(120):
        return await run_scenario(
            scenario, assets, source=text.encode(), out=folder, view=nothing, warehouse_folder=folder / "warehouse"
        )


def ask(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(duckdb.connect(str(folder / "warehouse" / "default.duckdb"), read_only=True)) as file:
        return file.execute(sql).fetchall()


async def test_the_published_file_says_what_the_report_says(tmp_path: Path) -> None:
    result = await played(tmp_path)

    assert result.warehouse is not None
    assert (result.warehouse.failure, result.warehouse.lost) == (None, 0)
    totals = summary_of(result)["totals"]
    ((steps, outcomes, plans),) = ask(
        tmp_path,
        "SELECT (SELECT COUNT(*) FROM steps), (SELECT COUNT(*) FROM episodes), (SELECT COUNT(*) FROM plans)",
    )
    assert (steps, outcomes, plans) == (totals["steps"], 2, totals["plans"]["requested"])
    counted = dict(ask(tmp_path, "SELECT outcome, COUNT(*) FROM actions GROUP BY outcome"))
    dropped = totals["dropped"]
    assert counted.get("stale", 0) == dropped["stale_age"] + dropped["stale_target"] + dropped["stale_geometry"]
    assert counted.get("voided", 0) == dropped["voided"]
    assert counted.get("no_effect", 0) == totals["no_effect"]
    assert ask(tmp_path, "SELECT state, phones, episodes, lost_rows FROM runs") == [("ended", 2, 2, 0)]
    ((phones, online),) = ask(tmp_path, "SELECT COUNT(DISTINCT phone), MIN(is_online) FROM phone_health")
    assert (phones, online) == (2, 1)
    assert ask(tmp_path, "SELECT DISTINCT engine, is_up FROM engine_health") == [("e0", 1)]
    ((latency,),) = ask(tmp_path, "SELECT MIN(latency_ms) FROM steps")
    assert latency > 0


async def test_a_folder_that_cannot_be_had_changes_no_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "warehouse").write_text("a file is in the way")
    result = await played(tmp_path, limits__seconds="2")

    code = _conclude(result)

    said = capsys.readouterr().err.splitlines()
    assert result.warehouse is not None
    assert result.warehouse.lost > 0
    assert code == (0 if all(one.outcome.value == "succeeded" for one in result.summaries) else 1)
    assert [line for line in said if "not published" in line and "corral warehouse load" in line]
    assert summary_of(result)["totals"]["steps"] > 0


async def test_a_scenario_may_keep_no_rows(tmp_path: Path) -> None:
    result = await played(tmp_path, record__warehouse="false", limits__seconds="1")

    assert result.warehouse is None
    assert not (tmp_path / "warehouse").exists()


async def test_a_loader_that_fails_is_told_in_one_line(tmp_path: Path) -> None:
    failure = await publish_now(tmp_path / "nowhere", tmp_path / "log")

    assert failure is not None
    assert "\n" not in failure
    assert "name a warehouse folder" in failure
