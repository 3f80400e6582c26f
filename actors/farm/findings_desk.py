"""A farm's findings: every attempt that has ended is read once, into one file of findings a tenant.

The file is saved before the state says that an attempt was read: one that a kill cuts short is read again.
"""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs
import trio

from actors.configuration import ScenarioError, structured
from actors.farm.attempt import AttemptFiles
from actors.farm.costs import Usage, usage_from_json
from actors.farm.database import StoreError
from actors.farm.record_reader import RecordReader, Unreadable
from actors.farm.records import AttemptRecord
from actors.farm.sending import SCRATCH
from actors.farm.store import StoreDesk
from actors.results.findings import Sighting
from actors.results.findings_store import (
    Findings,
    FindingsUnreadable,
    ScannedRun,
    load_findings,
    save_findings,
)
from runtime.ids import is_legal_id
from runtime.telemetry import counter, emit

T = TypeVar("T")
FOLDER = "findings"
RETRY_SECONDS = 60.0  # after a disk was full, or a file was damaged
KEPT_RUNS = 5000  # that are remembered besides those in which something was found

_SCANNED = counter("actors_farm_scanned_tasks_total", "Attempts that were read for findings.", ["how"])


@attrs.define(eq=False)
class FindingsDesk:
    """The findings of all tenants; made by `open_farm`, which runs `run`."""

    _folder: Path = attrs.field(alias="folder")
    """Of the farm."""
    _store: StoreDesk = attrs.field(alias="store")
    _clock: Callable[[], float] = attrs.field(alias="clock")
    reader: RecordReader = attrs.field(factory=RecordReader)
    _changing: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held while a file is changed, and never while anything is waited for but that file."""
    _reading: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held while an attempt is read."""
    _wake: trio.Event = attrs.field(factory=trio.Event, init=False)
    _put_off: dict[str, float] = attrs.field(factory=dict, init=False)
    """Attempts that could not be read → when they may be tried again, on the run clock."""

    def look_again(self) -> None:
        """An attempt has ended."""
        self._wake.set()

    async def load(self, tenant: str) -> Findings:
        """A tenant's.

        Raises:
            FindingsUnreadable: the file is damaged.
        """
        return await trio.to_thread.run_sync(load_findings, self._file(tenant))

    async def change(self, tenant: str, change: Callable[[Findings], Findings]) -> Findings:
        """Change a tenant's, and have it on disk.

        Raises:
            FindingsUnreadable: the file is damaged.
            OSError: it cannot be written.
            Whatever `change` raises; nothing is changed then.
        """
        async with self._changing:
            return await trio.to_thread.run_sync(_change, self._file(tenant), change)

    async def run(self) -> None:
        """Read what was not read, one attempt after the other, for ever."""
        await trio.to_thread.run_sync(partial(shutil.rmtree, self._folder / SCRATCH, ignore_errors=True))
        while True:
            self._wake = trio.Event()
            now, failed = trio.current_time(), False
            self._put_off = {name: at for name, at in self._put_off.items() if at > now}
            try:
                waiting = await self._store.do(lambda store: store.scans.unscanned())
                for attempt in waiting:
                    await self._read(attempt.attempt)
            except StoreError as error:
                emit("actors.farm.state_failed", level="error", error=str(error))
                failed = True
            again = trio.current_time() + RETRY_SECONDS if failed else math.inf
            with trio.move_on_at(min([again, *self._put_off.values()])):
                await self._wake.wait()

    async def read_now(self, attempts: Sequence[str], seconds: float) -> None:
        """Read attempts before others, in this order, as far as there is time: their folders are about to go.

        Those that were not read are then left alone for a while, so that nobody reads what is being removed.
        """
        with trio.move_on_after(seconds):
            for attempt in attempts:
                await self._read(attempt, at_once=True)
        self._put_off |= dict.fromkeys(attempts, trio.current_time() + RETRY_SECONDS)
        self.look_again()

    async def _read(self, name: str, *, at_once: bool = False) -> None:
        async with self._reading:
            if name in self._put_off and not at_once:
                return
            attempt = await self._store.do(lambda store: store.scans.unread(name))
            if attempt is not None:
                await self._scan(attempt)

    async def _scan(self, attempt: AttemptRecord) -> None:
        name, tenant = attempt.attempt, attempt.tenant
        files = AttemptFiles(self._folder, name)
        usage, costs = None, dict[str, Usage]()
        try:
            if await _has_begun(files):
                found = await self.load(tenant)
                said = await self.reader.scan(folder=str(files.folder), screens=list(found.screens))
                await self.change(tenant, partial(_with_scan, run=name, said=said))
                usage = usage_from_json(said["usage"])
                costs = {finding: usage_from_json(one) for finding, one in said["costs"].items()}
                how = "read"
            elif attempt.removed is None:
                usage, how = Usage(), "not_begun"
            else:
                how = "removed"
        except Unreadable as error:
            how = "unreadable"
            emit("actors.farm.scan_failed", level="error", attempt=name, error=str(error))
        except (FindingsUnreadable, OSError) as error:
            self._put_off[name] = trio.current_time() + RETRY_SECONDS
            emit("actors.farm.scan_failed", level="error", attempt=name, error=str(error))
            return
        await self._store.do(lambda store: store.scans.scanned(attempt, self._clock(), usage, costs))
        _SCANNED.labels(how).inc()

    def _file(self, tenant: str) -> Path:
        if not is_legal_id(tenant):
            raise FindingsUnreadable(f"{tenant!r} is no tenant")
        return self._folder / FOLDER / f"{tenant}.json"


async def _has_begun(files: AttemptFiles) -> bool:
    try:
        return await trio.Path(files.folder / "run.json").is_file()
    except OSError as error:
        raise Unreadable(f"its folder cannot be read: {error.strerror}") from error


def _change(file: Path, change: Callable[[Findings], Findings]) -> Findings:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    changed = change(load_findings(file))
    save_findings(file, changed)
    return changed


def _with_scan(found: Findings, run: str, said: Mapping[str, Any]) -> Findings:
    """With what the reader said of a run."""
    sightings = [_structured(one, Sighting) for one in said["sightings"]]
    found = found.with_run(run, _structured(said["scanned"], ScannedRun), sightings)
    found = found.with_screens(said["screens"])
    seen = {one for finding in found.findings.values() for one in finding.counts}
    others = sorted(set(found.runs) - seen)
    forgotten = set(others[: max(0, len(others) - KEPT_RUNS)])
    return attrs.evolve(found, runs={name: one for name, one in found.runs.items() if name not in forgotten})


def _structured(data: Mapping[str, Any], kind: type[T]) -> T:
    given = {key: value for key, value in data.items() if value is not None}
    made, problems = structured(given, kind)
    if made is None:
        raise Unreadable(str(ScenarioError(problems)))
    return made
