"""Recorded pictures as a phone."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import trio

from actors.devices.base import ActionRefused, CaptureFailed, Unsupported
from actors.devices.replay import NothingToReplay, open_replay
from policies.action import Swipe, Tap
from policies.geometry import Geometry


def write(folder: Path, name: str, shade: int, size: tuple[int, int] = (36, 64)) -> None:
    assert cv2.imwrite(str(folder / name), np.full((size[1], size[0], 3), shade, np.uint8))


async def test_pictures_follow_at_their_pace_and_the_last_stays(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    write(tmp_path, "a.png", 10)
    write(tmp_path, "b.png", 20)
    write(tmp_path, "c.png", 30, (64, 36))
    (tmp_path / "notes.txt").write_text("no picture")
    seen = []
    async with open_replay(tmp_path, every_seconds=1.0) as device:
        for _ in range(7):
            frame = await device.capture()
            seen.append((int(frame.pixels[0, 0, 0]), frame.seq, frame.epoch, frame.is_unchanged))
            await trio.sleep(0.5)

        assert seen == [
            (10, 0, 0, False), (10, 1, 0, True), (20, 2, 0, False), (20, 3, 0, True),
            (30, 4, 1, False), (30, 5, 1, True), (30, 6, 1, True),
        ]  # fmt: skip
        assert (await device.capture()).geometry == Geometry(64, 36, rotation=1)
        statistics = device.statistics()
        assert (statistics.captures, statistics.captures_unchanged, statistics.capture_method) == (8, 5, "replay")


async def test_it_loops_and_reduces(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    write(tmp_path, "a.png", 10)
    write(tmp_path, "b.png", 20)
    async with open_replay(tmp_path, every_seconds=1.0, loops=True, max_side=32) as device:
        shades = []
        for _ in range(4):
            shades.append(int((await device.capture()).pixels[0, 0, 0]))
            await trio.sleep(1.0)

        frame = await device.capture()
        assert shades == [10, 20, 10, 20]
        assert frame.pixels.shape == (32, 18, 3)
        assert (frame.geometry.width, frame.geometry.height) == (36, 64)


async def test_actions_are_noted_and_refused_off_the_screen(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    write(tmp_path, "a.png", 10)
    async with open_replay(tmp_path / "a.png") as device:
        await device.capture()
        await device.act(Tap(35, 63))
        before = trio.current_time()
        await device.act(Swipe(1, 1, 5, 5, 0.5))
        with pytest.raises(ActionRefused, match="36x64"):
            await device.act(Tap(36, 0))

        assert trio.current_time() - before == pytest.approx(0.5)
        assert device.actions == [Tap(35, 63), Swipe(1, 1, 5, 5, 0.5)]
        assert (await device.shell("getprop x")).exit_code == 127
        with pytest.raises(Unsupported):
            await device.install([])


async def test_what_is_no_picture(tmp_path: Path) -> None:
    with pytest.raises(NothingToReplay, match="holds no picture"):
        async with open_replay(tmp_path):
            pass
    with pytest.raises(NothingToReplay, match="cannot be read"):
        async with open_replay(tmp_path / "nowhere"):
            pass
    (tmp_path / "a.png").write_bytes(b"not a picture")
    async with open_replay(tmp_path) as device:
        with pytest.raises(CaptureFailed, match=r"a\.png"):
            await device.capture()
        assert device.statistics().captures_failed == 1
