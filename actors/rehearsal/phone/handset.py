"""The inside of one simulated phone: its screen, apps, packages, files and log. It knows nothing of ADB.

The app in front is drawn in a worker thread; a lock keeps touches out of a world that is being drawn, so an app sees
its calls one after another and never going back in time.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import attrs
import cv2
import numpy as np
import trio

from actors.rehearsal.apps.base import App, AppFactory, Canvas, LogLine, Touch, TouchPhase
from actors.rehearsal.phone.displays import second_screen
from actors.rehearsal.phone.fault_effects import FaultEffects
from actors.rehearsal.phone.launcher import Launcher
from actors.rehearsal.phone.packages import PackageRegistry
from actors.rehearsal.phone.spec import PhoneSpec, VideoKind, package_for
from actors.rehearsal.phone.stamp import grained, stamped
from actors.rehearsal.phone.stream import Stream
from policies.geometry import Geometry

SEED_STRIDE = 1000  # more phones than this never share a base seed, so no two phones repeat each other's apps
LOG_CAPACITY = 10_000  # lines; older ones fall out, as from a phone's ring buffer
FIRST_PID = 2000
SHARED_PNGS = 4
PNG_LEVEL = 1  # what matters is that it is a PNG; level 6 costs 0.4 s a frame

_HEADER = np.dtype("<u4")
_shared_pngs: dict[tuple[str | None, bool, Geometry, int], bytes] = {}
"""Of all phones of this process that share their pictures; a few, of the sizes that there are."""
HEADER_SIZE = 16
PIXEL_FORMAT_RGBA_8888 = 1
COLORSPACE_SRGB = 1


def _raw_of(canvas: Canvas) -> tuple[bytes, memoryview]:
    height, width = canvas.shape[:2]
    header = np.array([width, height, PIXEL_FORMAT_RGBA_8888, COLORSPACE_SRGB], _HEADER).tobytes()
    pixels = np.ascontiguousarray(cv2.cvtColor(canvas, cv2.COLOR_RGB2RGBA))
    return header, pixels.data.cast("B")


def _png_of(canvas: Canvas) -> bytes:
    settings = [cv2.IMWRITE_PNG_COMPRESSION, PNG_LEVEL]
    _, encoded = cv2.imencode(".png", cv2.cvtColor(canvas, cv2.COLOR_RGB2BGR), settings)
    return encoded.tobytes()


@attrs.frozen
class StoredFile:
    """A file on the phone."""

    data: bytes = attrs.field(repr=False)
    mode: int
    """Permission bits with the type, e.g. 0o100644."""
    modified: int
    """Seconds of the Unix epoch."""


@attrs.define
class RunningApp:
    """A started app, in front or behind."""

    package: str
    pid: int
    app: App


@attrs.define(eq=False)
class Handset:
    """One phone between two boots.

    Attributes:
        spec: what it was made as.
        clock: seconds since boot.
        boot_epoch: Unix time of the boot, for dates in the log.
    """

    spec: PhoneSpec
    apps: Mapping[str, AppFactory]
    clock: Callable[[], float]
    boot_epoch: float
    drawing: trio.CapacityLimiter
    packages: PackageRegistry = attrs.field(factory=PackageRegistry)
    effects: FaultEffects = attrs.field(factory=FaultEffects)
    """The faults of the moment."""
    files: dict[str, StoredFile] = attrs.field(factory=dict)
    """{absolute path: file}; folders exist by the files in them."""
    density: int = attrs.field(init=False)
    starts: int = attrs.field(init=False, default=0)
    """How many apps were started since boot."""
    log: deque[tuple[int, int, LogLine]] = attrs.field(init=False)
    """(running number, pid, line); `seconds` of a line counts from boot."""
    sockets: dict[str, Callable[[Stream], Awaitable[None]]] = attrs.field(init=False, factory=dict)
    """{name: handler} of `localabstract:NAME` that programs of this boot listen on."""
    scrcpy_servers: list[Any] = attrs.field(init=False, factory=list)
    """Those that run, for tests to look at."""
    _running: dict[str, RunningApp] = attrs.field(init=False, factory=dict)
    _front: str | None = attrs.field(init=False, default=None)
    _launcher: Launcher = attrs.field(init=False)
    _size: tuple[int, int] = attrs.field(init=False)
    _world: trio.Lock = attrs.field(init=False, factory=trio.Lock)
    _fingers: dict[int, tuple[int, int]] = attrs.field(init=False, factory=dict)
    _logged: int = attrs.field(init=False, default=0)
    _next_pid: int = attrs.field(init=False, default=FIRST_PID)

    def __attrs_post_init__(self) -> None:
        self.density = self.spec.density
        self._size = (self.spec.width, self.spec.height)
        self.log = deque(maxlen=LOG_CAPACITY)
        for app in self.apps:
            self.packages.preinstall(package_for(app))
        self._launcher = self._new_launcher()
        if self.spec.app is not None:
            self._bring_to_front(package_for(self.spec.app))

    # -- geometry

    @property
    def natural_size(self) -> tuple[int, int]:
        """(width, height) in pixels, held upright, with any override."""
        return self._size

    @property
    def geometry(self) -> Geometry:
        """The screen as the app in front wants it now, turned further by a fault."""
        width, height = self._size
        rotation = (self._shown.rotation + self.effects.quarters) % 4
        if rotation % 2:
            width, height = height, width
        return Geometry(width=width, height=height, rotation=rotation, density=self.density)

    async def set_size(self, size: tuple[int, int] | None) -> None:
        """Override the size (None: back to the made one); running apps begin anew, as activities do."""
        async with self._world:
            self._size = size or (self.spec.width, self.spec.height)
            front = self._front
            self._running.clear()
            self._launcher = self._new_launcher()
            self._front = None
            if front is not None:
                self._bring_to_front(front)

    async def turn(self) -> None:
        """The screen has just been turned: fingers on it are lifted, as Android cancels a gesture."""
        async with self._world:
            for finger in tuple(self._fingers):
                self._take_touch(TouchPhase.UP, *self._fingers[finger], finger)

    # -- screen

    async def second_raw(self) -> tuple[bytes, memoryview]:
        """As `screencap_raw`, of the second display."""
        return await trio.to_thread.run_sync(lambda: _raw_of(self._second_canvas()), limiter=self.drawing)

    async def second_png(self) -> bytes:
        """As `screencap_png`, of the second display."""
        return await trio.to_thread.run_sync(lambda: _png_of(self._second_canvas()), limiter=self.drawing)

    def _second_canvas(self) -> Canvas:
        assert self.spec.second_size is not None, "it has one display"
        return second_screen(self.spec.second_size)

    async def screencap_raw(self) -> tuple[bytes, memoryview]:
        """The 16-byte header (width, height, format, colour space as u32), and width x height x 4 bytes of RGBA."""
        async with self._world:
            return await trio.to_thread.run_sync(self._raw, self._shown, self.clock(), limiter=self.drawing)

    async def screencap_png(self) -> bytes:
        """The screen as a PNG file."""
        async with self._world:
            return await trio.to_thread.run_sync(self._png, self._shown, self.clock(), limiter=self.drawing)

    async def draw_screen(self) -> Canvas:
        """The screen as RGB, owned by the caller: an app may draw the next one into the same array."""
        async with self._world:
            return await trio.to_thread.run_sync(self._own_canvas, self._shown, self.clock(), limiter=self.drawing)

    def _own_canvas(self, app: App, now: float) -> Canvas:
        return self._canvas(app, now).copy()

    def fresh_screen(self) -> Callable[[float], Canvas]:
        """Draws what the phone's app shows from its start on if nobody touches it, at growing times from 0."""
        factory = self.apps[self.spec.app] if self.spec.app is not None else None
        width, height = self._size
        app: App = self._launcher
        if factory is not None:
            app = factory(seed=self.spec.seed, width=width, height=height, now=0.0)
        return partial(self._canvas, app)

    def _canvas(self, app: App, now: float) -> Canvas:
        canvas = grained(app.draw(now)) if self.spec.grainy else app.draw(now)
        canvas = self.effects.darkened(self.effects.turned(canvas))
        is_stamped = self.spec.stamped or self.effects.is_stamped
        return stamped(canvas, time.monotonic()) if is_stamped else canvas

    def _raw(self, app: App, now: float) -> tuple[bytes, memoryview]:
        return _raw_of(self._canvas(app, now))

    def _png(self, app: App, now: float) -> bytes:
        if self.spec.video is VideoKind.SHARED and not self.effects.active:
            key = (self.spec.app, self.spec.grainy, self.geometry, int(now) % SHARED_PNGS)
            if key not in _shared_pngs:
                _shared_pngs[key] = self._encoded_png(app, now)
            return _shared_pngs[key]
        return self._encoded_png(app, now)

    def _encoded_png(self, app: App, now: float) -> bytes:
        return _png_of(self._canvas(app, now))

    # -- input

    @property
    def finger(self) -> tuple[int, int] | None:
        """Where a finger rests now, the first that was put down; None when all are lifted."""
        return next(iter(self._fingers.values()), None)

    async def lift(self, finger: int) -> None:
        """Lift a finger where it is, if it is down."""
        async with self._world:
            where = self._fingers.get(finger)
            if where is not None:
                self._take_touch(TouchPhase.UP, *where, finger)

    async def touch(self, phase: TouchPhase, x: int, y: int, *, finger: int = 0) -> None:
        """A finger event. Android's rule: a second DOWN lifts that finger first, MOVE and UP without are dropped."""
        async with self._world:
            if phase is TouchPhase.DOWN and self.effects.is_deaf:
                return  # what follows without a finger is dropped anyway
            self._take_touch(phase, *self._app_pixel(x, y), finger)

    async def press(self, name: str) -> None:
        """A key; HOME goes to the launcher, everything else to what is in front."""
        async with self._world:
            if self.effects.is_deaf:
                return
            if name == "HOME":
                self._front = None
                self._fingers.clear()
            else:
                self._shown.key(self.clock(), name)

    async def type_text(self, text: str) -> None:
        """Text for the focused field."""
        async with self._world:
            if not self.effects.is_deaf:
                self._shown.type_text(self.clock(), text)

    # -- apps

    @property
    def front(self) -> RunningApp | None:
        """The app in front; None when the launcher is."""
        return None if self._front is None else self._running[self._front]

    @property
    def running(self) -> tuple[RunningApp, ...]:
        """All started apps."""
        return tuple(self._running.values())

    def can_start(self, package: str) -> bool:
        """True when the package is installed and has something to show."""
        return self.packages.find(package) is not None and self._factory(package) is not None

    async def start_app(self, package: str) -> bool:
        """Bring an app to the front, starting it if it does not run.

        Returns:
            True when it was started anew, False when it was already running.

        Raises:
            KeyError: no such app: ask `can_start` first.
        """
        async with self._world:
            return self._bring_to_front(package)

    async def stop_app(self, package: str) -> None:
        """Kill an app if it runs; the launcher comes to the front if it was there."""
        async with self._world:
            running = self._running.pop(package, None)
            if running is not None:
                self._collect(running)
            if self._front == package:
                self._front = None
                self._fingers.clear()

    async def collect_log(self) -> None:
        """Move what the apps logged into `log`."""
        async with self._world:
            for running in self._running.values():
                self._collect(running)

    # -- all below is called with the world locked

    def _app_pixel(self, x: int, y: int) -> tuple[int, int]:
        """Where the app sees a touch of the screen, which a fault may have turned."""
        geometry = self.geometry
        across, down = geometry.width - 1, geometry.height - 1
        for _ in range(self.effects.quarters):
            x, y = down - y, x
            across, down = down, across
        return x, y

    def _take_touch(self, phase: TouchPhase, x: int, y: int, finger: int) -> None:
        now = self.clock()
        if phase is TouchPhase.DOWN:
            if finger in self._fingers:
                self._shown.touch(now, Touch(TouchPhase.UP, *self._fingers[finger], finger))
            self._fingers[finger] = (x, y)
        elif finger not in self._fingers:
            return
        elif phase is TouchPhase.MOVE:
            self._fingers[finger] = (x, y)
        else:
            del self._fingers[finger]
        self._shown.touch(now, Touch(phase, x, y, finger))
        if self._shown is self._launcher and self._launcher.chosen is not None:
            chosen, self._launcher.chosen = self._launcher.chosen, None
            self._bring_to_front(chosen)

    @property
    def _shown(self) -> App:
        return self._launcher if self._front is None else self._running[self._front].app

    def _new_launcher(self) -> Launcher:
        width, height = self._size
        return Launcher(width=width, height=height, packages=tuple(package_for(app) for app in self.apps))

    def _factory(self, package: str) -> AppFactory | None:
        return next((factory for app, factory in self.apps.items() if package_for(app) == package), None)

    def _bring_to_front(self, package: str) -> bool:
        fresh = package not in self._running
        if fresh:
            factory = self._factory(package)
            if factory is None:
                raise KeyError(package)
            width, height = self._size
            seed = self.spec.seed + SEED_STRIDE * self.starts
            app = factory(seed=seed, width=width, height=height, now=self.clock())
            self._running[package] = RunningApp(package, self._next_pid, app)
            self.starts += 1
            self._next_pid += 1
        self._front = package
        self._fingers.clear()
        return fresh

    def _collect(self, running: RunningApp) -> None:
        for line in running.app.take_log(self.clock()):
            self._logged += 1
            self.log.append((self._logged, running.pid, line))
