"""The short form of `corral bench capture`: all of it, on a few simulated phones."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.bench.capture import CaptureBench, bench_capture
from actors.bench.phones import PhonesUnavailable
from actors.cli.bench import bench
from actors.devices.adb.device import AdbDeadlines
from actors.devices.base import CaptureMethod
from actors.simulated import stand_in_server


@pytest.mark.adb
@pytest.mark.xdist_group("adb")
def test_every_method_is_measured_and_compared(tmp_path: Path) -> None:
    result = bench_capture((), CaptureBench(captures=3, rounds=1, phones=2, seconds=1.0))

    methods = {row["method"]: row for row in result.rows if "method" in row}
    assert set(methods) == {method.value for method in CaptureMethod} - {"auto"}
    assert {row["content"] for row in methods.values()} == {"same"}
    assert all(row["failed"] == 0 and row["cpu_ms"] is not None for row in methods.values())
    assert result.summary["native_short_frames"] == 0
    # a twentieth in truth; what must hold is 60 %
    assert result.summary["native_share_of_adbutils"] < 0.6
    assert result.summary["latency_frames_per_second"] > 0
    assert result.summary["draw_to_decoded_ms_p95"] > 0
    assert result.summary["scrcpy_new_frames_per_phone_second"] > 0
    assert result.summary["phones"] == 2
    result.write(tmp_path / "capture.json")
    assert json.loads((tmp_path / "capture.json").read_text())["name"] == "capture"


@pytest.mark.adb
@pytest.mark.xdist_group("adb")
def test_a_phone_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PhonesUnavailable):
        bench_capture(
            ("127.0.0.1:1",),
            CaptureBench(captures=1, deadlines=AdbDeadlines(attach=1.5)),
            jar=stand_in_server(tmp_path),
        )


def test_a_wrong_server_file_is_told_at_once() -> None:
    done = CliRunner().invoke(bench, ["capture", "127.0.0.1:1", "--scrcpy-server", "/no/such/file"])

    assert done.exit_code == 2
    assert "does not exist" in done.output
