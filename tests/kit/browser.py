"""A headless Chromium, driven over its DevTools pipe: no port, no driver, no websocket."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.kit.devices import wait_until

WAIT_SECONDS = 30.0  # for a page on a machine that does other things too
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """Its path; skips the test where there is none, and fails it where CI is set."""
    for program in PROGRAMS:
        path = shutil.which(program)
        if path is not None:
            return path
    reason = f"no browser: none of {', '.join(PROGRAMS)} is on PATH (Debian: apt-get install chromium)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


class ScriptFailed(AssertionError):
    """An expression threw, or its page was just being left."""


class Page:
    """One tab."""

    def __init__(self, writer: trio.abc.SendStream) -> None:
        self._writer = writer
        self._answers: dict[int, Any] = {}
        self._next_id = 0
        self.session: str | None = None
        self.complaints: list[str] = []
        """What the console said that is no plain message: errors, refused resources, exceptions."""
        self.requested: list[str] = []
        """Every address that the page asked for."""

    async def call(self, method: str, **parameters: Any) -> Any:
        """One DevTools command; its result."""
        self._next_id += 1
        number = self._next_id
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        await self._writer.send_all(json.dumps(message).encode() + b"\0")
        await wait_until(lambda: number in self._answers, seconds=20)
        answer = self._answers.pop(number)
        if "error" in answer:
            is_between_pages = "context" in str(answer["error"].get("message"))
            raise (ScriptFailed if is_between_pages else AssertionError)(f"{method}: {answer['error']}")
        return answer["result"]

    def take(self, message: dict[str, Any]) -> None:
        """A message of the browser."""
        if "id" in message:
            self._answers[message["id"]] = message
            return
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(parameters["exceptionDetails"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
            case "Network.requestWillBeSent":
                self.requested.append(parameters["request"]["url"])

    async def evaluate(self, expression: str) -> Any:
        """A JavaScript expression's value."""
        result = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise ScriptFailed(result["exceptionDetails"])
        return result["result"].get("value")

    async def wait_for(self, expression: str) -> Any:
        """Until a JavaScript expression is true; its value. While it throws, what it looks at is not there yet."""
        trouble: object = "it stays false"
        with trio.move_on_after(WAIT_SECONDS):
            while True:
                try:
                    value = await self.evaluate(expression)
                except ScriptFailed as error:
                    trouble = error
                else:
                    trouble = "it stays false"
                    if value:
                        return value
                await trio.sleep(0.02)
        raise AssertionError(f"waited {WAIT_SECONDS:g} s for {expression}: {trouble}")

    async def open(self, url: str) -> None:
        """Go to an address and wait until the page says that it is ready."""
        await self.call("Page.navigate", url=url)
        await self.wait_for("document.body && document.body.dataset.ready === 'true'")

    async def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press, move and lift the mouse, in CSS pixels."""
        steps = 5
        moves = [
            (start[0] + (end[0] - start[0]) * n / steps, start[1] + (end[1] - start[1]) * n / steps)
            for n in range(steps + 1)
        ]
        for number, (x, y) in enumerate(moves):
            kind = "mousePressed" if number == 0 else "mouseMoved"
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        await self.call(
            "Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1
        )

    async def click(self, selector: str) -> None:
        """Click the middle of an element."""
        middle = "(e => { e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();"
        middle += " return [b.x + b.width / 2, b.y + b.height / 2]; })"
        x, y = await self.evaluate(f"{middle}(document.querySelector({json.dumps(selector)}))")
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def type(self, selector: str, text: str) -> None:
        """Replace a field's text by typing."""
        await self.evaluate(f"(e => {{ e.focus(); e.select(); }})(document.querySelector({json.dumps(selector)}))")
        await self.call("Input.insertText", text=text)

    async def press(self, key: str, *, shift: bool = False) -> None:
        """One key, by its DOM name."""
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9, "Enter": 13, "Escape": 27}
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
                **({"text": "\r"} if key == "Enter" and kind == "keyDown" else {}),
                modifiers=8 if shift else 0,
            )

    async def screenshot(self, path: Path) -> None:
        """The page as it is shown, as PNG."""
        shot = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


async def _read(stream: trio.abc.ReceiveStream, page: Page) -> None:
    held = b""
    while chunk := await stream.receive_some(1 << 16):
        *whole, held = (held + chunk).split(b"\0")
        for message in whole:
            page.take(json.loads(message))


@asynccontextmanager
async def open_page(profile: Path, *, width: int = 1280, height: int = 800, dark: bool = False) -> AsyncIterator[Page]:
    """A tab of a new browser with an empty profile; both end with the block."""
    to_browser, from_us = os.pipe()
    to_us, from_browser = os.pipe()
    command = [chromium(), "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    command += ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "about:blank"]
    # the pipe's ends must be 3 and 4 in the browser; a shell puts them there
    script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
    process = await trio.lowlevel.open_process(
        ["bash", "-c", script, "bash", *command],
        pass_fds=(to_browser, from_browser),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        async with (
            trio.lowlevel.FdStream(from_us) as writer,
            trio.lowlevel.FdStream(to_us) as reader,
            trio.open_nursery() as nursery,
        ):
            page = Page(writer)
            nursery.start_soon(_read, reader, page)
            targets = await page.call("Target.getTargets")
            target = next(t["targetId"] for t in targets["targetInfos"] if t["type"] == "page")
            attached = await page.call("Target.attachToTarget", targetId=target, flatten=True)
            page.session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                await page.call(f"{domain}.enable")
            await page.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
            )
            scheme = "dark" if dark else "light"
            await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            yield page
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
