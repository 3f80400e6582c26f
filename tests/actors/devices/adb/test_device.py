"""Phones driven through the genuine adb server, on good days and bad."""

from pathlib import Path

import attrs
import numpy as np
import pytest
import trio

from actors.devices.adb.attach import attach
from actors.devices.adb.capture import SCREENCAP_METHODS
from actors.devices.adb.client import AdbClient
from actors.devices.adb.connection_states import HEAL_AFTER_SECONDS
from actors.devices.adb.device import AdbDeadlines, AdbDevice, open_adb_device
from actors.devices.adb.errors import (
    AdbServerLost,
    DeviceOffline,
    DeviceUnauthorized,
    TransferFailed,
    TruncatedCapture,
)
from actors.devices.adb.files import pull_file, push_file, stat_file
from actors.devices.adb.identity import addresses_by_phone, read_identities
from actors.devices.adb.install import install_apks
from actors.devices.adb.shell import run_exec, run_shell
from actors.devices.base import ActionRefused, CaptureFailed, CaptureMethod, DeviceError, DeviceLost, DeviceTimeout
from actors.rehearsal.phone.auth import AuthMode
from actors.rehearsal.phone.serve import SimulatedPhone
from actors.rehearsal.phone.spec import DEFAULT_FEATURES
from policies.action import Hold, Key, KeyName, Swipe, Tap, Text, Wait
from policies.geometry import Geometry
from tests.kit.adb import any_adb, genuine_adb, open_descriptors, raises_alone
from tests.kit.devices import (
    PROBE_PACKAGE,
    probe_of,
    probe_spec,
    simulated_phones,
    wait_drawing,
    wait_finger,
    wait_until,
)

QUICK = AdbDeadlines(attach=8.0, capture=1.0, action=1.0)


@any_adb
@pytest.mark.parametrize("features", [DEFAULT_FEATURES, frozenset({"cmd"})], ids=["shell_v2", "exec"])
async def test_capture_act_and_shell(adb_binary: Path, tmp_path: Path, features: frozenset[str]) -> None:
    specs = [probe_spec(seed=9, features=features)]
    async with (
        simulated_phones(specs) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address) as device,
    ):
        assert (device.info.phone, device.info.model, device.info.android) == ("PROBE0", "Corral One", "13")
        assert device.framed == ("shell_v2" in features)

        before = trio.current_time()
        frame = await device.capture()
        assert frame.pixels.shape == (640, 360, 3)
        assert frame.pixels[0, 0].tolist() == [1, 128, 255]
        assert frame.pixels[7, 11].tolist() == [9, 7, 11]
        assert (frame.geometry, frame.seq, frame.epoch) == (Geometry(360, 640, density=160), 0, 0)
        assert before <= frame.requested_at < frame.received_at <= trio.current_time()

        await device.act(Tap(100, 200))
        await device.act(Swipe(10, 600, 10, 100, 0.1))
        await device.act(Hold(100, 300, 0.0, 50, 0.1))
        await device.act(Key(KeyName.ENTER))
        await device.act(Text('it\'s 5 > 4 & "so"'))
        await device.act(Wait(0.01))
        probe = probe_of(phone)
        ends = [(t.x, t.y) for _, t in probe.touches if t.phase.value == "up"]
        assert ends == [(100, 200), (10, 100), (150, 300)]
        assert (probe.keys, probe.texts) == (["ENTER"], ['it\'s 5 > 4 & "so"'])

        with pytest.raises(ActionRefused):
            await device.act(Tap(360, 0))
        assert len(probe.touches) == len([t for _, t in probe.touches if t.x < 360])

        result = await device.shell("echo out; echo err >&2; false")
        expected = (b"out\n", b"err\n", 1) if device.framed else (b"out\nerr\n", b"", None)
        assert (result.stdout, result.stderr, result.exit_code) == expected

        statistics = device.statistics()
        assert (statistics.captures, statistics.captures_failed) == (1, 0)
        assert statistics.captured_bytes > 360 * 640 * 4
        assert (statistics.actions, statistics.actions_failed) == (6, 1)
        assert statistics.last_success_at is not None
    assert phone.handset.finger is None


@any_adb
async def test_turning_the_screen_starts_a_new_epoch(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address, max_side=320) as device,
    ):
        upright = await device.capture()
        await device.act(Tap(2, 2))
        turned = await device.capture()
        await device.shell("wm density 240")
        denser = await device.capture()
        same = await device.capture()

        assert (upright.geometry.width, upright.geometry.rotation, upright.pixels.shape) == (360, 0, (320, 180, 3))
        assert (turned.geometry.width, turned.geometry.rotation, turned.pixels.shape) == (640, 1, (180, 320, 3))
        assert [f.epoch for f in (upright, turned, denser, same)] == [0, 1, 2, 2]
        assert [f.seq for f in (upright, turned, denser, same)] == [0, 1, 2, 3]
        await device.act(Tap(639, 0))
        with pytest.raises(ActionRefused, match="640x360"):
            await device.act(Tap(0, 639))


@any_adb
async def test_frozen_phone_is_found_by_our_deadline_alone(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        simulated_phones([probe_spec("FROZEN"), probe_spec("WELL")]) as (frozen, well),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, frozen.address, deadlines=QUICK) as device,
        open_adb_device(adb.server.client, well.address, deadlines=QUICK) as neighbour,
    ):
        await device.capture()
        frozen.freeze()

        for call in (device.capture, lambda: device.act(Tap(1, 1)), lambda: device.shell("id", timeout_seconds=1)):
            started = trio.current_time()
            with pytest.raises(DeviceTimeout, match="within 1 s"):
                await call()
            assert 0.9 < trio.current_time() - started < 2.0
        listed = {entry.serial: entry.state for entry in await adb.server.client.devices()}
        assert listed[frozen.address] == "device"
        await neighbour.capture()

        frozen.thaw()
        await device.capture()
        assert device.statistics().captures_failed == 1


@any_adb
async def test_phone_that_is_dropped_in_mid_capture(adb_binary: Path, tmp_path: Path) -> None:
    specs = [probe_spec("NEW"), probe_spec("OLD", features=frozenset(), max_payload=4096)]
    async with simulated_phones(specs) as phones, genuine_adb(adb_binary, tmp_path) as adb:
        for phone in phones:
            async with open_adb_device(adb.server.client, phone.address, deadlines=QUICK) as device:
                await device.capture()
                probe_of(phone).draw_seconds = 0.2
                for reset in (True, False):
                    with raises_alone(DeviceError):
                        async with trio.open_nursery() as nursery:
                            nursery.start_soon(device.capture)
                            await wait_drawing(phone)
                            phone.drop(reset=reset)
                    await reattached(adb.server.client, phone)


async def reattached(client: AdbClient, phone: SimulatedPhone) -> None:
    async with open_adb_device(client, phone.address) as device:
        await device.capture()
    await client.connect(phone.address)


@any_adb
async def test_server_that_is_killed_in_mid_capture(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        simulated_phones([probe_spec(width=1080, height=2400, max_payload=4096)]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address) as device,
    ):
        frames = []

        async def capture() -> None:
            frames.append(await device.capture())

        with raises_alone(DeviceError) as caught:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(capture)
                await wait_drawing(phone)
                await trio.sleep(0.05)
                adb.server.process.kill()
        assert isinstance(caught[0], (TruncatedCapture, AdbServerLost))
        assert not frames
        with pytest.raises(AdbServerLost):
            await device.capture()


async def capture_until_lost(device: AdbDevice) -> None:
    while True:  # the first may still meet a server that has not noticed
        await device.capture()


@any_adb
async def test_restarted_phone_is_healed(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        client = adb.server.client
        async with open_adb_device(client, phone.address, deadlines=QUICK) as device:
            await device.capture()
            address = phone.address
            await phone.restart()
            assert phone.address == address
            with pytest.raises(DeviceLost):
                await capture_until_lost(device)
        async with open_adb_device(client, phone.address) as device:
            await device.capture()


@any_adb
async def test_phone_that_is_off_and_comes_back(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        client = adb.server.client
        await phone.power_off()
        with pytest.raises(DeviceLost):
            async with open_adb_device(client, phone.address, deadlines=AdbDeadlines(attach=1.0)):
                pytest.fail("a phone that is off was opened")

        async with trio.open_nursery() as nursery:

            async def wake() -> None:
                await trio.sleep(0.7)
                await phone.power_on()

            nursery.start_soon(wake)
            async with open_adb_device(client, phone.address) as device:
                await device.capture()


@any_adb
async def test_unauthorized_and_silent_phones(adb_binary: Path, tmp_path: Path) -> None:
    specs = [probe_spec("NEVER", auth=AuthMode.NEVER), probe_spec("ASKS", auth=AuthMode.ACCEPT), probe_spec("MUTE")]
    async with simulated_phones(specs) as (never, asks, mute), genuine_adb(adb_binary, tmp_path) as adb:
        client = adb.server.client
        async with open_adb_device(client, asks.address) as device:
            await device.capture()
        with pytest.raises(DeviceUnauthorized, match="accept this host's key"):
            async with open_adb_device(client, never.address):
                pytest.fail("an unauthorized phone was opened")
        assert await client.devices() == ()
        mute.freeze()
        started = trio.current_time()
        with pytest.raises(DeviceLost):
            async with open_adb_device(client, mute.address, deadlines=AdbDeadlines(attach=2.0)):
                pytest.fail("a silent phone was opened")
        assert trio.current_time() - started < 5.0
        assert await client.devices() == ()


@any_adb
async def test_cancelled_gestures_lift_their_finger(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address) as device,
    ):
        await device.capture()
        for action in (Swipe(10, 600, 300, 600, 30.0), Hold(100, 300, 0.0, 50, 30.0)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(device.act, action)
                await wait_finger(phone, down=True)
                nursery.cancel_scope.cancel()
            await wait_finger(phone, down=False)
        await device.capture()


@any_adb
async def test_an_address_that_was_left_offline_is_healed(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        client = adb.server.client
        await adb.connect(phone.address)
        await phone.power_off()
        await adb.wait_state("offline", phone.address)
        assert "offline" in await adb.output("devices")
        await phone.power_on()
        started = trio.current_time()
        await attach(client, phone.address, timeout_seconds=20)
        assert trio.current_time() - started < HEAL_AFTER_SECONDS + 3
        assert (await run_shell(client, phone.address, "echo well", timeout_seconds=5)).stdout == b"well\n"


@any_adb
async def test_a_new_server_knows_no_phone_until_it_is_connected_again(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec()]) as (phone,):
        async with genuine_adb(adb_binary, tmp_path) as adb:
            await adb.connect(phone.address)
        async with genuine_adb(adb_binary, tmp_path) as adb:
            assert await adb.server.client.devices() == ()
            async with open_adb_device(adb.server.client, phone.address) as device:
                await device.capture()
            assert phone.address not in await adb.output("devices")


@any_adb
async def test_captures_go_on_beside_a_gesture_and_may_be_cancelled(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address) as device,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(device.act, Swipe(10, 600, 300, 600, 0.5))
            await wait_finger(phone, down=True)
            await device.capture()
            where = phone.handset.finger
        assert where is not None
        await wait_finger(phone, down=False)

        probe_of(phone).draw_seconds = 0.1
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(device.capture)
                await wait_drawing(phone)
                nursery.cancel_scope.cancel()
        probe_of(phone).draw_seconds = 0.0
        frame = await device.capture()
        assert frame.seq == 4
        assert frame.pixels[7, 11].tolist() == [0, 7, 11]
        assert device.statistics().captures == 2


@any_adb
async def test_two_addresses_of_one_phone_are_found(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        simulated_phones([probe_spec("ONE"), probe_spec("TWO")]) as (one, two),
        genuine_adb(adb_binary, tmp_path) as adb,
    ):
        alias = f"localhost:{one.port}"
        await adb.connect(one.address, alias, two.address)
        identities = await read_identities(adb.server.client, [alias, two.address, one.address, "127.0.0.1:9"])

        grouped = addresses_by_phone(identities)
        assert grouped == {"ONE": (one.address, alias), "TWO": (two.address,)}
        assert isinstance(identities["127.0.0.1:9"], DeviceLost)


@any_adb
async def test_files_and_installs(adb_binary: Path, tmp_path: Path) -> None:
    blob = np.random.default_rng(1).bytes(5_000_000)
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path / "home") as adb,
        open_adb_device(adb.server.client, phone.address) as device,
    ):
        client = adb.server.client
        assert await push_file(client, phone.address, blob, "/data/local/tmp/b", mode=0o600, modified=12) == len(blob)
        assert await pull_file(client, phone.address, "/data/local/tmp/b") == blob
        status = await stat_file(client, phone.address, "/data/local/tmp/b")
        assert status is not None
        assert (status.mode, status.size, status.modified) == (0o100666, len(blob), 12)
        assert await stat_file(client, phone.address, "/nowhere") is None
        with pytest.raises(TransferFailed, match="No such file"):
            await pull_file(client, phone.address, "/nowhere")
        with pytest.raises(TransferFailed, match="directory"):
            await push_file(client, phone.address, b"x", "/data/local/tmp")
        await device.shell("rm /data/local/tmp/b")

        apks = [tmp_path / "base.apk", tmp_path / "split.apk"]
        apks[0].write_bytes(b"package=com.example.game\n" + blob[:1000])
        apks[1].write_bytes(b"PK")
        await install_apks(client, phone.address, apks, framed=True)
        package = phone.handset.packages.find("com.example.game")
        assert package is not None
        assert sorted(package.splits.values()) == [2, 1025]
        apks[1].write_bytes(b"")
        with pytest.raises(TransferFailed, match="install-commit: Failure"):
            await install_apks(client, phone.address, apks, framed=True)
        assert not phone.handset.files


@any_adb
async def test_screencap_that_fails_is_no_frame(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address) as device,
    ):
        raw = SCREENCAP_METHODS[CaptureMethod.RAW]
        wrong = attrs.evolve(raw, command="screencap one two")
        monkeypatch.setitem(SCREENCAP_METHODS, CaptureMethod.RAW, wrong)
        with pytest.raises(CaptureFailed, match="exited with 1"):
            await device.capture()
        monkeypatch.setitem(SCREENCAP_METHODS, CaptureMethod.RAW, attrs.evolve(raw, command="true"))
        with pytest.raises(TruncatedCapture, match="0 bytes"):
            await device.capture()
        monkeypatch.undo()
        await device.capture()


@any_adb
async def test_unknown_phone_and_output_limits(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        client = adb.server.client
        with pytest.raises(DeviceLost, match="not found"):
            await run_shell(client, "nobody", "id", timeout_seconds=5)
        await adb.connect(phone.address)
        assert await run_exec(client, phone.address, "echo hi", timeout_seconds=5) == b"hi\n"
        with pytest.raises(DeviceTimeout):
            await run_exec(client, phone.address, "sleep 60", timeout_seconds=0.3)
        await phone.power_off()
        await adb.wait_state("offline", phone.address)
        with pytest.raises(DeviceOffline):
            await run_shell(client, phone.address, "id", timeout_seconds=5)


@any_adb
async def test_descriptors_and_tasks_stay_what_they_were(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        simulated_phones([probe_spec(width=180, height=320)]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
    ):

        async def cycle() -> None:
            async with open_adb_device(adb.server.client, phone.address) as device:
                await device.capture()
                await device.act(Tap(100, 100))
            await wait_until(lambda: not phone.connection_count)

        await cycle()
        descriptors, tasks = open_descriptors(), trio.lowlevel.current_statistics().tasks_living
        for _ in range(50):
            await cycle()
        with trio.move_on_after(10):  # the phone's own side of the last connection ends a moment later
            while open_descriptors() > descriptors or trio.lowlevel.current_statistics().tasks_living > tasks:
                await trio.sleep(0.05)

        # fewer, where the first connection's end had not come when they were counted
        assert open_descriptors() <= descriptors
        assert trio.lowlevel.current_statistics().tasks_living <= tasks


@any_adb
async def test_device_outlives_a_restart_of_the_app(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        simulated_phones([probe_spec(seed=1)]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address) as device,
    ):
        await device.shell(f"am force-stop {PROBE_PACKAGE}")
        launcher = await device.capture()
        await device.shell(f"am start -n {PROBE_PACKAGE}/.MainActivity")
        again = await device.capture()

        assert launcher.pixels[600, 10].tolist() == [44, 32, 24]
        assert again.pixels[600, 10].tolist() == [1001 % 256, 600 % 241, 10]
