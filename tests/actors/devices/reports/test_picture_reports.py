"""Public reports about pictures: black, cut, mangled, turned and standing still."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import trio

from actors.black_cause import PROTECTED
from actors.devices.adb.capture import SCREENCAP_METHODS
from actors.devices.adb.choosing import MethodTrial, choose
from actors.devices.adb.device import BLACK_IN_A_ROW, AdbDevice, open_adb_device
from actors.devices.adb.errors import TruncatedCapture
from actors.devices.adb.method_memory import MethodMemory
from actors.devices.adb.png import pixels_in
from actors.devices.adb.scrcpy import ScrcpyConfig
from actors.devices.base import ActionRefused, CaptureMethod, DeviceError, Driver
from actors.rehearsal.phone.displays import MAIN_DISPLAY, SECOND_DISPLAY
from actors.rehearsal.phone.faults import Banner, Black, Crlf, Fault, PartBlack, Rotate, Secure, Truncate
from actors.rehearsal.phone.scrcpy import ScrcpyServer
from actors.rehearsal.phone.serve import SimulatedPhone
from actors.rehearsal.phone.stream import Stream
from actors.rehearsal.phone.video import EncodedFrame
from policies.action import PlannedAction, Tap
from policies.criteria import Outcome
from policies.frame import Frame, Pixels
from policies.geometry import Box, Coordinates, Geometry, ModelSpace, device_to_model, model_to_device
from policies.perception import compile_probes, perceive
from policies.staleness import Stale, StalenessSettings, verify
from policies.thumbnail import thumbnail_for
from policies.verdict import Agreement, Verdict, compare, judge_pixels
from tests.kit.adb import any_adb, genuine_adb
from tests.kit.devices import probe_of, probe_spec, simulated_phones, wait_drawing, wait_until
from tests.kit.field import CountingModel, faulty, field_session, newest_adb
from tests.kit.scrcpy import MovingApp, make_moving, server_file

SECONDS = 30.0


@asynccontextmanager
async def driven(
    binary: Path, folder: Path, method: CaptureMethod = CaptureMethod.RAW, **spec: Any
) -> AsyncIterator[tuple[SimulatedPhone, AdbDevice]]:
    async with (
        simulated_phones([probe_spec(**spec)]) as (phone,),
        genuine_adb(binary, folder / "home") as adb,
        open_adb_device(adb.server.client, phone.address, method=method) as device,
    ):
        yield phone, device


@asynccontextmanager
async def streamed(binary: Path, folder: Path) -> AsyncIterator[tuple[SimulatedPhone, AdbDevice]]:
    config = ScrcpyConfig(jar=server_file(folder, "4.0"), max_fps=30.0)
    async with (
        simulated_phones([probe_spec()], {"probe": make_moving}) as (phone,),
        genuine_adb(binary, folder / "home") as adb,
        open_adb_device(adb.server.client, phone.address, method=CaptureMethod.SCRCPY, scrcpy=config) as device,
    ):
        yield phone, device


def moving_app_of(phone: SimulatedPhone) -> MovingApp:
    assert phone.handset.front is not None
    assert isinstance(phone.handset.front.app, MovingApp)
    return phone.handset.front.app


async def frame_of_stream(device: AdbDevice, *, epoch: int = 0) -> Frame:
    with trio.fail_after(SECONDS):
        while True:
            frame = await device.capture()
            if frame.source == "scrcpy" and frame.epoch >= epoch:
                return frame
            await trio.sleep(0.01)


def planned_on(frame: Frame, target: Box) -> PlannedAction:
    tap = Tap(*target.center)
    return PlannedAction(tap, 0, frame.seq, frame.requested_at, frame.epoch, 0, target, idempotent=True)


def fate_of(planned: PlannedAction, on: Frame, newest: Frame) -> Stale | None:
    percept = perceive(compile_probes({}, {}), newest)
    now = newest.received_at
    return verify(planned, percept, thumbnail_for(on), reflex_epoch=0, now=now, settings=StalenessSettings())


@newest_adb
async def test_10_a_protected_screen_is_black_and_no_model_sees_it(adb_binary: Path, tmp_path: Path) -> None:
    """claude-in-mobile#51, scrcpy#4056: FLAG_SECURE gives a valid, black picture. The cause is told."""
    model = CountingModel()
    async with driven(adb_binary, tmp_path) as (phone, device), faulty(phone, Secure()):
        assert judge_pixels((await device.capture()).pixels) is Verdict.BLACK
        session = field_session(model, seconds=1.5)
        end = await session.play(device)
    assert model.prompts == []
    assert session.statistics.bad_frames["black"] >= 3
    assert session.statistics.black_cause == PROTECTED
    assert end.outcome is not Outcome.CANCELLED


@newest_adb
@pytest.mark.parametrize("fault", [Black(seconds=0.6), PartBlack(share=0.5, seconds=0.2)], ids=["black", "partly"])
async def test_11_black_at_first_or_in_part_is_looked_at_again(adb_binary: Path, tmp_path: Path, fault: Fault) -> None:
    """uiautomator2#510: the first captures were black, later ones fine; or a part of each."""
    model = CountingModel()
    verdict = "black" if isinstance(fault, Black) else "partly_black"
    async with driven(adb_binary, tmp_path) as (phone, device), faulty(phone, fault):
        session = field_session(model, seconds=2.5)
        await session.play(device)
    assert session.statistics.bad_frames[verdict] >= 1
    assert model.prompts, "it played once there was something to see"


@newest_adb
async def test_12_a_method_that_is_black_on_one_model_is_left_for_the_next(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AirtestIDE#958: and the next phone of that model measures anew."""
    memory = MethodMemory()
    async with (
        simulated_phones([probe_spec()], {"probe": make_moving}) as (phone,),
        genuine_adb(adb_binary, tmp_path / "home") as adb,
        open_adb_device(adb.server.client, phone.address, method=CaptureMethod.AUTO, memory=memory) as device,
    ):
        used = device.method
        way = attrs.evolve(SCREENCAP_METHODS[used], decode=lambda *_: (np.zeros((640, 360, 3), np.uint8), 360, 640))
        with monkeypatch.context() as blackened:
            blackened.setitem(SCREENCAP_METHODS, used, way)
            for _ in range(BLACK_IN_A_ROW):
                assert judge_pixels((await device.capture()).pixels) is Verdict.BLACK
            assert judge_pixels((await device.capture()).pixels) is Verdict.GOOD
            assert device.method is not used
        assert await memory.get(await device._memory_key()) is None


def test_13_the_quickest_method_with_an_unusable_picture_is_not_chosen() -> None:
    """AzurLaneAutoScript#5107, #5702: a benchmark of speed alone picks what cannot be used."""
    trials = [
        MethodTrial(CaptureMethod.PNG, 0.5, agreement=Agreement.SAME),
        MethodTrial(CaptureMethod.RAW, 0.2, agreement=Agreement.SAME),
        MethodTrial(CaptureMethod.RAW_EXEC, 0.01, agreement=Agreement.SWAPPED),
        MethodTrial(CaptureMethod.RAW_GZIP, 0.02, agreement=Agreement.BLACK),
        MethodTrial(CaptureMethod.SCRCPY, 0.001, agreement=Agreement.DIFFERENT),
    ]
    assert choose(trials).method is CaptureMethod.RAW


@newest_adb
async def test_14_line_ends_in_a_png_are_repaired_where_they_were_changed_and_nowhere_else(
    adb_binary: Path, tmp_path: Path
) -> None:
    """stb-tester PR 847, vidstige/jadb#154, MajeurAndroid#19: a repair of good pictures corrupts them."""
    async with driven(adb_binary, tmp_path, CaptureMethod.PNG) as (phone, device):
        good = await device.capture()
        png = await phone.handset.screencap_png()
        assert b"\r\n" in png, "its signature, which a repair of good pictures would change"
        async with faulty(phone, Crlf()):
            mangled = await device.capture()
    assert np.array_equal(good.pixels, mangled.pixels)
    assert np.array_equal(pixels_in(memoryview(png), phone="p"), good.pixels)


@newest_adb
async def test_15_text_before_a_png_and_bytes_behind_it(adb_binary: Path, tmp_path: Path) -> None:
    """callstack/agent-device#185: phones with several displays print a warning first."""
    async with driven(adb_binary, tmp_path, CaptureMethod.PNG) as (phone, device):
        good = await device.capture()
        async with faulty(phone, Banner(behind="done\n")):
            cut_out = await device.capture()
        async with faulty(phone, Banner(), Crlf()):
            repaired = await device.capture()
        raw = await device.capture_by(CaptureMethod.RAW_EXEC)
        async with faulty(phone, Banner()):
            raw_cut_out = await device.capture_by(CaptureMethod.RAW_EXEC)
    assert np.array_equal(good.pixels, cut_out.pixels)
    assert np.array_equal(good.pixels, repaired.pixels)
    assert np.array_equal(raw.pixels, raw_cut_out.pixels)


@any_adb
@pytest.mark.parametrize("driver", list(Driver))
async def test_a_phone_with_two_displays_is_captured_on_the_one_that_apps_and_touches_belong_to(
    adb_binary: Path, tmp_path: Path, driver: Driver
) -> None:
    """Report 15: which display is captured is not sure where none is named."""
    spec = probe_spec(second_size=(360, 640))  # of the same size: only its content tells them apart
    async with (
        simulated_phones([spec]) as (phone,),
        genuine_adb(adb_binary, tmp_path / "home") as adb,
        open_adb_device(adb.server.client, phone.address, driver=driver) as device,
    ):
        truth = probe_of(phone).draw(0.0)
        for method in (CaptureMethod.RAW, CaptureMethod.RAW_EXEC, CaptureMethod.RAW_GZIP, CaptureMethod.PNG):
            frame = await device.capture_by(method)
            assert np.array_equal(frame.pixels, truth[..., ::-1])
        # attached later, and taken away: nothing but the phone's complaint tells of it
        for known in (None, "123"):
            for method in (CaptureMethod.RAW, CaptureMethod.RAW_EXEC, CaptureMethod.RAW_GZIP, CaptureMethod.PNG):
                device.display.display = known
                frame = await device.capture_by(method)
                assert np.array_equal(frame.pixels, truth[..., ::-1])
                assert device.display.display == MAIN_DISPLAY


@newest_adb
async def test_a_foldable_that_is_closed_is_captured_on_the_other_display(adb_binary: Path, tmp_path: Path) -> None:
    """Report 15: the display that was right shows another size than the window manager's."""
    async with driven(adb_binary, tmp_path, second_size=(200, 400)) as (_, device):
        device.display.display = SECOND_DISPLAY
        frame = await device.capture()
        assert (frame.pixels.shape[:2], device.display.display) == ((640, 360), MAIN_DISPLAY)


@any_adb
async def test_16_a_cut_stream_is_never_a_picture(adb_binary: Path, tmp_path: Path) -> None:
    """A library gave b'' on a disconnect, and no error; a short stream looks like a small success."""
    async with driven(adb_binary, tmp_path) as (phone, device):
        await device.capture()
        for method in (CaptureMethod.RAW, CaptureMethod.RAW_EXEC, CaptureMethod.RAW_GZIP, CaptureMethod.PNG):
            for at_byte in (0, 10, 1500):
                async with faulty(phone, Truncate(at_byte=at_byte)):
                    with pytest.raises(TruncatedCapture):
                        await device.capture_by(method)
            await device.capture_by(method)
        probe_of(phone).draw_seconds = 0.3
        async with trio.open_nursery() as nursery:

            async def cut() -> None:
                await wait_drawing(phone)
                phone.drop()

            nursery.start_soon(cut)
            with pytest.raises(DeviceError):
                await device.capture()


@newest_adb
async def test_17_a_turn_between_two_frames_voids_what_was_planned_before_it(adb_binary: Path, tmp_path: Path) -> None:
    """MaaFramework#21, #204: the run stopped, or tapped where things had been."""
    target = Box(100, 100, 160, 160)
    async with driven(adb_binary, tmp_path) as (phone, device):
        upright = await device.capture()
        same = await device.capture()
        async with faulty(phone, Rotate()):
            turned = await device.capture()
        planned = planned_on(upright, target)

        assert (turned.geometry.width, turned.geometry.height, turned.geometry.rotation) == (640, 360, 1)
        assert turned.epoch == upright.epoch + 1
        assert fate_of(planned, upright, same) is None
        assert fate_of(planned, upright, turned) is Stale.GEOMETRY


@newest_adb
async def test_18_picture_and_touches_have_the_same_sides_after_every_turn(adb_binary: Path, tmp_path: Path) -> None:
    """software-mansion/argent#693: the picture lay sideways to the touches. The rotation is read with each frame."""
    async with driven(adb_binary, tmp_path) as (phone, device):
        for quarters in (1, 2, 3):
            async with faulty(phone, Rotate(quarters=quarters)):
                frame = await device.capture()
                assert frame.pixels.shape[:2] == (frame.geometry.height, frame.geometry.width)
                assert frame.geometry.rotation == quarters
                (y,), (x,) = np.where(np.all(frame.pixels == (1, 128, 255), axis=2))  # what the app drew at 0, 0
                await device.act(Tap(int(x), int(y)))
                touch = probe_of(phone).touches[-1][1]
                assert (touch.x, touch.y) == (0, 0)
                probe_of(phone).rotation = 0  # a tap in that corner turns the app


@newest_adb
async def test_19_a_models_point_is_transformed_once_and_refused_off_the_screen(
    adb_binary: Path, tmp_path: Path
) -> None:
    """MaaFramework#297, claude-in-mobile#17, mobile-mcp#163: coordinates of a scaled image were tapped as they were."""
    geometry = Geometry(360, 640)
    scaled = ModelSpace(Coordinates.ABSOLUTE, 180, 320)
    assert model_to_device(90, 160, scaled, geometry) == (181, 321)
    assert device_to_model(181, 321, scaled, geometry) == (90, 160)
    beyond = model_to_device(300, 10, scaled, geometry)
    async with driven(adb_binary, tmp_path) as (phone, device):
        await device.act(Tap(*model_to_device(90, 160, scaled, geometry)))
        assert (probe_of(phone).touches[-1][1].x, probe_of(phone).touches[-1][1].y) == (181, 321)
        count = len(probe_of(phone).touches)
        with pytest.raises(ActionRefused):
            await device.act(Tap(*beyond))
        assert len(probe_of(phone).touches) == count


@newest_adb
async def test_20_a_static_screen_after_a_turn_does_not_make_taps_stale(adb_binary: Path, tmp_path: Path) -> None:
    """auto-mobile#5625: a fifth of all taps were refused as stale, on a screen that stood still."""
    target = Box(100, 100, 160, 160)
    async with driven(adb_binary, tmp_path) as (phone, device):
        await device.capture()
        async with faulty(phone, Rotate()):
            turned = await device.capture()
            planned = planned_on(turned, target)
            for _ in range(10):
                later = await device.capture()
                assert fate_of(planned, turned, later) is None


@any_adb
async def test_21_no_new_frame_is_unchanged_and_not_dead(adb_binary: Path, tmp_path: Path) -> None:
    """scrcpy#6500, #6899: a static screen sends nothing."""
    async with streamed(adb_binary, tmp_path) as (phone, device):
        await frame_of_stream(device)
        moving_app_of(phone).moves = False
        still: list[Frame] = []
        with trio.fail_after(SECONDS):
            while len(still) < 5:
                frame = await device.capture()
                still = [*still, frame] if frame.is_unchanged else []
                await trio.sleep(0.05)
        first, last = still[0], still[-1]
        assert last.requested_at > first.requested_at, "it is as fresh as the question"
        answered_at = device.statistics().last_success_at
        assert answered_at is not None
        assert answered_at >= last.received_at


@any_adb
async def test_22_an_encoder_that_dies_as_the_screen_turns_is_begun_again(adb_binary: Path, tmp_path: Path) -> None:
    """scrcpy#1700, #3693, #6740: screencaps meanwhile, then a stream of the new size."""
    async with streamed(adb_binary, tmp_path) as (phone, device):
        upright = await frame_of_stream(device)
        (server,) = phone.handset.scrcpy_servers
        moving_app_of(phone).rotation = 1
        server._done.set()
        await wait_until(lambda: device.stream is None, seconds=SECONDS)
        meanwhile = await device.capture()
        assert (meanwhile.source, meanwhile.geometry.width) == ("raw", 640)
        turned = await frame_of_stream(device, epoch=upright.epoch + 1)
        assert turned.pixels.shape == (360, 640, 3)


@any_adb
async def test_23_broken_macroblocks_wait_for_a_key_frame_that_is_asked_for(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scrcpy#283: nothing of a damaged stream is shown."""
    async with streamed(adb_binary, tmp_path) as (_, device):
        await frame_of_stream(device)
        stream = device.stream
        assert stream is not None
        send = ScrcpyServer._write_frame

        async def send_garbage_once(server: ScrcpyServer, to: Stream, frame: EncodedFrame, pts_us: int) -> None:
            monkeypatch.setattr(ScrcpyServer, "_write_frame", send)
            await send(server, to, EncodedFrame(b"\0\0\0\1\x65" + bytes(range(200)), is_key=True), pts_us)

        monkeypatch.setattr(ScrcpyServer, "_write_frame", send_garbage_once)
        await wait_until(lambda: stream.statistics().errors >= 1, seconds=SECONDS)
        pictures = stream.statistics().pictures
        await wait_until(lambda: stream.statistics().pictures > pictures + 1, seconds=SECONDS)
        assert stream.statistics().resets >= 1
        assert device.stream is stream


@newest_adb
async def test_31_channels_in_the_wrong_order_are_seen_and_a_long_run_keeps_them(
    adb_binary: Path, tmp_path: Path
) -> None:
    """MaaFramework#300: colours changed places after a long run."""
    async with driven(adb_binary, tmp_path, width=72, height=128) as (phone, device):
        reference: Pixels = (await device.capture_by(CaptureMethod.PNG)).pixels
        assert reference[0, 0].tolist() == [1, 128, 255], "blue, green, red of what the app drew"
        swapped = np.ascontiguousarray(reference[..., ::-1])
        assert compare(swapped, reference, reference) is Agreement.SWAPPED
        methods = (CaptureMethod.RAW, CaptureMethod.RAW_EXEC, CaptureMethod.RAW_GZIP, CaptureMethod.PNG)
        for number in range(200):
            frame = await device.capture_by(methods[number % len(methods)])
            assert np.array_equal(frame.pixels, reference)
    del phone
