"""Does a farm last? Runs are submitted without a pause while its daemon is killed at random, and then left alone.

The daemon is a process of its own, with an engine of its own and real runs on simulated phones. In the first third of
the time it is killed (SIGKILL) and started again; over the rest its memory and descriptors are watched. In the end
every run that was taken must have ended exactly once, with its results.
"""

import json
import math
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any

import attrs

from actors.bench.bound_process import first_line, start_bound
from actors.bench.engines import BenchUnavailable
from actors.bench.processes import resident_bytes
from actors.bench.result import BenchResult, Tell
from actors.farm.client import FarmClient, FarmRefused, FarmUnreachable, path_of
from actors.results.intervals import student95
from actors.token_store import Role, create_token
from runtime.ids import TenantId
from runtime.secret import Secret

START_SECONDS = 60.0
END_SECONDS = 600.0  # for what still waits when nothing more is submitted
WAITING = 3  # runs that wait are kept at that
SAMPLE_SECONDS = 5.0
NOISE_SHARE = 0.02  # memory that grows by less than this over the watched time is no leak that anybody would see
TENANT = TenantId("games")
FINAL = ("succeeded", "failed")
SCENARIO = """
name = "soak"
[limits]
seconds = 4
[apps.battler]
package = "dev.corral.battler"
goal = "Survive as many waves as you can."
[[phones]]
kind = "simulated"
app = "battler"
"""
FARM = """
[listen]
port = 0
[[phones]]
name = "sim"
kind = "simulated"
count = 4
[limits]
runs = 2
[[engines]]
id = "rehearsal"
model = "rehearsal-7b"
launch = { kind = "rehearsal", args = ["--ttft-ms", "60", "--tpot-ms", "3"] }
"""


@attrs.frozen
class Sample:
    """The daemon at one moment."""

    at: float
    """Seconds since the beginning."""
    resident_bytes: int
    descriptors: int
    playing: int


@attrs.define
class _Soak:
    folder: Path
    token: Secret
    started_at: float = attrs.field(factory=time.monotonic)
    process: "subprocess.Popen[bytes] | None" = None
    client: FarmClient | None = None
    accepted: list[str] = attrs.field(factory=list)
    unsure: int = 0
    """Submissions whose answer was lost with the daemon: they may have been taken."""
    kills: list[float] = attrs.field(factory=list)
    samples: list[Sample] = attrs.field(factory=list)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started_at

    def start(self) -> None:
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        with (self.folder / "daemon.log").open("ab") as log:
            self.process = start_bound("actors.cli.main", "farm", "serve", str(self.folder / "farm.toml"), stderr=log)
        said = first_line(self.process, f"the farm of {self.folder}", START_SECONDS)
        self.client = FarmClient(json.loads(said)["url"], self.token)

    def kill(self) -> None:
        """In the thread of a timer; whoever asks the daemon next starts another one."""
        assert self.process is not None
        self.kills.append(round(self.elapsed, 1))
        self.process.kill()

    def stop(self) -> int:
        """Politely; returns the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def call(self, method: str, *path: str, body: Any = None, query: Any = None) -> Any:
        assert self.client is not None
        return self.client.call(method, path_of(*path), body, query).json

    def submit(self, number: int) -> None:
        try:
            found = self.call("POST", "runs", body={"scenario": "soak", "priority": number % 10})
        except FarmUnreachable:
            self.unsure += 1
        else:
            self.accepted.append(found["run"])

    def feed(self) -> int:
        """Keep some runs waiting; returns how many play."""
        farm = self.call("GET", "farm")
        for _ in range(max(0, WAITING - farm["queued"])):
            self.submit(len(self.accepted))
        return int(farm["playing"])

    def sample(self, playing: int) -> None:
        assert self.process is not None
        pid = self.process.pid
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        self.samples.append(Sample(self.elapsed, resident_bytes(pid), descriptors, playing))

    def runs(self) -> list[dict[str, Any]]:
        """All that the farm knows."""
        found: list[dict[str, Any]] = []
        before: int | None = None
        while True:
            page = self.call("GET", "runs", query={"limit": 200, "before": before})
            found += page["runs"]
            before = page["before"]
            if before is None:
                return found


def bench_soak(*, minutes: float, kills: int, seed: int, tell: Tell, folder: Path | None = None) -> BenchResult:
    """Run a farm for some minutes.

    Args:
        minutes: How long runs are submitted.
        kills: SIGKILLs of the daemon, at random moments of the first third.
        seed: Of those moments.
        tell: Watches.
        folder: Of the farm; None: a temporary one.

    Raises:
        BenchUnavailable: the farm does not start.
    """
    with tempfile.TemporaryDirectory(prefix="corral-soak-") as temporary:
        soak = _prepared(folder or Path(temporary))
        seconds = minutes * 60.0
        draw = random.Random(seed)
        moments = sorted(draw.uniform(5.0, max(6.0, seconds / 3)) for _ in range(kills))
        try:
            soak.start()
            _play(soak, seconds, moments, tell)
            accounts, sound_end = _finish(soak, tell)
            return _result(soak, accounts, minutes=minutes, kills=kills, seed=seed, sound_end=sound_end)
        finally:
            if soak.process is not None and soak.process.poll() is None:
                soak.process.kill()
                soak.process.wait()


def _prepared(folder: Path) -> _Soak:
    (folder / "scenarios").mkdir(parents=True, exist_ok=True)
    (folder / "scenarios" / "soak.toml").write_text(SCENARIO)
    (folder / "farm.toml").write_text(FARM)
    made = create_token(
        folder / "tokens.json",
        user="soak",
        tenant=TENANT,
        roles=[Role.ADMIN],
        now=datetime.now(UTC),
    )
    return _Soak(folder, made[1])


def _play(soak: _Soak, seconds: float, moments: Sequence[float], tell: Tell) -> None:
    left, next_sample = list(moments), 0.0
    killer: threading.Timer | None = None  # beside us, so that a kill falls into whatever the daemon is asked just then
    try:
        while soak.elapsed < seconds:
            if left and killer is None:
                killer = threading.Timer(max(0.5, left.pop(0) - soak.elapsed), soak.kill)
                killer.start()
            try:
                playing = soak.feed()
            except (FarmUnreachable, FarmRefused) as error:
                assert soak.process is not None
                if soak.process.poll() is None:
                    time.sleep(0.2)
                    continue
                if killer is None or not killer.finished.is_set():
                    ended = f"the farm ended by itself with {soak.process.returncode}: {error}"
                    raise BenchUnavailable(ended) from error
                killer = None
                soak.start()
                continue
            if soak.elapsed >= next_sample and killer is None and not left:
                soak.sample(playing)
                next_sample = soak.elapsed + SAMPLE_SECONDS
            tell(f"{len(soak.accepted)} runs taken, {len(soak.kills)} kills", min(1.0, soak.elapsed / seconds))
            time.sleep(0.5)
    finally:
        if killer is not None:
            killer.cancel()


def _finish(soak: _Soak, tell: Tell) -> tuple["Accounts", bool]:
    """Let everything end, then the daemon: (what became of the runs, whether the daemon ended well)."""
    until = time.monotonic() + END_SECONDS
    while time.monotonic() < until:
        farm = soak.call("GET", "farm")
        if not farm["queued"] and not farm["playing"]:
            break
        tell("what still waits is played", 1.0)
        time.sleep(1.0)
    return _accounts(soak), soak.stop() == 0


@attrs.frozen
class Accounts:
    """What became of the runs."""

    states: dict[str, int]
    lost: int
    """Taken, and not known any more."""
    unexplained: int
    """Known, and neither taken nor possibly taken."""
    unfinished: int
    twice: int
    """With more than one attempt that has a result."""
    without_results: int
    interrupted: int
    """Attempts."""


def _accounts(soak: _Soak) -> Accounts:
    runs = soak.runs()
    known = {run["run"] for run in runs}
    twice = without = interrupted = 0
    for run in runs:
        attempts = soak.call("GET", "runs", run["run"])["attempts"]
        outcomes = Counter(one["outcome"] for one in attempts)
        interrupted += outcomes["interrupted"]
        ended = sum(outcomes[one] for one in FINAL)
        twice += ended > 1
        if run["state"] in FINAL:
            with suppress(FarmRefused):
                soak.call("GET", "runs", run["run"], "results", "summary.json")
                continue
            without += 1
    return Accounts(
        dict(Counter(run["state"] for run in runs)),
        lost=len(set(soak.accepted) - known),
        unexplained=max(0, len(known - set(soak.accepted)) - soak.unsure),
        unfinished=sum(run["state"] not in FINAL for run in runs),
        twice=twice,
        without_results=without,
        interrupted=interrupted,
    )


@attrs.frozen
class Slope:
    """A straight line through values of a minute each."""

    per_minute: float
    low: float
    """95 % interval."""
    high: float


def slope_of(samples: Sequence[tuple[float, float]]) -> Slope:
    """Ordinary least squares on the means of whole minutes, as samples of one minute are not independent.

    Args:
        samples: (seconds, value), three minutes of them or more.

    Raises:
        ValueError: they are fewer.
    """
    minutes: dict[int, list[float]] = {}
    for at, value in samples:
        minutes.setdefault(int(at // 60), []).append(value)
    points = [(float(minute), fmean(values)) for minute, values in sorted(minutes.items())]
    if len(points) < 3:
        raise ValueError(f"a slope needs three minutes, not {len(points)}")
    mean_x, mean_y = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    left = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in points)
    error = math.sqrt(left / (len(points) - 2) / spread)
    width = student95(len(points) - 2) * error
    return Slope(slope, slope - width, slope + width)


def _result(soak: _Soak, accounts: Accounts, *, minutes: float, kills: int, seed: int, sound_end: bool) -> BenchResult:
    watched = [one for one in soak.samples if one.at >= minutes * 60.0 / 3]
    slope = slope_of([(one.at, one.resident_bytes / 1e6) for one in watched])
    resident = median(one.resident_bytes for one in watched) / 1e6
    grown = slope.per_minute * minutes * 2 / 3
    descriptors = slope_of([(one.at, float(one.descriptors)) for one in watched])
    exactly_once = not any(
        (accounts.lost, accounts.unexplained, accounts.unfinished, accounts.twice, accounts.without_results)
    )
    memory_steady = slope.low <= 0 or grown < NOISE_SHARE * resident
    # what plays at the moment opens some and closes them again: the number may go up and down, and not only up
    held = exactly_once and memory_steady and descriptors.low <= 0 and sound_end and len(soak.kills) == kills
    return BenchResult(
        name="soak",
        command=f"corral bench soak --minutes {minutes:g} --kills {kills} --seed {seed}",
        summary={
            "held": held,
            "runs": sum(accounts.states.values()),
            "states": accounts.states,
            "kills_at_seconds": soak.kills,
            "interrupted_attempts": accounts.interrupted,
            "lost_runs": accounts.lost,
            "runs_nobody_submitted": accounts.unexplained,
            "unfinished_runs": accounts.unfinished,
            "runs_ended_twice": accounts.twice,
            "runs_without_results": accounts.without_results,
            "resident_mb": round(resident, 1),
            "resident_mb_per_minute": round(slope.per_minute, 4),
            "resident_mb_per_minute_interval": [round(slope.low, 4), round(slope.high, 4)],
            "descriptors": median(one.descriptors for one in watched),
            "descriptors_per_minute_interval": [round(descriptors.low, 3), round(descriptors.high, 3)],
            "ended_politely": sound_end,
        },
        rows=[attrs.asdict(one) for one in soak.samples],
        notes=(
            "A run that was submitted while the daemon was being killed may or may not have been taken: its answer "
            f"is lost. There were {soak.unsure} of those.",
            "Descriptors are constant where the 95 % interval of their slope reaches zero.",
            "Memory is steady where the 95 % interval of its slope, on means of whole minutes after the last kill, "
            f"reaches zero, or where it grows by less than {NOISE_SHARE:.0%} over the watched time.",
        ),
    )
