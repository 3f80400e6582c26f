"""Draws charts of answers as SVG, each in a process of its own: the library holds the interpreter while it draws.

A process is bounded in time, and takes nothing along when its JavaScript engine runs out of memory.
"""

import hashlib
import json
import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import attrs
import trio

from actors.farm.chart_process import WRONG
from actors.farm.chart_spec import ChartRefused, drawable
from runtime.telemetry import counter, emit

SECONDS = 20.0  # for one chart
WAIT_SECONDS = 20.0  # for one of those that are drawn to be done
AT_A_TIME = 2
WAITING = 16
MAX_SVG_BYTES = 4 << 20
KEPT_BYTES = 8 << 20  # of charts that are asked for again
_PROGRAM = (sys.executable, "-m", "actors.farm.chart_process")

_DRAWN = counter("actors_farm_drawn_tasks_total", "Charts that were asked for.", ["outcome"])


class DrawingBusy(Exception):
    """So many charts are being drawn that this one is not."""


@attrs.define(eq=False)
class ChartDrawer:
    """Draws, and keeps the latest."""

    _slots: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(AT_A_TIME), init=False)
    _kept: OrderedDict[bytes, bytes] = attrs.field(factory=OrderedDict, init=False)

    async def draw(self, spec: Mapping[str, Any]) -> bytes:
        """The SVG of a Vega-Lite specification.

        Raises:
            ChartRefused: it is none that is drawn.
            DrawingBusy: there are too many.
        """
        try:
            source = await trio.to_thread.run_sync(_source, spec)
        except ChartRefused:
            _DRAWN.labels("refused").inc()
            raise
        key = hashlib.sha256(source).digest()
        if key in self._kept:
            self._kept.move_to_end(key)
            _DRAWN.labels("kept").inc()
            return self._kept[key]
        if self.waiting >= WAITING:
            _DRAWN.labels("busy").inc()
            raise DrawingBusy("too many charts are being drawn: try again in a moment")
        with trio.move_on_after(WAIT_SECONDS) as patience:
            await self._slots.acquire()
        if patience.cancelled_caught:
            _DRAWN.labels("busy").inc()
            raise DrawingBusy("too many charts are being drawn: try again in a moment")
        try:
            svg = await _draw(source)
        finally:
            self._slots.release()
        self._keep(key, svg)
        return svg

    @property
    def waiting(self) -> int:
        """Charts that wait for others to be drawn."""
        return self._slots.statistics().tasks_waiting

    def _keep(self, key: bytes, svg: bytes) -> None:
        self._kept[key] = svg
        while sum(map(len, self._kept.values())) > KEPT_BYTES:
            self._kept.popitem(last=False)


def _source(spec: Mapping[str, Any]) -> bytes:
    return json.dumps(drawable(spec), ensure_ascii=False).encode(errors="replace")


async def _draw(source: bytes) -> bytes:
    done = None
    with trio.move_on_after(SECONDS):
        done = await trio.run_process(_PROGRAM, stdin=source, capture_stdout=True, capture_stderr=True, check=False)
    if done is None:
        _DRAWN.labels("late").inc()
        raise ChartRefused(f"it was not drawn within {SECONDS:g} s")
    if done.returncode == 0 and len(done.stdout) <= MAX_SVG_BYTES:
        _DRAWN.labels("drawn").inc()
        return bytes(done.stdout)
    _DRAWN.labels("failed").inc()
    said = done.stderr[-500:].decode(errors="replace")
    if done.returncode == WRONG:
        emit("actors.farm.chart_refused", level="warning", error=said)
        raise ChartRefused("it cannot be drawn: its parts do not fit each other")
    emit("actors.farm.chart_failed", level="error", exit_code=done.returncode, error=said)
    raise ChartRefused("it cannot be drawn here: the log says why")
