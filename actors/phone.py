"""One phone: opened, prepared, and played on, one episode at a time. The supervisor restarts it when it is lost."""

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs
import trio

from actors.devices.base import Device, DeviceError, DeviceLost
from actors.scenario import AppConfig
from actors.session import EpisodeSession
from policies.criteria import Outcome
from policies.step import EpisodeEnd
from runtime.child import ChildContext, Expected
from runtime.ids import PhoneId
from runtime.telemetry import bind, counter, emit

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
    prepare: "Prepare"
    on_end: Callable[[EpisodeSession, EpisodeEnd], None]
    lost: int = 0
    """Times that the phone went away."""
    state: str = "waiting"
    device: Device | None = None
    current: int = 0
    """Index of the session that plays, or is next."""
    prepared: int = -1
    """Index of the last session whose app was started."""

    @property
    def session(self) -> EpisodeSession | None:
        """The session that plays or is next; None when all are done."""
        return self.sessions[self.current] if self.current < len(self.sessions) else None

    def finish(self, session: EpisodeSession, end: EpisodeEnd) -> None:
        """One session is over, whoever ended it."""
        session.end = end
        self.current += 1
        self.on_end(session, end)

    def give_up(self, outcome: Outcome, reason: str) -> None:
        """End all sessions that are left."""
        while self.session is not None:
            self.finish(self.session, EpisodeEnd(outcome, reason))


class Prepare(Protocol):
    """Brings an app to where an episode can begin. Raises `DeviceError`."""

    async def __call__(self, device: Device, app: AppConfig) -> None:
        """Set the app up and start it."""
        ...


async def run_phone(
    job: PhoneJob, context: ChildContext, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """The phone's actor: plays its sessions until none is left or a drain is asked for.

    Raises:
        DeviceLost: the phone went away; started again, it plays the same episode on.
    """
    with bind(phone=job.phone):
        job.state = "opening"
        try:
            async with job.open_device() as device:
                job.device = device
                task_status.started()
                await _play_all(job, device, context)
        except DeviceLost as error:
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


async def _play_all(job: PhoneJob, device: Device, context: ChildContext) -> None:
    while job.session is not None and not context.draining.is_set():
        session = job.session
        with bind(episode=session.spec.episode):
            if job.prepared < job.current:
                job.state = "preparing"
                try:
                    await job.prepare(device, job.app)
                except DeviceLost:
                    raise
                except DeviceError as error:
                    job.finish(session, EpisodeEnd(Outcome.FAILED, f"the app could not be started: {error}"))
                    continue
                job.prepared = job.current
            job.state = "playing"
            emit("actors.episode.started", app=job.app_name, seed=session.spec.seed)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_stop_on_drain, session, context)
                end = await _playing(session, device)
                nursery.cancel_scope.cancel()
            if isinstance(end, DeviceLost):
                raise end
            job.finish(session, end)
            emit("actors.episode.ended", outcome=end.outcome.value, reason=end.reason, score=session.policy.score)


async def _playing(session: EpisodeSession, device: Device) -> EpisodeEnd | DeviceLost:
    """As a value, so that a lost phone leaves the nursery as itself and not inside an exception group."""
    try:
        return await session.play(device)
    except DeviceLost as error:
        return error


async def _stop_on_drain(session: EpisodeSession, context: ChildContext) -> None:
    await context.draining.wait()
    session.stop("the run was stopped")


async def start_app(device: Device, app: AppConfig) -> None:
    """Stop an app and start it afresh.

    Raises:
        DeviceError: the phone says that it could not be started.
    """
    await device.shell(f"am force-stop {app.package}")
    if app.activity is not None:
        command = f"am start -n {app.package}/{app.activity}"
    else:
        command = f"monkey -p {app.package} -c android.intent.category.LAUNCHER 1"
    result = await device.shell(command, timeout_seconds=20.0)
    output = (result.stdout + result.stderr).decode("utf-8", "replace")
    # am and monkey both exit with 0 on some Android versions when they fail, so the text is read too
    if result.exit_code not in (0, None) or "Error" in output or "No activities found" in output:
        raise DeviceError(f"{command!r} failed: {output.strip()[:200]}", phone=device.info.phone)


def draw_from(seed: int) -> Callable[[], float]:
    """An episode's chance: the same seed gives the same draws."""
    return random.Random(seed).random
