"""Simulated phones in the hands of the genuine adb: each protocol detail that bites, with two versions of it."""

import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import trio

from actors.rehearsal.phone.auth import AuthMode
from actors.rehearsal.phone.serve import serve_phones
from actors.rehearsal.phone.spec import DEFAULT_FEATURES, PhoneSpec
from actors.rehearsal.phone.stream import Stream
from actors.rehearsal.phone.wire import VERSION_CHECKSUM
from tests.kit.adb import any_adb, genuine_adb
from tests.kit.devices import PROBE_APPS, PROBE_PACKAGE, probe_of, probe_spec, simulated_phones, wait_finger

BLOB = np.random.default_rng(7).bytes(5_000_000)


@any_adb
async def test_devices_shell_and_screencap(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec(seed=77)]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        await adb.connect(phone.address)
        serial = ("-s", phone.address)

        listed = await adb.output("devices", "-l")
        assert re.search(rf"{phone.address}\s+device .*model:Corral_One", listed)
        assert await adb.output(*serial, "shell", "getprop", "ro.serialno") == "PROBE0\n"
        assert await adb.output(*serial, "shell", "wm", "size") == "Physical size: 360x640\n"

        exits = {command: (await adb.run(*serial, "shell", command)).returncode for command in (
            "true", "false", "exit 42", "no-such-program", "false || true", "cat /nowhere")}  # fmt: skip
        expected = {"true": 0, "false": 1, "exit 42": 42, "no-such-program": 127, "false || true": 0}
        assert exits == expected | {"cat /nowhere": 1}

        png = (await adb.run(*serial, "exec-out", "screencap", "-p")).stdout
        picture = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
        assert picture is not None
        assert picture.shape == (640, 360, 3)
        assert picture[0, 0].tolist() == [1, 128, 255]
        assert picture[5, 9].tolist() == [77, 5, 9]

        await adb.output(*serial, "shell", "screencap", "-p", "/sdcard/shot.png")
        await adb.output(*serial, "pull", "/sdcard/shot.png", str(tmp_path / "shot.png"))
        assert (tmp_path / "shot.png").read_bytes() == png
        raw = (await adb.run(*serial, "exec-out", "screencap")).stdout
        assert np.frombuffer(raw[:16], "<u4").tolist() == [360, 640, 1, 1]
        assert len(raw) == 16 + 360 * 640 * 4
        assert raw[16:20] == bytes([255, 128, 1, 255])

        typed = await adb.run(*serial, "shell", stdin=b"echo one; echo two >&2\nexit 9\n")
        assert (typed.stdout, typed.stderr, typed.returncode) == (b"one\n", b"two\n", 9)


@any_adb
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"features": frozenset({"cmd"}), "version": VERSION_CHECKSUM, "max_payload": 4096},
        {"features": frozenset({"shell_v2", "cmd"}), "max_payload": 4096},
    ],
    ids=["new", "old-with-checksum", "4096"],
)
async def test_files_round_trip_whole(adb_binary: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    source, back = tmp_path / "blob", tmp_path / "back"
    source.write_bytes(BLOB)
    async with (
        simulated_phones([probe_spec(**changes)]) as (phone,),
        genuine_adb(adb_binary, tmp_path / "home") as adb,
    ):
        await adb.connect(phone.address)
        await adb.output("-s", phone.address, "push", str(source), "/data/local/tmp/blob")
        assert phone.handset.files["/data/local/tmp/blob"].data == BLOB
        await adb.output("-s", phone.address, "pull", "/data/local/tmp/blob", str(back))
        assert back.read_bytes() == BLOB

        assert await adb.output("-s", phone.address, "shell", "ls", "/data/local/tmp") == "blob\n"
        missing = await adb.run("-s", phone.address, "pull", "/nowhere", str(back))
        assert missing.returncode != 0


@any_adb
async def test_without_shell_v2_the_exit_code_is_lost(adb_binary: Path, tmp_path: Path) -> None:
    specs = [probe_spec("OLD", features=DEFAULT_FEATURES - {"shell_v2"}), probe_spec("NEW")]
    async with simulated_phones(specs) as (old, new), genuine_adb(adb_binary, tmp_path) as adb:
        await adb.connect(old.address, new.address)

        assert (await adb.run("-s", old.address, "shell", "false")).returncode == 0
        assert (await adb.run("-s", new.address, "shell", "false")).returncode == 1
        assert await adb.output("-s", old.address, "shell", "echo", "here") == "here\n"


@any_adb
async def test_burst_mode(adb_binary: Path, tmp_path: Path) -> None:
    source, back = tmp_path / "blob", tmp_path / "back"
    source.write_bytes(BLOB)
    async with (
        simulated_phones([probe_spec(width=720, height=1280)]) as (phone,),
        genuine_adb(adb_binary, tmp_path / "home", ADB_BURST_MODE="1") as adb,
    ):
        await adb.connect(phone.address)
        await adb.output("-s", phone.address, "push", str(source), "/data/local/tmp/blob")
        await adb.output("-s", phone.address, "pull", "/data/local/tmp/blob", str(back))
        assert back.read_bytes() == BLOB
        raw = (await adb.run("-s", phone.address, "exec-out", "screencap")).stdout
        assert len(raw) == 16 + 720 * 1280 * 4


@any_adb
async def test_authentication(adb_binary: Path, tmp_path: Path) -> None:
    specs = [probe_spec("ASKS", auth=AuthMode.ACCEPT), probe_spec("NEVER", auth=AuthMode.NEVER)]
    async with simulated_phones(specs) as (asks, never), genuine_adb(adb_binary, tmp_path) as adb:
        await adb.connect(asks.address)
        await adb.server.client.connect(never.address)
        await adb.wait_state("unauthorized", never.address)
        assert await adb.output("-s", asks.address, "shell", "echo", "in") == "in\n"
        refused = await adb.run("-s", never.address, "shell", "echo", "in")
        assert refused.returncode != 0
        assert b"in\n" not in refused.stdout

        # the phone knows the key now, and a signature alone opens it: nobody has to accept again
        await adb.server.client.disconnect(asks.address)
        await adb.connect(asks.address)
        assert await adb.output("-s", asks.address, "shell", "echo", "again") == "again\n"


@any_adb
async def test_forward_to_localabstract(adb_binary: Path, tmp_path: Path) -> None:
    async def echo(stream: Stream) -> None:
        await stream.write(b"hello ")
        while True:
            await stream.write((await stream.read()).upper())

    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        phone.sockets["scrcpy_1"] = echo
        await adb.connect(phone.address)
        client = adb.server.client
        local = await client.forward(phone.address, "tcp:0", "localabstract:scrcpy_1")
        port = int(local.removeprefix("tcp:"))
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"world")
            received = b""
            while len(received) < 11:
                received += await stream.receive_some()
            assert received == b"hello WORLD"
        await client.kill_forward(phone.address, local)
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream("127.0.0.1", port)

        absent = await client.forward(phone.address, "tcp:0", "localabstract:nobody")
        async with await trio.open_tcp_stream("127.0.0.1", int(absent.removeprefix("tcp:"))) as stream:
            with trio.fail_after(5):
                assert await stream.receive_some() == b""


@any_adb
async def test_installing_one_apk_and_split_apks(adb_binary: Path, tmp_path: Path) -> None:
    single, base, split = (tmp_path / name for name in ("single.apk", "base.apk", "split.apk"))
    single.write_bytes(b"PK" + BLOB[:300_000])
    base.write_bytes(b"package=" + PROBE_PACKAGE.encode() + b"\n" + BLOB[:200_000])
    split.write_bytes(b"PK more")
    specs = [probe_spec("NEW"), probe_spec("OLD", features=frozenset())]
    async with simulated_phones(specs) as phones, genuine_adb(adb_binary, tmp_path / "home") as adb:
        for phone in phones:
            await adb.connect(phone.address)
            assert "Success" in await adb.output("-s", phone.address, "install", str(single))
            assert "Success" in await adb.output("-s", phone.address, "install-multiple", str(base), str(split))

            packages = phone.handset.packages
            (name,) = packages.names("third_party")
            single_package = packages.find(name)
            assert single_package is not None
            assert list(single_package.splits.values()) == [300_002]
            probe = packages.find(PROBE_PACKAGE)
            assert probe is not None
            assert sorted(probe.splits.values()) == [7, base.stat().st_size]


@any_adb
async def test_input_reaches_the_app_in_real_time(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        await adb.connect(phone.address)
        shell = ("-s", phone.address, "shell")
        await adb.output(*shell, "input tap 30 40; input keyevent 4; input text 'a%sb'")
        await adb.output(*shell, "input", "swipe", "100", "500", "100", "100", "300")

        probe = probe_of(phone)
        assert probe.keys == ["BACK"]
        assert probe.texts == ["a b"]
        phases = [touch.phase.value for _, touch in probe.touches]
        assert phases[:3] == ["down", "up", "down"]
        assert set(phases[3:-1]) == {"move"}
        assert len(phases) > 6
        swipe = probe.touches[2:]
        assert swipe[-1][0] - swipe[0][0] >= 0.3
        assert [touch.y for _, touch in swipe] == sorted((touch.y for _, touch in swipe), reverse=True)
        assert (swipe[-1][1].x, swipe[-1][1].y) == (100, 100)

        log = await adb.output("-s", phone.address, "logcat", "-d", "-v", "epoch", "-s", "Probe")
        assert re.search(r"^\d+\.\d{3} +\d+ +\d+ I Probe +: down 30 40$", log, re.MULTILINE)


@any_adb
async def test_client_that_leaves_in_mid_swipe_lifts_the_finger(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        await adb.connect(phone.address)
        async with adb.server.client.open_service(phone.address, "shell:input swipe 10 600 300 600 60000"):
            await wait_finger(phone, down=True)
        await wait_finger(phone, down=False)
        assert probe_of(phone).touches[-1][1].phase.value == "up"


@any_adb
async def test_restarting_an_app_makes_it_anew_with_the_next_seed(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec(seed=5)]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        await adb.connect(phone.address)
        shell = ("-s", phone.address, "shell")
        assert PROBE_PACKAGE in await adb.output(*shell, "dumpsys window | grep mCurrentFocus")
        first = probe_of(phone)
        pid = await adb.output(*shell, "pidof", PROBE_PACKAGE)

        await adb.output(*shell, "am", "force-stop", PROBE_PACKAGE)
        assert phone.handset.front is None
        assert (await adb.run(*shell, "pidof", PROBE_PACKAGE)).returncode == 1
        assert "dev.corral.launcher" in await adb.output(*shell, "dumpsys activity | grep mResumedActivity")

        await adb.output(*shell, "am", "start", "-n", f"{PROBE_PACKAGE}/.MainActivity")
        second = probe_of(phone)
        assert second is not first
        assert (first.seed, second.seed) == (5, 1005)
        assert await adb.output(*shell, "pidof", PROBE_PACKAGE) != pid

        await adb.output(*shell, "input", "keyevent", "KEYCODE_HOME")
        assert phone.handset.front is None
        await adb.output(*shell, f"monkey -p {PROBE_PACKAGE} -c android.intent.category.LAUNCHER 1")
        assert probe_of(phone) is second
        assert (await adb.run(*shell, "am", "start", "-n", "no.such/.Main")).returncode == 1


@any_adb
async def test_sixty_four_phones_in_one_process(adb_binary: Path, tmp_path: Path) -> None:
    specs = [probe_spec(f"P{number}", seed=number) for number in range(64)]
    async with simulated_phones(specs) as phones, genuine_adb(adb_binary, tmp_path) as adb:
        async with trio.open_nursery() as nursery:
            for phone in phones:
                nursery.start_soon(adb.server.client.connect, phone.address)
        await adb.wait_state("device", *(phone.address for phone in phones))
        listed = await adb.output("devices", "-l")
        assert all(phone.address in listed for phone in phones)
        assert len(listed) > 4096
        assert await adb.output("-s", phones[63].address, "shell", "getprop ro.serialno") == "P63\n"


@any_adb
async def test_following_the_log(adb_binary: Path, tmp_path: Path) -> None:
    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        await adb.connect(phone.address)
        client = adb.server.client
        async with client.open_service(phone.address, "exec:logcat -T 1 -v epoch -s Probe") as follower:
            await adb.output("-s", phone.address, "shell", "input tap 50 60")
            text = ""
            with trio.fail_after(5):
                while "up 50 60" not in text:
                    text += (await follower.receive_some()).decode()


async def test_taken_port_is_a_clear_error() -> None:
    async with trio.open_nursery() as nursery:
        (phone,) = await nursery.start(serve_phones, [probe_spec()], PROBE_APPS)
        with pytest.RaisesGroup(
            pytest.RaisesExc(Exception, match="in use"), flatten_subgroups=True, allow_unwrapped=True
        ):
            await nursery.start(serve_phones, [probe_spec("OTHER", port=phone.port)], PROBE_APPS)
        nursery.cancel_scope.cancel()


def test_port_that_adb_scans_is_refused() -> None:
    with pytest.raises(ValueError, match="5554 to 5585"):
        PhoneSpec(serial="X", port=5555)
