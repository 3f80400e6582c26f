"""One run from start to report: the folder, the recorder, the fleet, and what is left behind."""

import json
import platform
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
import cv2
import numpy as np
import trio

from actors.accounts import Secrets, take_secrets
from actors.assets import AppAssets
from actors.control import open_control
from actors.control_answers import answer_for
from actors.fleet import Fleet, FleetError, open_fleet
from actors.recorder import Recorder, write_whole
from actors.results.record import RecordUnreadable
from actors.results.report import Report, write_report
from actors.results.summary import EpisodeSummary
from actors.scenario import Scenario
from actors.vendor import Vendor
from actors.warehouse.publisher import publish_now, run_publications
from actors.warehouse.samples import run_samples
from actors.warehouse.warehouse import RunIds, Warehouse
from policies.criteria import Outcome
from runtime.collector import keep_tidy
from runtime.nursery import open_bare_nursery
from runtime.signals import open_signal_drain
from runtime.telemetry import bind, emit


@attrs.frozen
class RunResult:
    """What a run left."""

    folder: Path
    summaries: tuple[EpisodeSummary, ...]
    report: Report | None
    """None where it could not be written; `corral report` can be tried again."""
    report_failure: str | None
    stopped_by: str | None
    """The signal that ended it early."""
    failure: str | None
    """What broke the whole fleet while it played, if anything did."""
    recorder_failure: str | None
    """What the disk said, if it refused."""
    warehouse: "Publication | None" = None
    """What became of the run's rows; None where none were kept."""


@attrs.frozen
class Publication:
    """The fleet's own metrics after a run."""

    folder: Path
    failure: str | None
    """Why they were not published; `corral warehouse load` can be tried again."""
    lost: int
    """Rows that could not be kept."""


def new_run_id(now: datetime | None = None) -> str:
    """`<UTC>-<6 hex>`, a folder's name and the start of every episode's id."""
    return f"{(now or datetime.now(UTC)).strftime('%Y%m%dT%H%M%SZ')}-{secrets.token_hex(3)}"


def make_folder(out: Path, run_id: str, scenario: Scenario, assets: Mapping[str, AppAssets], source: bytes) -> Path:
    """The run folder with what is known before the start, the rules' pictures included: a replay needs them.

    Raises:
        OSError: it cannot be made or written.
    """
    folder = out / run_id
    (folder / "episodes").mkdir(parents=True)
    (folder / "frames").mkdir()
    write_whole(folder / "scenario.toml", source)
    for app, needed in assets.items():
        for name, picture in needed.perception.pictures.items():
            ok, png = cv2.imencode(".png", picture)
            assert ok, "a loaded picture is never empty"
            write_whole(folder / "pictures" / app / f"{name}.png", np.asarray(png).tobytes())
    about: dict[str, Any] = {
        "run": run_id,
        "scenario": scenario.name,
        "description": scenario.description,
        "started_at": round(time.time(), 3),
        "seed": scenario.seed,
        "tenant": scenario.tenant,
        "goals": {name: app.goal for name, app in scenario.apps.items()},
        "criteria": {name: attrs.asdict(app.criteria) for name, app in scenario.apps.items()},
        "corral": metadata.version("corral"),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    write_whole(folder / "run.json", json.dumps(about, ensure_ascii=False, indent=1).encode())
    return folder


async def run_scenario(
    scenario: Scenario,
    assets: Mapping[str, AppAssets],
    *,
    source: bytes,
    out: Path,
    view: Callable[[Fleet], Awaitable[None]],
    vendor: Vendor | None = None,
    warehouse_folder: Path | None = None,
    run_id: str | None = None,
    door: Path | None = None,
) -> RunResult:
    """Play a scenario to its end, or until a signal asks for a drain.

    Args:
        scenario: What to play.
        assets: The files that it names.
        source: The scenario file as it is kept in the run folder.
        out: The run folder is made in here.
        view: Shows the fleet while it plays; cancelled at the end.
        vendor: Of the cloud phones, where there is one.
        warehouse_folder: Where rows of the fleet's own metrics go, if the scenario keeps any; None: nowhere.
        run_id: Its name, which no folder in `out` has yet; None: a new one.
        door: Where a farm serves the engines; None: the scenario's own are started.

    Raises:
        ScenarioError: a secret that it names is not in the environment.
        FleetError: nothing could be played.
        OSError: the run folder cannot be made.
    """
    taken = take_secrets(scenario)
    run_id = run_id or new_run_id()
    folder = make_folder(out, run_id, scenario, assets, source)
    recorder = Recorder(folder, scenario.record)
    keeper: _Keeper | None = None
    if warehouse_folder is not None and scenario.record.warehouse:
        ids = RunIds(scenario.tenant, run_id, scenario.name)
        keeper = _Keeper(scenario, Warehouse(warehouse_folder, ids), folder / "logs" / "warehouse.log")
    with bind(run=run_id):
        emit("actors.run.started", scenario=scenario.name, folder=str(folder))
        async with open_bare_nursery() as nursery:
            await nursery.start(recorder.run)
            if keeper is not None:
                await nursery.start(keeper.warehouse.run)
                keeper.begin()
            outcome: list[_Played] = []
            try:
                outcome.append(
                    await _play(scenario, assets, taken, run_id, folder, recorder, view, vendor, keeper, door)
                )
            finally:
                recorder.close()
                if keeper is not None:
                    keeper.end(*outcome)
        (played,) = outcome
        report, report_failure = None, None
        try:
            report = await trio.to_thread.run_sync(write_report, folder)
        except (OSError, RecordUnreadable) as error:
            report_failure = str(error)
        publication = await keeper.publish() if keeper is not None else None
        emit("actors.run.ended", report=str(report.html) if report else None, episodes=len(played.summaries))
        return RunResult(
            folder=folder,
            summaries=played.summaries,
            report=report,
            report_failure=report_failure,
            stopped_by=played.stopped_by,
            failure=played.failure,
            recorder_failure=recorder.statistics().failure,
            warehouse=publication,
        )


@attrs.frozen
class _Played:
    summaries: tuple[EpisodeSummary, ...]
    stopped_by: str | None
    failure: str | None


@attrs.define
class _Keeper:
    """Keeps the rows of one run: its own row, samples while it plays, and their publication."""

    scenario: Scenario
    warehouse: Warehouse
    log_path: Path
    started_at: float = attrs.field(factory=time.time)

    def begin(self) -> None:
        """The run has started."""
        self._tell("running")

    async def watch(self, fleet: Fleet) -> None:
        """Sample and publish until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_samples, fleet, self.warehouse)
            every = self.scenario.record.publish_every_seconds
            nursery.start_soon(run_publications, self.warehouse.folder, self.log_path, every)

    def end(self, played: _Played | None = None) -> None:
        """The run is over; without an argument nothing could be played."""
        ended_at = time.time()
        summaries = played.summaries if played is not None else ()
        self._tell(
            "ended",
            ended_ms=int(ended_at * 1000),
            seconds=round(ended_at - self.started_at, 3),
            episodes=len(summaries),
            succeeded=sum(one.outcome is Outcome.SUCCEEDED for one in summaries),
            stopped_by=played.stopped_by if played is not None else None,
            failure=played.failure if played is not None else "nothing could be played",
        )
        self.warehouse.close()

    async def publish(self) -> Publication:
        """After the last row was written."""
        statistics = self.warehouse.statistics()
        failure = statistics.failure or await publish_now(self.warehouse.folder, self.log_path)
        return Publication(self.warehouse.folder, failure, statistics.lost)

    def _tell(self, state: str, **columns: Any) -> None:
        self.warehouse.run_row(
            at_ms=int(self.started_at * 1000),
            state=state,
            phones=sum(group.phone_count for group in self.scenario.phones),
            engines=len(self.scenario.engines),
            seed=self.scenario.seed,
            corral=metadata.version("corral"),
            **columns,
        )


async def _play(
    scenario: Scenario,
    assets: Mapping[str, AppAssets],
    taken: Secrets,
    run_id: str,
    folder: Path,
    recorder: Recorder,
    view: Callable[[Fleet], Awaitable[None]],
    vendor: Vendor | None,
    keeper: "_Keeper | None",
    door: Path | None,
) -> _Played:
    fleets: list[Fleet] = []
    failure: str | None = None
    starting = trio.CancelScope()

    async def drain() -> None:
        if fleets:
            await fleets[0].drain()
        else:
            starting.cancel()

    async with open_signal_drain(drain) as signals:
        try:
            with starting:
                async with open_fleet(
                    scenario,
                    assets,
                    run_id=run_id,
                    folder=folder,
                    recorder=recorder,
                    secrets=taken,
                    vendor=vendor,
                    warehouse=keeper.warehouse if keeper is not None else None,
                    door=door,
                ) as fleet:
                    fleets.append(fleet)
                    async with open_control(folder, partial(answer_for, fleet)), trio.open_nursery() as nursery:
                        nursery.start_soon(view, fleet)
                        nursery.start_soon(keep_tidy)
                        if keeper is not None:
                            nursery.start_soon(keeper.watch, fleet)
                        await fleet.play()
                        nursery.cancel_scope.cancel()
        except FleetError as error:
            if not fleets:
                raise
            failure = str(error)  # what was played until then has its results
    for fleet in fleets:
        fleet.cancel_rest()
    summaries = tuple(summary for fleet in fleets for summary in fleet.summaries)
    return _Played(summaries, signals.asked, failure)
