"""The wall in a real browser: what people see and do. Each test leaves pictures in the folder `wall` of its own."""

import re
from pathlib import Path

import pytest
import trio

from tests.kit.browser import open_page
from tests.kit.wall_farm import RUNS, TOKEN, open_wall_farm
from tests.kit.wall_page import go, picture, press_button, text_of, until, wall

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

FIRST = "10.0.0.0:5555"
PAGES = {
    "phones": "phones",
    "phone": f"phones/{FIRST}",
    "engines": "engines",
    "queue": "queue",
    "runs": "runs",
    "run": f"runs/{RUNS[2]['run']}",
    "compare": f"compare/{RUNS[2]['run']}/{RUNS[3]['run']}",
    "findings": "findings",
    "finding": "findings/f1",
    "ask": "ask",
}


async def test_a_wrong_token_is_told_and_a_right_one_lets_in(tmp_path: Path) -> None:
    async with open_wall_farm() as farm, open_page(tmp_path / "profile") as page:
        await page.open(f"{farm.url}/wall/")
        await page.wait_for("document.activeElement.id === 'token'")
        await page.type("#token", "corral_wrong")
        await page.click("button.primary")
        await page.wait_for("document.getElementById('login-error').textContent !== ''")
        await picture(page, tmp_path, "login")
        await page.type("#token", TOKEN)
        await page.click("button.primary")
        await page.wait_for("document.querySelectorAll('.tile').length === 10")
        kept = await page.evaluate(
            "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, document.body.innerHTML])"
        )

        assert TOKEN not in kept
        assert "corral_session" not in kept, "no script reads the cookie"
        await page.click("#leave")
        await page.wait_for("document.getElementById('token') !== null")
        assert all(url.startswith((farm.url, "blob:")) for url in page.requested), "nothing comes from elsewhere"


async def test_screens_move_and_a_link_with_a_token_forgets_it(tmp_path: Path) -> None:
    async with wall(tmp_path) as (page, farm):
        await page.wait_for("Number(document.querySelector('.tile canvas').dataset.seq) > 2")
        first = await page.evaluate("document.querySelector('.tile canvas').toDataURL()")
        await page.wait_for(f"document.querySelector('.tile canvas').toDataURL() !== {first!r}")

        assert TOKEN not in await page.evaluate("location.href + history.length")
        await until(lambda: farm.seen > 5)
        assert not page.complaints


async def test_phones_are_filtered_and_grouped(tmp_path: Path) -> None:
    async with wall(tmp_path) as (page, _):
        await page.wait_for("document.querySelectorAll('.tile').length === 10")
        await page.type("#filter", "person")
        await page.wait_for("document.querySelectorAll('.tile').length === 1")
        assert "solve the puzzle" in await text_of(page, ".tile")
        await page.type("#filter", "pixel cloud")
        await page.wait_for("document.querySelectorAll('.tile').length === 4")
        await page.evaluate(
            "(e => { e.value = ''; e.dispatchEvent(new Event('input')); })(document.getElementById('filter'))"
        )
        await page.evaluate(
            "(e => { e.value = 'pool'; e.dispatchEvent(new Event('change')); })(document.getElementById('group'))"
        )
        await page.wait_for("document.querySelectorAll('.groups section').length === 2")
        await page.wait_for("[...document.querySelectorAll('.tile canvas')].filter(c => c.dataset.seq).length >= 8")
        await picture(page, tmp_path, "phones-grouped")


async def test_a_person_takes_a_phone_over_and_hands_it_back(tmp_path: Path) -> None:
    async with wall(tmp_path, at=f"phones/{FIRST}") as (page, farm):
        await page.wait_for(
            "document.querySelector('.surface canvas')?.dataset.seq && document.querySelectorAll('.mark').length === 5"
        )
        await page.click(".surface")
        assert farm.done[1:] == [], "before it is taken over, a click does nothing"
        await press_button(page, "Take over")
        await page.wait_for("document.querySelector('.surface.touchable') !== null")
        left, top, width, height = await page.evaluate(
            "(b => [b.x, b.y, b.width, b.height])(document.querySelector('.surface').getBoundingClientRect())"
        )
        await page.click(".surface")
        await page.drag((left + width * 0.5, top + height * 0.8), (left + width * 0.5, top + height * 0.2))
        await page.type("#phone-text", "hello 你好")
        await press_button(page, "Send")
        await press_button(page, "Back")
        await until(lambda: len(farm.done) >= 5)
        await picture(page, tmp_path, "phone-taken")
        await press_button(page, "Hand back to the bot")
        await until(lambda: farm.done[-1][0] == "DELETE")
        sent = [body for _, path, body in farm.done if path.endswith("/input")]

        assert {one["kind"] for one in sent} == {"tap", "swipe", "text", "key"}
        tap = next(one for one in sent if one["kind"] == "tap")
        assert (tap["x"], tap["y"]) == (pytest.approx(0.5, abs=0.02), pytest.approx(0.5, abs=0.02))
        swipe = next(one for one in sent if one["kind"] == "swipe")
        assert (swipe["y"], swipe["y2"]) == (pytest.approx(0.8, abs=0.02), pytest.approx(0.2, abs=0.02))
        assert {"kind": "text", "text": "hello 你好"} in sent
        assert {"kind": "key", "key": "back"} in sent


async def test_a_phone_that_needs_a_person_is_answered(tmp_path: Path) -> None:
    async with wall(tmp_path, at="phones/10.0.0.2:5555") as (page, farm):
        await press_button(page, "Done, go on")
        await until(lambda: any(path.endswith("/resume") for _, path, _ in farm.done))

        assert farm.done[-1][2] == {"phone": "10.0.0.2:5555"}


async def test_a_run_is_submitted_and_another_cancelled(tmp_path: Path) -> None:
    async with wall(tmp_path, at="queue") as (page, farm):
        await page.wait_for("document.getElementById('scenario').options.length === 2")
        await page.type("#labels", "pixel, lab")
        await press_button(page, "Submit")
        await until(lambda: ("POST", "runs") in [one[:2] for one in farm.done])
        await press_button(page, "Cancel")
        await press_button(page, "Yes")
        await until(lambda: any(path.endswith("/cancel") for _, path, _ in farm.done))
        made = next(body for _, path, body in farm.done if path == "runs")

        assert made == {"scenario": "errands-login", "priority": 5, "repeats": 0, "labels": ["pixel", "lab"]}


async def test_a_finding_opens_its_repro_and_is_judged(tmp_path: Path) -> None:
    async with wall(tmp_path, at="findings") as (page, farm):
        await page.wait_for("document.querySelector('td a') !== null")
        assert "12 times a screen with a dead button was forgotten" in await text_of(page)
        await page.click("td a")
        await page.wait_for("document.getElementById('judge') !== null")
        shown = await text_of(page)
        assert "corral replay f1.zip" in shown
        for word in ("14.2 CNY", "12.5", "Input tokens", "123,456"):
            assert word in shown
        await page.evaluate("document.getElementById('judge').value = 'known'")
        await page.type("#note", "the shop")
        await press_button(page, "Save")
        await until(lambda: ("POST", "findings/f1", {"state": "known", "note": "the shop"}) in farm.done)
        await press_button(page, "Download")
        await page.wait_for("true")


async def test_questions_in_both_languages_and_choices(tmp_path: Path) -> None:
    async with wall(tmp_path, at="ask") as (page, farm):
        for question in ("success rate by day", "每天的成功率"):
            await page.type("#question", question)
            await press_button(page, "Ask")
            newest = "document.querySelector('.answer')"  # the answers before stand below it
            await page.wait_for(f"{newest}?.innerText.includes({question!r})")
            await page.wait_for(f"{newest}.querySelector('.chart img')?.complete === true")
            await page.wait_for(f"{newest}.innerText.includes('局数从 120 升到 155')")
        await picture(page, tmp_path, "ask")
        await page.type("#question", "which")
        await press_button(page, "Ask")
        await press_button(page, "by day")
        await until(lambda: any(kind == "choose" for _, kind, _ in farm.done))
        await press_button(page, "CSV")
        await press_button(page, "Request review")
        await press_button(page, "Send")
        await until(lambda: any(kind == "review" for _, kind, _ in farm.done))
        await until(lambda: any(path == "tables" for _, path, _ in farm.done))
        asked = [body["text"] for _, kind, body in farm.done if kind == "ask"]

        assert asked == ["success rate by day", "每天的成功率", "which"]
        assert next(body for _, path, body in farm.done if path == "tables")["columns"] == ["day", "episodes", "note"]
        assert not page.complaints


@pytest.mark.parametrize(("dark", "language"), [(False, "English"), (True, "中文")])
async def test_every_page_in_both_lights_and_languages_and_hostile_text_does_nothing(
    tmp_path: Path, dark: bool, language: str
) -> None:
    async with wall(tmp_path, dark=dark) as (page, _):
        if language == "中文":
            await press_button(page, "中文")
            assert "手机" in await text_of(page, "#bar")
        for name, where in PAGES.items():
            await go(page, where)
            await page.wait_for("!document.querySelector('[aria-busy]')")
            if name == "ask":
                await page.type("#question", "x")
                await page.click("form.ask .primary")
                await page.wait_for("document.querySelector('.answer .chart img')?.complete === true")
            if name in ("phones", "phone"):
                await page.wait_for("document.querySelector('main canvas')?.dataset.seq !== undefined")
            if name == "phone":
                await page.wait_for("document.querySelectorAll('.mark').length > 0")
            await trio.sleep(0.2)  # a picture is more than its elements: let it be drawn
            await picture(page, tmp_path, f"{name}-{'dark' if dark else 'light'}")
            shown = await text_of(page, "main")
            assert "undefined" not in shown, name
            assert "NaN" not in shown, name
            assert "[object" not in shown, name
            assert re.search(r"\b(circuit|end|finding|kind|outcome|plan|rollout|stage|state)\.\w", shown) is None, name
            assert re.search(r"\{\w+\}", shown) is None, f"{name}: a text without its value"
            assert await page.evaluate("document.querySelectorAll('main script, main img[src=x]').length") == 0, name
            nameless = "[...document.querySelectorAll('main button, main input, main select, main textarea, main a')]"
            nameless += ".filter(e => e.offsetParent && !(e.innerText || e.ariaLabel || e.labels?.length))"
            nameless += ".map(e => e.outerHTML)"
            assert await page.evaluate(nameless) == [], f"{name}: what a screen reader cannot name"
            wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{name} is wider than the window"
        assert await page.evaluate("window.hurt === undefined")
        assert not page.complaints


async def test_hands_that_use_no_mouse(tmp_path: Path) -> None:
    async with wall(tmp_path) as (page, _):
        await page.wait_for("document.querySelectorAll('.tile').length === 10")
        await page.evaluate("document.getElementById('skip').focus()")
        for _ in range(40):
            if await page.evaluate("document.activeElement.classList.contains('tile')"):
                break
            await page.press("Tab")
        else:
            pytest.fail("no tile is reached")
        label = await page.evaluate("document.activeElement.getAttribute('aria-label')")
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        await page.press("ArrowRight")
        second = await page.evaluate("document.activeElement.dataset.key")
        await page.press("ArrowDown")
        below = await page.evaluate("document.activeElement.dataset.key")
        await page.press("ArrowUp")
        back = await page.evaluate("document.activeElement.dataset.key")
        await page.evaluate("document.activeElement.click()")
        await page.wait_for("document.querySelector('.surface') !== null")
        await page.press("Escape")
        await page.wait_for("document.querySelector('.tile') !== null")

        assert label.startswith(f"{FIRST}, ")
        assert outline == "solid"
        assert second == "10.0.0.1:5555"
        assert below not in (second, FIRST)
        assert back == second


async def test_a_hidden_page_asks_for_nothing(tmp_path: Path) -> None:
    async with wall(tmp_path) as (page, farm):
        await until(lambda: farm.watched.get("phones") == ["*"])
        hide = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
        hide += "document.dispatchEvent(new Event('visibilitychange'))"
        await page.evaluate(hide % "true")
        await until(lambda: farm.watched["phones"] == [])
        assert farm.watched["screens"] is None
        await page.evaluate(hide % "false")
        await until(lambda: farm.watched["phones"] == ["*"])


async def test_a_farm_that_offers_less(tmp_path: Path) -> None:
    without = (
        "events",
        "assistant",
        "engines",
        "findings",
        "compare",
        "pins",
        "runs/20270115T080004Z-abcde4/filmstrip",
    )
    async with wall(tmp_path, without=without) as (page, _):
        await page.wait_for("document.querySelectorAll('.tile').length === 10")
        sentences = {
            "engines": "tells nothing of engines",
            "findings": "groups no findings",
            PAGES["compare"]: "compares none",
            PAGES["run"]: "no pictures of this run",
            "ask": "no assistant here",
        }
        for where, words in sentences.items():
            await go(page, where)
            await page.wait_for(f"document.body.innerText.includes({words!r})")


async def test_the_embedded_tab_has_a_ticket_and_nothing_else(tmp_path: Path) -> None:
    async with open_wall_farm() as farm, open_page(tmp_path / "profile") as page:
        await page.open(f"{farm.url}/wall/embed.html#ticket=ticket_here&lang=zh")
        await page.wait_for("document.querySelector('form.ask .primary') !== null")
        await page.type("#question", "每天的成功率")
        await press_button(page, "提问")
        await page.wait_for("document.querySelector('.answer table') !== null")
        await picture(page, tmp_path, "embed")

        assert "ticket" not in await page.evaluate("location.href")
        assert not any("/api/v1/session" in url or "/api/v1/tickets" in url for url in page.requested)
