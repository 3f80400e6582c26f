"""Looks at phones: through runs that are under way, the user's adb server, and one of our own where it is needed.

A foreign adb server is asked and nothing else: it is not started, not ended, and its phones are neither connected nor
disconnected. A phone that a run plays on is not touched at all: the run tells of it.
"""

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.control import PATH_NAME, SOCKET_NAME, ControlError, ask
from actors.devices.adb.attach import attach, is_network_address
from actors.devices.adb.client import AdbClient
from actors.devices.adb.device import AdbDeadlines, AdbDevice
from actors.devices.adb.identity import read_identity
from actors.devices.adb.link import NativeLink
from actors.devices.adb.method_memory import MethodMemory, memory_key
from actors.devices.adb.server import AdbServerConfig, open_adb_server
from actors.devices.adb.shell import SHELL_V2
from actors.devices.adb.wire import DeviceEntry
from actors.devices.base import CaptureMethod, DeviceError
from actors.devices_view import (
    READY,
    DeviceRow,
    row_for_error,
    row_for_listed,
    row_for_run,
    with_doubles,
)
from actors.scenario import AdbPhones, Scenario

AT_ONCE = 8  # captures in flight: more only wait for each other on the adb server
USUAL_PORT = 5037
USER_SERVER_SECONDS = 2.0
ATTACH_SECONDS = 12.0  # adb itself gives a silent phone ten
_SOCKET = re.compile(r"tcp:(?:(?:localhost|127\.0\.0\.1):)?(\d{1,5})")


class NothingToLookAt(Exception):
    """There is neither an adb server nor a run; the text says what to do."""


@attrs.frozen
class WantedPhone:
    """A phone that a scenario names."""

    address: str
    capture: CaptureMethod = CaptureMethod.AUTO


@attrs.frozen
class RunView:
    """What a run that is under way tells of its phones."""

    folder: Path
    scenario: str
    rows: tuple[DeviceRow, ...]


def wanted_by(scenario: Scenario) -> tuple[WantedPhone, ...]:
    """The real phones of a scenario; simulated ones are there while it runs only."""
    return tuple(
        WantedPhone(address, group.capture)
        for group in scenario.phones
        if isinstance(group, AdbPhones)
        for address in group.addresses
    )


def user_port(environ: Mapping[str, str] = os.environ) -> int | None:
    """The port of the user's adb server on this host, as adb itself would find it; None: it is elsewhere."""
    address = environ.get("ADB_SERVER_SOCKET")
    if address:
        found = _SOCKET.fullmatch(address)
        return int(found.group(1)) if found else None
    port = environ.get("ANDROID_ADB_SERVER_PORT", "")
    return int(port) if port.isdecimal() and int(port) < 65536 else USUAL_PORT


async def runs_under_way(folder: Path) -> list[RunView]:
    """The runs in a folder of run folders, or that one run, which answer now."""
    views: list[RunView] = []

    async def view(place: Path) -> None:
        try:
            told = await ask(place, {"command": "status"})
        except ControlError:
            return  # it ended without tidying up, or belongs to somebody else: nothing of it can be shown
        views.append(_view_of(place, told))

    async with trio.open_nursery() as nursery:
        for place in await trio.to_thread.run_sync(_with_a_door, folder):
            nursery.start_soon(view, place)
    return sorted(views, key=lambda one: str(one.folder))


def _with_a_door(folder: Path) -> list[Path]:
    """The folder itself and those in it that say where a run can be asked."""
    places = [folder, *(sorted(folder.iterdir()) if folder.is_dir() else [])]
    return [place for place in places if (place / SOCKET_NAME).exists() or (place / PATH_NAME).exists()]


def _view_of(folder: Path, told: Mapping[str, Any]) -> RunView:
    phones = told.get("phones")
    rows = [row_for_run(one, folder=str(folder)) for one in phones if isinstance(one, dict)] if phones else []
    return RunView(folder, str(told.get("scenario", "")), tuple(row for row in rows if row is not None))


@attrs.define(eq=False)
class DevicesLook:
    """Made by `open_look`."""

    scenario: Scenario | None
    runs: Path
    port: int | None
    """Of the user's adb server."""
    memory: MethodMemory
    _stack: AsyncExitStack
    _own: AdbClient | None = attrs.field(init=False, default=None)
    _limiter: trio.CapacityLimiter = attrs.field(init=False, factory=lambda: trio.CapacityLimiter(AT_ONCE))

    async def look(self) -> list[DeviceRow]:
        """Every phone now: of the scenario, else all that the user's adb server lists and all that runs play on.

        Raises:
            NothingToLookAt: without a scenario, neither of the two is there.
        """
        runs = await runs_under_way(self.runs)
        listed = await self._users_list()
        if self.scenario is not None:
            rows = await self._wanted(wanted_by(self.scenario), runs, listed or ())
            shown = {row.address for row in rows}
            mine = [run for run in runs if run.scenario == self.scenario.name]
            return with_doubles([*rows, *(row for run in mine for row in run.rows if row.address not in shown)])
        if listed is None and not runs:
            where = f"on port {self.port}" if self.port is not None else "on this host"
            raise NothingToLookAt(
                f"no adb server answers {where}, and no corral run is under way in {self.runs}: start one, or give a "
                "scenario that names phones"
            )
        return with_doubles(await self._everything(runs, listed or ()))

    async def _users_list(self) -> tuple[DeviceEntry, ...] | None:
        """None where no server answers."""
        if self.port is None:
            return None
        try:
            return await AdbClient(self.port).devices(timeout_seconds=USER_SERVER_SECONDS)
        except DeviceError:
            return None

    async def _everything(self, runs: Sequence[RunView], listed: Sequence[DeviceEntry]) -> list[DeviceRow]:
        used = {row.address: row for run in runs for row in run.rows}
        asked = [entry for entry in listed if entry.serial not in used]
        rows = await self._all([(entry.serial, CaptureMethod.AUTO, entry) for entry in asked])
        by_phone = {row.phone: row for row in used.values()}
        told = []
        for row in rows:
            user = by_phone.get(row.phone) if row.phone else None
            told.append(row if user is None else attrs.evolve(row, used_by=user.used_by, app=user.app))
        return [*told, *used.values()]

    async def _wanted(
        self, wanted: Sequence[WantedPhone], runs: Sequence[RunView], listed: Sequence[DeviceEntry]
    ) -> list[DeviceRow]:
        used = {row.address: row for run in runs for row in run.rows}
        entries = {entry.serial: entry for entry in listed}
        free = [one for one in wanted if one.address not in used]
        asked = await self._all([(one.address, one.capture, entries.get(one.address)) for one in free])
        by_address = {row.address: row for row in asked}
        return [used.get(one.address) or by_address[one.address] for one in wanted]

    async def _all(self, phones: Sequence[tuple[str, CaptureMethod, DeviceEntry | None]]) -> list[DeviceRow]:
        """Through the user's server where it lists the phone, else through our own."""
        own: AdbClient | DeviceError | None = None
        if any(entry is None for _, _, entry in phones):
            own = await self._own_client(usb=any(e is None and not is_network_address(a) for a, _, e in phones))
        rows: dict[str, DeviceRow] = {}

        async def one(address: str, method: CaptureMethod, entry: DeviceEntry | None) -> None:
            async with self._limiter:
                if entry is not None:
                    rows[address] = await self._listed(address, method, entry)
                elif isinstance(own, AdbClient):
                    rows[address] = await self._attached(own, address, method)
                else:
                    assert own is not None
                    rows[address] = row_for_error(address, own, seen_through="no adb server")

        async with trio.open_nursery() as nursery:
            for phone in phones:
                nursery.start_soon(one, *phone)
        return [rows[address] for address, _, _ in phones]

    async def _own_client(self, *, usb: bool) -> AdbClient | DeviceError:
        """Our own server, started when it is first needed and gone with the block."""
        if self._own is None:
            try:
                server = await self._stack.enter_async_context(open_adb_server(AdbServerConfig(usb=usb)))
            except DeviceError as error:
                return error
            self._own = server.client
        return self._own

    async def _listed(self, address: str, method: CaptureMethod, entry: DeviceEntry) -> DeviceRow:
        assert self.port is not None
        through = f"the adb server on port {self.port}"
        if entry.state != "device":
            return row_for_listed(address, entry.state, entry.fields, seen_through=through)
        return await self._probed(AdbClient(self.port), address, method, through)

    async def _attached(self, client: AdbClient, address: str, method: CaptureMethod) -> DeviceRow:
        through = "an adb server of our own"
        try:
            await attach(client, address, timeout_seconds=ATTACH_SECONDS)
        except DeviceError as error:
            return row_for_error(address, error, seen_through=through)
        return await self._probed(client, address, method, through)

    async def _probed(self, client: AdbClient, address: str, method: CaptureMethod, through: str) -> DeviceRow:
        """Ask a phone that adb lists as `device`; what it tells before it fails is shown."""
        known: dict[str, Any] = {}
        try:
            features = await client.features(address)
            framed = SHELL_V2 in features
            info = await read_identity(client, address, framed=framed)
            known |= {"phone": info.phone, "model": info.model, "android": info.android}
            link = NativeLink(client, address, framed)
            device = AdbDevice(client, info, features, None, trio.current_time, AdbDeadlines(), link)
            geometry = await device.geometry()
            known |= {
                "width": geometry.width,
                "height": geometry.height,
                "rotation": geometry.rotation,
                "density": geometry.density,
            }
            if method is CaptureMethod.AUTO:
                method = await self.memory.get(memory_key(info, geometry, has_stream=False)) or CaptureMethod.RAW
            if method is CaptureMethod.SCRCPY:
                method = CaptureMethod.RAW  # a video stream is not begun to look at a phone once
            frame = await device.capture_by(method)
        except DeviceError as error:
            return row_for_error(address, error, seen_through=through, **known)
        seconds = frame.received_at - frame.requested_at
        return DeviceRow(
            address=address,
            state=READY,
            capture_method=frame.source,
            capture_ms=round(seconds * 1000, 1),
            probe_age_seconds=round(trio.current_time() - frame.received_at, 2),
            seen_through=through,
            **known,
        )


@asynccontextmanager
async def open_look(
    scenario: Scenario | None, *, runs: Path, port: int | None, memory: MethodMemory
) -> AsyncIterator[DevicesLook]:
    """Whoever looks at phones. Nothing that was started for it is left when the block ends.

    Args:
        scenario: Its phones; None: whatever is there.
        runs: The folder that run folders are made in, or one of them.
        port: Of the user's adb server; None: there is none on this host.
        memory: Which capture method is best for which model.
    """
    async with AsyncExitStack() as stack:
        yield DevicesLook(scenario, runs, port, memory, stack)
