"""Simulated phones through one genuine adb server, a raw capture a second each: who falls behind, what it costs.

And more phones than most adb clients list: all are listed, captured and touched.
"""

import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.bench.lag import LagLog
from actors.bench.processes import group_cpu_seconds
from actors.bench.result import BenchResult, Tell, tell_nobody
from actors.devices.adb.device import open_adb_device
from actors.devices.adb.server import AdbServer, AdbServerConfig, open_adb_server
from actors.devices.base import CaptureFailed, Device, DeviceError
from actors.scenario import SimulatedPhones
from actors.simulated import NoFreePorts, PortPicker, SimulatedGroup
from policies.action import Tap
from runtime.process import ManagedProcess, ProcessError, open_process

PERIOD_SECONDS = 1.0
WARM_UP_SECONDS = 5.0
APP = "battler"
DRIVEN_AT_ONCE = 16
TAP = Tap(200, 300)


class PhonesUnavailable(Exception):
    """No adb, no free ports, or simulated phones that did not start: the text says which."""


@attrs.define
class Tape:
    """What was captured since the warm-up."""

    lag: LagLog
    captures: int = 0
    captured_bytes: int = 0
    failed: int = 0
    seconds: list[float] = attrs.field(factory=list)
    """From asking for a frame until it was here, each."""


async def capture_at_pace(device: Device, tape: Tape, *, phase: float, every_seconds: float) -> None:
    """Capture for ever, each frame due on a fixed grid: what is late is made up for, so a backlog shows as lag."""
    due = trio.current_time() + phase * every_seconds
    while True:
        await trio.sleep_until(due)
        try:
            frame = await device.capture()
        except CaptureFailed:
            tape.failed += 1
        else:
            if frame.received_at >= tape.lag.start:
                tape.captures += 1
                tape.captured_bytes += frame.pixels.nbytes
                tape.seconds.append(frame.received_at - frame.requested_at)
            tape.lag.add(frame.received_at, frame.received_at - due)
        due += every_seconds


@attrs.frozen
class Cpu:
    """CPU seconds so far."""

    ours: float
    adb: float
    simulator: float

    def since(self, before: "Cpu") -> "Cpu":
        """What was used meanwhile."""
        return Cpu(self.ours - before.ours, self.adb - before.adb, self.simulator - before.simulator)


def cpu_of(server: AdbServer, simulator: ManagedProcess) -> Cpu:
    """This process with its threads, the adb server, and the simulated phones."""
    return Cpu(time.process_time(), group_cpu_seconds(server.process.pid), group_cpu_seconds(simulator.pid))


async def capture_all(
    count: int, *, seconds: float, seed: int, tell: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Capture from `count` phones for `seconds` after the warm-up.

    Raises:
        PhonesUnavailable: see there.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            group = SimulatedGroup(SimulatedPhones(APP, count), seed, 0, "phones", PortPicker(os.getpid()))
            async with (
                open_process(group.process_plan(Path(folder))) as simulator,
                open_adb_server(AdbServerConfig(home=Path(folder))) as server,
                trio.open_nursery() as nursery,
            ):
                tape = Tape(LagLog(float("inf")))
                for number, phone in enumerate(group.phones):
                    await nursery.start(partial(_run_phone, server, phone.address, tape, number / count))
                tape.lag.start = trio.current_time() + WARM_UP_SECONDS
                await trio.sleep(WARM_UP_SECONDS)
                before, began = cpu_of(server, simulator), trio.current_time()
                while (elapsed := trio.current_time() - began) < seconds:
                    if tell is not None:
                        tell(elapsed / seconds)
                    await trio.sleep(min(1.0, seconds - elapsed))
                used, elapsed = cpu_of(server, simulator).since(before), trio.current_time() - began
                nursery.cancel_scope.cancel()
        except (ProcessError, NoFreePorts, DeviceError) as error:
            raise PhonesUnavailable(str(error)) from error
    return _numbers(count, tape, used, elapsed)


async def _run_phone(
    server: AdbServer,
    address: str,
    tape: Tape,
    phase: float,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    async with open_adb_device(server.client, address) as device:
        task_status.started()
        await capture_at_pace(device, tape, phase=phase, every_seconds=PERIOD_SECONDS)


async def list_and_drive(count: int, *, seed: int) -> dict[str, Any]:
    """Connect `count` phones to one adb server; each is captured, touched and captured again.

    Raises:
        PhonesUnavailable: see there.
    """
    seconds: list[float] = []
    serials: set[str] = set()
    limiter = trio.CapacityLimiter(DRIVEN_AT_ONCE)

    async def drive(address: str, all_open: trio.Event, *, task_status: trio.TaskStatus[None]) -> None:
        async with open_adb_device(server.client, address) as device:
            serials.add(device.info.phone)
            task_status.started()
            await all_open.wait()
            async with limiter:
                began_at = trio.current_time()
                await device.capture()
                await device.act(TAP)
                await device.capture()
                seconds.append(trio.current_time() - began_at)

    with tempfile.TemporaryDirectory() as folder:
        try:
            group = SimulatedGroup(
                SimulatedPhones(APP, count, size="360x640"), seed, 0, "many", PortPicker(os.getpid())
            )
            async with (
                open_process(group.process_plan(Path(folder))),
                open_adb_server(AdbServerConfig(home=Path(folder))) as server,
            ):
                began_at = trio.current_time()
                all_open = trio.Event()
                async with trio.open_nursery() as nursery:
                    for phone in group.phones:
                        await nursery.start(partial(drive, phone.address, all_open))
                    opened_at = trio.current_time()
                    states = [entry.state for entry in await server.client.devices()]
                    all_open.set()
                driven_at = trio.current_time()
        except (ProcessError, NoFreePorts, DeviceError) as error:
            raise PhonesUnavailable(str(error)) from error
    ordered = sorted(seconds)
    return {
        "phones": count,
        "listed": len(states),
        "listed_as_device": states.count("device"),
        "serial_numbers": len(serials),
        "driven": len(seconds),
        "open_all_seconds": round(opened_at - began_at, 2),
        "drive_all_seconds": round(driven_at - opened_at, 2),
        "two_captures_and_a_tap_ms_p50": round(ordered[len(ordered) // 2] * 1000, 1),
        "two_captures_and_a_tap_ms_max": round(ordered[-1] * 1000, 1),
    }


def _numbers(count: int, tape: Tape, used: Cpu, elapsed: float) -> dict[str, Any]:
    ordered = sorted(tape.seconds)
    captures = max(1, tape.captures)
    return {
        "phones": count,
        "seconds": round(elapsed, 1),
        "captures": tape.captures,
        "captures_per_second": round(tape.captures / elapsed, 1),
        "captures_failed": tape.failed,
        "megabytes_per_second_of_pixels": round(tape.captured_bytes / elapsed / 1e6, 1),
        "capture_ms_p50": round(ordered[len(ordered) // 2] * 1000, 1) if ordered else None,
        "capture_ms_p95": round(ordered[int(len(ordered) * 0.95)] * 1000, 1) if ordered else None,
        "cpu_ms_per_capture_ours": round(used.ours * 1000 / captures, 2),
        "cpu_ms_per_capture_adb_server": round(used.adb * 1000 / captures, 2),
        "cpu_ms_per_capture_simulator": round(used.simulator * 1000 / captures, 2),
        "cpu_share_of_the_machine": round((used.ours + used.adb + used.simulator) / elapsed / (os.cpu_count() or 1), 3),
        **tape.lag.report(),
        "windows": [attrs.asdict(window) for window in tape.lag.windows()],
    }


def bench_phones(*, phones: int, seconds: float, seed: int, many: int = 0, tell: Tell = tell_nobody) -> BenchResult:
    """Captures for `seconds`, and what they cost whom; then `many` phones (0: none) listed and driven.

    Raises:
        PhonesUnavailable: see there.
    """
    numbers = _run(partial(capture_all, phones, seconds=seconds, seed=seed, tell=partial(tell, f"{phones} phones")))
    summary = {key: value for key, value in numbers.items() if key != "windows"}
    rows = [numbers]
    if many:
        tell(f"{many} phones", 1.0)
        driven = _run(partial(list_and_drive, many, seed=seed))
        rows.append(driven)
        summary["many"] = driven
    notes = (
        "simulator, adb server and this process share the machine; drawing and encoding the screens is the simulator's",
        f"lag: from when a capture was due, on a grid of {PERIOD_SECONDS:g} s, until its last byte was here; it grows "
        "if the median falls behind by more than 1 % of the time that passes",
        f"many: all connected to one adb server at the same time, then each captured, touched and captured again, "
        f"{DRIVEN_AT_ONCE} at a time",
    )
    command = f"corral bench phones --phones {phones} --seconds {seconds:g} --many {many} --seed {seed}"
    return BenchResult("phones", command, summary, rows, notes)


def _run(measure: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    try:
        return trio.run(measure)
    except BaseExceptionGroup as group:
        lost, rest = group.split(DeviceError)
        if rest is not None or lost is None:
            raise
        first: BaseException = lost
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise PhonesUnavailable(f"a phone was lost: {first}") from group
