"""Builds everything from a scenario and opens the supervisor: the only place that constructs the tree."""

import math
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.accounts import AccountPools, Secrets
from actors.assets import AppAssets
from actors.custody import Custody
from actors.devices.adb.connection_states import is_network_address
from actors.devices.adb.connections import PhoneConnections
from actors.devices.adb.errors import AdbServerLost
from actors.devices.adb.method_memory import MethodMemory, memory_path
from actors.devices.adb.server import AdbServerConfig, find_adb, run_adb_server
from actors.devices.base import DeviceError
from actors.discovery import FoundPhone, identify
from actors.engine import engine_spec_for
from actors.fleet_phones import Link, Ways, heard_at, open_phone, run_phone_child
from actors.phone import ALLOW_US, STOPPED, UNAUTHORIZED, PhoneJob, draw_from
from actors.recorder import Recorder
from actors.replayed import app_for_replay, open_replayed, replay_phones, restart_nothing
from actors.results.record import VERSION, Header
from actors.results.report import ADB_LOST_EVENT
from actors.results.summary import EpisodeSummary, summary_for
from actors.scenario import AdbPhones, BotKind, Scenario, SimulatedPhones, episode_settings_for
from actors.session import EpisodeSession, EpisodeSpec
from actors.setup import AppKeeper
from actors.simulated import NoFreePorts, PortPicker, SimulatedGroup
from actors.vendor import Vendor
from actors.warehouse.rows import columns_of
from actors.warehouse.warehouse import BothSinks, Warehouse
from inference.door_client import DoorUnreachable, RemotePool, open_remote_pool
from inference.errors import EngineError
from inference.pool import EnginePool, open_pool
from policies.baseline import RandomPolicy
from policies.criteria import Outcome
from policies.episode import EpisodePolicy
from policies.step import EpisodeEnd
from runtime.child import ChildContext, ChildEnded, ChildError, ChildSpec, OnGiveUp, SupervisorGaveUp
from runtime.ids import PhoneId, TenantId, episode_id_for, slug_for
from runtime.lifecycle import State
from runtime.nursery import open_bare_nursery
from runtime.process import open_process
from runtime.restart import Intensity, RestartKind
from runtime.secret import redact
from runtime.supervisor import Supervisor, open_supervisor
from runtime.telemetry import emit

# nine failed starts of a phone that is away, each up to ATTACH_SECONDS, a greeting of 5 s and a pause, must fit in the
# period: else it would be tried for ever, and its episodes would never end
PHONE_INTENSITY = Intensity(max_restarts=8, period_seconds=240.0, cap_seconds=8.0, healthy_seconds=60.0)
ADB_INTENSITY = Intensity(max_restarts=5, period_seconds=60.0, cap_seconds=2.0, healthy_seconds=30.0)
PHONE_GRACE_SECONDS = 5.0  # a step, a swipe that lifts its finger, and the disconnect
WATCH_SECONDS = 0.5
OWNER_SECONDS = 600.0  # to walk over to the phones; only when nothing but unauthorized phones is left of a run


class FleetError(Exception):
    """Nothing could be played: no adb, no phone, or no engine. The text says which and why."""


@attrs.define(eq=False)
class Fleet:
    """A running fleet; made by `open_fleet`."""

    scenario: Scenario
    run_id: str
    supervisor: Supervisor
    pool: EnginePool | RemotePool
    """Its own, or that of a farm."""
    recorder: Recorder
    jobs: list[PhoneJob] = attrs.field(factory=list)
    summaries: list[EpisodeSummary] = attrs.field(factory=list)
    found: list[FoundPhone] = attrs.field(factory=list)
    folder: Path = Path()
    """The run's own."""
    memory: MethodMemory = attrs.field(factory=MethodMemory)
    """Which capture method is best for which model."""
    connections: PhoneConnections | None = None
    """Keeps all phones connected."""
    vendor: Vendor | None = None
    warehouse: Warehouse | None = None
    """Takes rows of the fleet's own metrics."""
    zero_ms: float = attrs.field(factory=lambda: (time.time() - trio.current_time()) * 1000.0)
    """When the run's clock was zero, in milliseconds since 1970."""

    async def play(self) -> None:
        """Play every episode; returns when each has an outcome."""
        for job in self.jobs:
            self.supervisor.start_child_nowait(
                ChildSpec(
                    name=f"phone-{job.phone}",
                    run=partial(run_phone_child, job, self.vendor),
                    restart=RestartKind.TRANSIENT,
                    shutdown_grace_seconds=PHONE_GRACE_SECONDS,
                    start_seconds=60.0,
                    intensity=PHONE_INTENSITY,
                    on_give_up=OnGiveUp.QUARANTINE,
                )
            )
        alone_since = math.inf
        while left := [job for job in self.jobs if job.session is not None]:
            await trio.sleep(WATCH_SECONDS)
            self._give_up_quarantined()
            now = trio.current_time()
            alone_since = min(alone_since, now) if all(job.state == UNAUTHORIZED for job in left) else math.inf
            if now - alone_since >= OWNER_SECONDS:
                self._give_up_unauthorized(left)
            if self.supervisor.statistics().draining:
                break

    def _give_up_quarantined(self) -> None:
        children = {child.name: child for child in self.supervisor.statistics().children}
        for job in self.jobs:
            child = children.get(f"phone-{job.phone}")
            if child is not None and child.state is State.QUARANTINED and job.session is not None:
                self._quarantine(job, child.last_error or "the phone kept failing")

    def _give_up_unauthorized(self, jobs: list[PhoneJob]) -> None:
        reason = f"unauthorized, and nothing else was left to play for {OWNER_SECONDS:g} s: {ALLOW_US}"
        for job in jobs:
            self._quarantine(job, reason)

    def _quarantine(self, job: PhoneJob, reason: str) -> None:
        job.state = "quarantined"
        if self.connections is not None:
            self.connections.forget(job.address)
        job.give_up(Outcome.QUARANTINED, reason)

    async def drain(self) -> None:
        """Stop politely: every phone is told at once, then everything ends in reverse order."""
        for job in self.jobs:
            job.stop()
        await self.supervisor.drain()

    def cancel_rest(self) -> None:
        """Whatever has no outcome yet was cancelled."""
        for job in self.jobs:
            job.give_up(Outcome.CANCELLED, STOPPED)

    def resume(self, phone: str | None) -> list[str]:
        """A person says: go on, on that phone or on every one.

        Returns:
            The phones that a person was needed on, and that go on.
        """
        return [job.phone for job in self.jobs if phone in (None, job.phone) and job.resume()]

    def hold(self, by: str | None) -> None:
        """All bots stand still where they are (None: they go on); what is being set up is set up first."""
        for job in self.jobs:
            job.hold(by)

    def take_end(self, session: EpisodeSession, end: EpisodeEnd) -> None:
        """An episode is over: its summary is kept, its engine home released."""
        spec, statistics = session.spec, session.statistics
        self.pool.release(spec.episode)
        job = next(job for job in self.jobs if job.phone == spec.phone)
        summary = summary_for(
            session.policy.tally,
            phone=spec.phone,
            episode=spec.episode,
            app=spec.app_name,
            seed=spec.seed,
            bot=spec.bot.value,
            outcome=end.outcome,
            reason=end.reason,
            score=session.policy.score,
            captures=statistics.capture_latencies,
            plans=statistics.plan_latencies,
            acts=statistics.act_latencies,
            engines=tuple(statistics.engines),
            models=tuple(statistics.models),
            replayable=spec.episode not in self.recorder.statistics().incomplete,
            phone_lost=job.lost,
            bad_frames=statistics.bad_frames,
            faults=[
                {**attrs.asdict(fault), "cause": redact(fault.cause), "excerpt": redact(fault.excerpt)}
                for fault in session.faults
            ],
        )
        self.summaries.append(summary)
        self.recorder.end_episode(spec.episode, attrs.asdict(summary))
        if self.warehouse is not None:
            self.warehouse.end_episode(spec, session.policy.tally, columns_of(summary), summary.faults)


@asynccontextmanager
async def open_fleet(
    scenario: Scenario,
    assets: Mapping[str, AppAssets],
    *,
    run_id: str,
    folder: Path,
    recorder: Recorder,
    secrets: Secrets | None = None,
    vendor: Vendor | None = None,
    warehouse: Warehouse | None = None,
    door: Path | None = None,
) -> AsyncIterator[Fleet]:
    """Everything that a scenario needs, started and ready; drained in reverse order when the block ends.

    With a `door`, the engines that the scenario names are another process's, which serves them there.

    Raises:
        FleetError: no adb server, no engine or no phone could be had.
    """
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    link = Link()
    try:
        async with _open_engines(scenario, door) as pool, open_supervisor("fleet") as supervisor:
            named = [
                FoundPhone(
                    PhoneId(slug_for(address)),
                    address,
                    group.app,
                    group.bot,
                    capture=group.capture,
                    driver=group.driver,
                    scrcpy_server=Path(group.scrcpy_server) if group.scrcpy_server is not None else None,
                )
                for group in scenario.phones
                if isinstance(group, AdbPhones)
                for address in group.addresses
            ]
            replays = _replays_of(scenario, assets)
            connections = PhoneConnections(lambda: link.client)
            if len(replays) < len(scenario.phones):
                usb = any(not is_network_address(phone.address) for phone in named)
                await _start_adb(supervisor, link, recorder, usb=usb)
                await _start_connections(supervisor, connections)
            groups = _groups_for(scenario)
            await _start_simulated(supervisor, groups, logs)
            if isinstance(pool, EnginePool):
                await _start_engines(supervisor, scenario, pool, logs)
            simulated = [phone for group in groups for phone in group.phones]
            if vendor is not None:
                await vendor.acquire_all([(phone.address, phone.phone) for phone in named])
            found = await identify(lambda: link.client, [*simulated, *named], attached=connections.attach)
            found += replays
            for alias in (alias for phone in found for alias in phone.aliases):
                connections.forget(alias)
            if all(phone.error is not None and not phone.awaits_owner for phone in found):
                raise FleetError("no phone can be reached; " + "; ".join(f"{p.address}: {p.error}" for p in found[:4]))
            memory = MethodMemory(memory_path())
            fleet = Fleet(
                scenario,
                run_id,
                supervisor,
                pool,
                recorder,
                found=found,
                folder=folder,
                memory=memory,
                connections=connections,
                vendor=vendor,
                warehouse=warehouse,
            )
            ways = Ways(scenario, link, connections, memory, folder, found)
            fleet.jobs = _jobs_for(fleet, assets, ways, secrets or Secrets())
            connections.heard_at = partial(heard_at, {job.address: job for job in fleet.jobs})
            yield fleet
    except SupervisorGaveUp as error:
        cause = f"; {error.__cause__}" if error.__cause__ is not None else ""
        raise FleetError(f"{error}{cause}") from error
    except DoorUnreachable as error:
        raise FleetError(f"no engine can be had; {error}") from error
    finally:
        if vendor is not None:
            await vendor.release_all()


@asynccontextmanager
async def _open_engines(scenario: Scenario, door: Path | None) -> AsyncIterator[EnginePool | RemotePool]:
    if door is not None:
        async with open_remote_pool(door) as remote:
            yield remote
        return
    tenants = {TenantId(name): config for name, config in scenario.tenants.items()}
    async with open_pool(tenants=tenants) as pool:
        yield pool


async def _start_connections(supervisor: Supervisor, connections: PhoneConnections) -> None:
    async def run(_: ChildContext, /, *, task_status: trio.TaskStatus[Any]) -> None:
        await connections.run(task_status=task_status)

    await supervisor.start_child(
        ChildSpec(name="phone-connections", run=run, intensity=ADB_INTENSITY, shutdown_grace_seconds=0.0)
    )


def _replays_of(scenario: Scenario, assets: Mapping[str, AppAssets]) -> list[FoundPhone]:
    try:
        return replay_phones(scenario, next(iter(assets.values())).folder)
    except DeviceError as error:
        raise FleetError(f"there is nothing to replay; {error}") from error


async def _start_adb(supervisor: Supervisor, link: Link, recorder: Recorder, *, usb: bool) -> None:
    async def run(_: ChildContext, /, *, task_status: trio.TaskStatus[Any]) -> None:
        try:
            async with open_bare_nursery() as nursery:
                server = await nursery.start(partial(run_adb_server, AdbServerConfig(port=link.port, usb=usb)))
                link.server, link.port = server, server.port
                task_status.started()
        except AdbServerLost as error:
            recorder.event(ADB_LOST_EVENT, error=str(error))
            raise
        finally:
            link.server = None
            emit("actors.adb.ended")

    spec = ChildSpec(
        name="adb-server", run=run, intensity=ADB_INTENSITY, on_give_up=OnGiveUp.ESCALATE, shutdown_grace_seconds=0.0
    )
    try:
        find_adb()  # asked first: no restart brings a binary that is not there
        await supervisor.start_child(spec)
    except (ChildError, DeviceError) as error:
        raise FleetError(f"adb cannot be had: {_root(error)}") from error


def _groups_for(scenario: Scenario) -> list[SimulatedGroup]:
    groups: list[SimulatedGroup] = []
    seed, number, ports = scenario.seed, 0, PortPicker(os.getpid())
    for index, config in enumerate(scenario.phones):
        if not isinstance(config, SimulatedPhones):
            continue
        first_seed = config.seed if config.seed is not None else seed
        groups.append(SimulatedGroup(config, first_seed, number, f"phones-{index}", ports))
        if config.seed is not None:
            seed -= config.count  # the group counts from a seed of its own
        seed, number = seed + config.count, number + config.count
    return groups


async def _start_simulated(supervisor: Supervisor, groups: list[SimulatedGroup], logs: Path) -> None:
    failures: list[str] = []

    async def start(group: SimulatedGroup) -> None:
        try:
            await _start_group(supervisor, group, logs)
        except ChildError as error:
            failures.append(str(_root(error)))

    async with trio.open_nursery() as nursery:
        for group in groups:
            nursery.start_soon(start, group)
    if failures:
        raise FleetError("the simulated phones do not start; " + "; ".join(failures))


async def _start_group(supervisor: Supervisor, group: SimulatedGroup, logs: Path) -> None:
    async def run(context: ChildContext, /, *, task_status: trio.TaskStatus[Any]) -> None:
        try:
            plan = group.process_plan(logs)
        except NoFreePorts as error:
            raise DeviceError(str(error)) from error
        async with open_process(plan) as process, open_bare_nursery() as nursery:
            task_status.started()

            async def stop_on_drain() -> None:
                await context.draining.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(stop_on_drain)
            code = await process.wait_exit()
            raise DeviceError(f"the process of the simulated phones ended with {code}; see {group.name}.log")

    await supervisor.start_child(ChildSpec(name=group.name, run=run, intensity=ADB_INTENSITY))


async def _start_engines(supervisor: Supervisor, scenario: Scenario, pool: EnginePool, logs: Path) -> None:
    """Start all engines at once; one that is ready is enough, the others go on trying."""
    failures: list[str] = []

    async def start(spec: ChildSpec) -> None:
        try:
            await supervisor.start_child(spec)
        except (ChildError, EngineError) as error:
            failures.append(str(_root(error)))

    async with trio.open_nursery() as nursery:
        for config in scenario.engines:
            nursery.start_soon(start, engine_spec_for(config, pool, logs))
    if scenario.engines and len(failures) == len(scenario.engines):
        raise FleetError("no engine can be had; " + "; ".join(failures))


def _jobs_for(fleet: Fleet, assets: Mapping[str, AppAssets], ways: Ways, secrets: Secrets) -> list[PhoneJob]:
    scenario = fleet.scenario
    pools = AccountPools(secrets.accounts)
    jobs = []
    for index, found in enumerate(fleet.found):
        app, app_assets = scenario.apps[found.app], assets[found.app]
        if found.replay is not None:
            app = app_for_replay(app)
        settings = episode_settings_for(scenario, app, app_assets.profile, app_assets.rules.rules)
        planner = scenario.planner_of(app)
        custody = Custody()
        keeper = AppKeeper(
            app,
            app_assets,
            pools,
            secrets,
            every_seconds=scenario.capture.every_seconds,
            tell=partial(fleet.recorder.event, phone=found.phone),
            custody=custody,
        )
        sessions = []
        for number in range(scenario.episodes_per_phone):
            seed = (found.seed if found.seed is not None else scenario.seed + index) + number
            spec = EpisodeSpec(
                episode=episode_id_for(fleet.run_id, found.phone, number),
                phone=found.phone,
                app_name=found.app,
                app=app,
                seed=seed,
                tenant=scenario.tenant,
                settings=settings,
                capture=scenario.capture,
                plan_timeout_seconds=planner.timeout_seconds,
                bot=found.bot,
            )
            sessions.append(_session_for(fleet, spec, app_assets, keeper, is_replay=found.replay is not None))
        jobs.append(
            PhoneJob(
                phone=found.phone,
                address=found.address,
                app=app,
                app_name=found.app,
                open_device=partial(open_replayed, found, max_side=app_assets.profile.max_side)
                if found.replay is not None
                else partial(open_phone, ways, found, app_assets),
                sessions=sessions,
                keeper=keeper,
                custody=custody,
                on_end=fleet.take_end,
                wait_authorized=partial(ways.connections.wait_authorized, found.address),
            )
        )
    return jobs


def _session_for(
    fleet: Fleet, spec: EpisodeSpec, assets: AppAssets, keeper: AppKeeper, *, is_replay: bool
) -> EpisodeSession:
    is_random = spec.bot is BotKind.RANDOM
    policy = RandomPolicy(spec.settings, spec.episode) if is_random else EpisodePolicy(spec.settings, spec.episode)
    header = Header(
        version=VERSION,
        episode=spec.episode,
        phone=spec.phone,
        app=spec.app_name,
        seed=spec.seed,
        policy="random" if is_random else "episode",
        settings=spec.settings,
        probes=dict(assets.rules.probes),
    )
    fleet.recorder.open_episode(header)
    return EpisodeSession(
        spec,
        policy=policy,
        perception=assets.perception,
        slow=assets.slow,
        complete=None if is_random or not spec.settings.planner else fleet.pool,
        sink=fleet.recorder if fleet.warehouse is None else BothSinks(fleet.recorder, fleet.warehouse),
        draw=draw_from(spec.seed),
        restart_app=restart_nothing if is_replay else keeper.restart,
        custody=keeper.custody,
        follow_log=not is_replay,
    )


def _root(error: BaseException) -> BaseException:
    """The error that a supervisor's error tells of."""
    while isinstance(error, ChildEnded) and error.__cause__ is not None:
        error = error.__cause__
    return error
