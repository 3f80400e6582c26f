"""A phone in a fleet: how long one that is away is tried, and when its vendor reboots it."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from actors import fleet, fleet_phones
from actors.devices.adb.errors import DeviceNotFound, DeviceUnauthorized
from actors.devices.adb.identity import IDENTITY_SECONDS
from actors.devices.base import Device, DeviceLost
from actors.fleet_phones import run_phone_child
from actors.phone import PhoneJob
from actors.vendor import Vendor
from actors.vendor_config import VendorConfig
from runtime.child import ChildContext
from runtime.ids import PhoneId
from runtime.restart import Failure, GiveUp, decide


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
