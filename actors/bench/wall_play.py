"""Stands in for `corral run` in `corral bench wall`: phones in this process, a step a second each, behind a run's door.

`python -m actors.bench.wall_play run FILE --out DIR --run-id ID ...`, as a farm starts its attempts. Jobs, episodes,
supervision and the door are a run's own, and pictures for prompts are encoded as there. The phones show frames that
were made before, plans come from this process, and nothing is recorded. When it ends it leaves `steps.json`.
"""

import argparse
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.accounts import AccountPools, Secrets
from actors.assets import AppAssets
from actors.bench.actors import PERIOD_SECONDS, Stage, device_for, session_for, stage_for
from actors.bench.processes import waited_seconds
from actors.control import open_control
from actors.control_answers import answer_for
from actors.devices.base import Device
from actors.fleet import Fleet
from actors.phone import PhoneJob
from actors.pictures import PictureStore
from actors.recorder import Recorder
from actors.rulefile import RuleFile
from actors.scenario import RecordConfig, Scenario, parse_scenario
from actors.session import EpisodeSpec
from actors.setup import AppKeeper
from inference.pool import open_pool
from policies.frame import Frame
from policies.planner import PlanRequest
from policies.step import StepInput, StepOutput
from runtime.collector import collect_rarely, keep_tidy
from runtime.nursery import open_bare_nursery
from runtime.signals import open_signal_drain
from runtime.supervisor import open_supervisor
from runtime.telemetry import configure

STEPS_FILE = "steps.json"
SAMPLE_SECONDS = 0.1


@attrs.define
class StepTimes:
    """When each phone stepped, by the system's monotonic clock, which all processes share."""

    steps: dict[str, list[float]] = attrs.field(factory=dict)
    samples: list[tuple[float, float, float]] = attrs.field(factory=list)
    """(when, CPU seconds of this process until then, seconds that other processes had the cores while it could run)."""

    def step(self, spec: EpisodeSpec, given: StepInput, output: StepOutput, frame: Frame | None) -> None:
        """Note a control step: a frame that was decided on."""
        del output, frame
        if given.percept is not None:
            self.steps.setdefault(spec.phone, []).append(time.monotonic())

    def prompt(self, spec: EpisodeSpec, request: PlanRequest, pictures: PictureStore) -> None:
        """Nothing."""

    async def run(self) -> None:
        """Sample the process until cancelled; a gap between two samples is a stall of its loop."""
        while True:
            self.samples.append((time.monotonic(), time.process_time(), waited_seconds(os.getpid())))
            await trio.sleep(SAMPLE_SECONDS)

    def write(self, folder: Path) -> None:
        """Leave everything there."""
        (folder / STEPS_FILE).write_text(json.dumps(attrs.asdict(self)), "utf-8")


async def play(scenario: Scenario, run_id: str, folder: Path) -> StepTimes:
    """Play until SIGTERM."""
    times = StepTimes()
    stage = stage_for(scenario.seed, templates=False)
    count = sum(group.phone_count for group in scenario.phones)
    async with open_pool() as pool, open_supervisor("fleet") as supervisor:
        fleet = Fleet(scenario, run_id, supervisor, pool, Recorder(folder, RecordConfig()), folder=folder)
        fleet.jobs = [_job_for(number, number / count, stage, times, fleet) for number in range(count)]
        async with (
            open_signal_drain(fleet.drain),
            open_control(folder, partial(answer_for, fleet)),
            open_bare_nursery() as nursery,
        ):
            nursery.start_soon(keep_tidy)
            nursery.start_soon(times.run)
            await fleet.play()
            nursery.cancel_scope.cancel()
    return times


def _job_for(number: int, phase: float, stage: Stage, times: StepTimes, fleet: Fleet) -> PhoneJob:
    """The phone's first frame is at its own moment of the period, as those of phones that nobody started together."""
    session = session_for(number, stage, times, in_thread=True)
    spec = session.spec
    assets = AppAssets(RuleFile(), stage.perception, stage.settings.profile)
    secrets = Secrets()
    every = spec.capture.every_seconds
    keeper = AppKeeper(spec.app, assets, AccountPools(secrets.accounts), secrets, every, tell=fleet.recorder.event)

    @asynccontextmanager
    async def open_device() -> AsyncIterator[Device]:
        await trio.sleep(phase * PERIOD_SECONDS)
        yield device_for(spec.phone, stage)

    return PhoneJob(
        phone=spec.phone,
        address=spec.phone,
        app=spec.app,
        app_name=spec.app_name,
        open_device=open_device,
        sessions=[session],
        keeper=keeper,
        on_end=lambda *_: None,
        prepared=0,  # there is no app to be started
    )


def main(argv: list[str] | None = None) -> None:
    """One attempt."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["run"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--run-id", required=True)
    given, _ = parser.parse_known_args(argv)
    configure(json=True, level="warning")
    collect_rarely()
    folder: Path = given.out / given.run_id
    folder.mkdir(parents=True)
    scenario = parse_scenario(given.file.read_bytes())
    times = trio.run(play, scenario, given.run_id, folder)
    times.write(folder)
    _summarise(folder, times)


def _summarise(folder: Path, times: StepTimes) -> None:
    totals: dict[str, Any] = {"episodes": len(times.steps)}
    (folder / "summary.json").write_text(json.dumps({"episodes": [], "totals": totals}), "utf-8")


if __name__ == "__main__":
    main()
