"""An app driven in process."""

import numpy as np
import pytest
import trio

from actors.devices.base import ActionRefused, Device, DeviceInfo, Unsupported
from actors.devices.fake import AppDevice
from policies.action import Hold, Key, KeyName, LongPress, Swipe, Tap, Text, TwoFingers, Wait
from runtime.ids import PhoneId
from tests.kit.devices import ProbeApp

INFO = DeviceInfo(PhoneId("FAKE"), "in-process", "None", "0")


def make() -> tuple[ProbeApp, AppDevice]:
    app = ProbeApp(seed=4, width=90, height=160, born_at=0.0)
    return app, AppDevice(app, INFO, width=90, height=160)


async def test_frames_are_drawn_in_opencv_order(autojump_clock: trio.testing.MockClock) -> None:
    _, fake = make()
    device: Device = fake

    frame = await device.capture()

    assert frame.pixels[7, 11].tolist() == [4, 7, 11]
    assert (frame.seq, frame.geometry.width, frame.geometry.height) == (0, 90, 160)


async def test_given_frames_are_handed_out_in_turn(autojump_clock: trio.testing.MockClock) -> None:
    app, device = make()
    device.frames = [np.full((160, 90, 3), value, np.uint8) for value in (1, 2)]

    frames = [await device.capture() for _ in range(3)]

    assert [int(frame.pixels[0, 0, 0]) for frame in frames] == [1, 2, 1]
    assert [frame.seq for frame in frames] == [0, 1, 2]
    assert app.draws == 0


async def test_actions_reach_the_app_in_their_own_time(autojump_clock: trio.testing.MockClock) -> None:
    app, device = make()
    started = trio.current_time()
    for action in (
        Tap(10, 20),
        LongPress(10, 20, 0.5),
        Swipe(10, 20, 50, 100, 0.25),
        Hold(40, 80, 90.0, 500, 0.25),
        Key(KeyName.HOME),
        Text("héllo"),
        Wait(1.0),
    ):
        await device.act(action)

    assert trio.current_time() - started == pytest.approx(2.0)
    assert [(t.x, t.y) for _, t in app.touches if t.phase.value == "up"] == [(10, 20), (10, 20), (50, 100), (40, 0)]
    assert (app.keys, app.texts) == (["HOME"], ["héllo"])
    assert device.statistics().actions == 7


@pytest.mark.parametrize("action", [Swipe(10, 20, 50, 100, 60.0), Hold(40, 80, 0.0, 10, 60.0)])
async def test_cancelled_gestures_lift_their_finger(
    action: Swipe | Hold, autojump_clock: trio.testing.MockClock
) -> None:
    app, device = make()
    with trio.move_on_after(0.5):
        await device.act(action)

    assert app.touches[-1][1].phase.value == "up"
    assert device.statistics().actions == 0


async def test_what_cannot_be_right_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    app, device = make()
    with pytest.raises(ActionRefused):
        await device.act(Tap(90, 0))
    with pytest.raises(Unsupported):
        await device.act(TwoFingers((1, 1, 2, 2), (3, 3, 4, 4)))

    assert not app.touches
    assert device.statistics().actions_failed == 2


async def test_turning_starts_a_new_epoch(autojump_clock: trio.testing.MockClock) -> None:
    _, device = make()
    upright = await device.capture()
    await device.act(Tap(1, 1))
    turned = await device.capture()

    assert (upright.epoch, turned.epoch, turned.geometry.rotation) == (0, 1, 1)
    assert turned.pixels.shape == (90, 160, 3)
    assert (await device.shell("id")).exit_code == 127
