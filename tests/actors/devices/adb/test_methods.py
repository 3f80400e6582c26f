"""Every capture method on simulated phones, the choice among them, and adbutils as a second opinion."""

from pathlib import Path

import attrs
import numpy as np
import pytest
import trio

from actors.devices.adb.attach import attach
from actors.devices.adb.capture import SCREENCAP_METHODS
from actors.devices.adb.device import BLACK_IN_A_ROW, AdbDeadlines, open_adb_device
from actors.devices.adb.errors import AdbServerLost, DeviceNotFound, TruncatedCapture
from actors.devices.adb.input_turns import InputTurns
from actors.devices.adb.link import AdbutilsLink, NativeLink
from actors.devices.adb.method_memory import MethodMemory
from actors.devices.adb.scrcpy import ScrcpyConfig
from actors.devices.base import ActionExpired, CaptureFailed, CaptureMethod, DeviceError, Driver
from policies.action import Tap
from policies.frame import Pixels
from tests.kit.adb import any_adb, genuine_adb, raises_alone
from tests.kit.devices import probe_of, probe_spec, simulated_phones, wait_drawing, wait_until
from tests.kit.scrcpy import make_moving, make_slow, server_file

SCREENCAPS = [method for method in CaptureMethod if method in SCREENCAP_METHODS]
SECONDS = 30.0


@any_adb
async def test_all_screencaps_show_the_same_by_either_driver(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec(seed=5)]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        client = adb.server.client
        for driver in Driver:
            async with open_adb_device(client, phone.address, driver=driver) as device:
                reference = await device.capture_by(CaptureMethod.PNG)
                for method in SCREENCAPS:
                    frame = await device.capture_by(method)
                    np.testing.assert_array_equal(frame.pixels, reference.pixels)
                    assert (frame.source, frame.geometry) == (method.value, reference.geometry)
                await device.act(Tap(100, 200))
                result = await device.shell("echo out")
                assert result.stdout == b"out\n"
        assert len([touch for _, touch in probe_of(phone).touches if touch.phase.value == "up"]) == 2


@any_adb
async def test_raw_captures_of_a_phone_are_received_into_its_own_buffer(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        simulated_phones([probe_spec("PROBE0"), probe_spec("PROBE1")]) as phones,
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phones[0].address) as first,
        open_adb_device(adb.server.client, phones[1].address) as second,
    ):
        used: list[list[bytearray]] = []
        for device in (first, second):
            assert isinstance(device.link, NativeLink)
            used.append([])
            await device.capture()
            for _ in range(3):
                await device.capture()
                with device.link.buffer.borrowed(1) as memory:
                    used[-1].append(memory)
        assert all(memory is of_one[0] for of_one in used for memory in of_one)
        assert used[0][0] is not used[1][0]


@any_adb
async def test_adbutils_tells_what_the_native_client_tells(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        client = adb.server.client
        await attach(client, phone.address, timeout_seconds=SECONDS)
        native, library = NativeLink(client, phone.address, framed=False), AdbutilsLink(client, phone.address)
        for line in ("getprop", "wm size", "dumpsys window displays", "echo a; echo b >&2", "no-such-program"):
            assert await native.shell(line, timeout_seconds=5) == await library.shell(line, timeout_seconds=5)
        for link in (NativeLink(client, "nobody:1", framed=False), AdbutilsLink(client, "nobody:1")):
            with pytest.raises(DeviceNotFound):
                await link.shell("true", timeout_seconds=5)
        lost = attrs.evolve(client, port=1)
        with pytest.raises(AdbServerLost):
            await AdbutilsLink(lost, phone.address).shell("true", timeout_seconds=5)


@any_adb
async def test_a_cancelled_library_call_leaves_no_thread(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        quick = AdbDeadlines(capture=1.0)
        async with open_adb_device(adb.server.client, phone.address, driver=Driver.ADBUTILS, deadlines=quick) as device:
            await device.capture()
            phone.freeze()
            with pytest.raises(DeviceError):
                await device.capture()
            link = device.link
            assert isinstance(link, AdbutilsLink)
            await wait_until(lambda: link.threads.borrowed_tokens == 0, seconds=SECONDS)
            phone.thaw()
            await device.capture()


@any_adb
@pytest.mark.parametrize("method", [CaptureMethod.RAW_GZIP, CaptureMethod.PNG])
async def test_cut_streams_are_no_pictures(adb_binary: Path, tmp_path: Path, method: CaptureMethod) -> None:
    async with (
        simulated_phones([probe_spec(features=frozenset())]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address, method=method) as device,
    ):
        await device.capture()
        probe_of(phone).draw_seconds = 0.3
        with raises_alone(DeviceError) as caught:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(device.capture)
                await wait_drawing(phone)
                phone.drop()
        assert caught


@any_adb
@pytest.mark.parametrize(
    ("method", "command"),
    [
        (CaptureMethod.RAW_GZIP, "screencap | gzip -1 | head -c 5000"),
        (CaptureMethod.PNG, "screencap -p | head -c 300"),
        (CaptureMethod.RAW, "screencap | head -c 5000"),
    ],
)
async def test_a_short_stream_is_told_as_such(
    adb_binary: Path, tmp_path: Path, method: CaptureMethod, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCREENCAP_METHODS, method, attrs.evolve(SCREENCAP_METHODS[method], command=command))
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address, method=method) as device,
    ):
        with pytest.raises(TruncatedCapture):
            await device.capture()


@any_adb
async def test_auto_takes_the_stream_where_it_agrees_and_remembers(adb_binary: Path, tmp_path: Path) -> None:
    memory = MethodMemory(tmp_path / "memory.json")
    jar = server_file(tmp_path, "4.0")
    specs = [probe_spec(f"A{n}", model="Twin") for n in range(2)]
    async with (
        simulated_phones(specs, {"probe": make_slow}) as (first, second),
        genuine_adb(adb_binary, tmp_path / "home") as adb,
    ):
        config = ScrcpyConfig(jar=jar, max_fps=30.0)
        async with open_adb_device(
            adb.server.client, first.address, method=CaptureMethod.AUTO, scrcpy=config, memory=memory
        ) as device:
            assert device.method is CaptureMethod.SCRCPY
            measured = device.statistics().captures
        async with open_adb_device(
            adb.server.client,
            second.address,
            method=CaptureMethod.AUTO,
            scrcpy=config,
            memory=MethodMemory(memory.path),
        ) as device:
            assert device.method is CaptureMethod.SCRCPY
            assert device.statistics().captures == 0 < measured
        async with open_adb_device(
            adb.server.client, second.address, method=CaptureMethod.AUTO, memory=memory
        ) as device:
            assert device.method in SCREENCAPS  # what is remembered for phones with a server is not for those without


@any_adb
async def test_a_quick_method_with_wrong_pictures_is_not_taken(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AzurLaneAutoScript#5107, #5702: the fastest method gave unusable pictures. MaaFramework#300: wrong colours."""

    def swapped(output: memoryview, max_side: int | None, phone: str) -> tuple[Pixels, int, int]:
        pixels, width, height = SCREENCAP_METHODS[CaptureMethod.RAW].decode(output, max_side, phone)
        return np.ascontiguousarray(pixels[..., ::-1]), width, height

    wrong = attrs.evolve(SCREENCAP_METHODS[CaptureMethod.RAW_EXEC], decode=swapped)
    black = attrs.evolve(
        SCREENCAP_METHODS[CaptureMethod.RAW_GZIP], decode=lambda *_: (np.zeros((640, 360, 3), np.uint8), 360, 640)
    )
    monkeypatch.setitem(SCREENCAP_METHODS, CaptureMethod.RAW_EXEC, wrong)
    monkeypatch.setitem(SCREENCAP_METHODS, CaptureMethod.RAW_GZIP, black)
    async with (
        simulated_phones([probe_spec()], {"probe": make_moving}) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address, method=CaptureMethod.AUTO) as device,
    ):
        assert device.method in (CaptureMethod.RAW, CaptureMethod.PNG)


@any_adb
async def test_a_method_that_turns_black_is_left(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AirtestIDE#958: one capture method is black on one model."""
    memory = MethodMemory()
    async with (
        simulated_phones([probe_spec()], {"probe": make_moving}) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address, method=CaptureMethod.AUTO, memory=memory) as device,
    ):
        device.method = CaptureMethod.RAW
        black = attrs.evolve(
            SCREENCAP_METHODS[CaptureMethod.RAW], decode=lambda *_: (np.zeros((640, 360, 3), np.uint8), 360, 640)
        )
        monkeypatch.setitem(SCREENCAP_METHODS, CaptureMethod.RAW, black)
        key = await device._memory_key()
        assert await memory.get(key) is not None
        for _ in range(BLACK_IN_A_ROW):
            assert (await device.capture()).pixels.max() == 0
        assert (await device.capture()).pixels.max() > 100
        assert device.method is CaptureMethod.PNG
        assert await memory.get(key) is None


@any_adb
async def test_scrcpy_alone_is_told_when_it_has_no_picture(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address) as device,
    ):
        with pytest.raises(CaptureFailed, match="no scrcpy server"):
            await device.capture_by(CaptureMethod.SCRCPY)


async def test_actions_wait_their_turn_and_not_for_ever(autojump_clock: trio.abc.Clock) -> None:
    turns = InputTurns("p", capacity=2, wait_seconds=2.0)
    done: list[str] = []

    async def act(name: str, seconds: float) -> None:
        try:
            async with turns.turn(seconds):
                await trio.sleep(seconds)
                done.append(name)
        except ActionExpired as error:
            done.append(f"{name} {'full' if 'waiting already' in str(error) else 'late'}")

    async with trio.open_nursery() as nursery:
        for number, seconds in enumerate((5.0, 1.0, 1.0, 1.0)):
            nursery.start_soon(act, str(number), seconds)
            await trio.sleep(0.1)
    await act("after", 1.0)

    assert done == ["3 full", "1 late", "2 late", "0", "after"]
    assert turns.expired == 3
    assert turns.last_seconds < 0.01


async def test_a_cancelled_action_leaves_the_screen_to_the_next(autojump_clock: trio.abc.Clock) -> None:
    turns = InputTurns("p")
    with trio.move_on_after(1):
        async with turns.turn(0.0):
            await trio.sleep_forever()
    with trio.move_on_after(1):
        async with turns.turn(0.5):
            await trio.sleep(0.25)

    assert turns.longest_wait_seconds == 0.0
    assert turns.expired == 0
