"""The same client against a simulated phone and against a genuine adbd, through adb 29 and 36: both must agree."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import trio

from actors.devices.adb.device import AdbDevice, open_adb_device
from actors.devices.adb.files import pull_file, push_file, stat_file
from actors.devices.base import CaptureMethod, DeviceError, DeviceLost
from actors.rehearsal.apps.base import Canvas
from actors.rehearsal.phone.stream import Stream
from policies.action import Swipe, Tap
from tests.kit.adb import GenuineAdb, any_adb, genuine_adb
from tests.kit.devices import ProbeApp, probe_of, probe_spec, simulated_phones
from tests.kit.genuine_adbd import EchoSocket, genuine_phone

SECONDS = 60.0
WIDTH, HEIGHT = 360, 640
METHODS = (CaptureMethod.RAW, CaptureMethod.RAW_EXEC, CaptureMethod.RAW_GZIP, CaptureMethod.PNG)


@attrs.define(eq=False)
class Subject:
    """A phone of either kind, as a test needs it."""

    address: str
    serial: str
    folder: str
    """Where files may be put."""
    taps: Callable[[], int]
    """How many touches or lines of input have come."""
    restart: Callable[[], Any]
    echo: Callable[[str], AbstractAsyncContextManager[None]]
    """A socket of that name on the phone, which echoes."""


def screen() -> Canvas:
    """What both show."""
    return ProbeApp(0, WIDTH, HEIGHT, 0.0).draw(0.0)


@asynccontextmanager
async def simulated_subject() -> AsyncIterator[Subject]:
    async with simulated_phones([probe_spec("SIM0", width=WIDTH, height=HEIGHT)]) as (phone,):

        @asynccontextmanager
        async def echo(name: str) -> AsyncIterator[None]:
            async def serve(stream: Stream) -> None:
                while data := await stream.read():
                    await stream.write(data)

            phone.handset.sockets[name] = serve
            yield
            phone.handset.sockets.pop(name, None)

        def taps() -> int:
            return sum(touch.phase == "up" for _, touch in probe_of(phone).touches)

        yield Subject(phone.address, "SIM0", "/data/local/tmp", taps, phone.restart, echo)


@asynccontextmanager
async def genuine_subject() -> AsyncIterator[Subject]:
    async with genuine_phone(screen()) as phone:

        @asynccontextmanager
        async def echo(name: str) -> AsyncIterator[None]:
            with closing(EchoSocket(name)):
                yield

        async def restart() -> None:
            await phone.stop()
            await phone.start()

        yield Subject(phone.address, "GENUINE0", str(phone.folder), lambda: len(phone.inputs()), restart, echo)


any_phone = pytest.mark.parametrize("subject_of", [simulated_subject, genuine_subject], ids=["simulated", "genuine"])
pytestmark = [any_adb, any_phone, pytest.mark.timeout(600)]  # the first run downloads and unpacks

SubjectOf = Callable[[], AbstractAsyncContextManager[Subject]]


@asynccontextmanager
async def opened(
    subject_of: SubjectOf, binary: Path, folder: Path
) -> AsyncIterator[tuple[Subject, GenuineAdb, AdbDevice]]:
    async with (
        subject_of() as subject,
        genuine_adb(binary, folder / "home") as adb,
        open_adb_device(adb.server.client, subject.address) as device,
    ):
        yield subject, adb, device


async def test_every_method_shows_the_screen_exactly_while_it_is_touched(
    adb_binary: Path, subject_of: SubjectOf, tmp_path: Path
) -> None:
    expected = screen()[..., ::-1]
    async with opened(subject_of, adb_binary, tmp_path) as (subject, _, device):
        assert (device.info.phone, device.framed) == (subject.serial, True)
        before = subject.taps()
        for method in METHODS:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(device.act, Tap(100, 200))
                for _ in range(3):
                    frame = await device.capture_by(method)
                    assert np.array_equal(frame.pixels, expected), method
                    assert (frame.geometry.width, frame.geometry.height, frame.geometry.rotation) == (WIDTH, HEIGHT, 0)
        await device.act(Swipe(50, 400, 50, 200, 0.1))

        assert subject.taps() == before + len(METHODS) + 1
        assert device.statistics().captures_failed == 0


async def test_exit_codes_and_both_outputs_come_through(
    adb_binary: Path, subject_of: SubjectOf, tmp_path: Path
) -> None:
    async with opened(subject_of, adb_binary, tmp_path) as (_, _, device):
        good = await device.shell("echo 'one  two'; true")
        bad = await device.shell("cat /no/such/file")
        unknown = await device.shell("no-such-program 3")
        piped = await device.shell("echo abc | cat")

    assert (good.stdout, good.stderr, good.exit_code) == (b"one  two\n", b"", 0)
    assert (bad.stdout, bad.exit_code) == (b"", 1)
    assert b"No such file" in bad.stderr
    assert (unknown.stdout, unknown.exit_code) == (b"", 127)
    assert b"not found" in unknown.stderr
    assert (piped.stdout, piped.exit_code) == (b"abc\n", 0)


@pytest.mark.parametrize("size", [0, 1, 65_536, 1_000_003])
async def test_files_go_there_and_back(adb_binary: Path, subject_of: SubjectOf, tmp_path: Path, size: int) -> None:
    content = secrets.token_bytes(size)
    async with opened(subject_of, adb_binary, tmp_path) as (subject, adb, _):
        client, path = adb.server.client, f"{subject.folder}/corral-{size}.bin"
        assert await push_file(client, subject.address, content, path, mode=0o644, modified=1_700_000_000) == size
        status = await stat_file(client, subject.address, path)

        assert status is not None
        assert (status.size, status.modified, status.mode & 0o777) == (size, 1_700_000_000, 0o666)
        assert await pull_file(client, subject.address, path) == content
        assert await stat_file(client, subject.address, path + ".no") is None
        with pytest.raises(DeviceError, match="No such file"):
            await pull_file(client, subject.address, path + ".no")


async def test_adbs_own_client_sees_what_ours_does(adb_binary: Path, subject_of: SubjectOf, tmp_path: Path) -> None:
    async with opened(subject_of, adb_binary, tmp_path) as (subject, adb, _):
        raw = await adb.run("-s", subject.address, "exec-out", "screencap")
        failed = await adb.run("-s", subject.address, "shell", "false")

        assert len(raw.stdout) == 16 + WIDTH * HEIGHT * 4
        assert failed.returncode == 1
        assert subject.serial in await adb.output("-s", subject.address, "shell", "getprop", "ro.serialno")


async def test_a_forward_carries_bytes_both_ways(adb_binary: Path, subject_of: SubjectOf, tmp_path: Path) -> None:
    sent, name = secrets.token_bytes(300_000), f"corral-{secrets.token_hex(6)}"
    async with opened(subject_of, adb_binary, tmp_path) as (subject, adb, _), subject.echo(name):
        client = adb.server.client
        local = await client.forward(subject.address, "tcp:0", f"localabstract:{name}")
        received = bytearray()
        with trio.fail_after(SECONDS):
            async with (
                await trio.open_tcp_stream("127.0.0.1", int(local.removeprefix("tcp:"))) as stream,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(stream.send_all, sent)
                while len(received) < len(sent):
                    received += await stream.receive_some(65536)
        await client.kill_forward(subject.address, local)

    assert received == sent


async def test_a_phone_that_restarted_is_had_again(adb_binary: Path, subject_of: SubjectOf, tmp_path: Path) -> None:
    async with subject_of() as subject, genuine_adb(adb_binary, tmp_path / "home") as adb:
        for _ in range(2):
            with trio.fail_after(SECONDS), suppress(DeviceLost):  # detaching, too, is of a phone that went away
                async with open_adb_device(adb.server.client, subject.address) as device:
                    assert (await device.capture()).pixels.shape == (HEIGHT, WIDTH, 3)
                    await subject.restart()
                    # adb 36 may be connected again before anybody asks: a whole picture, or the error of a lost phone
                    assert (await device.capture()).pixels.shape == (HEIGHT, WIDTH, 3)
        with trio.fail_after(SECONDS):
            async with open_adb_device(adb.server.client, subject.address) as device:
                assert (await device.capture()).pixels.shape == (HEIGHT, WIDTH, 3)
