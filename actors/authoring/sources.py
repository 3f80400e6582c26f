"""Where the authoring page's frames come from: pictures on disk, a phone, or a bundled app."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import cv2
import numpy as np
import trio

from actors.authoring.draft import AuthoringError
from actors.authoring.frames import StoredFrame
from actors.configuration import ScenarioError
from actors.devices.base import Device, DeviceError
from actors.rehearsal.apps.base import App
from policies.frame import Frame
from policies.geometry import Geometry

KEPT_LIVE = 20  # frames of a phone that one can go back to: 60 MB at 1080p
KEPT_STORED = 4  # decoded pictures


class FrameSource(Protocol):
    """Frames by number, from 0."""

    title: str
    live: bool
    """`refresh` brings a new one."""

    def labels(self) -> list[str]:
        """What each frame is called."""
        ...

    async def frame(self, number: int) -> Frame:
        """One frame. Raises `AuthoringError`."""
        ...

    async def refresh(self) -> int:
        """Look again; the new frame's number. Raises `AuthoringError`."""
        ...


def _missing(number: int) -> AuthoringError:
    return AuthoringError(f"there is no frame {number} any more", field="frame", status=404)


class StoredSource:
    """Pictures, a folder, or a run."""

    live = False

    def __init__(self, title: str, frames: Sequence[StoredFrame]) -> None:
        self.title = title
        self._frames = tuple(frames)
        self._loaded: dict[int, Frame] = {}

    def labels(self) -> list[str]:
        """Files' names, or episodes with frame numbers."""
        return [frame.label for frame in self._frames]

    async def frame(self, number: int) -> Frame:
        """Read from disk, in a worker thread, unless it was just shown."""
        if not 0 <= number < len(self._frames):
            raise _missing(number)
        if number not in self._loaded:
            try:
                loaded = await trio.to_thread.run_sync(self._frames[number].load)
            except ScenarioError as error:
                raise AuthoringError(str(error), field="frame", status=404) from error
            while len(self._loaded) >= KEPT_STORED:
                self._loaded.pop(next(iter(self._loaded)))
            self._loaded[number] = loaded
        return self._loaded[number]

    async def refresh(self) -> int:
        """Refused: files do not change."""
        raise AuthoringError("these frames are files: there is nothing to refresh")


class LiveSource:
    """What can be looked at again. Numbers go on when old frames are forgotten.

    Args:
        title: What is looked at.
        look: Brings a new frame; raises `AuthoringError`.
    """

    live = True

    def __init__(self, title: str, look: Callable[[], Awaitable[Frame]]) -> None:
        self.title = title
        self._look = look
        self._frames: dict[int, Frame] = {}
        self._count = 0

    def labels(self) -> list[str]:
        """One a look so far."""
        return [f"frame {n}" + ("" if n in self._frames else " (forgotten)") for n in range(self._count)]

    async def frame(self, number: int) -> Frame:
        """One of the last frames."""
        if number not in self._frames:
            raise _missing(number)
        return self._frames[number]

    async def refresh(self) -> int:
        """Look again."""
        frame = await self._look()
        number, self._count = self._count, self._count + 1
        self._frames[number] = frame
        while len(self._frames) > KEPT_LIVE:
            self._frames.pop(next(iter(self._frames)))
        return number


def phone_source(device: Device) -> LiveSource:
    """A phone's screen."""

    async def look() -> Frame:
        try:
            return await device.capture()
        except DeviceError as error:
            raise AuthoringError(f"the phone gives no picture: {error}", status=502) from error

    return LiveSource(f"{device.info.model or 'phone'} {device.info.phone}", look)


def app_source(app: App) -> LiveSource:
    """A bundled app, drawn here: for trying the page without any phone. Its clock starts at the first look."""
    born_at: list[float] = []

    async def look() -> Frame:
        now = trio.current_time()
        born_at.append(now)
        drawn = app.draw(now - born_at[0])
        pixels = np.asarray(cv2.cvtColor(drawn, cv2.COLOR_RGB2BGR), dtype=np.uint8)
        geometry = Geometry(int(pixels.shape[1]), int(pixels.shape[0]))
        return Frame(pixels, len(born_at) - 1, now, now, geometry)

    return LiveSource(f"bundled app {app.name}", look)
