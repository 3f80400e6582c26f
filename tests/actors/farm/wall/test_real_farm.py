"""The wall of a real farm in a real browser: phones that play, a person at one of them, questions, a repro."""

import base64
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from click.testing import CliRunner

from actors.cli.main import corral
from actors.farm.client import FarmClient, path_of
from runtime.secret import Secret
from tests.actors.farm.test_serve import served
from tests.kit.browser import Page, open_page
from tests.kit.farm import farm_config, open_served, submit, wait_over, write_scenario
from tests.kit.farm_records import leave, wait_scanned

pytestmark = [pytest.mark.browser, pytest.mark.adb, pytest.mark.slow, pytest.mark.xdist_group("browser")]

SCENARIO = """
name = "quickstart"
[limits]
seconds = 150
[planner]
act_seconds = 0.25
[apps.battler]
package = "dev.corral.battler"
goal = "Survive as many waves as you can."
score = { kind = "logcat", pattern = "battler: .*score=([0-9]+)" }
[[phones]]
kind = "simulated"
app = "battler"
count = 1
"""
PHONE = "sim-0"


@contextmanager
def demo(folder: Path) -> Iterator[tuple[str, FarmClient]]:
    """`corral farm demo` with one phone a run; its link, and a client of it."""
    (folder / "scenarios").mkdir()
    (folder / "scenarios" / "quickstart.toml").write_text(SCENARIO)
    place = ("farm", "demo", str(folder / "demo"), "--port", "0", "--scenarios", str(folder / "scenarios"))
    with served("actors.cli.main", *place) as (process, link):
        parts = urlsplit(link)
        yield link, FarmClient(f"{parts.scheme}://{parts.netloc}", Secret(parts.fragment.removeprefix("token=")))
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


async def ask(client: FarmClient, *path: str) -> Any:
    return await trio.to_thread.run_sync(lambda: client.call("GET", path_of(*path)).json)


async def until(client: FarmClient, path: tuple[str, ...], true: Callable[[Any], Any]) -> Any:
    """Until the farm says so; what it said."""
    with trio.fail_after(90):
        while not true(found := await ask(client, *path)):
            await trio.sleep(0.2)
    return found


async def press_button(page: Page, words: str) -> None:
    found = f"[...document.querySelectorAll('button')].find(b => b.innerText.trim() === {words!r} && b.offsetParent)"
    await page.wait_for(f"(b => b !== undefined && (b.click(), true))({found})")


def last_of(found: Any) -> int:
    """When its last action was, in ms."""
    return max((int(action["at_ms"]) for action in found["actions"]), default=0)


def after(found: Any, last: int) -> list[Any]:
    """Actions since then: clocks are compared to the millisecond, and two actions are further apart."""
    return [action for action in found["actions"] if action["at_ms"] > last + 20]


async def test_a_farm_is_watched_helped_and_asked(tmp_path: Path) -> None:
    (tmp_path / "wall").mkdir()
    with demo(tmp_path) as (link, client):
        async with open_page(tmp_path / "profile") as page:
            await page.open(link)
            await until(client, ("phones", PHONE), lambda one: len(one.get("actions") or []) > 3)

            # screens that move
            canvas = "document.querySelector('.tile canvas[data-seq]')"
            await page.wait_for(f"{canvas} !== null")
            first = await page.evaluate(f"{canvas}.toDataURL()")
            await page.wait_for(f"{canvas}.toDataURL() !== {first!r}")
            await page.screenshot(tmp_path / "wall" / "real-phones.png")

            # a person at a phone
            await page.evaluate(f"location.hash = '#/phones/{PHONE}'")
            await page.wait_for("document.querySelector('.surface canvas')?.dataset.seq")
            await press_button(page, "Take over")
            await page.wait_for("document.querySelector('.surface.touchable') !== null")
            taken = await until(client, ("phones", PHONE), lambda one: one["taken_over_by"] == "demo")
            before = last_of(taken)
            await page.click(".surface")
            helped = await until(client, ("phones", PHONE), lambda one: after(one, before))
            mine = after(helped, before)
            assert [action["kind"] for action in mine] == ["tap"], "the bot does nothing meanwhile"
            assert (mine[0]["x"], mine[0]["y"]) == (pytest.approx(0.5, abs=0.03), pytest.approx(0.5, abs=0.03))
            await page.screenshot(tmp_path / "wall" / "real-phone-taken.png")
            await press_button(page, "Hand back to the bot")
            back = await until(client, ("phones", PHONE), lambda one: len(after(one, last_of(helped))) > 2)
            assert back["taken_over_by"] is None

            # questions, about this very farm
            await page.evaluate("location.hash = '#/ask'")
            for number, question in enumerate(("how many episodes by app today", "今天每台手机的动作数"), 1):
                await page.wait_for("document.getElementById('question') !== null")
                await page.type("#question", question)
                await press_button(page, "Ask")
                answered = "[...document.querySelectorAll('.answer')].filter(a => a.innerText.includes('answered'))"
                await page.wait_for(f"{answered}.length === {number}")
            await page.screenshot(tmp_path / "wall" / "real-ask.png")

            # a run is cancelled
            await page.evaluate("location.hash = '#/queue'")
            await press_button(page, "Cancel")
            await press_button(page, "Yes")
            await until(client, ("runs",), lambda one: "cancelled" in [run["state"] for run in one["runs"]])


async def test_a_finding_leads_to_a_repro_that_replays(tmp_path: Path) -> None:
    (tmp_path / "wall").mkdir()
    leave(tmp_path)
    write_scenario(tmp_path, "game", "code=1")
    async with open_served(farm_config(tmp_path)) as farm, open_page(tmp_path / "profile") as page:
        run = (await submit(farm.farm, "game")).run
        await wait_over(farm.farm, run)
        await wait_scanned(farm, run)
        await page.open(f"{farm.url}/wall/#token={farm.tokens['games.operator'].reveal()}")
        await page.wait_for("document.querySelector('#bar nav') !== null")
        await page.evaluate("location.hash = '#/findings'")
        await page.wait_for("document.querySelector('td a') !== null")
        crash = "[...document.querySelectorAll('tr')].find(row => row.innerText.includes('crash')).querySelector('a')"
        await page.evaluate(f"{crash}.click()")
        await page.wait_for("document.getElementById('judge') !== null")
        await page.screenshot(tmp_path / "wall" / "real-finding.png")
        path = await page.evaluate("location.hash.replace('#/', '/api/v1/') + '/repro'")
        fetched = await page.evaluate(
            f"fetch({path!r}).then(r => r.blob()).then(b => new Promise(done => {{ const reader = new FileReader();"
            " reader.onload = () => done(reader.result.split(',')[1]); reader.readAsDataURL(b); }))"
        )
        (tmp_path / "repro.zip").write_bytes(base64.b64decode(fetched))
    shutil.unpack_archive(tmp_path / "repro.zip", tmp_path / "repro")
    (folder,) = [found.parent for found in (tmp_path / "repro").rglob("run.json")]
    result = CliRunner().invoke(corral, ["replay", str(folder)])
    assert result.exit_code == 0, result.output
