"""The wall in a browser, logged in to the farm that stands in: what its tests do there again and again."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from tests.kit.browser import Page, open_page
from tests.kit.wall_farm import TOKEN, WallFarm, open_wall_farm


@asynccontextmanager
async def wall(
    folder: Path, *, dark: bool = False, at: str = "phones", **more: object
) -> AsyncIterator[tuple[Page, WallFarm]]:
    """Logged in, by the fragment of a link."""
    async with open_wall_farm(**more) as farm, open_page(folder / "profile", dark=dark) as page:
        await page.open(f"{farm.url}/wall/#token={TOKEN}")
        await page.wait_for("document.querySelector('#bar nav') !== null")
        await go(page, at)
        yield page, farm


async def go(page: Page, where: str) -> None:
    """To a page of it."""
    await page.evaluate(f"location.hash = '#/{where}'")
    await page.wait_for("document.querySelector('main h1') !== null")


async def text_of(page: Page, selector: str = "body") -> str:
    """What can be read there."""
    return str(await page.evaluate(f"document.querySelector({selector!r}).innerText"))


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that the farm has seen."""
    with trio.fail_after(15):
        while not condition():
            await trio.sleep(0.02)


async def picture(page: Page, folder: Path, name: str) -> None:
    """Of the page as it is, in the folder `wall`."""
    (folder / "wall").mkdir(exist_ok=True)
    await page.screenshot(folder / "wall" / f"{name}.png")


async def press_button(page: Page, words: str) -> None:
    """The first button with these words."""
    found = f"[...document.querySelectorAll('button')].find(b => b.innerText.trim() === {words!r} && b.offsetParent)"
    await page.wait_for(f"(b => b !== undefined && (b.click(), true))({found})")
