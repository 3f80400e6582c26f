"""Video and input through a scrcpy server on simulated phones, with genuine adb in between."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

from actors.devices.adb.device import AdbDevice, open_adb_device
from actors.devices.adb.errors import StreamUnavailable
from actors.devices.adb.scrcpy import ScrcpyConfig, ScrcpyStream
from actors.devices.base import ActionRefused, CaptureMethod, DeviceTimeout, Unsupported
from actors.rehearsal.apps.base import TouchPhase
from actors.rehearsal.phone.scrcpy import ScrcpyServer
from actors.rehearsal.phone.serve import SimulatedPhone
from actors.rehearsal.phone.spec import DEFAULT_FEATURES, VideoKind
from actors.rehearsal.phone.stream import Stream
from actors.rehearsal.phone.video import EncodedFrame
from policies.action import Hold, Key, KeyName, Swipe, Tap, Text, TwoFingers
from policies.frame import Frame
from tests.kit.adb import any_adb, genuine_adb
from tests.kit.devices import probe_spec, simulated_phones, wait_finger, wait_until
from tests.kit.scrcpy import MovingApp, make_moving, server_file

SECONDS = 30.0


def app_of(phone: SimulatedPhone) -> MovingApp:
    front = phone.handset.front
    assert front is not None
    assert isinstance(front.app, MovingApp)
    return front.app


def server_of(phone: SimulatedPhone) -> ScrcpyServer:
    (server,) = phone.handset.scrcpy_servers
    assert isinstance(server, ScrcpyServer)
    return server


def stream_of(device: AdbDevice) -> ScrcpyStream:
    assert device.stream is not None
    return device.stream


@asynccontextmanager
async def streamed(
    binary: Path, folder: Path, *, version: str = "4.0", named: bool = True, max_side: int | None = None, **spec: Any
) -> AsyncIterator[tuple[SimulatedPhone, AdbDevice]]:
    jar = server_file(folder, version, named=named)
    async with (
        simulated_phones([probe_spec(**spec)], {"probe": make_moving}) as (phone,),
        genuine_adb(binary, folder / "home") as adb,
        open_adb_device(
            adb.server.client,
            phone.address,
            max_side=max_side,
            method=CaptureMethod.SCRCPY,
            scrcpy=ScrcpyConfig(jar=jar, max_fps=30.0),
        ) as device,
    ):
        yield phone, device


async def frame_of_stream(device: AdbDevice, *, unlike: Frame | None = None) -> Frame:
    """The next frame that the stream itself has given, and is another than that one."""
    with trio.fail_after(SECONDS):
        while True:
            frame = await device.capture()
            if frame.source == "scrcpy" and (unlike is None or frame.geometry != unlike.geometry):
                return frame
            await trio.sleep(0.01)


@any_adb
@pytest.mark.parametrize("version", ["2.7", "3.3.4", "4.0"])
async def test_every_version_shows_the_screen_and_a_rotation(adb_binary: Path, tmp_path: Path, version: str) -> None:
    async with streamed(adb_binary, tmp_path, version=version) as (phone, device):
        upright = await frame_of_stream(device)
        exact = await device.capture_by(CaptureMethod.PNG)

        assert upright.pixels.shape == (640, 360, 3)
        assert np.abs(upright.pixels[20, 20].astype(int) - exact.pixels[20, 20]).max() < 12
        assert np.abs(upright.pixels[20, 300].astype(int) - exact.pixels[20, 300]).max() < 12
        assert stream_of(device).version.text == version

        app_of(phone).rotation = 1
        turned = await frame_of_stream(device, unlike=upright)
        assert turned.pixels.shape == (360, 640, 3)
        assert (turned.geometry.width, turned.geometry.rotation, turned.epoch) == (640, 1, upright.epoch + 1)


@any_adb
async def test_a_server_of_unknown_version_is_asked_and_the_phone_reduces(adb_binary: Path, tmp_path: Path) -> None:
    async with streamed(adb_binary, tmp_path, version="3.1", named=False, max_side=320) as (_, device):
        frame = await frame_of_stream(device)

        assert stream_of(device).version.text == "3.1"
        assert (stream_of(device).video_size.width, frame.pixels.shape) == (176, (320, 176, 3))  # type: ignore[union-attr]
        assert (frame.geometry.width, frame.geometry.height) == (360, 640)


@any_adb
async def test_a_static_screen_is_unchanged_and_a_frozen_phone_is_not(adb_binary: Path, tmp_path: Path) -> None:
    async with streamed(adb_binary, tmp_path) as (phone, device):
        await frame_of_stream(device)
        app = app_of(phone)
        app.moves = False
        still: list[Frame] = []
        with trio.fail_after(SECONDS):
            while len(still) < 12:  # what is under way when it stops still comes
                draws = app.draws
                await wait_until(lambda draws=draws: app.draws > draws, seconds=SECONDS)  # type: ignore[misc]
                frame = await device.capture()
                still = [*still, frame] if frame.is_unchanged else []
        first, later = still[-2:]

        assert later.seq == first.seq + 1
        assert later.pixels is first.pixels  # nothing was converted again
        assert later.requested_at > first.requested_at
        assert later.received_at - later.requested_at < 1.0
        assert device.statistics().captures_unchanged >= 3

        phone.freeze()

        async def look_on() -> None:
            while True:  # the stream stays silent as before; the probe beside it finds out
                await device.capture()
                await trio.sleep(0.05)

        with trio.fail_after(SECONDS), pytest.raises(DeviceTimeout):
            await look_on()


@any_adb
async def test_touches_fingers_keys_and_text_through_the_control_socket(adb_binary: Path, tmp_path: Path) -> None:
    async with streamed(adb_binary, tmp_path, max_side=320) as (phone, device):
        await frame_of_stream(device)
        app = app_of(phone)
        await device.act(Tap(100, 200))
        await device.act(Swipe(20, 600, 20, 100, 0.1))
        await device.act(Hold(100, 300, 0.0, 50, 0.1))
        await device.act(TwoFingers((50, 320, 150, 320), (310, 320, 210, 320), 0.15))
        await device.act(Key(KeyName.BACK))
        await device.act(Text("plain"))
        await device.act(Text("你好, it's 5€"))
        with pytest.raises(ActionRefused):
            await device.act(Tap(360, 0))
        await wait_until(lambda: len(app.texts) == 2 and phone.handset.finger is None, seconds=SECONDS)

        ups = [(touch.x, touch.y) for _, touch in app.touches if touch.phase is TouchPhase.UP]
        wanted = [(100, 200), (20, 100), (150, 300), (150, 320), (210, 320)]
        assert len(ups) == len(wanted)
        for got, want in zip(ups, wanted, strict=True):
            assert max(abs(got[0] - want[0]), abs(got[1] - want[1])) <= 3, (got, want)
        down = {touch.finger for _, touch in app.touches if touch.phase is TouchPhase.DOWN}
        assert down == {0, 1}
        assert (app.keys, app.texts) == (["BACK"], ["plain", "你好, it's 5€"])
        assert server_of(phone).ignored_touches == 0
        assert device.statistics().input_seconds < 5.0


@any_adb
async def test_a_cancelled_swipe_lifts_both_fingers(adb_binary: Path, tmp_path: Path) -> None:
    async with streamed(adb_binary, tmp_path) as (phone, device):
        await frame_of_stream(device)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(device.act, TwoFingers((50, 320, 150, 320), (310, 320, 210, 320), 60.0))
            await wait_finger(phone, down=True)
            await wait_until(lambda: len(app_of(phone).touches) >= 4, seconds=SECONDS)
            nursery.cancel_scope.cancel()
        await wait_finger(phone, down=False)
        await device.act(Tap(10, 10))
        await wait_until(lambda: app_of(phone).touches[-1][1].x == 10, seconds=SECONDS)


@any_adb
async def test_broken_video_is_begun_again_at_a_key_frame(adb_binary: Path, tmp_path: Path) -> None:
    async with streamed(adb_binary, tmp_path) as (_, device):
        await frame_of_stream(device)
        stream = stream_of(device)
        stream._decoder.reset()  # as after a decoder error: no key frame comes by itself
        before = stream.statistics().pictures
        await wait_until(lambda: stream.statistics().pictures > before + 2, seconds=SECONDS)

        assert stream.statistics().resets >= 1
        assert device.stream is stream


@any_adb
async def test_silence_is_proved_and_a_hung_encoder_is_begun_anew(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.devices.adb.scrcpy.SILENCE_SECONDS", 0.3)
    monkeypatch.setattr("actors.devices.adb.scrcpy.PROOF_SECONDS", 1.0)
    monkeypatch.setattr("actors.devices.adb.device.GEOMETRY_AGE_SECONDS", 0.1)
    async with streamed(adb_binary, tmp_path) as (phone, device):
        await frame_of_stream(device)
        app_of(phone).moves = False
        stream = stream_of(device)

        async def capture_until(holds: Callable[[], bool]) -> None:
            with trio.fail_after(SECONDS):
                while not holds():
                    await device.capture()
                    await trio.sleep(0.02)

        await capture_until(lambda: stream.statistics().resets >= 2)
        assert device.stream is stream  # key frames come, so it only stands still

        monkeypatch.setattr(ScrcpyServer, "_write_frame", hang)
        await capture_until(lambda: device.stream is not stream)
        assert "no key frame" in str(device.keeper and device.keeper.failure)


@any_adb
async def test_garbage_in_the_video_asks_for_a_key_frame(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scrcpy#283: corrupted macroblocks."""
    async with streamed(adb_binary, tmp_path) as (_, device):
        await frame_of_stream(device)
        stream = stream_of(device)
        send = ScrcpyServer._write_frame
        broken = EncodedFrame(b"\0\0\0\1\x65" + bytes(range(200)), is_key=True)

        async def send_garbage_once(server: ScrcpyServer, to: Stream, frame: EncodedFrame, pts_us: int) -> None:
            monkeypatch.setattr(ScrcpyServer, "_write_frame", send)
            await send(server, to, broken, pts_us)

        monkeypatch.setattr(ScrcpyServer, "_write_frame", send_garbage_once)
        await wait_until(lambda: stream.statistics().errors >= 1, seconds=SECONDS)
        pictures = stream.statistics().pictures
        await wait_until(lambda: stream.statistics().pictures > pictures + 1, seconds=SECONDS)

        assert stream.statistics().resets >= 1
        assert device.stream is stream
        exact = await device.capture_by(CaptureMethod.PNG)
        assert np.abs((await frame_of_stream(device)).pixels[20, 20].astype(int) - exact.pixels[20, 20]).max() < 12


@any_adb
async def test_a_hung_encoder_is_found_where_no_key_frame_can_be_asked_for(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.devices.adb.scrcpy.SILENCE_SECONDS", 0.3)
    monkeypatch.setattr("actors.devices.adb.device.GEOMETRY_AGE_SECONDS", 0.1)
    compared: list[bool] = []
    shows_the_screen = AdbDevice._shows_the_screen

    async def count(device: AdbDevice, stream: ScrcpyStream) -> bool:
        compared.append(await shows_the_screen(device, stream))
        return compared[-1]

    monkeypatch.setattr(AdbDevice, "_shows_the_screen", count)
    async with streamed(adb_binary, tmp_path, version="2.7") as (phone, device):
        await frame_of_stream(device)
        app = app_of(phone)
        app.moves = False
        stream = stream_of(device)

        async def capture_until(holds: Callable[[], bool]) -> None:
            with trio.fail_after(SECONDS):
                while not holds():
                    await device.capture()
                    await trio.sleep(0.02)

        await capture_until(lambda: len(compared) >= 3)
        assert (device.stream is stream, set(compared)) == (True, {True}), "the screen only stands still"

        with monkeypatch.context() as hanging:
            hanging.setattr(ScrcpyServer, "_write_frame", hang)
            app.rotation = 1  # what the stream never shows
            await capture_until(lambda: device.stream is not stream)
            assert "the screen has changed, and nothing came" in str(device.keeper and device.keeper.failure)
        await capture_until(lambda: device.stream is not None and device.stream.newest is not None)


async def hang(*_: object) -> None:
    """An encoder that says nothing any more."""
    await trio.sleep_forever()


@any_adb
async def test_a_server_that_dies_is_started_again_with_screencaps_meanwhile(adb_binary: Path, tmp_path: Path) -> None:
    async with streamed(adb_binary, tmp_path, version="2.7") as (phone, device):
        await frame_of_stream(device)
        first = device.stream
        server_of(phone)._done.set()
        await wait_until(lambda: device.stream is None, seconds=SECONDS)

        meanwhile = await device.capture()
        assert meanwhile.source == "raw"
        await device.act(Tap(50, 60))
        assert await frame_of_stream(device)
        assert device.stream is not first
        assert len(phone.handset.scrcpy_servers) == 1
    await wait_until(lambda: not phone.handset.scrcpy_servers, seconds=SECONDS)


@any_adb
@pytest.mark.parametrize("features", [DEFAULT_FEATURES, frozenset({"cmd"})], ids=["shell_v2", "exec"])
async def test_a_file_that_is_no_server_leaves_screencaps(
    adb_binary: Path, tmp_path: Path, features: frozenset[str]
) -> None:
    async with streamed(adb_binary, tmp_path, version="1.25", features=features) as (_, device):
        assert device.stream is None
        assert device.keeper is not None
        assert isinstance(device.keeper.failure, StreamUnavailable)
        assert "2.x to 4.x" in str(device.keeper.failure)
        assert (await device.capture()).source == "raw"
        with pytest.raises(Unsupported, match="scrcpy"):
            await device.act(TwoFingers((1, 1, 2, 2), (5, 5, 6, 6)))
        with pytest.raises(ActionRefused, match="printable ASCII"):
            await device.act(Text("你好"))


@any_adb
async def test_many_phones_may_share_one_encoded_stream(adb_binary: Path, tmp_path: Path) -> None:
    jar = server_file(tmp_path, "4.0")
    specs = [probe_spec(f"S{n}", video=VideoKind.SHARED) for n in range(3)]
    async with (
        simulated_phones(specs, {"probe": make_moving}) as phones,
        genuine_adb(adb_binary, tmp_path / "home") as adb,
        trio.open_nursery() as nursery,
    ):

        async def look(phone: SimulatedPhone) -> None:
            config = ScrcpyConfig(jar=jar, max_fps=20.0)
            async with open_adb_device(
                adb.server.client, phone.address, method=CaptureMethod.SCRCPY, scrcpy=config
            ) as device:
                first = await frame_of_stream(device)
                stream = stream_of(device)
                await wait_until(lambda: stream.statistics().pictures > 5, seconds=SECONDS)
                assert not np.array_equal(first.pixels, (await device.capture()).pixels)

        for phone in phones:
            nursery.start_soon(look, phone)
