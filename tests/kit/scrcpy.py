"""A stand-in for scrcpy's server file, which only a simulated phone runs, and an app whose screen moves."""

import time
from pathlib import Path

import attrs
import numpy as np

from actors.rehearsal.apps.base import Canvas
from tests.kit.devices import ProbeApp


def server_file(folder: Path, version: str, *, named: bool = True) -> Path:
    """A file that a simulated phone plays as that version of the server."""
    path = folder / (f"scrcpy-server-v{version}" if named else "server.jar")
    path.write_bytes(f"scrcpy-server {version} \n".encode())
    return path


@attrs.define(eq=False)
class MovingApp(ProbeApp):
    """A probe whose picture changes at every drawing while `moves`."""

    moves: bool = True
    shade: int = 0
    canvas: Canvas | None = None

    def draw(self, now: float) -> Canvas:
        """A few large squares; their colour counts the drawings."""
        self.draws += 1
        time.sleep(self.draw_seconds)
        if self.moves:
            self.shade = (self.shade + 7) % 200
        width, height = (self.height, self.width) if self.rotation else (self.width, self.height)
        if self.canvas is None or self.canvas.shape != (height, width, 3):
            self.canvas = np.empty((height, width, 3), np.uint8)
        canvas = self.canvas  # one array for all pictures, as the bundled apps have
        canvas[:] = (40, 90, 160)
        canvas[: height // 2, : width // 2] = (200, 60, 30)
        canvas[height // 2 :, width // 2 :] = (30 + self.shade, 200, 60)
        return canvas


def make_slow(*, seed: int, width: int, height: int, now: float) -> MovingApp:
    """An `AppFactory`: every screencap takes its time, while a stream has its pictures ready."""
    return MovingApp(seed, width, height, now, draw_seconds=0.15)


def make_moving(*, seed: int, width: int, height: int, now: float) -> MovingApp:
    """An `AppFactory`."""
    return MovingApp(seed, width, height, now)
