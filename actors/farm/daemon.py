"""The farm at work: starts what the queue decides, writes down how it ended, and does what operators ask for."""

import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.control import ControlError, ask
from actors.farm.afterwards import next_daily
from actors.farm.attempt import AttemptFiles
from actors.farm.attempts import Attempts
from actors.farm.command import engine_overrides
from actors.farm.config import FarmConfig
from actors.farm.database import StoreError, open_database, open_folder
from actors.farm.engines import FarmEngines, Rollout, open_engines
from actors.farm.figures import tell_longest_wait, tell_pool
from actors.farm.findings_desk import FindingsDesk
from actors.farm.housekeeping import run_retention
from actors.farm.queue import MIN_CHARGED_SECONDS, Share, Waiting, decide
from actors.farm.records import WHOLE_FARM, Action, AttemptRecord, Pause, RunRecord
from actors.farm.scenarios import read_scenario, scenario_names
from actors.farm.store import Refused, Store, StoreDesk
from actors.farm.submission import Submission, work_for
from actors.farm.work import AttemptOutcome, RunState, Work
from runtime.ids import TenantId
from runtime.nursery import open_bare_nursery
from runtime.telemetry import counter, emit, gauge

TICK_SECONDS = 5.0  # between two looks at the queue, if nothing happens
ALIVE_SECONDS = 60.0  # without a look at the queue, the daemon counts as hung
PROGRAM = (sys.executable, "-m", "actors.cli.main")

_QUEUED = gauge("actors_farm_queued_tasks", "Runs that wait, held and later ones included.")
_PLAYING = gauge("actors_farm_playing_tasks", "Runs that play.")
_FAILED = counter("actors_farm_state_retries_total", "Times that the state could not be read or written.")


@attrs.frozen
class FarmStatistics:
    """How a farm is now."""

    playing: int
    queued: int
    phones: int
    busy_phones: int
    paused_phones: int
    draining: bool
    """It takes nothing, as an operator said so or as it is about to end."""
    tick_age_seconds: float


@attrs.frozen
class _Look:
    """What the state says, all at one moment."""

    waiting: Sequence[RunRecord]
    reservations: Mapping[str, str]
    pauses: Mapping[str, Pause]
    used: Mapping[TenantId, float]
    under_way: int


@attrs.define(eq=False)
class Farm:
    """A farm that runs; made by `open_farm`. What operators ask for raises `Refused` where it does not fit."""

    config: FarmConfig
    folder: Path
    store: StoreDesk
    clock: Callable[[], float]
    attempts: Attempts = attrs.field(init=False)
    engines: FarmEngines = attrs.field(init=False)
    findings: FindingsDesk = attrs.field(init=False)
    _reasons: Mapping[str, str] = attrs.field(factory=dict, init=False)
    _wake: trio.Event = attrs.field(factory=trio.Event, init=False)
    _ending: bool = attrs.field(default=False, init=False)
    _last: FarmStatistics | None = attrs.field(default=None, init=False)
    _ticked_at: float = attrs.field(factory=trio.current_time, init=False)

    # what operators ask for

    async def submit(self, found: Submission, *, tenant: TenantId, user: str) -> RunRecord:
        """Take a run.

        Raises:
            ScenarioError: the scenario is wrong.
            Refused: there is no such scenario, or the tenant has too many runs waiting.
        """
        source = await trio.to_thread.run_sync(self._source_of, found)
        work = await trio.to_thread.run_sync(
            partial(work_for, found, source, tenant=tenant, user=user, overrides=engine_overrides(self.config))
        )
        now = self.clock()
        due = None if work.daily is None else next_daily(work.daily, now)
        limit = self.config.limits.queued_runs
        run = self._new_id(now)

        def add(store: Store) -> RunRecord:
            if store.waiting_count(tenant) >= limit:
                raise Refused(f"tenant {tenant} has {limit} runs waiting already")
            return store.submit(work, run, now, due=due)

        record = await self.store.do(add)
        emit("actors.farm.run_submitted", run=run, tenant=tenant, user=user, scenario=work.scenario)
        self._wake.set()
        return record

    async def cancel(self, run: str, user: str) -> RunRecord:
        """End a run, wherever it is; one that plays is asked to stop, and is cancelled once it has."""
        why = f"cancelled by {user}"
        return await self._stop(
            run, AttemptOutcome.CANCELLED, lambda store: store.cancel_waiting(run, why, self.clock())
        )

    async def pause(self, run: str, user: str) -> RunRecord:
        """Keep a run from starting; one that plays is stopped, and begins anew when it is resumed."""
        return await self._stop(run, AttemptOutcome.PAUSED, lambda store: store.hold(run, f"paused by {user}"))

    async def resume(self, run: str, phone: str | None = None) -> RunRecord:
        """A held run may start; one that plays goes on where a person was needed, or where it stands still."""
        record = await self.store.do(lambda store: store.run(run))
        if record.state is not RunState.RUNNING:
            now = self.clock()
            ready_at = now if record.work.daily is None else next_daily(record.work.daily, now)
            await self.store.do(lambda store: store.release(run, ready_at))
            self._wake.set()
            return await self.store.do(lambda store: store.run(run))
        await self._ask_run(run, {"command": "resume", "phone": phone})
        if phone is None:
            self.attempts.hold(await self._ask_run(run, {"command": "go_on"}), None)
        return record

    async def hold(self, run: str, user: str) -> RunRecord:
        """The bots of a run that plays stand still where they are, until it is resumed; its phones stay reserved.

        Raises:
            Refused: it does not play, or does not answer.
        """
        record = await self.store.do(lambda store: store.run(run))
        if record.state is not RunState.RUNNING:
            raise Refused("only a run that plays can be held; without 'hold', it is kept from starting")
        self.attempts.hold(await self._ask_run(run, {"command": "hold", "by": user}), user)
        return record

    async def _ask_run(self, run: str, request: Mapping[str, Any]) -> str:
        """Ask its present attempt, and return which that is."""
        attempt = (await self.store.do(lambda store: store.attempts(run)))[-1]
        await self.ask_attempt(attempt.attempt, request)
        return attempt.attempt

    async def ask_attempt(self, attempt: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """What the process of an attempt answers.

        Raises:
            Refused: it refuses, or does not answer; the text says why, and not where its folder is.
        """
        folder = self.files(attempt).folder
        try:
            return await ask(folder, request)
        except ControlError as error:
            raise Refused(str(error).removeprefix(f"{folder}: ")) from error

    async def pause_phone(self, phone: str, user: str) -> None:
        """Start nothing more on a phone; what plays there goes on to its end. `*` is the whole farm."""
        if phone != WHOLE_FARM and phone not in {one.id for one in self.config.farm_phones()}:
            raise Refused(f"there is no phone {phone!r}")
        await self.store.do(lambda store: store.pause(phone, user, self.clock()))
        self._wake.set()

    async def resume_phone(self, phone: str) -> bool:
        """Use a phone, or the farm, again; False: it was not paused."""
        found = await self.store.do(lambda store: store.unpause(phone))
        self._wake.set()
        return found

    async def progress(self, run: str) -> list[dict[str, Any]]:
        """How every phone of a run is that plays; nothing where it does not say."""
        attempts = await self.store.do(lambda store: store.attempts(run))
        if not attempts or not self.attempts.plays(attempts[-1].attempt):
            return []
        try:
            answer = await ask(self.files(attempts[-1].attempt).folder, {"command": "status"})
        except ControlError:
            return []  # it is just starting, or just ending
        return list(answer["phones"])

    def reason_for(self, run: str) -> str:
        """Why a run waits, as of the last look."""
        return self._reasons.get(run, "")

    def stands(self, record: RunRecord) -> str | None:
        """Why a run that plays stands still; None: it does not."""
        by = self.attempts.held_by(record.run)
        return None if by is None else f"stands still: held by {by}"

    def files(self, attempt: str) -> AttemptFiles:
        """Where an attempt's files are."""
        return self.attempts.files(attempt)

    def scenarios(self) -> list[str]:
        """What may be submitted by name. Blocks."""
        return scenario_names(Path(self.config.farm.scenarios))

    def look_again(self) -> None:
        """Something has changed that the queue depends on."""
        self._wake.set()

    def attempt_ended(self) -> None:
        """Its phones are free, and what it left can be read."""
        self.look_again()
        self.findings.look_again()

    def reload(self, config: FarmConfig) -> None:
        """Use other phones, engines, tenants, limits and prices from now on; what plays is left alone."""
        self.config = config
        self.engines.reload()
        self._wake.set()

    def statistics(self) -> FarmStatistics:
        """As of the last look at the queue."""
        age = trio.current_time() - self._ticked_at
        if self._last is None:
            return FarmStatistics(0, 0, len(self.config.farm_phones()), 0, 0, draining=False, tick_age_seconds=age)
        return attrs.evolve(self._last, draining=self._last.draining or self._ending, tick_age_seconds=age)

    @property
    def is_alive(self) -> bool:
        """It has looked at its queue, and could read its state, of late."""
        return trio.current_time() - self._ticked_at < ALIVE_SECONDS

    async def drain(self) -> None:
        """Take nothing, and wait until nothing plays; after `drain_seconds` what plays is cut, and queued again."""
        self._ending = True
        self._wake.set()
        emit("actors.farm.drain_begun", playing=len(self.attempts))
        with trio.move_on_after(self.config.limits.drain_seconds) as patience:
            await self._until_idle()
        if patience.cancelled_caught:
            await self.interrupt()

    async def interrupt(self) -> None:
        """Stop whatever plays, politely; it is queued again."""
        self._ending = True
        self.attempts.interrupt()
        await self._until_idle()

    async def _until_idle(self) -> None:
        async with self.attempts.changing:  # whatever was being started is there now
            pass
        await self.attempts.wait_idle()

    async def _stop(self, run: str, outcome: AttemptOutcome, waiting: Callable[[Store], None]) -> RunRecord:
        async with self.attempts.changing:
            record = await self.store.do(lambda store: store.run(run))
            if record.state is RunState.RUNNING:
                attempt = (await self.store.do(lambda store: store.attempts(run)))[-1].attempt
                self.attempts.ask(attempt, outcome)
            else:
                await self.store.do(waiting)
        self._wake.set()
        return await self.store.do(lambda store: store.run(run))

    async def note(self, action: Action) -> None:
        """Keep what an operator does, before it is done: what cannot be noted is not done."""
        now = self.clock()
        await self.store.do(lambda store: store.note(action, now))

    # the queue

    async def run_queue(self) -> None:
        """Look at the queue whenever something happens, for ever."""
        while True:
            self._wake = trio.Event()
            pause = TICK_SECONDS
            try:
                pause = await self._tick()
                self._ticked_at = trio.current_time()
            except StoreError as error:
                _FAILED.inc()
                emit("actors.farm.state_failed", level="error", error=str(error))
            with trio.move_on_after(pause):
                await self._wake.wait()

    async def _tick(self) -> float:
        """One look; returns seconds until the next one is due."""
        now = self.clock()
        since = now - self.config.fairness.window_hours * 3600.0
        look = await self.store.do(partial(_look, now=now, since=since))
        for daily in look.waiting:
            if daily.state is RunState.SCHEDULED and daily.held is None and daily.ready_at <= now:
                await self._spawn(daily, now)
        phones = self.config.farm_phones()
        draining, without_engine = self._ending or WHOLE_FARM in look.pauses, self.engines.why_none()
        closed = draining or bool(without_engine)
        ready = [
            one for one in look.waiting if one.state is RunState.QUEUED and one.held is None and one.ready_at <= now
        ]
        decision = decide(
            [] if closed else [_waiting(one) for one in ready],
            phones,
            unusable=frozenset(look.reservations),
            paused=frozenset(look.pauses),
            free_runs=self.config.limits.runs - look.under_way,
            shares={
                tenant: Share(self.config.weight_of(tenant), look.used.get(tenant, 0.0))
                for tenant in {*look.used, *(one.work.tenant for one in ready)}
            },
            now=now,
            settings=self.config.fairness.settings,
        )
        closed_reason = "the farm is drained: it starts nothing" if draining else without_engine
        self._reasons = {one.run: closed_reason for one in ready} if closed else decision.reasons
        works = {one.run: one.work for one in ready}
        for start in decision.starts:
            async with self.attempts.changing:
                if not self._ending:
                    await self._start(works[start.run], start.run, start.phones)
        self._tell(look, phones=len(phones), started=len(decision.starts), draining=draining)
        starting = {start.run for start in decision.starts}
        tell_longest_wait(max((now - one.ready_at for one in ready if one.run not in starting), default=0.0))
        later = [one.ready_at - now for one in look.waiting if one.held is None and one.ready_at > now]
        return min([TICK_SECONDS, *(max(0.05, seconds) for seconds in later)])

    async def _spawn(self, daily: RunRecord, now: float) -> None:
        assert daily.work.daily is not None
        due = next_daily(daily.work.daily, now)
        made = await self.store.do(lambda store: store.spawn(daily.run, self._new_id(now), now, due))
        if made is not None:
            emit("actors.farm.run_submitted", run=made.run, origin=daily.run, tenant=made.work.tenant)
            self._wake.set()

    async def _start(self, work: Work, run: str, phones: Sequence[str]) -> None:
        try:
            attempt = await self.store.do(lambda store: store.start(run, phones, self.clock()))
        except Refused as error:  # cancelled or paused since the queue was looked at
            emit("actors.farm.start_refused", run=run, reason=str(error))
            return
        self.attempts.begin(work, attempt)

    def _source_of(self, found: Submission) -> bytes:
        if found.text is not None:
            return found.text.encode()
        assert found.scenario is not None, "a submission has one or the other"
        return read_scenario(Path(self.config.farm.scenarios), found.scenario)

    def _new_id(self, now: float) -> str:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        return f"{stamp}-{secrets.token_hex(3)}"

    def _tell(self, look: _Look, *, phones: int, started: int, draining: bool) -> None:
        paused = len(set(look.pauses) - {WHOLE_FARM})
        playing = look.under_way + started
        queued = sum(one.state is RunState.QUEUED for one in look.waiting) - started
        busy = len(look.reservations)
        self._last = FarmStatistics(playing, queued, phones, busy, paused, draining, 0.0)
        _QUEUED.set(queued)
        _PLAYING.set(playing)
        tell_pool(phones=phones, busy=busy, paused=paused)


@asynccontextmanager
async def open_farm(
    config: FarmConfig,
    *,
    program: tuple[str, ...] = PROGRAM,
    clock: Callable[[], float] = time.time,
    tell: Callable[[AttemptRecord], None] = lambda _: None,
    tell_rollout: Callable[[Rollout], None] = lambda _: None,
) -> AsyncIterator[Farm]:
    """A farm that works while the block runs. Call `drain` before it ends, to be polite: what plays then is killed.

    Args:
        config: As loaded: paths are absolute.
        program: What `run` is a command of.
        clock: Seconds since 1970.
        tell: Is told of every attempt that has ended.
        tell_rollout: And of every change of the engines.

    Raises:
        StoreError: the farm's folder is in use, or its state cannot be opened.
    """
    folder = Path(config.farm.folder)
    with open_folder(folder) as state:
        database = await trio.to_thread.run_sync(open_database, state)
        try:
            farm = Farm(config, folder, StoreDesk(Store(database)), clock)
            async with (
                open_engines(lambda: farm.config, folder, farm.store, tell=tell_rollout) as farm.engines,
                open_bare_nursery() as nursery,
            ):
                farm.findings = FindingsDesk(folder, farm.store, clock)
                farm.attempts = Attempts(
                    lambda: farm.config,
                    folder,
                    farm.store,
                    nursery,
                    program,
                    farm.engines.door.path,
                    clock,
                    farm.attempt_ended,
                    tell,
                )
                await farm.attempts.recover()
                nursery.start_soon(farm.run_queue)
                nursery.start_soon(farm.findings.run)
                nursery.start_soon(
                    run_retention, lambda: farm.config.retention, folder, farm.store, farm.findings, clock
                )
                yield farm
                nursery.cancel_scope.cancel()
        finally:
            database.close()


def _look(store: Store, *, now: float, since: float) -> _Look:
    return _Look(
        store.waiting(),
        store.reservations(),
        store.pauses(),
        store.used_seconds(since, now, MIN_CHARGED_SECONDS),
        len(store.under_way()),
    )


def _waiting(record: RunRecord) -> Waiting:
    work = record.work
    return Waiting(
        record.run,
        work.tenant,
        work.phones,
        frozenset(work.labels),
        work.priority,
        record.ready_at,
        record.number,
    )
