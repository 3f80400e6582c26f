"""Takes rows of a run for the fleet's own metrics and spools them. It drops and counts, and never slows a phone.

What happened is put into a bounded mailbox; rows are made of it, encoded and written in one worker thread.
"""

import errno
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.pictures import PictureStore
from actors.session import EpisodeSpec, StepSink
from actors.warehouse.rows import EpisodeIds, EpisodeRows, Row, row_for
from actors.warehouse.spool import SpoolWriter
from actors.warehouse.tables import LOSSES, RUNS
from policies.frame import Frame
from policies.planner import PlanRequest
from policies.step import StepInput, StepOutput
from policies.tally import Tally
from runtime.mailbox import Mailbox, MailboxClosed, MailboxFull, Overflow
from runtime.telemetry import counter, emit

CAPACITY = 4000  # items: about ten seconds of 64 phones at 5 steps a second
BATCH = 500
FLUSH_SECONDS = 1.0  # what a kill may cost; one fsync a second is nothing to any disk
RETRY_SECONDS = 5.0  # a full disk is not asked again at every batch
OVERFLOW = "the queue was full"

_LOST = counter("actors_warehouse_lost_rows_total", "Rows of the fleet's own metrics that were lost.", ["kind"])


@attrs.frozen
class RunIds:
    """What every row of a run shares."""

    tenant: str
    run_id: str
    scenario: str


@attrs.frozen
class _Step:
    ids: EpisodeIds
    given: StepInput
    output: StepOutput
    at_ms: int
    decided_at: float


@attrs.frozen
class _End:
    ids: EpisodeIds
    tally: Tally
    at_ms: int
    about: Mapping[str, Any]
    faults: tuple[Mapping[str, str], ...]


@attrs.frozen
class _Ready:
    row: Row


_Item = _Step | _End | _Ready


@attrs.frozen
class WarehouseStatistics:
    """Counts so far."""

    written: int
    """Rows that are on the disk."""
    lost: int
    """Rows, and items of which rows would have been made, that are not."""
    failure: str | None
    """What the disk says while it refuses."""


class Warehouse:
    """Implements `actors.session.StepSink` on the spool of a run.

    Args:
        folder: The warehouse folder; what is missing of it is made.
        ids: Of the run.
        max_age_seconds: Rows can be loaded this long after they were written.
        wall: Epoch seconds.
    """

    def __init__(
        self, folder: Path, ids: RunIds, *, max_age_seconds: float = 30.0, wall: Callable[[], float] = time.time
    ) -> None:
        self.folder = folder
        self.ids = ids
        self._wall = wall
        self._max_age_seconds = max_age_seconds
        self._queue = Mailbox[_Item](CAPACITY, Overflow.REJECT)
        self._hurry = trio.Event()
        self._thread = trio.CapacityLimiter(1)
        self._writer = SpoolWriter(
            folder / "spool" / ids.tenant, ids.run_id, attrs.asdict(ids), max_age_seconds=max_age_seconds
        )
        self._episodes: dict[str, EpisodeRows] = {}  # of the worker thread
        self._losses: dict[tuple[str, str], int] = {}  # that no row tells of yet: {(kind, reason): rows}
        self._written = self._lost = 0
        self._failure: str | None = None
        self._retry_at = 0.0

    # --- called by sessions and the fleet; none of these waits

    def step(self, spec: EpisodeSpec, given: StepInput, output: StepOutput, frame: Frame | None) -> None:
        """One decided step."""
        del frame
        self._put(_Step(_ids_of(spec), given, output, self._now_ms(), trio.current_time()), "step")

    def prompt(self, spec: EpisodeSpec, request: PlanRequest, pictures: PictureStore) -> None:
        """A request was sent; the step that asked for it told of it already."""

    def end_episode(
        self, spec: EpisodeSpec, tally: Tally, about: Mapping[str, Any], faults: Iterable[Mapping[str, str]]
    ) -> None:
        """An episode is over.

        Args:
            spec: Which.
            tally: What it counted.
            about: Columns of `episodes` that the tally does not know.
            faults: Of the app: kind, process, cause.
        """
        copied = attrs.evolve(tally)  # a policy that is asked once more counts on
        self._put(_End(_ids_of(spec), copied, self._now_ms(), about, tuple(faults)), "episode")

    def row(self, table: str, /, *, at_ms: int | None = None, **columns: Any) -> None:
        """A row that is ready."""
        self._put(_Ready(row_for(table, self._now_ms() if at_ms is None else at_ms, columns)), table)

    def run_row(self, *, at_ms: int, **columns: Any) -> None:
        """The run's own row; a later one replaces it. `at_ms` is when the run started."""
        self.row(RUNS, at_ms=at_ms, lost_rows=self._lost, **columns)

    def _now_ms(self) -> int:
        return int(self._wall() * 1000)

    def _put(self, item: _Item, kind: str) -> None:
        try:
            self._queue.put_nowait(item)
        except (MailboxFull, MailboxClosed):
            if (kind, OVERFLOW) not in self._losses:
                emit("actors.warehouse.rows_dropped", level="warning", kind=kind, why=OVERFLOW)
            self._lose(kind, OVERFLOW, 1)
            return
        if len(self._queue) >= BATCH:
            self._hurry.set()

    def _lose(self, kind: str, reason: str, count: int) -> None:
        self._lost += count
        self._losses[kind, reason] = self._losses.get((kind, reason), 0) + count
        _LOST.labels(kind).inc(count)

    # --- the actor

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until `close` is called and the mailbox is empty."""
        task_status.started()
        while True:
            first: _Item | None = None
            with trio.move_on_after(self._max_age_seconds):
                try:
                    first = await self._queue.get()
                except MailboxClosed:
                    break
            if first is None:
                await self._sealed(self._writer.seal_if_old, trio.current_time())
                continue
            with trio.move_on_after(FLUSH_SECONDS):
                await self._hurry.wait()
            if not self._queue.statistics().closed:
                self._hurry = trio.Event()
            await self._write(self._batch(first))
        if self._losses and self._failure is None:
            await self._write([])
        await self._sealed(self._writer.seal)

    def close(self) -> None:
        """Nothing more comes; `run` ends when all is written."""
        self._queue.close()
        self._hurry.set()

    def statistics(self) -> WarehouseStatistics:
        """Counts so far."""
        return WarehouseStatistics(self._written, self._lost, self._failure)

    def _batch(self, first: _Item) -> list[_Item]:
        batch = [first]
        while len(batch) < BATCH:
            try:
                batch.append(self._queue.get_nowait())
            except (trio.WouldBlock, MailboxClosed):
                break
        return batch

    async def _write(self, batch: Sequence[_Item]) -> None:
        now = trio.current_time()
        told, self._losses = self._losses, {}
        is_paused = self._failure is not None and now < self._retry_at
        losses = (
            []
            if is_paused
            else [
                row_for(LOSSES, self._now_ms(), {"kind": kind, "lost_rows": count, "reason": reason})
                for (kind, reason), count in told.items()
            ]
        )
        rows, error = await trio.to_thread.run_sync(self._work, batch, losses, now, is_paused, limiter=self._thread)
        if error is None and not is_paused:
            self._written += len(rows)
            if self._failure is not None:
                emit("actors.warehouse.recovered", folder=str(self.folder), lost=self._lost)
            self._failure = None
            return
        if error is not None:
            self._fail(error, now)
        for (kind, reason), count in told.items():  # counted already; only their rows are still to come
            self._losses[kind, reason] = self._losses.get((kind, reason), 0) + count
        assert self._failure is not None
        for row in rows:
            if row["t"] != LOSSES:
                self._lose(row["t"], self._failure, 1)

    def _fail(self, error: OSError, now: float) -> None:
        first, self._failure = self._failure is None, f"{error.strerror or error}"
        self._retry_at = now + RETRY_SECONDS
        if first:
            emit(
                "actors.warehouse.failed",
                level="error",
                error=self._failure,
                folder=str(self.folder),
                remedy="free the disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable",
                consequence="the run goes on; its rows are lost until then, and counted",
            )

    def _work(
        self, batch: Sequence[_Item], losses: Sequence[Row], now: float, is_paused: bool
    ) -> tuple[list[Row], OSError | None]:
        """In the worker thread."""
        rows = [*losses]
        for item in batch:
            rows += self._rows_of(item)
        if is_paused or not rows:
            return rows, None
        try:
            self._writer.append(rows, now)
        except OSError as error:
            return rows, error
        return rows, None

    def _rows_of(self, item: _Item) -> list[Row]:
        match item:
            case _Ready():
                return [item.row]
            case _Step():
                episode = self._episodes.setdefault(item.ids.episode_id, EpisodeRows(item.ids))
                return episode.step(item.given, item.output, at_ms=item.at_ms, decided_at=item.decided_at)
            case _End():
                ended = self._episodes.pop(item.ids.episode_id, EpisodeRows(item.ids))
                return ended.end(item.tally, at_ms=item.at_ms, about=item.about, faults=item.faults)

    async def _sealed(self, seal: Callable[..., None], *args: float) -> None:
        try:
            await trio.to_thread.run_sync(seal, *args, limiter=self._thread)
        except OSError as error:  # the next loader seals it
            emit("actors.warehouse.segment_left", level="warning", error=error.strerror or os.strerror(errno.EIO))


class BothSinks:
    """A `StepSink` that tells two."""

    def __init__(self, first: StepSink, second: StepSink) -> None:
        self._sinks = (first, second)

    def step(self, spec: EpisodeSpec, given: StepInput, output: StepOutput, frame: Frame | None) -> None:
        """One decided step."""
        for sink in self._sinks:
            sink.step(spec, given, output, frame)

    def prompt(self, spec: EpisodeSpec, request: PlanRequest, pictures: PictureStore) -> None:
        """A request was sent."""
        for sink in self._sinks:
            sink.prompt(spec, request, pictures)


def _ids_of(spec: EpisodeSpec) -> EpisodeIds:
    return EpisodeIds(spec.episode, spec.phone, spec.app_name, spec.bot.value)
