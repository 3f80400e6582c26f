"""The authoring page in a real browser: mark, test, save, and what was saved hits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest
import trio

from actors.assets import load_rules
from actors.authoring.desk import Desk
from actors.authoring.frames import frames_in
from actors.authoring.serve import serve_page
from actors.authoring.sources import StoredSource
from actors.rehearsal.apps.catalog import APPS
from policies.frame import Frame
from policies.geometry import Anchor, Geometry, box_for
from policies.perception import compile_probes, perceive
from policies.probes import TemplateProbe
from tests.kit.browser import Page, open_page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

WIDTH, HEIGHT = 720, 1280


def drawn(name: str, seconds: float, *, size: tuple[int, int] = (WIDTH, HEIGHT)) -> np.ndarray:
    app = APPS[name](seed=1, width=size[0], height=size[1], now=0.0)
    return np.asarray(cv2.cvtColor(app.draw(seconds), cv2.COLOR_RGB2BGR))


@asynccontextmanager
async def served(folder: Path, rules: Path) -> AsyncIterator[str]:
    """The page on two pictures of battler."""
    for number, seconds in enumerate((1.0, 3.0)):
        cv2.imwrite(str(folder / f"{number}.png"), drawn("battler", seconds))
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        desk = Desk(StoredSource("pictures", frames_in(folder)), rules)
        yield await nursery.start(partial(serve_page, desk, stop=stop))
        stop.set()


async def on_screen(page: Page, x: float, y: float) -> tuple[float, float]:
    """Where a pixel of the frame is in the window."""
    left, top, across, down = await page.evaluate(
        "(() => { const c = document.getElementById('screen'), b = c.getBoundingClientRect();"
        " return [b.x, b.y, b.width / c.width, b.height / c.height]; })()"
    )
    return left + x * across, top + y * down


async def mark(page: Page, left: int, top: int, right: int, bottom: int) -> None:
    await page.drag(await on_screen(page, left, top), await on_screen(page, right, bottom))


async def test_a_template_is_marked_tested_and_saved_and_then_hits(tmp_path: Path) -> None:
    pictures, rules = tmp_path / "pictures", tmp_path / "rules.toml"
    pictures.mkdir()
    rules.write_text(
        "# my own words\n\n[probes.sky]\nkind = 'color'  # with a comment\n"
        "region = { x = 0, y = 0, width = 9, height = 9 }\ncolor = { low = [0, 0, 0], high = [9, 9, 9] }\n"
    )
    async with served(pictures, rules) as url, open_page(tmp_path / "profile") as page:
        await page.open(url)
        await mark(page, 566, 1016, 694, 1164)
        box = await page.evaluate(
            "['box-x', 'box-y', 'box-width', 'box-height'].map(i => +document.getElementById(i).value)"
        )
        assert np.allclose(box, [566, 1016, 128, 148], atol=3)
        assert await page.evaluate("document.getElementById('anchor').value") == "bottom_right"
        await page.type("#name", "potion")
        await page.click("#test")
        status = await page.wait_for("document.getElementById('status').textContent")
        assert status.startswith("Hit: 1")
        await page.click("#taps")
        await page.click("#save")
        await page.wait_for("document.getElementById('status').textContent.startsWith('Saved')")
        toml = await page.evaluate("document.getElementById('toml').value")
        shown = await page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        overflow = await page.evaluate("(f => f.scrollWidth - f.clientWidth)(document.getElementById('form'))")
        await page.screenshot(tmp_path / "page.png")
        assert page.complaints == []
        assert {address.split("/")[2] for address in page.requested if not address.startswith("blob:")} == {
            url.split("/")[2]
        }

    assert shown == [1280, 800]
    assert overflow == 0
    assert "[probes.potion]" in toml
    text = rules.read_text()
    assert text.startswith("# my own words\n\n[probes.sky]\nkind = 'color'  # with a comment\n")
    loaded, cut = load_rules(rules)
    probe = loaded.probes["potion"]
    assert isinstance(probe, TemplateProbe)
    assert probe.region.anchor is Anchor.BOTTOM_RIGHT
    assert [rule.name for rule in loaded.rules] == ["tap potion"]
    pixels = drawn("battler", 2.0, size=(1080, 2400))
    seen = perceive(compile_probes(loaded.probes, cut), Frame(pixels, 0, 0.0, 0.0, Geometry(1080, 2400)))
    reading = seen.readings["potion"]
    assert reading.hit
    assert reading.at is not None
    assert box_for(probe.region, 1080, 2400).left < reading.at[0] * 1080 < box_for(probe.region, 1080, 2400).right


async def test_a_bar_is_marked_by_keyboard_and_its_colours_picked(tmp_path: Path) -> None:
    pictures, rules = tmp_path / "pictures", tmp_path / "rules.toml"
    pictures.mkdir()
    async with served(pictures, rules) as url, open_page(tmp_path / "profile", dark=True) as page:
        await page.open(url)
        await page.evaluate("document.getElementById('screen').focus()")
        await page.press("ArrowRight")
        await page.press("ArrowDown", shift=True)
        assert await page.evaluate("document.getElementById('box-height').value") == "81"
        for name, value in (("x", "24"), ("y", "134"), ("width", "600"), ("height", "28")):
            await page.type(f"#box-{name}", value)
        await page.evaluate("document.querySelector('input[value=bar]').focus()")
        await page.click("input[value=bar]")
        await page.type("#name", "health")
        await page.click("#pick")
        await page.wait_for("document.getElementById('high-v').value !== ''")
        await page.click("#test")
        status = await page.wait_for("document.getElementById('status').textContent")
        await page.screenshot(tmp_path / "dark.png")
        await page.click("#save")
        await page.wait_for("document.getElementById('status').textContent.startsWith('Saved')")
        assert page.complaints == []

    assert status.startswith("Hit: 1")
    assert set(load_rules(rules)[0].probes) == {"health"}


async def test_what_is_refused_is_said_on_the_page(tmp_path: Path) -> None:
    pictures, rules = tmp_path / "pictures", tmp_path / "rules.toml"
    pictures.mkdir()
    async with served(pictures, rules) as url, open_page(tmp_path / "profile") as page:
        await page.open(url)
        await page.click("#test")
        assert "mark a rectangle" in await page.wait_for("document.getElementById('error').textContent")
        await mark(page, 300, 200, 400, 300)
        await page.type("#name", "no good name")
        await page.click("#save")
        await page.wait_for("document.getElementById('error').textContent.includes('letters, digits')")
        assert await page.evaluate("document.getElementById('name').getAttribute('aria-invalid')") == "true"

    assert not rules.exists()
