"""A fleet in a storm: simulated phones with every kind of fault at random, and what is left of the fleet afterwards.

Bots that act at random play short episodes on all phones, by the same code as `corral run`. Every fourth phone has no
fault. What is asked: that nothing of ours crashes, that every episode has an outcome and a reason, that the spared
phones keep their pace, and that descriptors and memory end where they began.
"""

import gc
import io
import json
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.assets import load_assets
from actors.bench.phones import PhonesUnavailable
from actors.bench.processes import resident_bytes, waited_seconds
from actors.bench.result import BenchResult, Tell, tell_nobody
from actors.bench.storm_plan import StormPlan, plan_storm
from actors.fleet import Fleet, FleetError
from actors.results.summary import EpisodeSummary
from actors.run import RunResult, run_scenario
from actors.scenario import (
    AppConfig,
    BotKind,
    CaptureConfig,
    LogcatReading,
    PlannerConfig,
    RecordConfig,
    Scenario,
    SimulatedPhones,
)
from policies.step import Limits
from runtime.collector import trim_heap
from runtime.lifecycle import State
from runtime.telemetry import configure

PERIOD_SECONDS = 1.0
EPISODE_SECONDS = 60.0
SAMPLE_SECONDS = 1.0
WARM_UP_SECONDS = 10.0  # without a fault: what is loaded once, and what as many phones leave, is not what is asked for
LEAST_PACE = 0.95
MOST_DESCRIPTORS = 4  # more than before: a pool of threads or a random device may keep some
MOST_MEMORY_SHARE = 0.25  # more than before: an allocator gives not everything back
APPS = ("battler", "merge", "errands")
SIZE = "360x640"
REASONS_SHOWN = 12


class Journal(io.StringIO):
    """Takes the log's JSON lines: counts events, and keeps what was a mistake of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.events: Counter[str] = Counter()
        self.bugs: list[str] = []

    def write(self, text: str, /) -> int:
        """One or more whole lines."""
        for line in text.splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            self.events[str(said.get("event"))] += 1
            if "exception" in said:  # a traceback is for our own mistakes alone
                self.bugs.append(f"{said.get('event')}: {said.get('error', '')}: {said['exception']}"[-2000:])
        return len(text)


@attrs.define
class Samples:
    """What was seen of the fleet while it played."""

    descriptors: list[int] = attrs.field(factory=list)
    memory: list[int] = attrs.field(factory=list)
    quarantined: int = 0
    adb_restarts: int = 0
    waited_share: float = 0.0
    """Of the time: our main thread was ready to run, and other processes had the cores."""

    async def watch(self, fleet: Fleet, *, tell: Tell = tell_nobody, seconds: float = 1.0) -> None:
        """Sample until cancelled."""
        began_at, waited = trio.current_time(), waited_seconds(_OWN)
        while True:
            self.descriptors.append(open_descriptors())
            self.memory.append(resident_bytes_of_ours())
            children = fleet.supervisor.statistics().children
            self.quarantined = sum(child.state is State.QUARANTINED for child in children)
            self.adb_restarts = sum(child.restarts for child in children if child.name == "adb-server")
            elapsed = trio.current_time() - began_at
            self.waited_share = (waited_seconds(_OWN) - waited) / elapsed if elapsed else 0.0
            tell("storm", min(1.0, elapsed / seconds))
            await trio.sleep(SAMPLE_SECONDS)


def open_descriptors() -> int:
    """How many file descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


def resident_bytes_of_ours() -> int:
    """Memory of this process that is in RAM."""
    return resident_bytes(_OWN)


_OWN = int(Path("/proc/self").readlink().name)


def storm_scenario(phones: int, seconds: float, plan: StormPlan, *, seed: int) -> Scenario:
    """The three bundled apps on about as many phones each, episodes of a minute at most, and the plan's faults."""
    groups = [SimulatedPhones(app, count, BotKind.RANDOM, size=SIZE) for app, count in _shares(phones)]
    episodes = max(1, round(seconds / EPISODE_SECONDS))
    scenario = Scenario(
        name="storm",
        phones=tuple(groups),
        apps={
            group.app: AppConfig(
                goal="Play at random.",
                package=f"dev.corral.{group.app}",
                score=LogcatReading(pattern=f"{group.app}: .*score=([0-9]+)"),
            )
            for group in groups
        },
        seed=seed,
        episodes_per_phone=episodes,
        limits=Limits(seconds=seconds / episodes),
        planner=PlannerConfig(enabled=False, act_seconds=PERIOD_SECONDS),
        capture=CaptureConfig(every_seconds=PERIOD_SECONDS, timeout_seconds=3.0),
        record=RecordConfig(frames_every_seconds=EPISODE_SECONDS),
    )
    return scenario.with_faults(plan.faults)


def _shares(phones: int) -> list[tuple[str, int]]:
    counts = [(phones + len(APPS) - 1 - index) // len(APPS) for index in range(len(APPS))]
    return [(app, count) for app, count in zip(APPS, counts, strict=True) if count]


async def play_storm(scenario: Scenario, folder: Path, samples: Samples, *, seconds: float, tell: Tell) -> RunResult:
    """Play a scenario to its end. Raises `PhonesUnavailable` where nothing could be played."""
    try:
        return await run_scenario(
            scenario,
            load_assets(scenario, folder),
            source=b"# made by corral bench storm\n",
            out=folder,
            view=partial(samples.watch, tell=tell, seconds=seconds),
        )
    except FleetError as error:
        raise PhonesUnavailable(str(error)) from error


def bench_storm(
    *, phones: int, seconds: float, seed: int, tell: Tell = tell_nobody, warm_up_seconds: float = WARM_UP_SECONDS
) -> BenchResult:
    """A storm of `seconds` over `phones` phones, after a calm of `warm_up_seconds` (0: none). The log is silent.

    Raises:
        PhonesUnavailable: no adb, or no simulated phones.
    """
    plan = plan_storm(phones, seconds, random.Random(seed).random)
    journal, samples = Journal(), Samples()
    with tempfile.TemporaryDirectory(prefix="corral-storm-") as name:
        folder = Path(name)
        calm = StormPlan((), frozenset())
        configure(json=True, level="error", stream=io.StringIO())
        try:
            if warm_up_seconds:
                warm_up = storm_scenario(phones, warm_up_seconds, calm, seed=seed)
                trio.run(partial(play_storm, warm_up, folder, Samples(), seconds=warm_up_seconds, tell=tell_nobody))
            before = _held_now()
            configure(json=True, level="info", stream=journal)
            scenario = storm_scenario(phones, seconds, plan, seed=seed)
            result = trio.run(partial(play_storm, scenario, folder, samples, seconds=seconds, tell=tell))
        finally:
            configure(json=True, level="error")
        after = _held_now()
    summary = _numbers(scenario, plan, result, journal, samples, before, after)
    notes = (
        f"pace: steps of the phones without a fault beside one each {PERIOD_SECONDS:g} s; the share of the time that "
        "our main thread waited for the cores tells how busy others kept them",
        "descriptors and memory of our process, after a calm of as many phones and after the storm; and the "
        "most while the storm went on",
        "an episode of a phone that its faults keep away for long ends as quarantined, with the reason",
    )
    command = f"corral bench storm --phones {phones} --seconds {seconds:g} --seed {seed}"
    return BenchResult("storm", command, summary, _rows(result.summaries), notes)


def _held_now() -> tuple[int, int]:
    """Descriptors, and memory without what the C library keeps for later."""
    gc.collect()
    trim_heap()
    return open_descriptors(), resident_bytes_of_ours()


def pace_of(summaries: list[EpisodeSummary], every_seconds: float) -> float | None:
    """Steps beside what the time had room for; None where no time passed."""
    seconds = sum(one.seconds for one in summaries)
    return sum(one.steps for one in summaries) * every_seconds / seconds if seconds else None


def _numbers(
    scenario: Scenario,
    plan: StormPlan,
    result: RunResult,
    journal: Journal,
    samples: Samples,
    before: tuple[int, int],
    after: tuple[int, int],
) -> dict[str, Any]:
    every = scenario.capture.every_seconds
    spared = {f"CORRAL{number:04d}" for number in plan.spared}
    by_phone: dict[str, list[EpisodeSummary]] = {}
    for one in result.summaries:
        by_phone.setdefault(one.phone, []).append(one)
    healthy = [one for phone in sorted(spared) for one in by_phone.get(phone, [])]
    paces = [pace for phone in sorted(spared) if (pace := pace_of(by_phone.get(phone, []), every)) is not None]
    pace = pace_of(healthy, every)
    expected = scenario.simulated_count * scenario.episodes_per_phone
    untold = sum(not one.reason for one in result.summaries)
    memory_share = after[1] / before[1] - 1
    held = {
        "nothing_crashed": not journal.bugs and result.failure is None,
        "every_episode_has_an_outcome_and_a_reason": len(result.summaries) == expected and not untold,
        "spared_phones_keep_their_pace": pace is not None and pace >= LEAST_PACE,
        "descriptors_end_where_they_began": after[0] - before[0] <= MOST_DESCRIPTORS,
        "memory_ends_where_it_began": memory_share <= MOST_MEMORY_SHARE,
    }
    return {
        "held": all(held.values()),
        **held,
        "phones": scenario.simulated_count,
        "spared": len(spared),
        "faults": len(plan.faults),
        "faults_by_kind": plan.counts(),
        "episodes": len(result.summaries),
        "episodes_expected": expected,
        "outcomes": dict(Counter(one.outcome.value for one in result.summaries)),
        "times_lost": journal.events["actors.phone.lost"],
        "bad_frames": sum(sum(one.bad_frames.values()) for one in result.summaries),
        "quarantined_phones": samples.quarantined,
        "adb_server_restarts": samples.adb_restarts,
        "pace_of_spared": None if pace is None else round(pace, 4),
        "pace_of_slowest_spared": round(min(paces), 4) if paces else None,
        "waited_for_the_cores_share": round(samples.waited_share, 3),
        "descriptors_before": before[0],
        "descriptors_after": after[0],
        "descriptors_most": max(samples.descriptors, default=0),
        "memory_mb_before": round(before[1] / 1e6, 1),
        "memory_mb_after": round(after[1] / 1e6, 1),
        "memory_mb_most": round(max(samples.memory, default=0) / 1e6, 1),
        "failure": result.failure or "",
        "bugs": "\n".join(journal.bugs[:3]),
        "reasons": dict(Counter(one.reason for one in result.summaries).most_common(REASONS_SHOWN)),
    }


def _rows(summaries: Sequence[EpisodeSummary]) -> list[dict[str, Any]]:
    """One a phone."""
    by_phone: dict[str, list[EpisodeSummary]] = {}
    for one in summaries:
        by_phone.setdefault(one.phone, []).append(one)
    return [
        {
            "phone": phone,
            "outcomes": dict(Counter(one.outcome.value for one in played)),
            "reasons": sorted({one.reason for one in played}),
            "steps": sum(one.steps for one in played),
            "seconds": round(sum(one.seconds for one in played), 1),
            "lost": max(one.phone_lost for one in played),
            "bad_frames": sum(sum(one.bad_frames.values()) for one in played),
        }
        for phone, played in sorted(by_phone.items())
    ]
