"""Pinned questions on the wall in a real browser: the list, and answers that are kept. Pictures as in `test_wall`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.kit.browser import Page
from tests.kit.wall_page import go, picture, press_button, text_of, until, wall

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

KEPT = "article.kept"


def row(name: str) -> str:
    return f'.pins [data-key="{name}"]'


async def words_of(page: Page, selector: str) -> str:
    """In one line: signs stand in boxes of their own."""
    return " ".join((await text_of(page, selector)).split())


async def listed(page: Page) -> None:
    await page.wait_for("document.querySelectorAll('.pins li').length === 4")


async def open_pin(page: Page, name: str) -> None:
    await listed(page)
    await page.click(f"{row(name)} button")
    await page.wait_for(f"document.activeElement === document.querySelector('{KEPT}[data-pin={name}] h2')")


async def looks(page: Page, seconds: float) -> list[str]:
    """What the page asks of pins within this time."""
    before = len(page.requested)
    await trio.sleep(seconds)
    return [url for url in page.requested[before:] if "/pins" in url]


async def test_the_list_says_how_pins_are(tmp_path: Path) -> None:
    async with wall(tmp_path, at="ask") as (page, _):
        await listed(page)
        shown = {name: await words_of(page, row(name)) for name in ("crossed", "failed", "paused", "asked")}
        signs = "[...document.querySelectorAll('.pins .badge')].map(b => [b.dataset.state, b.innerText])"

        assert "▲ above its threshold" in shown["crossed"]
        assert re.search(r"✓ answered 15 Jan, \d\d:\d\d ▲ .* next: 1 Jan, \d\d:\d\d$", shown["crossed"])
        assert re.search(r"✕ failed 16 Jan, \d\d:\d\d next: ", shown["failed"])
        assert "threshold" not in shown["failed"]
        assert "‖ paused" in shown["paused"]
        assert "the token is no longer good <script>" in shown["paused"]
        assert "… being asked" in shown["asked"]
        assert "answered" not in shown["asked"]
        assert all(len(text) > 2 for _, text in await page.evaluate(signs)), "a sign and a word"


@pytest.mark.parametrize("dark", [False, True])
async def test_a_kept_answer_with_hostile_text(tmp_path: Path, dark: bool) -> None:
    async with wall(tmp_path, dark=dark, at="ask") as (page, farm):
        await open_pin(page, "crossed")
        await page.wait_for(f"document.querySelector('{KEPT} .chart img')?.complete === true")
        await page.evaluate(f"document.querySelector('{KEPT} details').open = true")
        shown = await words_of(page, KEPT)
        await trio.sleep(0.2)  # a picture is more than its elements: let it be drawn
        await picture(page, tmp_path, f"pin-{'dark' if dark else 'light'}")
        await page.evaluate(f"document.querySelector('{KEPT} .tools').scrollIntoView({{block: 'end'}})")
        await picture(page, tmp_path, f"pin-below-{'dark' if dark else 'light'}")
        await press_button(page, "XLSX")
        await until(lambda: any(path == "tables" for _, path, _ in farm.done))
        saved = next(body for _, path, body in farm.done if path == "tables")
        wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        await press_button(page, "Ask as a question")
        await until(lambda: any(kind == "ask" for _, kind, _ in farm.done))

        assert all(words in shown for words in ("Episodes rose from 120 to 155.", "2027-01-13", "SELECT day, episodes"))
        assert "answer Episodes by day" in shown
        assert "every day at 08:30 (Asia/Shanghai) · next: 1 Jan" in shown
        assert "episodes is above 150" in shown
        assert "The first 6 of 312 rows are kept." in shown
        assert "failed" not in shown
        assert (saved["format"], len(saved["rows"])) == ("xlsx", 6)
        assert next(body for _, kind, body in farm.done if kind == "ask")["text"].startswith("answer Episodes by day")
        assert wide <= 0, "wider than the window"
        assert await page.evaluate("document.querySelectorAll('main script, main img[src=x]').length") == 0
        assert await page.evaluate("window.hurt === undefined")
        assert not page.complaints


async def test_a_failed_pin_says_why_and_that_its_rows_are_old(tmp_path: Path) -> None:
    async with wall(tmp_path, at="ask") as (page, _):
        await open_pin(page, "failed")
        await page.wait_for(f"document.querySelector('{KEPT} table') !== null")
        failed = await words_of(page, KEPT)
        await picture(page, tmp_path, "pin-failed")
        await open_pin(page, "paused")
        paused = await words_of(page, f"{KEPT}[data-pin=paused]")

        assert re.search(r"The last attempt failed \(16 Jan, [\d:]+\): the database is away <script>", failed)
        assert re.search(r"What is shown is old: it was answered at 15 Jan, [\d:]+\.", failed)
        assert "every 2 h" in failed
        assert "crashes is below 0.5" in failed
        assert "It is paused: the token is no longer good" in paused
        assert "by hand" in paused
        assert not page.complaints


async def test_a_pin_that_was_never_answered_says_so(tmp_path: Path) -> None:
    async with wall(tmp_path, at="ask") as (page, farm):
        why = {"state": "failed", "at": None, "error": "no table fits", "failed_at": "2026-01-16T00:30:02Z"}
        farm.pins.pins["failed"]["last"] = why
        await open_pin(page, "failed")
        shown = await words_of(page, KEPT)

        assert "no table fits It was never answered." in shown
        assert "CSV" not in shown
        assert not page.complaints


async def test_asking_again_shows_the_newer_answer_and_then_looks_no_more(tmp_path: Path) -> None:
    async with wall(tmp_path, at="ask") as (page, farm):
        await open_pin(page, "crossed")
        await press_button(page, "Ask again now")
        await page.wait_for(f"document.querySelector('{KEPT}').innerText.includes('being asked')")
        await page.wait_for(f"document.querySelector('{KEPT}').innerText.includes('Episodes fell to 90.')")
        shown = await words_of(page, KEPT)
        in_list = await words_of(page, row("crossed"))

        assert ("POST", "pins/crossed/run") in [one[:2] for one in farm.done]
        assert "2027-01-13" not in shown
        assert "threshold" not in in_list
        assert "being asked" not in in_list
        assert await looks(page, 2.5) == []


async def test_a_page_that_is_hidden_and_a_view_that_is_closed_look_no_more(tmp_path: Path) -> None:
    async with wall(tmp_path, at="ask") as (page, _):
        await open_pin(page, "asked")
        assert len(await looks(page, 2.5)) == 1
        await page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
        assert await looks(page, 2.5) == []
        await page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
        assert len(await looks(page, 2.5)) == 1
        await page.click(f'{KEPT} [aria-label^="Close"]')
        assert await page.evaluate(f"document.querySelector('{KEPT}') === null")
        assert await looks(page, 2.5) == []
        await open_pin(page, "asked")
        await go(page, "runs")
        assert await looks(page, 2.5) == []


async def test_pins_without_a_mouse(tmp_path: Path) -> None:
    async with wall(tmp_path, at="ask") as (page, farm):
        await listed(page)
        await page.evaluate(f"document.querySelector('{row('failed')} button').focus()")
        await page.press("Enter")
        await page.wait_for(f"document.activeElement === document.querySelector('{KEPT} h2')")
        for _ in range(12):
            await page.press("Tab")
            if await page.evaluate("document.activeElement.innerText") == "Ask again now":
                break
        else:
            pytest.fail("it is not reached")
        await page.press("Enter")
        await until(lambda: any(path == "pins/failed/run" for _, path, _ in farm.done))
        await page.wait_for("document.activeElement.innerText === 'Ask again now'")
        await page.evaluate(f"document.querySelector('{KEPT} [aria-label^=Close]').focus()")
        await page.press("Enter")
        assert await page.evaluate(f"document.querySelector('{row('failed')} button') === document.activeElement")
        await page.press("Tab")
        assert await page.evaluate("document.activeElement.ariaLabel") == "Unpin Crashes by server"
        await page.press("Enter")
        await page.wait_for("document.querySelectorAll('.pins li').length === 3")

        assert ("DELETE", "pins/failed") in [one[:2] for one in farm.done]
        assert await page.evaluate("document.activeElement !== document.body")


async def test_a_question_is_pinned_for_a_time_of_day(tmp_path: Path) -> None:
    async with wall(tmp_path, at="ask") as (page, farm):
        await page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Shanghai")
        await page.type("#question", "success rate by day")
        await press_button(page, "Ask")
        await press_button(page, "Pin")
        chosen = "document.querySelector('dialog select')"
        await page.evaluate(f"({chosen}.value = 'daily', {chosen}.dispatchEvent(new Event('change')))")
        await page.evaluate("document.querySelector('dialog [type=time]').value = '08:30'")
        assert "Time (Asia/Shanghai)" in await words_of(page, "dialog")
        await picture(page, tmp_path, "pin-dialog")
        await page.click("dialog .primary")
        await until(lambda: ("POST", "pins") in [one[:2] for one in farm.done])
        await page.wait_for("document.querySelectorAll('.pins li').length === 5")
        await page.wait_for("document.querySelector('.pins li:last-child').innerText.includes('answered')")
        made: dict[str, Any] = next(body for _, path, body in farm.done if path == "pins")

        assert made["schedule"] == {"at": "08:30", "zone": "Asia/Shanghai"}
        assert made["threshold"] is None
        assert json.dumps(made).count("every_minutes") == 0


async def test_pins_in_chinese(tmp_path: Path) -> None:
    async with wall(tmp_path, at="ask") as (page, _):
        await press_button(page, "中文")
        await open_pin(page, "failed")
        await page.wait_for(f"document.querySelector('{KEPT} table') !== null")
        await picture(page, tmp_path, "pin-chinese")
        failed = await words_of(page, KEPT)
        await open_pin(page, "crossed")
        crossed = await words_of(page, f"{KEPT}[data-pin=crossed]")

        assert "最近一次查询失败" in failed
        assert "显示的是旧数据" in failed
        assert "每 2 小时 · 下次：" in failed
        assert "▲ 高于阈值" in crossed
        assert "每天 08:30（Asia/Shanghai）" in crossed
        assert "共 312 行，保留了前 6 行。" in crossed
        assert "立即重新查询" in crossed
        main = await words_of(page, "main")
        assert re.search(r"\{\w+\}|undefined|NaN|\[object", main) is None
