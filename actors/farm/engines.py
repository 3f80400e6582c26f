"""The engines that a farm's runs share: one pool, served to their processes, and changed one engine at a time."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from pathlib import Path

import attrs
import trio

from actors.engine import ENGINE_INTENSITY, engine_spec_for
from actors.farm.config import FarmConfig
from actors.farm.database import StoreError
from actors.farm.engine_tally import EngineTally, Rates
from actors.farm.rollout import (
    AddEngine,
    ChangeAdapter,
    Holdback,
    Judgement,
    RemoveEngine,
    ReplaceEngine,
    Step,
    Verdict,
    as_before,
    judge,
    shown,
    steps_for,
)
from actors.farm.store import StoreDesk
from inference.config import EngineConfig, TenantConfig
from inference.door_server import DoorServer, open_door_server
from inference.health import CircuitState
from inference.pool import EnginePool, open_pool
from runtime.child import ChildError, ChildStatistics
from runtime.ids import EngineId, TenantId
from runtime.lifecycle import State
from runtime.nursery import open_bare_nursery
from runtime.supervisor import Supervisor, open_supervisor
from runtime.telemetry import counter, emit

LOOK_SECONDS = 0.5  # between two looks at a canary
HELD_ADVICE = (
    "they run as before a change that was rolled back or stopped; correct the file, or send SIGHUP to try it again"
)
MOST_FAILED_STARTS = 3  # of a changed engine, until it counts as bad
RETRY_SECONDS = 5.0  # until the state is written again, which a change waits for
DRAINED = Judgement(Verdict.GOOD, "it is drained, and starts so when it is taken back")
FOR_EVER = attrs.evolve(
    ENGINE_INTENSITY, max_restarts=1_000_000_000
)  # a farm waits for an engine that is away for a night

_ROLLOUTS = counter(
    "actors_farm_rollout_tasks_total", "Changes of engines and adapters, by how they ended.", ["outcome"]
)
_ROLLOUTS.labels("rolled_back")  # there from the start: what grows from nothing is no increase to Prometheus


class RolloutState(StrEnum):
    """Where a rollout is."""

    RUNNING = "running"
    DONE = "done"
    ROLLED_BACK = "rolled_back"
    STOPPED = "stopped"
    """By an operator: what was changed by then stays."""


@attrs.define
class Rollout:
    """The latest one."""

    steps: tuple[Step, ...]
    done: int = 0
    """Steps."""
    state: RolloutState = RolloutState.RUNNING
    why: str = ""


class NoEngine(Exception):
    """The farm has no such engine, or no rollout that could be stopped."""


@attrs.define(eq=False)
class FarmEngines:
    """Made by `open_engines`."""

    config: Callable[[], FarmConfig]
    pool: EnginePool
    door: DoorServer
    tally: EngineTally
    tell: Callable[[Rollout], None]
    """Is told of every rollout that has ended."""
    store: StoreDesk
    """Keeps what outlives a restart."""
    rollout: Rollout | None = None
    _supervisor: Supervisor = attrs.field(alias="supervisor", kw_only=True)
    _logs: Path = attrs.field(alias="logs", kw_only=True)
    _running: dict[EngineId, EngineConfig] = attrs.field(factory=dict, init=False)
    _tenants: dict[str, TenantConfig] = attrs.field(factory=dict, init=False)
    _drained: set[EngineId] = attrs.field(factory=set, init=False)
    _held: tuple[Holdback, ...] = attrs.field(default=(), init=False)
    _moving: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held while an engine is stopped, and started: one that is stopped half is neither."""
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)
    _working: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    @property
    def configured(self) -> Sequence[EngineConfig]:
        """Those that run, or try to."""
        return tuple(self._running.values())

    def is_drained(self, engine: str) -> bool:
        """An operator took it out."""
        return engine in self._drained

    @property
    def held(self) -> Sequence[str]:
        """What is not as the configuration says, and stays so until that is read again."""
        return [shown(one.step) for one in self._held if one.refused]

    def child(self, engine: str) -> ChildStatistics | None:
        """Its actor; None where it has none at the moment."""
        found = [one for one in self._supervisor.statistics().children if one.name == _child_name(engine)]
        return found[0] if found else None

    def why_none(self) -> str:
        """Why no run can play for want of an engine; empty: one can, or they bring their own."""
        if not self.config().engines:
            return ""
        for one in self.pool.statistics().engines:
            child = self.child(one.id)
            is_ready = child is not None and child.state is State.RUNNING and not one.draining
            if is_ready and one.circuit is not CircuitState.OPEN and one.unfit is None:
                return ""
        return "no engine is up: see corral farm engines"

    def reload(self) -> None:
        """The configuration has changed."""
        self._changed.set()

    async def drain(self, engine: EngineId) -> None:
        """Take an engine out, and end its process.

        Raises:
            NoEngine: there is none of that name.
        """
        self._known(engine)
        await self.store.do(lambda store: store.engines.drain(engine))
        self._drained.add(engine)
        emit("actors.farm.engine_drained", engine=engine)
        async with self._moving:
            if engine in self._drained:
                await self._stop(engine)

    async def undrain(self, engine: EngineId) -> None:
        """Start it again.

        Raises:
            NoEngine: there is none of that name.
        """
        self._known(engine)
        await self.store.do(lambda store: store.engines.undrain(engine))
        async with self._moving:
            self._drained.discard(engine)
            self._start(self._known(engine))

    def stop_rollout(self) -> None:
        """Change nothing more; what was changed by now stays.

        Raises:
            NoEngine: nothing is under way.
        """
        if self.rollout is None or self.rollout.state is not RolloutState.RUNNING:
            raise NoEngine("no rollout is under way")
        self._working.cancel()

    def _known(self, engine: EngineId) -> EngineConfig:
        try:
            return self._running[engine]
        except KeyError:
            raise NoEngine(f"there is no engine {engine!r}") from None

    # changes

    async def run_changes(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start all engines at once, but without changes that were not found good; then follow the file, for ever."""
        first = self.config()
        held = await self.store.do(lambda store: store.engines.held())
        drained = await self.store.do(lambda store: store.engines.drained())
        engines, self._tenants, self._held = as_before(first.engines, first.tenants, held)
        self._drained = {engine.id for engine in engines} & drained
        await self.store.do(lambda store: store.engines.keep(self._held, self._drained))
        for tenant, config in self._tenants.items():
            self.pool.set_tenant(TenantId(tenant), config)
        for engine in engines:
            self._running[engine.id] = engine
            self._start(engine)
        if self.held:
            emit("actors.farm.engines_held_back", level="warning", changes=self.held, advice=HELD_ADVICE)
        task_status.started()
        if any(not one.refused for one in self._held):
            self._changed.set()  # the farm ended in the middle of it
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            await self._follow(self.config())

    async def _follow(self, wanted: FarmConfig) -> None:
        steps = steps_for(self.configured, wanted.engines, self._tenants, wanted.tenants)
        for name in {*self._tenants, *wanted.tenants}:
            kept = self._tenants.get(name, TenantConfig()).adapter
            found = wanted.tenants.get(name, TenantConfig())
            self._set_tenant(TenantId(name), attrs.evolve(found, adapter=kept))
        await self._hold(steps)
        if not steps:
            return
        rollout = self.rollout = Rollout(steps)
        emit("actors.farm.rollout_begun", steps=[shown(step) for step in steps])
        with trio.CancelScope() as self._working:
            for step in steps:
                judgement = await self._do(step, wanted)
                rollout.why = f"{shown(step)}: {judgement.why}"
                if judgement.verdict is Verdict.BAD:
                    rollout.state = RolloutState.ROLLED_BACK
                    break
                rollout.done += 1
                await self._hold(steps[rollout.done :])
            else:
                rollout.state = RolloutState.DONE
        if rollout.state is RolloutState.RUNNING:
            rollout.state = RolloutState.STOPPED
            for config in self.configured:  # one may have been stopped, and not started again
                self._start(config)
        left = steps_for(self.configured, wanted.engines, self._tenants, wanted.tenants)
        await self._hold(left, refused=True)
        level = "error" if rollout.state is RolloutState.ROLLED_BACK else "info"
        emit("actors.farm.rollout_ended", level=level, state=rollout.state.value, why=rollout.why, done=rollout.done)
        _ROLLOUTS.labels(rollout.state.value).inc()
        self.tell(rollout)

    async def _hold(self, steps: Sequence[Step], *, refused: bool = False) -> None:
        """Keep what is not done, so that a restart begins as before it."""
        held = tuple(Holdback(step, refused) for step in steps)
        while held != self._held:
            try:
                await self.store.do(lambda store: store.engines.hold(held))
            except StoreError as error:
                emit("actors.farm.state_failed", level="error", error=str(error), about="a change of engines")
                await trio.sleep(RETRY_SECONDS)
            else:
                self._held = held

    async def _do(self, step: Step, wanted: FarmConfig) -> Judgement:
        match step:
            case AddEngine(new=new):
                self._running[new.id] = new
                self._start(new)
                return Judgement(Verdict.GOOD, "started")
            case RemoveEngine(old=old):
                async with self._moving:
                    await self._stop(old.id)
                    await self.store.do(lambda store: store.engines.undrain(old.id))
                    self._running.pop(old.id, None)
                    self._drained.discard(old.id)
                return Judgement(Verdict.GOOD, "removed")
            case ReplaceEngine():
                return await self._replace(step, wanted)
            case ChangeAdapter():
                return await self._change_adapter(step, wanted)

    async def _replace(self, step: ReplaceEngine, wanted: FarmConfig) -> Judgement:
        engine = step.new.id
        async with self._moving:
            await self._stop(engine)
            before = self.tally.forget_engine(engine)  # only now: what was out has ended as well
            self._running[engine] = step.new
            self._start(step.new)
        judgement = await self._wait_ready(engine, wanted)
        if judgement is None:
            judgement = await self._watch(lambda: self.tally.engine(engine), before, wanted, engine)
        if judgement.verdict is Verdict.BAD:
            async with self._moving:
                await self._stop(engine)
                self.tally.forget_engine(engine)
                self._running[engine] = step.old
                self._start(step.old)
        return judgement

    async def _change_adapter(self, step: ChangeAdapter, wanted: FarmConfig) -> Judgement:
        before = self.tally.forget_tenant(step.tenant)
        self._set_tenant(step.tenant, step.new)
        judgement = await self._watch(lambda: self.tally.tenant(step.tenant), before, wanted, None)
        if judgement.verdict is Verdict.BAD:
            self._set_tenant(step.tenant, attrs.evolve(step.new, adapter=step.old.adapter))
        return judgement

    async def _wait_ready(self, engine: EngineId, wanted: FarmConfig) -> Judgement | None:
        """None once it is ready."""
        with trio.move_on_after(wanted.rollout.start_minutes * 60.0):
            while True:
                if engine in self._drained:
                    return DRAINED
                child = self.child(engine)
                if child is None or child.restarts >= MOST_FAILED_STARTS:
                    break
                if child.state is State.RUNNING:
                    return None
                await trio.sleep(LOOK_SECONDS)
        child = self.child(engine)
        error = "nothing is known of it" if child is None else child.last_error or "it is not ready in time"
        return Judgement(Verdict.BAD, f"it does not start: {error}")

    async def _watch(
        self, rates: Callable[[], Rates], before: Rates, wanted: FarmConfig, engine: EngineId | None
    ) -> Judgement:
        began, child = trio.current_time(), None if engine is None else self.child(engine)
        restarts = child.restarts if child is not None else 0
        while True:
            if engine is not None and engine in self._drained:
                return DRAINED
            crashed = None
            child = None if engine is None else self.child(engine)
            if child is not None and child.restarts > restarts:
                crashed = child.last_error or "nothing is known of it"
            seconds = trio.current_time() - began
            judgement = judge(wanted.rollout, before=before, now=rates(), seconds=seconds, crashed=crashed)
            if judgement.verdict is not Verdict.WAIT:
                return judgement
            if self.rollout is not None:
                self.rollout.why = judgement.why
            await trio.sleep(LOOK_SECONDS)

    def _set_tenant(self, tenant: TenantId, config: TenantConfig) -> None:
        self._tenants[tenant] = config
        self.pool.set_tenant(tenant, config)

    def _start(self, config: EngineConfig) -> None:
        """Start it, unless it is drained or there already."""
        if config.id in self._drained or self.child(config.id) is not None:
            return
        spec = attrs.evolve(engine_spec_for(config, self.pool, self._logs), intensity=FOR_EVER)
        self._supervisor.start_child_nowait(spec)

    async def _stop(self, engine: EngineId) -> None:
        # shielded, bounded by its grace: one that were stopped half could not be started again
        with trio.CancelScope(shield=True), suppress(ChildError):  # it has none: it was drained
            await self._supervisor.stop_child(_child_name(engine))


@asynccontextmanager
async def open_engines(
    config: Callable[[], FarmConfig],
    folder: Path,
    store: StoreDesk,
    *,
    tell: Callable[[Rollout], None] = lambda _: None,
) -> AsyncIterator[FarmEngines]:
    """The engines of a farm while the block runs, started in the background: `why_none` says whether one is up.

    Args:
        config: The configuration as it is now; `reload` says that it has changed.
        folder: The farm's own; logs go there.
        store: Keeps which are drained, and what of the configuration they were not found good with.
        tell: Is told of rollouts that have ended.

    Raises:
        OSError: there is no place for the socket or the logs.
    """
    logs = folder / "logs" / "engines"
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    tally = EngineTally()
    async with (
        open_pool(observe=tally.observe) as pool,
        open_door_server(pool) as door,
        open_supervisor("engines") as supervisor,
        open_bare_nursery() as nursery,
    ):
        engines = FarmEngines(config, pool, door, tally, tell, store, supervisor=supervisor, logs=logs)
        await nursery.start(engines.run_changes)
        yield engines
        nursery.cancel_scope.cancel()


def _child_name(engine: str) -> str:
    return f"engine-{engine}"
