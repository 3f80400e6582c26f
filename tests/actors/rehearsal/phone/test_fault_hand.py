"""Faults as a driver meets them: each begins, is felt through the genuine adb server, and ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from actors.devices.adb.device import AdbDeadlines, AdbDevice, open_adb_device
from actors.devices.adb.shell import run_shell
from actors.devices.base import DeviceError, DeviceLost, DeviceTimeout
from actors.rehearsal.phone.fault_hand import FaultHand, serve_phones_with_faults
from actors.rehearsal.phone.faults import (
    Black,
    DeafInput,
    Fault,
    FaultSchedule,
    Freeze,
    HalfClose,
    PartBlack,
    Reboot,
    Reset,
    Resize,
    Stamped,
    Turn,
    Unauthorized,
)
from actors.rehearsal.phone.serve import SimulatedPhone
from actors.rehearsal.phone.stamp import read_stamp
from policies.action import Tap
from tests.kit.adb import GenuineAdb, genuine_adb
from tests.kit.devices import PROBE_APPS, probe_of, probe_spec, simulated_phones, wait_until
from tests.kit.field import faulty, newest_adb

SECONDS = 30.0


@asynccontextmanager
async def driven(binary: Path, folder: Path) -> AsyncIterator[tuple[SimulatedPhone, GenuineAdb, AdbDevice]]:
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(binary, folder) as adb,
        open_adb_device(adb.server.client, phone.address, deadlines=AdbDeadlines(capture=1.0)) as device,
    ):
        await device.capture()
        yield phone, adb, device


@newest_adb
async def test_frozen_for_a_while(adb_binary: Path, tmp_path: Path) -> None:
    async with driven(adb_binary, tmp_path) as (phone, _, device), faulty(phone, Freeze(seconds=2.5)):
        with pytest.raises(DeviceTimeout):
            await device.capture()
        await captured(device)


async def captured(device: AdbDevice) -> None:
    with trio.fail_after(SECONDS):
        while True:
            try:
                await device.capture()
            except DeviceError:
                await trio.sleep(0.1)
            else:
                return


@newest_adb
@pytest.mark.parametrize(
    "fault", [Reset(), HalfClose(), Reboot(off_seconds=0.3)], ids=lambda fault: type(fault).__name__
)
async def test_cut_lines_are_lost_phones_that_come_back(adb_binary: Path, tmp_path: Path, fault: Fault) -> None:
    async with driven(adb_binary, tmp_path) as (phone, adb, device):
        handset = phone.handset
        async with faulty(phone, fault):
            with trio.fail_after(SECONDS), pytest.raises(DeviceLost):
                await captured_for_ever(device)
            async with open_adb_device(adb.server.client, phone.address) as again:
                await again.capture()
        assert (phone.handset is handset) == (not isinstance(fault, Reboot))


async def captured_for_ever(device: AdbDevice) -> None:
    while True:
        await device.capture()


@newest_adb
async def test_what_is_shown(adb_binary: Path, tmp_path: Path) -> None:
    async with driven(adb_binary, tmp_path) as (phone, _, device):
        plain = await device.capture()
        async with faulty(phone, Black()):
            assert (await device.capture()).pixels.max() == 0
        async with faulty(phone, PartBlack(share=0.25)):
            partly = (await device.capture()).pixels
            assert partly[480:].max() == 0
            assert (partly[:480] == plain.pixels[:480]).all()
        async with faulty(phone, Stamped()):
            assert read_stamp((await device.capture()).pixels[..., ::-1]) is not None
        async with faulty(phone, Resize(size="480x800", seconds=1.0)):
            sized = await device.capture()
            assert (sized.geometry.width, sized.geometry.height, sized.epoch) == (480, 800, plain.epoch + 1)
            await wait_until(lambda: phone.handset.natural_size == (360, 640), seconds=SECONDS)
        after = await device.capture()
        assert (after.geometry.width, after.epoch) == (360, plain.epoch + 2)


@newest_adb
async def test_input_that_does_nothing(adb_binary: Path, tmp_path: Path) -> None:
    async with driven(adb_binary, tmp_path) as (phone, _, device):
        async with faulty(phone, DeafInput()):
            await device.act(Tap(50, 60))
        assert probe_of(phone).touches == []
        await device.act(Tap(70, 80))
        assert {touch.x for _, touch in probe_of(phone).touches} == {70}


@newest_adb
async def test_unauthorized_and_then_approved(adb_binary: Path, tmp_path: Path) -> None:
    async with driven(adb_binary, tmp_path) as (phone, adb, _), faulty(phone, Unauthorized(seconds=2.0)):
        await adb.server.client.disconnect(phone.address)
        await adb.server.client.connect(phone.address)
        await adb.wait_state("unauthorized", phone.address, seconds=SECONDS)
        await adb.wait_state("device", phone.address, seconds=SECONDS)  # of the same connection
        said = await run_shell(adb.server.client, phone.address, "echo well", timeout_seconds=SECONDS)
        assert said.stdout == b"well\n"


@newest_adb
async def test_a_fault_after_so_many_captures(adb_binary: Path, tmp_path: Path) -> None:
    turns: list[Turn] = []
    async with driven(adb_binary, tmp_path) as (phone, _, device), trio.open_nursery() as nursery:
        before = phone.effects.captures
        fault = Black(after_captures=before + 3)
        await nursery.start(FaultHand(phone, FaultSchedule((fault,)), turns.append).run)
        lit = [(await device.capture()).pixels.max() > 0 for _ in range(3)]
        await wait_until(lambda: len(turns) == 1, seconds=SECONDS)
        assert (await device.capture()).pixels.max() == 0
        assert lit == [True, True, True]
        nursery.cancel_scope.cancel()


async def test_faults_are_on_the_phones_that_they_name() -> None:
    specs = [probe_spec("A"), probe_spec("B")]
    async with trio.open_nursery() as nursery:
        phones: tuple[SimulatedPhone, ...] = await nursery.start(
            serve_phones_with_faults, specs, PROBE_APPS, (Black(phones=(1,)), DeafInput())
        )
        first, second = (phone.effects for phone in phones)
        assert (first.find(Black), second.find(Black)) == (None, Black())
        assert first.is_deaf
        assert second.is_deaf
        nursery.cancel_scope.cancel()
