"""One phone: opened, set up, played on and put away, episode after episode. The supervisor restarts it when lost."""

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs
import trio

from actors.custody import Custody
from actors.devices.adb.errors import DeviceUnauthorized
from actors.devices.base import Device, DeviceError, DeviceLost
from actors.live_log import DONE, FAILED
from actors.scenario import AppConfig
from actors.session import EpisodeSession
from actors.setup import AppKeeper
from policies.action import Action
from policies.criteria import Outcome
from policies.frame import Frame
from policies.step import EpisodeEnd
from runtime.child import ChildContext, Expected
from runtime.ids import PhoneId
from runtime.telemetry import bind, counter, emit

STOPPED = "the run was stopped"
UNAUTHORIZED = "unauthorized"
ALLOW_US = "allow this computer on the phone's screen, or set $ADB_VENDOR_KEYS to a key that it knows"
_LOST = counter("actors_lost_phones_total", "Times that a phone went away while an episode was played on it.")


class OpenDevice(Protocol):
    """How a phone is reached."""

    def __call__(self) -> AbstractAsyncContextManager[Device]:
        """A device that is ready. Raises `DeviceLost` where it cannot be had."""
        ...


@attrs.define(eq=False)
class PhoneJob:
    """What one phone has to do, and what has become of it. It outlives the phone actor's restarts."""

    phone: PhoneId
    address: str
    app: AppConfig
    app_name: str
    open_device: OpenDevice
    sessions: Sequence[EpisodeSession]
    keeper: AppKeeper
    on_end: Callable[[EpisodeSession, EpisodeEnd], None]
    wait_authorized: Callable[[], Awaitable[None]] | None = None
    """Returns once adb no longer lists the phone as unauthorized."""
    lost: int = 0
    """Times that the phone went away."""
    stopping: bool = False
    state: str = "waiting"
    note: str = ""
    """What somebody has to do about the phone itself."""
    device: Device | None = None
    current: int = 0
    """Index of the session that plays, or is next."""
    was_rebooted: bool = False
    """By the vendor, which is done once."""
    custody: Custody = attrs.field(factory=Custody)
    """Whoever has taken the phone over, or stopped the run."""
    prepared: int = -1
    """Index of the last session whose app was set up."""

    @property
    def session(self) -> EpisodeSession | None:
        """The session that plays or is next; None when all are done."""
        return self.sessions[self.current] if self.current < len(self.sessions) else None

    @property
    def needs_human(self) -> str | None:
        """Why a person is needed on this phone; None while none is."""
        if self.keeper.paused is not None or self.session is None:
            return self.keeper.paused
        return self.session.policy.paused

    @property
    def shown_state(self) -> str:
        """What the phone is at, for people and `corral status`."""
        return "needs_human" if self.needs_human is not None else self.keeper.state or self.state

    def resume(self) -> bool:
        """A person says: go on. Returns False where none was needed."""
        if self.needs_human is None:
            return False
        if self.keeper.paused is not None:
            self.keeper.resume()
        elif self.session is not None:
            self.session.resume()
        return True

    @property
    def newest(self) -> Frame | None:
        """What the phone shows, for people who look on.

        None where nothing plays, and on the way into an app, where secrets are typed, unless a person is needed there.
        """
        if self.keeper.paused is not None:
            return self.keeper.newest
        return None if self.session is None else self.session.newest

    def take_over(self, by: str, now: float) -> str | None:
        """A person takes the phone: the bot yields at once.

        Returns:
            None, or why not: somebody else has it, or there is nothing to take over.
        """
        if self.session is None or self.device is None:
            return f"nothing plays on {self.phone}"
        if self.state != "playing" and self.keeper.paused is None:
            return f"the app on {self.phone} is being set up or put away: take it over once it plays"
        if not self.custody.take(by, now):
            return f"{self.custody.holder(now)} has taken over {self.phone}"
        self.session.yield_now()
        return None

    def hand_back(self) -> bool:
        """The bot goes on, also where a person was needed. Returns False where nobody had the phone."""
        if not self.custody.give_back():
            return False
        self.resume()
        if self.session is not None:
            self.session.yield_now()
        return True

    def hold(self, by: str | None) -> None:
        """The whole run stands still (None: it goes on)."""
        self.custody.stopped_by = by
        if self.session is not None:
            self.session.yield_now()

    async def input(self, action: Action, by: str, now: float) -> None:
        """Do what the person who took over wants.

        Raises:
            DeviceError: the phone refuses it, or went away.
        """
        assert self.device is not None, "who takes over has a phone"
        shown = None if self.session is None else self.session.live.person(action, self.newest, by, now)
        outcome = FAILED
        try:
            await self.device.act(action)
            outcome = DONE
        finally:
            if shown is not None:
                shown.outcome = outcome

    def finish(self, session: EpisodeSession, end: EpisodeEnd) -> None:
        """One session is over, whoever ended it; its account is free."""
        self.keeper.release()
        session.end = end
        self.current += 1
        self.on_end(session, end)

    def stop(self) -> None:
        """End the present session at its next step, and begin no other.

        Every phone is told before any is waited for, so that a large fleet stops at once.
        """
        self.stopping = True
        if self.session is not None:
            self.session.stop(STOPPED)

    def give_up(self, outcome: Outcome, reason: str) -> None:
        """End all sessions that are left."""
        while self.session is not None:
            self.finish(self.session, EpisodeEnd(outcome, reason))


async def run_phone(
    job: PhoneJob, context: ChildContext, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """The phone's actor: plays its sessions until none is left or a drain is asked for.

    A phone that is found unauthorized is waited for, as long as it takes: that is no failure, and no restart cures it.

    Raises:
        DeviceLost: the phone went away; started again, it plays the same episode on.
    """
    ready = _Ready(task_status)
    with bind(phone=job.phone):
        while not await _is_over(job, context, ready):
            ready.tell()  # an actor that waits for its phone's owner is not late
            if not await _is_authorized(job, context):
                return


@attrs.define
class _Ready:
    """Tells the supervisor once, whatever comes first."""

    task_status: trio.TaskStatus[None]
    is_told: bool = False

    def tell(self) -> None:
        """The actor is up."""
        if not self.is_told:
            self.is_told = True
            self.task_status.started()


async def _is_over(job: PhoneJob, context: ChildContext, ready: _Ready) -> bool:
    """Play on the phone; False where it wants its owner to accept our key first. Raises as `run_phone`."""
    job.state, job.note = "opening", ""
    try:
        async with job.open_device() as device:
            job.device = device
            ready.tell()
            await _play_all(job, device, context)
    except DeviceLost as error:
        is_found_so = job.device is None and isinstance(error, DeviceUnauthorized)
        if is_found_so and job.wait_authorized is not None and job.session is not None:
            job.state, job.note = UNAUTHORIZED, ALLOW_US
            emit("actors.phone.unauthorized", level="warning", address=job.address, remedy=ALLOW_US)
            return False
        job.lost += 1
        job.state = "lost"
        _LOST.inc()
        emit("actors.phone.lost", level="warning", error=str(error), times=job.lost)
        if job.session is None:
            raise Expected from error  # all episodes were over: nothing is left to come back for
        raise
    finally:
        job.device = None
    job.state = "done"
    return True


async def _is_authorized(job: PhoneJob, context: ChildContext) -> bool:
    """Wait until adb tells a change of the phone; False when there is nothing to go on with."""
    assert job.wait_authorized is not None, "who cannot wait is lost"
    changed = False
    async with trio.open_nursery() as nursery:

        async def cancel_on_drain() -> None:
            await context.draining.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(cancel_on_drain)
        await job.wait_authorized()
        changed = True
        nursery.cancel_scope.cancel()
    return changed and job.session is not None and not context.draining.is_set()


async def _play_all(job: PhoneJob, device: Device, context: ChildContext) -> None:
    while job.session is not None and not job.stopping and not context.draining.is_set():
        session = job.session
        with bind(episode=session.spec.episode):
            end: EpisodeEnd | DeviceLost | None = None
            if job.prepared < job.current:
                job.state = "preparing"
                end = await _preparing(job, device, context)
            is_ready = end is None
            if end is None:
                job.prepared = job.current
                job.state = "playing"
                emit("actors.episode.started", app=job.app_name, seed=session.spec.seed)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_stop_on_drain, session, context)
                    end = await _playing(session, device)
                    nursery.cancel_scope.cancel()
            if isinstance(end, DeviceLost):
                raise end
            end = _explained(session, end)
            try:
                await job.keeper.tear_down(device, flow=is_ready and not context.draining.is_set())
            finally:
                # the outcome stands, also where the phone is lost while the app is put away
                job.finish(session, end)
            emit("actors.episode.ended", outcome=end.outcome.value, reason=end.reason, score=session.policy.score)


def _explained(session: EpisodeSession, end: EpisodeEnd) -> EpisodeEnd:
    """An episode that failed on a black screen says what the phone told about that."""
    cause = session.statistics.black_cause
    if cause is None or end.outcome is not Outcome.FAILED:
        return end
    return attrs.evolve(end, reason=f"{end.reason}; it was black for a while: {cause}")


async def _preparing(job: PhoneJob, device: Device, context: ChildContext) -> EpisodeEnd | DeviceLost | None:
    """None when the episode can begin. As values, as in `_playing`."""
    end: EpisodeEnd | DeviceLost | None = EpisodeEnd(Outcome.CANCELLED, STOPPED)
    async with trio.open_nursery() as nursery:

        async def cancel_on_drain() -> None:
            await context.draining.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(cancel_on_drain)
        try:
            failed = await job.keeper.prepare(device)
        except DeviceLost as error:
            end = error
        except DeviceError as error:
            end = EpisodeEnd(Outcome.FAILED, f"the app could not be started: {error}")
        else:
            end = None if failed is None else EpisodeEnd(Outcome.FAILED, failed)
        nursery.cancel_scope.cancel()
    return end


async def _playing(session: EpisodeSession, device: Device) -> EpisodeEnd | DeviceLost:
    """As a value, so that a lost phone leaves the nursery as itself and not inside an exception group."""
    try:
        return await session.play(device)
    except DeviceLost as error:
        return error


async def _stop_on_drain(session: EpisodeSession, context: ChildContext) -> None:
    await context.draining.wait()
    session.stop(STOPPED)


def draw_from(seed: int) -> Callable[[], float]:
    """An episode's chance: the same seed gives the same draws."""
    return random.Random(seed).random
