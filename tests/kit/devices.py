"""A small app with a truth that tests can read, and simulated phones that show it."""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import numpy as np
import trio

from actors.rehearsal.apps.base import AppFactory, Canvas, LogLine, Touch
from actors.rehearsal.phone.serve import SimulatedPhone, serve_phones
from actors.rehearsal.phone.spec import PhoneSpec, package_for

PROBE_PACKAGE = package_for("probe")


@attrs.define(eq=False)
class ProbeApp:
    """Implements `App`: keeps every call; a touch in the left upper 8x8 pixels turns the screen."""

    seed: int
    width: int
    height: int
    born_at: float
    name: str = "probe"
    rotation: int = 0
    touches: list[tuple[float, Touch]] = attrs.field(factory=list)
    keys: list[str] = attrs.field(factory=list)
    texts: list[str] = attrs.field(factory=list)
    draws: int = 0
    draw_seconds: float = 0.0
    """How long a drawing takes, so that a test can do something in the middle of a capture."""
    log: list[LogLine] = attrs.field(factory=list)

    def draw(self, now: float) -> Canvas:
        """A gradient in which blue is the seed, with a distinct first pixel."""
        self.draws += 1
        time.sleep(self.draw_seconds)
        width, height = (self.height, self.width) if self.rotation else (self.width, self.height)
        canvas = np.empty((height, width, 3), np.uint8)
        canvas[..., 0] = np.arange(width, dtype=np.uint16) % 251
        canvas[..., 1] = (np.arange(height, dtype=np.uint16) % 241)[:, None]
        canvas[..., 2] = self.seed % 256
        canvas[0, 0] = (255, 128, 1)
        return canvas

    def touch(self, now: float, touch: Touch) -> None:
        """Keep it; in the corner, turn."""
        self.touches.append((now, touch))
        self.log.append(LogLine(now, "I", "Probe", f"{touch.phase} {touch.x} {touch.y}"))
        if touch.phase == "up" and touch.x < 8 and touch.y < 8:
            self.rotation = 1 - self.rotation

    def key(self, now: float, name: str) -> None:
        """Keep it."""
        self.keys.append(name)

    def type_text(self, now: float, text: str) -> None:
        """Keep it."""
        self.texts.append(text)

    def take_log(self, now: float) -> tuple[LogLine, ...]:
        """What was logged since."""
        lines, self.log = tuple(self.log), []
        return lines

    def truth(self, now: float) -> dict[str, Any]:
        """The number of touches is the score."""
        return {"score": float(len(self.touches)), "over": False}


def make_probe(*, seed: int, width: int, height: int, now: float) -> ProbeApp:
    """An `AppFactory`."""
    return ProbeApp(seed, width, height, now)


PROBE_APPS: dict[str, AppFactory] = {"probe": make_probe}


def probe_spec(serial: str = "PROBE0", **changes: Any) -> PhoneSpec:
    """A phone with the probe app in front, small enough to be quick."""
    small: dict[str, Any] = {"app": "probe", "width": 360, "height": 640, "density": 160}
    return PhoneSpec(serial=serial, **(small | changes))


def probe_of(phone: SimulatedPhone) -> ProbeApp:
    """The probe app that runs in front on a phone."""
    front = phone.handset.front
    assert front is not None
    assert isinstance(front.app, ProbeApp)
    return front.app


@asynccontextmanager
async def simulated_phones(
    specs: Iterable[PhoneSpec], apps: Mapping[str, AppFactory] | None = None
) -> AsyncIterator[tuple[SimulatedPhone, ...]]:
    """Phones that listen while the block runs, with the probe app or with others."""
    async with trio.open_nursery() as nursery:
        phones: tuple[SimulatedPhone, ...] = await nursery.start(serve_phones, tuple(specs), apps or PROBE_APPS)
        yield phones
        nursery.cancel_scope.cancel()


async def wait_until(holds: Callable[[], bool], *, seconds: float = 5.0) -> None:
    """Wait for something that another process brings about, which no event of ours tells."""
    with trio.fail_after(seconds):
        while not holds():
            await trio.sleep(0.001)


async def wait_drawing(phone: SimulatedPhone) -> None:
    """Wait until the phone is in the middle of a capture."""
    await wait_until(lambda: phone.handset.drawing.borrowed_tokens > 0)


async def wait_finger(phone: SimulatedPhone, *, down: bool) -> None:
    """Wait until a finger rests on the phone's screen, or none does."""
    await wait_until(lambda: (phone.handset.finger is not None) == down)
