"""Has run folders read by processes of their own (`actors.farm.record_jobs`), few at a time and each within bounds."""

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import attrs
import trio

from actors.farm.store import Refused
from runtime.telemetry import counter

PROGRAM = (sys.executable, "-m", "actors.farm.record_jobs")
SCAN_SECONDS = 1800.0  # records of a day on hundreds of phones
LOOK_SECONDS = 60.0  # somebody waits for it
EXPORT_SECONDS = 600.0
MAX_ANSWER_BYTES = 32 << 20
MAX_LOOKS = 2
MAX_WAITING = 16  # each holds a connection; more are refused
READ_BYTES = 1 << 20

_FAILED = counter("actors_farm_unread_tasks_total", "Run folders that could not be read.", ["job"])


class Unreadable(Refused):
    """The folder could not be read; the text says why, for people."""


@attrs.define(eq=False)
class RecordReader:
    """One scan, one export and a few looks at a time; whoever comes later waits."""

    _scans: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1), init=False)
    _exports: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1), init=False)
    _looks: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(MAX_LOOKS), init=False)

    async def scan(self, **job: Any) -> dict[str, Any]:
        """Findings and costs. Raises Unreadable."""
        return await self._ask(self._scans, SCAN_SECONDS, {"job": "scan", **job})

    async def look(self, job: str, **more: Any) -> dict[str, Any]:
        """What somebody wants to see. Raises Unreadable."""
        return await self._ask(self._looks, LOOK_SECONDS, {"job": job, **more})

    async def export(self, **job: Any) -> dict[str, Any]:
        """Training data, written to a folder. Raises Unreadable."""
        return await self._ask(self._exports, EXPORT_SECONDS, {"job": "training", **job})

    async def _ask(self, one: trio.CapacityLimiter, seconds: float, job: Mapping[str, Any]) -> dict[str, Any]:
        if one.statistics().tasks_waiting >= MAX_WAITING:
            raise Unreadable("too many ask for such things at the moment: ask again in a minute")
        async with one:
            with trio.move_on_after(seconds):
                return await _answer(job)
        _FAILED.labels(job["job"]).inc()
        raise Unreadable(f"it took longer than {seconds:g} s")


async def _answer(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run the process; it is killed when this is cancelled, and outlives nobody for long: it holds nothing."""
    answer = bytearray()
    async with trio.open_nursery() as nursery:
        run = partial(
            trio.run_process,
            PROGRAM,
            stdin=json.dumps(job).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        process = await nursery.start(run)
        async with process.stdout as output:
            while len(answer) <= MAX_ANSWER_BYTES and (part := await output.receive_some(READ_BYTES)):
                answer += part
        if len(answer) > MAX_ANSWER_BYTES:
            process.kill()
    if len(answer) > MAX_ANSWER_BYTES:
        _FAILED.labels(job["job"]).inc()
        raise Unreadable(f"there is more to tell of it than {MAX_ANSWER_BYTES >> 20} MiB")
    try:
        said = await trio.to_thread.run_sync(json.loads, answer)
    except ValueError as error:
        _FAILED.labels(job["job"]).inc()
        raise Unreadable(f"its reader ended with {process.returncode}") from error
    if "error" in said:
        raise Unreadable(said["error"])
    return dict(said["answer"])
