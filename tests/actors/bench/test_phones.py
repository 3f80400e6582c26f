import math
import os

import pytest
import trio
import trio.testing

from actors.bench.lag import LagLog
from actors.bench.phones import PERIOD_SECONDS, Tape, bench_phones, capture_at_pace
from actors.devices.adb.server import bundled_adb
from actors.devices.base import CaptureFailed, DeviceInfo
from actors.devices.fake import AppDevice
from actors.rehearsal.apps.catalog import APPS
from policies.frame import Frame
from runtime.ids import PhoneId


class Slow:
    """A device whose captures take `seconds`; each tenth fails."""

    def __init__(self, seconds: float) -> None:
        app = APPS["merge"](seed=1, width=144, height=256, now=0.0)
        self.inner = AppDevice(app, DeviceInfo(PhoneId("slow"), "in-process", "bench", "0"), 144, 256)
        self.seconds = seconds
        self.asked = 0

    async def capture(self) -> Frame:
        self.asked += 1
        await trio.sleep(self.seconds)
        if self.asked % 10 == 0:
            raise CaptureFailed("no picture", phone=self.inner.info.phone)
        return await self.inner.capture()


@pytest.mark.parametrize(("seconds", "grows"), [(0.2, False), (1.3, True)])
async def test_a_phone_that_is_slower_than_its_pace_falls_behind(
    seconds: float, grows: bool, autojump_clock: trio.testing.MockClock
) -> None:
    tape = Tape(LagLog(trio.current_time()))
    device = Slow(seconds)
    with trio.move_on_after(60):
        await capture_at_pace(device, tape, phase=0.5, every_seconds=PERIOD_SECONDS)  # type: ignore[arg-type]

    assert tape.lag.report()["lag_grows"] is grows
    assert tape.failed == device.asked // 10
    assert tape.captures == pytest.approx(math.floor(60 / max(1.0, seconds)) * 0.9, abs=2)


@pytest.mark.adb
@pytest.mark.xdist_group("adb")
@pytest.mark.skipif(bundled_adb() is None and not os.environ.get("CI"), reason="no adb: install the package adbutils")
@pytest.mark.slow
def test_a_short_form_against_a_genuine_server() -> None:
    result = bench_phones(phones=3, seconds=5.0, seed=1, many=20)
    row, many = result.rows

    assert row["captures"] == pytest.approx(15, abs=8)
    assert row["captures_failed"] == 0
    assert min(row[f"cpu_ms_per_capture_{who}"] for who in ("ours", "adb_server", "simulator")) > 0
    assert row["megabytes_per_second_of_pixels"] > 1
    assert [many[key] for key in ("listed", "listed_as_device", "serial_numbers", "driven")] == [20] * 4
