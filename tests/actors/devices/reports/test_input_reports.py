"""Public reports about input: slow, denied, in a jam, and calls that outlive whoever made them."""

from pathlib import Path

import pytest
import trio

from actors.devices.adb.device import AdbDeadlines, open_adb_device
from actors.devices.adb.scrcpy import ScrcpyConfig
from actors.devices.base import ActionExpired, CaptureMethod, DeviceLost, Unsupported
from actors.rehearsal.phone.faults import SlowInput
from policies.action import Swipe, Tap, TwoFingers
from tests.kit.adb import any_adb, genuine_adb
from tests.kit.devices import probe_of, probe_spec, simulated_phones, wait_drawing, wait_finger, wait_until
from tests.kit.field import CountingModel, faulty, field_session, newest_adb
from tests.kit.scrcpy import make_moving, server_file

SECONDS = 30.0
SLOW = 0.6


@newest_adb
async def test_24_slow_input_is_measured_and_a_control_channel_is_quick(adb_binary: Path, tmp_path: Path) -> None:
    """scrcpy#231, #3988, openstf#400, madb#56: `input` starts a Java process for each event, 0.3 to 1 s."""
    config = ScrcpyConfig(jar=server_file(tmp_path, "4.0"), max_fps=30.0)
    async with (
        simulated_phones([probe_spec()], {"probe": make_moving}) as (phone,),
        genuine_adb(adb_binary, tmp_path / "home") as adb,
        faulty(phone, SlowInput(delay_seconds=SLOW)),
    ):
        client = adb.server.client
        async with open_adb_device(client, phone.address) as device:
            await device.act(Tap(50, 60))
            slow = device.statistics().input_seconds
        async with open_adb_device(client, phone.address, method=CaptureMethod.SCRCPY, scrcpy=config) as device:
            quick: list[float] = []
            for _ in range(5):
                await device.act(Tap(50, 60))
                quick.append(device.statistics().input_seconds)
    assert slow >= SLOW
    assert min(quick) < SLOW / 2


@newest_adb
async def test_25_two_fingers_are_refused_where_they_cannot_be_had(adb_binary: Path, tmp_path: Path) -> None:
    """minitouch#17, openstf/minitouch#41, Airtest#808: denied from Android 10 on, and silently nothing happened."""
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address) as device,
    ):
        with pytest.raises(Unsupported, match="scrcpy"):
            await device.act(TwoFingers((100, 300, 50, 300), (200, 300, 250, 300)))
        assert probe_of(phone).touches == []
        assert device.statistics().actions_failed == 1


@newest_adb
async def test_26_events_faster_than_the_phone_takes_them_do_not_pile_up(adb_binary: Path, tmp_path: Path) -> None:
    """scrcpy#3275: a growing delay. The queue is short, and what has waited too long is not done."""
    expired: list[str] = []
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address) as device,
        faulty(phone, SlowInput(delay_seconds=SLOW)),
    ):
        await device.capture()

        async def tap(number: int) -> None:
            try:
                await device.act(Tap(20 + number, 60))
            except ActionExpired as error:
                expired.append(str(error))

        with trio.fail_after(SECONDS):
            async with trio.open_nursery() as nursery:
                for number in range(30):
                    nursery.start_soon(tap, number)
        assert len(expired) >= 21, "thirty at once: one acts, eight wait, and not for long"
        assert device.statistics().actions_expired == len(expired)
        assert device.statistics().input_wait_seconds < 3.0
        done = [t.x for _, t in probe_of(phone).touches if t.phase.value == "down"]
        assert len(done) == 30 - len(expired)
        await device.act(Tap(300, 60))
        assert probe_of(phone).touches[-1][1].x == 300


@any_adb
async def test_27_an_episode_does_not_outlive_its_watchers(adb_binary: Path, tmp_path: Path) -> None:
    """Airtest#1160: the watcher of the orientation died, and the run hung."""
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        trio.open_nursery() as nursery,
    ):
        async with open_adb_device(adb.server.client, phone.address, deadlines=AdbDeadlines(capture=1.0)) as device:
            session = field_session(CountingModel(), seconds=600.0, follow_log=True)

            async def cut() -> None:
                await wait_until(lambda: device.statistics().captures > 3, seconds=SECONDS)
                await phone.power_off()

            nursery.start_soon(cut)
            with trio.fail_after(SECONDS), pytest.raises(DeviceLost):
                await session.play(device)
        tasks = nursery.child_tasks
        await wait_until(lambda: not tasks, seconds=SECONDS)


@any_adb
async def test_28_no_call_is_in_flight_once_the_device_is_closed(adb_binary: Path, tmp_path: Path) -> None:
    """auto-mobile#5493: a fallback screenshot outlived close(). A finger is lifted before that."""
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
    ):
        async with open_adb_device(adb.server.client, phone.address) as device, trio.open_nursery() as nursery:
            await device.capture()
            nursery.start_soon(device.act, Swipe(10, 600, 300, 600, 30.0))
            await wait_finger(phone, down=True)
            probe_of(phone).draw_seconds = 0.2
            nursery.start_soon(device.capture)
            await wait_drawing(phone)
            nursery.cancel_scope.cancel()
        await wait_until(lambda: phone.connection_count == 0, seconds=SECONDS)
        await wait_until(lambda: phone.handset.drawing.borrowed_tokens == 0, seconds=SECONDS)
        assert phone.handset.finger is None
        draws = probe_of(phone).draws
        await trio.sleep(0.5)
        assert probe_of(phone).draws == draws
