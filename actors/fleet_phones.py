"""How a fleet reaches its phones: over kept connections, one actor each, and a vendor behind those that stay lost."""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.assets import AppAssets
from actors.devices.adb.client import AdbClient
from actors.devices.adb.connections import PhoneConnections
from actors.devices.adb.device import AdbDeadlines, open_adb_device
from actors.devices.adb.errors import AdbServerLost, DeviceUnauthorized, PhoneTaken
from actors.devices.adb.method_memory import MethodMemory
from actors.devices.adb.scrcpy import ScrcpyConfig
from actors.devices.adb.server import AdbServer
from actors.devices.base import CaptureMethod, Device, DeviceLost
from actors.discovery import FoundPhone
from actors.phone import PhoneJob, run_phone
from actors.scenario import Scenario
from actors.simulated import stand_in_server
from actors.vendor import Vendor, VendorError
from runtime.child import ChildContext
from runtime.ids import PhoneId
from runtime.telemetry import emit

ATTACH_SECONDS = 12.0  # adb itself gives a silent phone 10 s
REBOOT_AFTER_LOSSES = 3  # in the vendor's hands, once a run: what three reconnects did not heal
MAX_FPS = 60.0  # of a video stream; no screen draws more for us


@attrs.define(eq=False)
class Link:
    """The adb server of the moment: a restart puts a new one here."""

    server: AdbServer | None = None
    port: int | None = None
    """The same after a restart."""

    @property
    def client(self) -> AdbClient:
        """Raises `AdbServerLost` while there is none."""
        if self.server is None:
            raise AdbServerLost("our adb server is being restarted")
        return self.server.client


@attrs.frozen(eq=False)
class Ways:
    """What it takes to reach a fleet's phones."""

    scenario: Scenario
    link: Link
    connections: PhoneConnections
    memory: MethodMemory
    """Which capture method is best for which model."""
    folder: Path
    """The run's own."""
    found: Sequence[FoundPhone]
    """All phones of the fleet."""


async def run_phone_child(
    job: PhoneJob, vendor: Vendor | None, context: ChildContext, /, *, task_status: trio.TaskStatus[Any]
) -> None:
    """The phone's actor, with the vendor behind it. Raises `DeviceLost`, after a reboot where that may help."""
    try:
        await run_phone(job, context, task_status=task_status)
    except DeviceLost as error:
        is_cured_by_it = not isinstance(error, AdbServerLost | DeviceUnauthorized | PhoneTaken)
        if (
            vendor is not None
            and vendor.can_reboot
            and job.lost >= REBOOT_AFTER_LOSSES
            and not job.was_rebooted
            and is_cured_by_it
        ):
            job.was_rebooted = True
            job.state = "rebooting"
            emit("actors.phone.rebooted", level="warning", phone=job.phone, address=job.address, times=job.lost)
            try:
                await vendor.reboot(job.address, job.phone)
            except VendorError as error:
                emit("actors.vendor.failed", level="warning", command="reboot", error=str(error))
        raise


@asynccontextmanager
async def open_phone(ways: Ways, found: FoundPhone, assets: AppAssets) -> AsyncIterator[Device]:
    """A phone of the fleet, ready to be played on.

    Raises:
        DeviceLost: it cannot be had: away, offline, unauthorized, or driven by somebody else (`PhoneTaken`).
    """
    scenario, connections = ways.scenario, ways.connections
    deadlines = AdbDeadlines(attach=ATTACH_SECONDS, capture=scenario.capture.timeout_seconds)
    # first of all, so that a server that is being restarted is waited for, and not counted against the phone
    await connections.wait_ready(found.address, timeout_seconds=deadlines.attach)
    try:
        async with open_adb_device(
            ways.link.client,
            found.address,
            max_side=assets.profile.max_side,
            deadlines=deadlines,
            method=found.capture,
            scrcpy=_scrcpy_for(found, scenario, assets, ways.folder),
            memory=ways.memory,
            driver=found.driver,
            attached=connections.attach,
        ) as device:
            refuse_other_phone(ways.found, found, device.info.phone)
            yield device
    except DeviceLost:
        connections.doubt(found.address)
        raise


def refuse_other_phone(all_found: Sequence[FoundPhone], found: FoundPhone, phone: PhoneId) -> None:
    """Two actors on one phone would undo each other's work. Raises `PhoneTaken`."""
    if phone == found.phone:
        return
    if any(other.phone == phone and other.address != found.address for other in all_found):
        raise PhoneTaken(f"this is {phone}, which is driven through another address already", phone=found.address)
    if found.error is None:
        raise PhoneTaken(f"this was {found.phone}, and now {phone} is at this address", phone=found.address)


def _scrcpy_for(found: FoundPhone, scenario: Scenario, assets: AppAssets, folder: Path) -> ScrcpyConfig | None:
    """The server to run on that phone; as many frames a second as somebody will look at."""
    if found.scrcpy_server is not None:
        jar = assets.folder / found.scrcpy_server
    elif found.is_simulated and found.capture in (CaptureMethod.SCRCPY, CaptureMethod.AUTO):
        jar = stand_in_server(folder)
    else:
        return None
    return ScrcpyConfig(jar=jar, max_fps=min(MAX_FPS, math.ceil(1 / scenario.capture.every_seconds)))


def heard_at(jobs: Mapping[str, PhoneJob], address: str) -> float | None:
    """When the phone last answered whoever plays on it."""
    job = jobs.get(address)
    return job.device.statistics().last_success_at if job is not None and job.device is not None else None
