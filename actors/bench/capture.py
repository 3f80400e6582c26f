"""How pictures come from phones: each method's time, CPU, bytes and content; and comparisons on simulated phones."""

import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import attrs
import trio

from actors.bench.lag import quantile
from actors.bench.phones import APP, PhonesUnavailable
from actors.bench.result import BenchResult, Tell, tell_nobody
from actors.devices.adb.attach import is_network_address
from actors.devices.adb.choosing import REFERENCE
from actors.devices.adb.client import AdbClient
from actors.devices.adb.device import AdbDeadlines, AdbDevice, open_adb_device
from actors.devices.adb.link import AdbutilsLink, Link, NativeLink
from actors.devices.adb.scrcpy import ScrcpyConfig
from actors.devices.adb.server import AdbServerConfig, open_adb_server
from actors.devices.base import CaptureFailed, CaptureMethod, DeviceError
from actors.rehearsal.phone.spec import VideoKind
from actors.rehearsal.phone.stamp import read_stamp
from actors.scenario import SimulatedPhones
from actors.simulated import NoFreePorts, PortPicker, SimulatedGroup, stand_in_server
from policies.frame import Frame
from policies.verdict import Agreement, Verdict, compare, judge_pixels
from runtime.process import ProcessError, open_process

STREAM_FPS = 5.0
PNG_FPS = 1.0
LATENCY_FPS = 30.0
STREAM_START_SECONDS = 25.0  # a static screen sends its first picture late, scrcpy #6500
WARM_UP_CAPTURES = 2


@attrs.frozen(kw_only=True)
class CaptureBench:
    """What is measured, and for how long."""

    captures: int = 20
    """Of each method, on each phone."""
    rounds: int = 3
    """Of each comparison: both sides in turn."""
    phones: int = 16
    """Simulated, for the comparison of video with PNG."""
    seconds: float = 10.0
    """Of each side of a round, and of the video latency."""
    seed: int = 1
    deadlines: AdbDeadlines = attrs.field(factory=AdbDeadlines)


# -- one method on one phone


@attrs.frozen
class MethodRow:
    """One method on one phone."""

    phone: str
    method: str
    ms_p50: float | None = None
    ms_p95: float | None = None
    cpu_ms: float | None = None
    """Of this process and its threads, per frame."""
    kilobytes: float | None = None
    content: str = ""
    """Compared with the reference, `png`."""
    failed: int = 0


async def measure_method(
    client: AdbClient, address: str, method: CaptureMethod, bench: CaptureBench, scrcpy: ScrcpyConfig | None
) -> MethodRow:
    """Capture in a row, of a stream at its own pace."""
    async with open_adb_device(client, address, method=method, scrcpy=scrcpy, deadlines=bench.deadlines) as device:
        before = await device.capture_by(REFERENCE)
        try:
            await _warm_up(device, method)
        except (CaptureFailed, trio.TooSlowError) as error:
            return MethodRow(device.info.phone, method.value, content=f"failed: {error or 'no picture in time'}")
        bytes_before, cpu_before = device.statistics().captured_bytes, time.process_time()
        seconds: list[float] = []
        failed = 0
        frame: Frame | None = None
        for _ in range(bench.captures):
            began_at = time.perf_counter()
            try:
                frame = await device.capture_by(method)
            except CaptureFailed:
                failed += 1
            else:
                seconds.append(time.perf_counter() - began_at)
            if method is CaptureMethod.SCRCPY:
                await trio.sleep(1 / STREAM_FPS)
        cpu = time.process_time() - cpu_before
        received = device.statistics().captured_bytes - bytes_before
        after = await device.capture_by(REFERENCE)
        done = max(1, len(seconds))
        return MethodRow(
            phone=device.info.phone,
            method=method.value,
            ms_p50=round(quantile(seconds, 0.5) * 1000, 1) if seconds else None,
            ms_p95=round(quantile(seconds, 0.95) * 1000, 1) if seconds else None,
            cpu_ms=round(cpu * 1000 / done, 2) if seconds else None,
            kilobytes=round(received / done / 1000, 1) if seconds else None,
            content=_content(frame, before, after),
            failed=failed,
        )


def _content(frame: Frame | None, before: Frame, after: Frame) -> str:
    if frame is None:
        return "no picture"
    if judge_pixels(before.pixels) is Verdict.BLACK:
        return "the screen is black"
    agreement = compare(frame.pixels, before.pixels, after.pixels)
    return "same" if agreement is Agreement.SAME else agreement.value.replace("_", " ")


async def _warm_up(device: AdbDevice, method: CaptureMethod) -> None:
    """Raises `CaptureFailed`, or `trio.TooSlowError` where the stream shows nothing."""
    if method is not CaptureMethod.SCRCPY:
        for _ in range(WARM_UP_CAPTURES):
            await device.capture_by(method)
        return
    with trio.fail_after(STREAM_START_SECONDS):
        while True:
            if device.keeper is not None and device.keeper.failure is not None and device.stream is None:
                raise CaptureFailed(str(device.keeper.failure))
            try:
                await device.capture_by(method)
            except CaptureFailed:
                await trio.sleep(0.1)
            else:
                return


# -- comparisons on simulated phones


@attrs.define
class _Sides:
    """CPU of both sides of a comparison, round by round, in the same unit."""

    first: list[float] = attrs.field(factory=list)
    second: list[float] = attrs.field(factory=list)

    @property
    def ratio(self) -> float:
        """The median of first over second, of the rounds one by one: what disturbs a round disturbs both its sides."""
        return median(a / b for a, b in zip(self.first, self.second, strict=True))


async def compare_drivers(client: AdbClient, address: str, bench: CaptureBench) -> dict[str, Any]:
    """(a) Our client against adbutils: CPU a raw capture, both through the same adb server."""
    sides = _Sides()
    short = 0
    async with open_adb_device(client, address) as device:
        geometry = (await device.capture()).geometry
        links: tuple[Link, Link] = (
            NativeLink(client, address, device.framed),
            AdbutilsLink(client, address),
        )
        expected = geometry.width, geometry.height
        for _ in range(bench.rounds):
            for link, costs in zip(links, (sides.first, sides.second), strict=True):
                await link.picture(CaptureMethod.RAW, max_side=None, expected=geometry)
                cpu = time.process_time()
                for _ in range(bench.captures):
                    try:
                        picture = await link.picture(CaptureMethod.RAW, max_side=None, expected=geometry)
                    except CaptureFailed:
                        short += link is links[0]
                    else:
                        short += link is links[0] and (picture.width, picture.height) != expected
                costs.append((time.process_time() - cpu) * 1000 / bench.captures)
    return {
        "native_cpu_ms_per_raw_capture": round(median(sides.first), 2),
        "adbutils_cpu_ms_per_raw_capture": round(median(sides.second), 2),
        "native_share_of_adbutils": round(sides.ratio, 3),
        "native_short_frames": short,
    }


async def compare_stream_with_png(
    client: AdbClient, addresses: Sequence[str], bench: CaptureBench, jar: Path, tell: Callable[[float], None]
) -> dict[str, Any]:
    """(b) Video at 5 frames a second against PNG at one: CPU of this process, per phone and second."""
    sides = _Sides()
    frames = {CaptureMethod.SCRCPY: 0, CaptureMethod.PNG: 0}
    for number in range(bench.rounds):
        for method, fps, costs in (
            (CaptureMethod.SCRCPY, STREAM_FPS, sides.first),
            (CaptureMethod.PNG, PNG_FPS, sides.second),
        ):
            used, seen = await _cost_of_pace(client, addresses, method, fps, bench.seconds, jar)
            costs.append(used * 1000)
            frames[method] += seen
        tell((number + 1) / bench.rounds)
    total = bench.rounds * bench.seconds * len(addresses)
    return {
        "phones": len(addresses),
        "scrcpy_5_fps_cpu_ms_per_phone_second": round(median(sides.first), 2),
        "png_1_fps_cpu_ms_per_phone_second": round(median(sides.second), 2),
        "scrcpy_share_of_png": round(sides.ratio, 3),
        "scrcpy_new_frames_per_phone_second": round(frames[CaptureMethod.SCRCPY] / total, 2),
        "png_frames_per_phone_second": round(frames[CaptureMethod.PNG] / total, 2),
    }


async def _cost_of_pace(
    client: AdbClient, addresses: Sequence[str], method: CaptureMethod, fps: float, seconds: float, jar: Path
) -> tuple[float, int]:
    """(CPU seconds per phone and second, new frames): every phone captured at that pace for `seconds`."""
    scrcpy = ScrcpyConfig(jar=jar, max_fps=fps) if method is CaptureMethod.SCRCPY else None
    seen = 0

    async def look(address: str, phase: float, *, task_status: trio.TaskStatus[None]) -> None:
        nonlocal seen
        async with open_adb_device(client, address, method=method, scrcpy=scrcpy) as device:
            await _warm_up(device, method)
            task_status.started()
            due = trio.current_time() + phase / fps
            while True:
                await trio.sleep_until(due)
                frame = await device.capture_by(method)
                seen += not frame.is_unchanged
                due = max(due + 1 / fps, trio.current_time())

    async with trio.open_nursery() as nursery:
        for number, address in enumerate(addresses):
            await nursery.start(partial(look, address, number / len(addresses)))
        seen = 0
        cpu, began = time.process_time(), time.perf_counter()
        await trio.sleep(seconds)
        used, elapsed, count = time.process_time() - cpu, time.perf_counter() - began, seen
        nursery.cancel_scope.cancel()
    return used / len(addresses) / elapsed, count


async def measure_latency(client: AdbClient, address: str, seconds: float, jar: Path) -> dict[str, Any]:
    """(c) From the drawing of a picture, whose time stands in its pixels, until it is decoded, and until it is BGR."""
    decoded: list[float] = []
    ready: list[float] = []
    scrcpy = ScrcpyConfig(jar=jar, max_fps=LATENCY_FPS)
    async with open_adb_device(client, address, method=CaptureMethod.SCRCPY, scrcpy=scrcpy) as device:
        await _warm_up(device, CaptureMethod.SCRCPY)
        stream = device.stream
        if stream is None:
            raise PhonesUnavailable("the video stream ended")
        number, ends_at = -1, trio.current_time() + seconds
        unread = 0
        while trio.current_time() < ends_at:
            picture = await stream.wait_picture(after=number)
            number = picture.number
            pixels = await stream.pixels_of(picture, None)
            to_trio = trio.current_time() - time.monotonic()
            drawn = read_stamp(pixels)
            if drawn is None:
                unread += 1
                continue
            decoded.append(picture.decoded_at - to_trio - drawn / 1e6)
            ready.append(time.monotonic() - drawn / 1e6)
    return {
        "draw_to_decoded_ms_p50": round(quantile(decoded, 0.5) * 1000, 1),
        "draw_to_decoded_ms_p95": round(quantile(decoded, 0.95) * 1000, 1),
        "draw_to_pixels_ms_p95": round(quantile(ready, 0.95) * 1000, 1),
        "latency_frames_per_second": round(len(decoded) / seconds, 1),
        "latency_frames_unreadable": unread,
    }


# -- putting it together


@asynccontextmanager
async def _simulated(
    folder: Path, count: int, seed: int, number: int, video: VideoKind, *options: str
) -> AsyncIterator[list[str]]:
    """Addresses of simulated phones in a process of their own."""
    extra = ("--video", video.value, *options)
    group = SimulatedGroup(
        SimulatedPhones(APP, count), seed, number, f"phones-{number}", PortPicker(os.getpid()), extra=extra
    )
    async with open_process(group.process_plan(folder)):
        yield [phone.address for phone in group.phones]


async def _simulated_numbers(bench: CaptureBench, tell: Tell) -> tuple[list[MethodRow], dict[str, Any]]:
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jar = stand_in_server(folder)
        async with open_adb_server(AdbServerConfig(home=folder)) as server:
            client = server.client
            tell("methods", 0.0)
            async with _simulated(folder, 1, bench.seed, 0, VideoKind.LIVE, "--grainy") as (address,):
                scrcpy = ScrcpyConfig(jar=jar, max_fps=STREAM_FPS)
                rows = await _all_methods(client, address, bench, scrcpy)
                tell("our client and adbutils", 0.2)
                numbers |= await compare_drivers(client, address, bench)
            tell("latency", 0.3)
            async with _simulated(folder, 1, bench.seed, 100, VideoKind.LIVE, "--stamped") as (address,):
                numbers |= await measure_latency(client, address, bench.seconds, jar)
            async with _simulated(folder, bench.phones, bench.seed, 200, VideoKind.SHARED, "--grainy") as addresses:
                numbers |= await compare_stream_with_png(
                    client, addresses, bench, jar, lambda share: tell("video and PNG", 0.4 + 0.6 * share)
                )
    return rows, numbers


async def _all_methods(
    client: AdbClient, address: str, bench: CaptureBench, scrcpy: ScrcpyConfig | None
) -> list[MethodRow]:
    rows = []
    for method in CaptureMethod:
        if method is CaptureMethod.AUTO or (method is CaptureMethod.SCRCPY and scrcpy is None):
            continue
        config = scrcpy if method is CaptureMethod.SCRCPY else None
        try:
            rows.append(await measure_method(client, address, method, bench, config))
        except CaptureFailed as error:
            rows.append(MethodRow(address, method.value, content=f"failed: {error}"))
    return rows


async def _real_numbers(
    addresses: Sequence[str], bench: CaptureBench, scrcpy: ScrcpyConfig | None, tell: Tell
) -> list[MethodRow]:
    usb = any(not is_network_address(address) for address in addresses)
    rows: list[MethodRow] = []
    async with open_adb_server(AdbServerConfig(usb=usb)) as server:
        for number, address in enumerate(addresses):
            tell(address, number / len(addresses))
            rows += await _all_methods(server.client, address, bench, scrcpy)
    return rows


def bench_capture(
    addresses: Sequence[str], bench: CaptureBench, *, jar: Path | None = None, tell: Tell = tell_nobody
) -> BenchResult:
    """Every method on each of the phones; with none, on simulated phones, with the comparisons.

    Raises:
        PhonesUnavailable: a phone, adb, or the simulated phones cannot be had; the text says which.
    """
    numbers: dict[str, Any] = {}
    try:
        if addresses:
            scrcpy = ScrcpyConfig(jar=jar, max_fps=STREAM_FPS) if jar is not None else None
            rows = trio.run(partial(_real_numbers, addresses, bench, scrcpy, tell))
        else:
            rows, numbers = trio.run(partial(_simulated_numbers, bench, tell))
    except (ProcessError, NoFreePorts, DeviceError) as error:
        raise PhonesUnavailable(str(error)) from error
    except BaseExceptionGroup as group:
        expected, rest = group.split((ProcessError, NoFreePorts, DeviceError, PhonesUnavailable))
        if rest is not None or expected is None:
            raise
        raise PhonesUnavailable(str(_first_of(expected))) from group
    return _result(addresses, bench, jar, rows, numbers)


def _first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _result(
    addresses: Sequence[str], bench: CaptureBench, jar: Path | None, rows: list[MethodRow], numbers: dict[str, Any]
) -> BenchResult:
    several = len(addresses) > 1
    summary: dict[str, Any] = {
        f"{row.phone} {row.method}" if several else row.method: {
            key: value for key, value in attrs.asdict(row).items() if key not in ("phone", "method")
        }
        for row in rows
    }
    words = ["corral bench capture", *addresses, f"--captures {bench.captures}"]
    if jar is not None:
        words.append(f"--scrcpy-server {jar}")
    if not addresses:
        words.append(f"--rounds {bench.rounds} --phones {bench.phones} --seconds {bench.seconds:g} --seed {bench.seed}")
    notes = ["ms: from asking until the pixels are here; cpu_ms: of this process with its threads, a frame"]
    if numbers:
        notes += [
            "simulated phones, adb server and this process share the machine; encoding is the simulator's",
            "their pictures have a fixed grain, so that a PNG is as large as of a game with painted scenery (0.8 MB)",
            "shares are medians over rounds in which both sides were measured in turn",
        ]
    flat = [attrs.asdict(row) for row in rows]
    if numbers:
        flat.append(numbers)
    return BenchResult("capture", " ".join(words), summary | numbers, flat, tuple(notes))
