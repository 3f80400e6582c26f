"""A phone without a phone: an app driven in process, for benchmarks of a thousand actors and tests of upper rooms."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import cv2
import numpy as np
import trio

from actors.devices.base import ActionRefused, DeviceInfo, DeviceStatistics, ShellResult, Unsupported
from actors.rehearsal.apps.base import App, Touch, TouchPhase
from policies.action import Action, Hold, Key, LongPress, Swipe, Tap, Text, TwoFingers, Wait, points_of
from policies.frame import Frame, Pixels
from policies.geometry import Geometry

MOVE_INTERVAL_SECONDS = 1 / 60  # as the simulated phone reports a gliding finger


@attrs.define(eq=False)
class AppDevice:
    """Implements `Device` on top of an `App`.

    With `frames` given, captures hand those out in turn and the app is not drawn, so that what is measured is the
    caller and not the drawing. Drawing happens in the calling task: it takes as long as the app's `draw`.
    """

    app: App
    info: DeviceInfo
    width: int
    """Pixels across of the screen held upright."""
    height: int
    density: int = 320
    clock: Callable[[], float] = trio.current_time
    frames: Sequence[Pixels] = ()
    """(height, width, 3) uint8 BGR each."""
    _epoch: int = attrs.field(init=False, default=0)
    _geometry: Geometry | None = attrs.field(init=False, default=None)
    _captures: int = attrs.field(init=False, default=0)
    _captured_bytes: int = attrs.field(init=False, default=0)
    _actions: int = attrs.field(init=False, default=0)
    _actions_failed: int = attrs.field(init=False, default=0)
    _last_success_at: float | None = attrs.field(init=False, default=None)

    @property
    def geometry(self) -> Geometry:
        """The screen as the app wants it now."""
        rotation = self.app.rotation
        width, height = (self.height, self.width) if rotation % 2 else (self.width, self.height)
        return Geometry(width=width, height=height, rotation=rotation, density=self.density)

    async def capture(self) -> Frame:
        """A new frame; never fails."""
        await trio.lowlevel.checkpoint()
        now = self.clock()
        if self.frames:
            pixels = self.frames[self._captures % len(self.frames)]
        else:
            pixels = np.asarray(cv2.cvtColor(self.app.draw(now), cv2.COLOR_RGB2BGR), dtype=np.uint8)
        geometry = self.geometry
        if self._geometry is not None and geometry != self._geometry:
            self._epoch += 1
        self._geometry = geometry
        frame = Frame(pixels, self._captures, now, self.clock(), geometry, self._epoch)
        self._captures += 1
        self._captured_bytes += pixels.nbytes
        self._last_success_at = now
        return frame

    async def act(self, action: Action) -> None:
        """Do one action in real time; a cancelled gesture still lifts its finger.

        Raises:
            ActionRefused: a point off the screen.
            Unsupported: two fingers.
        """
        try:
            self._check(action)
        except (ActionRefused, Unsupported):
            self._actions_failed += 1
            raise
        match action:
            case Tap(x, y):
                await self._glide((x, y), (x, y), 0.0)
            case LongPress(x, y, seconds):
                await self._glide((x, y), (x, y), seconds)
            case Swipe(x, y, to_x, to_y, seconds):
                await self._glide((x, y), (to_x, to_y), seconds)
            case Hold():
                await self._hold(action)
            case Key(name):
                self.app.key(self.clock(), name.value)
            case Text(text):
                self.app.type_text(self.clock(), text)
            case Wait(seconds):
                await trio.sleep(seconds)
        await trio.lowlevel.checkpoint()
        self._actions += 1
        self._last_success_at = self.clock()

    async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:  # noqa: ARG002
        """There is no shell: every command is one that is not found, exit code 127."""
        await trio.lowlevel.checkpoint()
        return ShellResult(b"", f"sh: {command.split(' ', 1)[0]}: not found\n".encode(), 127)

    async def install(self, apks: Sequence[Path]) -> None:  # noqa: ARG002
        """There is no package manager."""
        raise Unsupported("an in-process phone installs nothing", phone=self.info.phone)

    def statistics(self) -> DeviceStatistics:
        """Counts so far."""
        return DeviceStatistics(
            captures=self._captures,
            captures_failed=0,
            captured_bytes=self._captured_bytes,
            actions=self._actions,
            actions_failed=self._actions_failed,
            last_success_at=self._last_success_at,
        )

    def _check(self, action: Action) -> None:
        if isinstance(action, TwoFingers):
            raise Unsupported("an in-process phone has one finger", phone=self.info.phone)
        geometry = self.geometry
        for x, y in points_of(action):
            if not geometry.contains(x, y):
                raise ActionRefused(
                    f"({x}, {y}) is off the {geometry.width}x{geometry.height} screen", phone=self.info.phone
                )

    async def _glide(self, start: tuple[int, int], end: tuple[int, int], seconds: float) -> None:
        began_at = trio.current_time()
        where = start
        self._touch(TouchPhase.DOWN, start)
        try:
            while (elapsed := trio.current_time() - began_at) < seconds:
                await trio.sleep(min(MOVE_INTERVAL_SECONDS, seconds - elapsed))
                share = min(1.0, (trio.current_time() - began_at) / seconds)
                where = (
                    round(start[0] + (end[0] - start[0]) * share),
                    round(start[1] + (end[1] - start[1]) * share),
                )
                self._touch(TouchPhase.MOVE, where)
            where = end
        finally:
            self._touch(TouchPhase.UP, where)

    async def _hold(self, action: Hold) -> None:
        angle = math.radians(action.direction_degrees)
        geometry = self.geometry
        end = (
            min(max(round(action.x + action.radius * math.cos(angle)), 0), geometry.width - 1),
            min(max(round(action.y - action.radius * math.sin(angle)), 0), geometry.height - 1),
        )
        self._touch(TouchPhase.DOWN, (action.x, action.y))
        try:
            self._touch(TouchPhase.MOVE, end)
            await trio.sleep(action.seconds)
        finally:
            self._touch(TouchPhase.UP, end)

    def _touch(self, phase: TouchPhase, where: tuple[int, int]) -> None:
        self.app.touch(self.clock(), Touch(phase, *where))
