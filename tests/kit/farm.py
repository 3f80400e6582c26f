"""Farms for tests: phones that nobody looks for, scenarios whose runs are `tests.kit.farm_run`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from actors.farm.config import AdbPool, FarmConfig, FarmFolders, FarmLimits, FarmTokens
from actors.farm.daemon import Farm
from actors.farm.records import RunRecord
from actors.farm.submission import parse_submission
from actors.farm.work import RunState
from runtime.ids import TenantId

PROGRAM = (sys.executable, str(Path(__file__).with_name("farm_run.py")))
PATIENCE_SECONDS = 60.0
SCENARIO = """
name = "{name}"
description = "{does}"
[planner]
enabled = false
[apps.battler]
package = "dev.corral.battler"
goal = "Survive."
[[phones]]
kind = "simulated"
app = "battler"
count = {phones}
"""


def write_scenario(folder: Path, name: str, does: str = "", phones: int = 1) -> None:
    """`folder/scenarios/name.toml`."""
    (folder / "scenarios").mkdir(exist_ok=True)
    (folder / "scenarios" / f"{name}.toml").write_text(SCENARIO.format(name=name, does=does, phones=phones))


def farm_config(folder: Path, *, phones: int = 4, **limits: Any) -> FarmConfig:
    """Phones `10.0.0.0:5555`, ...; the farm's own folder is `folder/farm`."""
    addresses = tuple(f"10.0.0.{number}:5555" for number in range(phones))
    return FarmConfig(
        phones=(AdbPool("lab", addresses, labels=("lab",)),),
        farm=FarmFolders(str(folder / "farm"), str(folder / "scenarios")),
        tokens=FarmTokens(str(folder / "tokens.json")),
        limits=FarmLimits(**limits),
    )


async def submit(farm: Farm, scenario: str, *, tenant: str = "games", **more: Any) -> RunRecord:
    """As an operator does."""
    found = parse_submission({"scenario": scenario, **more})
    return await farm.submit(found, tenant=TenantId(tenant), user="ann")


async def wait_run(farm: Farm, run: str, condition: Callable[[RunRecord], bool]) -> RunRecord:
    """Until the run is so."""
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            record = await farm.store.do(lambda store: store.run(run))
            if condition(record):
                return record
            await trio.sleep(0.02)


async def wait_over(farm: Farm, run: str) -> RunRecord:
    """Until it has its result."""
    return await wait_run(farm, run, lambda one: one.is_over)


async def wait_playing(farm: Farm, run: str) -> RunRecord:
    """Until its process has said that it plays."""
    record = await wait_run(farm, run, lambda one: one.state is RunState.RUNNING)
    attempt = (await farm.store.do(lambda store: store.attempts(run)))[-1].attempt
    log = trio.Path(farm.files(attempt).log)
    with trio.fail_after(PATIENCE_SECONDS):
        while not await log.exists() or b"playing" not in await log.read_bytes():
            await trio.sleep(0.02)
    return record
