"""A real `corral run` on a simulated phone behind a farm: looked at, taken over, used, handed back, held."""

import re
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.farm.client import path_of
from actors.farm.config import SimulatedPool
from actors.farm.daemon import PROGRAM
from tests.actors.farm.test_api import submitted
from tests.kit.farm import ServedFarm, farm_config, open_served, wait_over
from tests.kit.farm_live import Viewer, open_viewer

PHONE = "sim-0"
SCENARIO = """
name = "good"
[limits]
seconds = 300
[planner]
enabled = false
[apps.merge]
package = "dev.corral.merge"
goal = "Merge tiles."
[[phones]]
kind = "simulated"
app = "merge"
bot = "random"
"""
SWIPES = [(0.2, 0.6, 0.8, 0.6), (0.8, 0.6, 0.2, 0.6), (0.5, 0.8, 0.5, 0.4), (0.5, 0.4, 0.5, 0.8)]
NEW_GAME = {"kind": "tap", "x": 0.5, "y": 0.5}
QUIET_SECONDS = 3.0  # a random bot acts more often than that
PATIENCE_SECONDS = 60.0


@attrs.frozen
class Operator:
    """Somebody who helps on the phone."""

    served: ServedFarm

    async def call(self, method: str, *path: str, body: Any = None) -> Any:
        return (await self.served.call("games.operator", method, path_of("phones", PHONE, *path), body)).json

    async def detail(self) -> dict[str, Any]:
        found: dict[str, Any] = await self.call("GET")
        return found

    async def moves(self) -> list[str]:
        """What the game said of its moves, which are in its log once it made them."""
        return [one["text"] for one in (await self.detail())["log"] if re.search(r"moves=|game=new", one["text"])]

    async def bot_acts(self) -> int:
        """When the bot acted last, milliseconds since 1970; 0: never of late."""
        actions = (await self.detail())["actions"]
        return max((one["at_ms"] for one in actions if not one["why"].startswith("by ")), default=0)

    async def until_held_by(self, by: str | None) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while (await self.detail())["live"]["held_by"] != by:
                await trio.sleep(0.1)

    async def until_bot_acts(self, since_ms: int) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while await self.bot_acts() <= since_ms:
                await trio.sleep(0.1)


async def until_playing(viewer: Viewer) -> None:
    while True:
        rows = (await viewer.until("phones"))["phones"]
        if any((row["live"] or {}).get("state") == "playing" and row["live"]["step"] > 0 for row in rows):
            return


async def picture_changes(viewer: Viewer) -> None:
    """Pictures come, and they are not all the same one."""
    await viewer.watch("*", screens={"fps": 5, "side": 320})
    seen: set[bytes] = set()
    with trio.fail_after(PATIENCE_SECONDS):
        while len(seen) < 3:
            found = await viewer.take()
            if isinstance(found, tuple):
                header, jpeg = found
                assert (header["phone"], max(header["width"], header["height"])) == (PHONE, 320)
                assert jpeg.startswith(b"\xff\xd8")
                seen.add(jpeg)
                await viewer.say({"type": "seen", "count": 1})


async def help_on(operator: Operator) -> None:
    """The phone does what a person wants, and its game says so; its bot does nothing."""
    taken = await operator.call("POST", "take-over")
    assert taken["by"] == "operator-games"
    acted = await operator.bot_acts()
    await operator.call("POST", "input", body=NEW_GAME)
    before = await operator.moves()
    for x, y, x2, y2 in SWIPES:  # a board that is not over moves in some direction
        swipe = {"kind": "swipe", "x": x, "y": y, "x2": x2, "y2": y2, "ms": 200}
        assert (await operator.call("POST", "input", body=swipe))["done"] is True
    with trio.fail_after(PATIENCE_SECONDS):
        while await operator.moves() == before:
            await trio.sleep(0.1)
    await trio.sleep(QUIET_SECONDS)
    shown = await operator.detail()
    assert await operator.bot_acts() == acted
    mine = [one for one in shown["actions"] if one["why"] == "by operator-games"]
    assert [(one["kind"], one["outcome"]) for one in mine] == [("tap", "done"), *[("swipe", "done")] * len(SWIPES)]
    assert shown["taken_over_by"] == "operator-games"
    await operator.call("DELETE", "take-over")
    await operator.until_bot_acts(acted)


@pytest.mark.slow
async def test_a_real_run_is_seen_taken_over_and_held(tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "good.toml").write_text(SCENARIO)
    config = attrs.evolve(farm_config(tmp_path), phones=(SimulatedPool("sim", 1),))
    async with open_served(config, program=PROGRAM) as served:
        run = await submitted(served)
        operator = Operator(served)
        async with open_viewer(served, "games.viewer") as viewer:
            await viewer.watch("*")
            await until_playing(viewer)
            await operator.until_bot_acts(0)
            await picture_changes(viewer)
            await help_on(operator)

            await served.call("games.operator", "POST", path_of("runs", run, "pause"), {"hold": True})
            await operator.until_held_by("operator-games")
            held = await operator.bot_acts()
            await trio.sleep(QUIET_SECONDS)
            assert await operator.bot_acts() == held
            await served.call("games.operator", "POST", path_of("runs", run, "resume"))
            await operator.until_bot_acts(held)
            await operator.until_held_by(None)
        await served.call("games.operator", "POST", path_of("runs", run, "cancel"))
        await wait_over(served.farm, run)
