"""Writes what happened to the run folder. It drops and counts when it cannot keep up, and never slows a phone.

The folder can be read at any moment, also after a kill: files that are written once are renamed into place, all
others grow by whole lines.
"""

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import cv2
import numpy as np
import trio

from actors.pictures import PictureStore, encode_jpeg
from actors.results.record import Header, encode_header, encode_step
from actors.scenario import RecordConfig
from actors.session import EpisodeSpec, shown
from policies.action import points_of
from policies.frame import Frame
from policies.planner import PlanRequest, frames_of
from policies.step import StepInput, StepOutput
from runtime.mailbox import Mailbox, MailboxClosed, MailboxFull, Overflow
from runtime.telemetry import counter, emit

CAPACITY = 4000  # items: about ten seconds of 64 phones at 5 steps a second
BATCH = 200
DISPLAY_MAX_SIDE = 640  # pixels of a filmstrip picture's long side
DISPLAY_QUALITY = 70

_DROPPED = counter("actors_recorder_drops_total", "Items that the recorder could not take or write.", ["kind"])


@attrs.frozen
class _Step:
    spec: EpisodeSpec
    given: StepInput
    output: StepOutput
    frame: Frame | None = None
    """Its pixels are to be kept."""


@attrs.frozen
class _Display:
    spec: EpisodeSpec
    frame: Frame
    taps: tuple[tuple[int, int], ...]
    label: str


@attrs.frozen
class _Jpeg:
    sha256: str
    jpeg: bytes


@attrs.frozen
class _Event:
    fields: Mapping[str, Any]


@attrs.frozen
class _End:
    episode: str
    summary: Mapping[str, Any]


_Item = _Step | _Display | _Jpeg | _Event | _End


@attrs.frozen
class RecorderStatistics:
    """Counts so far."""

    written: int
    dropped: int
    """Items that found the queue full, or could not be written."""
    failure: str | None
    """What the disk said when it first refused; nothing is written after that."""
    incomplete: frozenset[str]
    """Episodes that lost a step, and so cannot be replayed."""


class Recorder:
    """Implements `actors.session.StepSink` on a run folder.

    Args:
        folder: The run folder, which exists.
        config: What is kept.
    """

    def __init__(self, folder: Path, config: RecordConfig) -> None:
        self.folder = folder
        self.config = config
        self._queue = Mailbox[_Item](CAPACITY, Overflow.REJECT)
        self._written = self._dropped = 0
        self._failure: str | None = None
        self._incomplete: set[str] = set()
        self._last_display: dict[str, float] = {}
        self._newest: dict[str, Frame] = {}  # by episode
        self._known_jpegs: set[str] = set()

    # --- called by sessions; none of these waits

    def open_episode(self, header: Header) -> None:
        """Make the episode's folder and write its header, before its first step.

        Raises:
            OSError: the run folder cannot be written.
        """
        folder = self.folder / "episodes" / header.episode
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "steps.jsonl").write_text(encode_header(header) + "\n", encoding="utf-8")

    def end_episode(self, episode: str, summary: Mapping[str, Any]) -> None:
        """The episode is over: its summary is written after its last step."""
        self._put(_End(episode, summary), None)

    def step(self, spec: EpisodeSpec, given: StepInput, output: StepOutput, frame: Frame | None) -> None:
        """One decided step, and the frame that it was decided on if a new one had come."""
        self._put(_Step(spec, given, output, frame if self.config.pixels else None), spec)
        if frame is not None:
            self._newest[spec.episode] = frame
        newest = self._newest.get(spec.episode)
        if newest is not None and (frame is not None or output.command is not None):
            self._show(spec, newest, given.now, output)
        if output.end is not None:
            self._newest.pop(spec.episode, None)
        for note in output.notes:
            self.event(note.event, phone=spec.phone, episode=spec.episode, step=given.step, **note.fields)

    def _show(self, spec: EpisodeSpec, frame: Frame, now: float, output: StepOutput) -> None:
        """Keep a frame for the filmstrip, at most one each `frames_every_seconds`.

        One on which something is done is kept at half that distance, as that is what people look for.
        """
        command = output.command
        action = command.action if command is not None else None
        taps = points_of(action) if action is not None else ()
        last = self._last_display.get(spec.episode)
        distance = self.config.frames_every_seconds / (2 if taps else 1)
        if last is not None and now - last < distance:
            return
        self._last_display[spec.episode] = now
        label = f"{shown(command)} ({command.kind.value}: {command.why})" if command is not None else ""
        self._put(_Display(spec, frame, taps, label), None)

    def prompt(self, spec: EpisodeSpec, request: PlanRequest, pictures: PictureStore) -> None:
        """A request was sent: its pictures are stored once, by hash."""
        held = pictures.held()
        for seq in frames_of(request.turns):
            picture = held[seq]
            if picture.sha256 not in self._known_jpegs:
                self._known_jpegs.add(picture.sha256)
                self._put(_Jpeg(picture.sha256, picture.jpeg), None)
        shown = {str(seq): held[seq].sha256 for seq in frames_of(request.turns)}
        self.event(
            "actors.plan.asked", phone=spec.phone, episode=spec.episode, request_id=request.request_id, frames=shown
        )

    def event(self, event: str, **fields: Any) -> None:
        """One line of `events.jsonl`; the wall-clock time is added."""
        self._put(_Event({"at": round(time.time(), 3), "event": event, **fields}), None)

    def _put(self, item: _Item, step_of: EpisodeSpec | None) -> None:
        try:
            self._queue.put_nowait(item)
        except (MailboxFull, MailboxClosed):
            self._drop(item, step_of)

    def _drop(self, item: object, step_of: EpisodeSpec | None) -> None:
        self._dropped += 1
        _DROPPED.labels(type(item).__name__.strip("_").lower()).inc()
        if step_of is not None:
            self._incomplete.add(step_of.episode)

    # --- the actor

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until `close` is called and the queue is empty."""
        task_status.started()
        async for first in self._queue:
            batch = [first]
            while len(batch) < BATCH:
                try:
                    batch.append(self._queue.get_nowait())
                except (trio.WouldBlock, MailboxClosed):
                    break
            await self._write(batch)

    def close(self) -> None:
        """Nothing more comes; `run` ends when all is written."""
        self._queue.close()

    async def _write(self, batch: Sequence[_Item]) -> None:
        if self._failure is None:
            try:
                await trio.to_thread.run_sync(self._write_batch, batch)
                self._written += len(batch)
                return
            except OSError as error:
                self._failure = f"{error.strerror or error} ({error.filename or self.folder})"
                emit("actors.recorder.failed", level="error", error=self._failure, folder=str(self.folder))
        for item in batch:
            self._drop(item, item.spec if isinstance(item, _Step) else None)

    def _write_batch(self, batch: Sequence[_Item]) -> None:
        """In a worker thread: group lines by file, so that a file is opened once a batch."""
        lines: dict[Path, list[str]] = {}
        ends: list[_End] = []
        for item in batch:
            match item:
                case _Step():
                    folder = self.folder / "episodes" / item.spec.episode
                    png = self._keep_png(item.frame) if item.frame is not None else None
                    lines.setdefault(folder / "steps.jsonl", []).append(encode_step(item.given, item.output, png))
                case _Display():
                    folder = self.folder / "episodes" / item.spec.episode
                    lines.setdefault(folder / "display.jsonl", []).append(self._keep_display(item))
                case _Jpeg():
                    write_once(self.folder / "frames" / f"{item.sha256}.jpg", item.jpeg)
                case _End():
                    ends.append(item)
                case _Event():
                    line = json.dumps(item.fields, ensure_ascii=False, default=str)
                    lines.setdefault(self.folder / "events.jsonl", []).append(line)
        for path, texts in lines.items():
            with path.open("a", encoding="utf-8") as file:
                file.write("\n".join(texts) + "\n")
        for end in ends:
            text = json.dumps(end.summary, ensure_ascii=False, indent=1)
            write_whole(self.folder / "episodes" / end.episode / "episode.json", text.encode())

    def _keep_png(self, frame: Frame) -> str:
        ok, encoded = cv2.imencode(".png", frame.pixels)
        assert ok, "a frame is never empty"
        png = np.asarray(encoded).tobytes()
        digest = hashlib.sha256(png).hexdigest()
        write_once(self.folder / "frames" / f"{digest}.png", png)
        return digest

    def _keep_display(self, item: _Display) -> str:
        picture = encode_jpeg(item.frame.pixels, max_side=DISPLAY_MAX_SIDE, quality=DISPLAY_QUALITY)
        write_once(self.folder / "frames" / f"{picture.sha256}.jpg", picture.jpeg)
        geometry = item.frame.geometry
        shares = [[round(x / geometry.width, 4), round(y / geometry.height, 4)] for x, y in item.taps]
        return json.dumps(
            {
                "seq": item.frame.seq,
                "at": round(item.frame.requested_at, 3),
                "file": f"{picture.sha256}.jpg",
                "width": picture.width,
                "height": picture.height,
                "taps": shares,
                "label": item.label,
            },
            ensure_ascii=False,
        )

    def statistics(self) -> RecorderStatistics:
        """Counts so far."""
        return RecorderStatistics(self._written, self._dropped, self._failure, frozenset(self._incomplete))


def write_once(path: Path, content: bytes) -> None:
    """Write a file that is whole or not there, whatever happens meanwhile; one that is there stays.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    if path.exists():
        return
    write_whole(path, content)


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file, so that a reader sees the old one or the new one.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
