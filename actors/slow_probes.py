"""Reads slow probes beside an episode, so that no step ever waits for one.

Each probe has a task: it takes the newest frame, reads it in a worker thread, and rests until its interval is over.
A step's percept gets the latest reading with the age it has; one that is too old, or of a screen that has turned
since, is left out.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs
import trio

from actors import ocr_engine
from actors.configuration import Problem, ScenarioError
from actors.network import load_detector
from actors.ocr_engine import OcrReader
from policies.frame import Frame
from policies.perception import Percept, Perception, perceive, with_slow
from policies.probes import DetectorProbe, OcrProbe, Probe, Reading, SlowProbe
from runtime.telemetry import histogram

_SECONDS = histogram("actors_slow_probe_seconds", "How long a slow probe took to read one frame.", ["kind"])


class SlowReader(Protocol):
    """Reads one slow probe."""

    @property
    def probe(self) -> SlowProbe:
        """What it reads."""
        ...

    @property
    def limiter(self) -> trio.CapacityLimiter:
        """How many may read at the same time by the engine that it reads by."""
        ...

    def read(self, frame: Frame) -> Reading:
        """Read a frame; blocks, so it is called in a worker thread."""
        ...


def slow_readers_for(probes: Mapping[str, Probe], folder: Path, file: str = "") -> dict[str, SlowReader]:
    """A reader for each slow probe.

    Args:
        probes: All probes of a rule file.
        folder: Where their networks are.
        file: The rule file's name, for messages.

    Raises:
        ScenarioError: with a line for each network that cannot be used, and one if the extra `ocr` is missing.
    """
    readers: dict[str, SlowReader] = {}
    problems: list[Problem] = []
    for name, probe in probes.items():
        if isinstance(probe, OcrProbe):
            if ocr_engine.is_installed():
                readers[name] = OcrReader(probe, ocr_engine.SHARED)
            else:
                message = f"probe {name!r} reads text: {ocr_engine.INSTALL}"
                problems.append(Problem(message, f"$.probes.{name}", file))
        elif isinstance(probe, DetectorProbe):
            try:
                readers[name] = load_detector(probe, folder / probe.model, f"$.probes.{name}")
            except ScenarioError as error:
                problems += [attrs.evolve(problem, file=file) for problem in error.problems]
    if problems:
        raise ScenarioError(problems)
    return readers


async def perceive_all(perception: Perception, readers: Mapping[str, SlowReader], frame: Frame) -> Percept:
    """Every probe on one frame, for those who can wait: setup flows, rule tests, the authoring page."""
    readings = {}
    for name, reader in readers.items():
        readings[name] = await trio.to_thread.run_sync(reader.read, frame, limiter=reader.limiter)
    return with_slow(perceive(perception, frame), readings)


@attrs.frozen
class _Taken:
    """One reading, and of which frame."""

    reading: Reading
    requested_at: float
    epoch: int


class SlowProbes:
    """The slow probes of one episode. Does nothing at all where there are none.

    Args:
        readers: By probe name.
    """

    def __init__(self, readers: Mapping[str, SlowReader]) -> None:
        self._readers = dict(readers)
        self._newest: Frame | None = None
        self._arrived = trio.Event()
        self._taken: dict[str, _Taken] = {}

    def offer(self, frame: Frame) -> None:
        """A new frame has come; an older one that nobody has begun to read is forgotten."""
        if self._readers:
            self._newest = frame
            self._arrived.set()
            self._arrived = trio.Event()

    async def run(self) -> None:
        """Read until cancelled; a reading in a worker thread is waited for."""
        async with trio.open_nursery() as nursery:
            for name, reader in self._readers.items():
                nursery.start_soon(self._run_probe, name, reader)

    async def _run_probe(self, name: str, reader: SlowReader) -> None:
        last: Frame | None = None
        kind = "ocr" if isinstance(reader.probe, OcrProbe) else "detector"
        while True:
            while self._newest is None or self._newest is last:
                await self._arrived.wait()
            last = self._newest
            started = trio.current_time()
            reading = await trio.to_thread.run_sync(reader.read, last, limiter=reader.limiter)
            _SECONDS.labels(kind).observe(trio.current_time() - started)
            self._taken[name] = _Taken(reading, last.requested_at, last.epoch)
            await trio.sleep_until(started + reader.probe.every_seconds)

    def latest(self, percept: Percept) -> dict[str, Reading]:
        """What each probe last read, as old as it is beside this percept's frame."""
        readings = {}
        for name, taken in self._taken.items():
            age = max(0.0, percept.requested_at - taken.requested_at)
            if taken.epoch == percept.epoch and age <= self._readers[name].probe.max_age_seconds:
                readings[name] = attrs.evolve(taken.reading, age_seconds=age)
        return readings
