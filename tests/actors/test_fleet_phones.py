"""A phone in a fleet: how long one that is away is tried, one that is unauthorized, and when its vendor reboots it."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
import trio

from actors import fleet, fleet_phones
from actors.devices.adb.client import AdbClient
from actors.devices.adb.connections import PhoneConnections
from actors.devices.adb.errors import AdbServerLost, DeviceNotFound, DeviceUnauthorized
from actors.devices.adb.identity import IDENTITY_SECONDS
from actors.devices.adb.wire import DeviceEntry
from actors.devices.base import Device, DeviceLost
from actors.fleet import Fleet
from actors.fleet_phones import run_phone_child
from actors.phone import ALLOW_US, UNAUTHORIZED, PhoneJob
from actors.vendor import Vendor
from actors.vendor_config import VendorConfig
from policies.criteria import Outcome
from policies.step import EpisodeEnd
from runtime.child import ChildContext
from runtime.ids import PhoneId
from runtime.lifecycle import State
from runtime.restart import Failure, GiveUp, decide
from runtime.supervisor import open_supervisor


def test_a_phone_that_stays_away_is_given_up_and_not_tried_for_ever() -> None:
    """The slowest way to fail: each start takes all the time that it may, and each pause is the longest."""
    intensity, now = fleet.PHONE_INTENSITY, 0.0
    history: list[Failure] = []
    for _ in range(intensity.max_restarts + 1):
        now += fleet_phones.ATTACH_SECONDS + IDENTITY_SECONDS
        history.append(Failure(now, 0.0))
        decision = decide(history, now, intensity, 0.999)
        if isinstance(decision, GiveUp):
            return
        now += decision.after_seconds
    pytest.fail("it would be tried for ever")


def job_that_fails(error: DeviceLost) -> PhoneJob:
    @asynccontextmanager
    async def open_device() -> AsyncIterator[Device]:
        raise error
        yield  # type: ignore[unreachable]

    nothing: Any = None
    session: Any = object()
    return PhoneJob(PhoneId("P1"), "a:1", nothing, "app", open_device, [session], nothing, nothing)


@pytest.mark.parametrize(
    ("error", "reboots"), [(DeviceNotFound("gone"), 1), (DeviceUnauthorized("accept this host's key"), 0)]
)
async def test_the_vendor_reboots_a_phone_once_where_that_may_help(
    tmp_path: Path, error: DeviceLost, reboots: int
) -> None:
    log = tmp_path / "calls"
    write = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + '\\n')"
    vendor = Vendor(VendorConfig(reboot=(sys.executable, "-c", write, str(log), "{address}")))
    job = job_that_fails(error)
    for _ in range(fleet_phones.REBOOT_AFTER_LOSSES + 2):
        with pytest.raises(DeviceLost):
            await run_phone_child(job, vendor, ChildContext("phone", 0), task_status=trio.TASK_STATUS_IGNORED)

    assert (log.read_text().splitlines() if log.exists() else []) == ["a:1"] * reboots
    assert job.was_rebooted == bool(reboots)


ADDRESS = "10.9.8.7:5555"


@attrs.define(eq=False)
class _Keeper:
    paused: str | None = None
    state: str = ""

    def release(self) -> None:
        """No account was lent."""


@attrs.define(eq=False)
class UnauthorizedPhone:
    """A phone that adb lists as it is told, without adb; an episode on it is over as soon as it can be reached."""

    fleet: Fleet
    connections: PhoneConnections
    job: PhoneJob
    ends: list[EpisodeEnd]

    def list_as(self, state: str) -> None:
        """What track-devices tells from now on."""
        self.connections.states.observe([DeviceEntry(ADDRESS, state)], trio.current_time())
        self.connections.forget("nobody")  # wakes who waits, as every list does

    @property
    def child(self) -> Any:
        """What the supervisor says of its actor."""
        (child,) = self.fleet.supervisor.statistics().children
        return child


@asynccontextmanager
async def unauthorized_phone() -> AsyncIterator[UnauthorizedPhone]:
    def no_server() -> AdbClient:
        raise AdbServerLost("there is none")

    nothing: Any = None
    ends: list[EpisodeEnd] = []
    connections = PhoneConnections(no_server)
    connections.states.want(ADDRESS)

    @asynccontextmanager
    async def open_device() -> AsyncIterator[Device]:
        if connections.health()[0].listed != "device":
            await connections.wait_ready(ADDRESS, timeout_seconds=fleet_phones.ATTACH_SECONDS)
        job.give_up(Outcome.SUCCEEDED, "played")
        yield nothing

    session: Any = SimpleNamespace(end=None, stop=lambda _: None)
    job = PhoneJob(
        PhoneId("P1"),
        ADDRESS,
        nothing,
        "app",
        open_device,
        [session],
        cast("Any", _Keeper()),
        lambda _, end: ends.append(end),
        partial(connections.wait_authorized, ADDRESS),
    )
    async with open_supervisor("fleet") as supervisor:
        played = Fleet(nothing, "run", supervisor, nothing, nothing, jobs=[job], connections=connections)
        phone = UnauthorizedPhone(played, connections, job, ends)
        phone.list_as("unauthorized")
        yield phone
        await supervisor.drain()


async def test_an_unauthorized_phone_is_waited_for_and_its_episode_plays_once_it_is_approved(
    autojump_clock: trio.abc.Clock,
) -> None:
    """Longer than the minute and more after which a phone that keeps failing is given up."""
    async with unauthorized_phone() as phone, trio.open_nursery() as nursery:
        nursery.start_soon(phone.fleet.play)
        await trio.sleep(fleet.PHONE_INTENSITY.period_seconds + 60)
        assert (phone.job.state, phone.job.note, phone.job.lost) == (UNAUTHORIZED, ALLOW_US, 0)
        assert (phone.child.state, phone.child.restarts) == (State.RUNNING, 0)
        assert phone.connections.health()[0].connects == 0
        phone.list_as("device")
        await trio.sleep(5)
        assert phone.ends == [EpisodeEnd(Outcome.SUCCEEDED, "played")]
        assert (phone.job.note, phone.job.lost, phone.child.restarts) == ("", 0, 0)


async def test_a_run_that_has_only_unauthorized_phones_left_ends_with_a_reason(autojump_clock: trio.abc.Clock) -> None:
    async with unauthorized_phone() as phone:
        started = trio.current_time()
        await phone.fleet.play()
        assert trio.current_time() - started >= fleet.OWNER_SECONDS
        assert [end.outcome for end in phone.ends] == [Outcome.QUARANTINED]
        assert ALLOW_US in phone.ends[0].reason


async def test_a_drain_does_not_wait_for_the_owner_of_a_phone(autojump_clock: trio.abc.Clock) -> None:
    async with unauthorized_phone() as phone, trio.open_nursery() as nursery:
        nursery.start_soon(phone.fleet.play)
        await trio.sleep(30)
        asked = trio.current_time()
        await phone.fleet.drain()
        assert trio.current_time() - asked < 1.0
        nursery.cancel_scope.cancel()
