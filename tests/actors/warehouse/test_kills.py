"""kill -9 at any moment: every acknowledged row is published once, and no row twice."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

ROWS_A_BATCH = 40
WRITER = f"""
import sys, time
from pathlib import Path
from actors.warehouse.spool import SpoolWriter
folder, prefix = Path(sys.argv[1]), sys.argv[2]
about = dict(tenant="default", run_id=prefix, scenario="s")
writer = SpoolWriter(folder / "spool" / "default", prefix, about, max_bytes=20_000)
number = 0
while True:
    writer.append([dict(t="steps", at_ms=1, step=number + n, phone="P") for n in range({ROWS_A_BATCH})], 0.0)
    number += {ROWS_A_BATCH}
    print(number, flush=True)
    time.sleep(0.01)
"""
LOADER = """
import sys
from actors.warehouse.config import LoaderConfig
from actors.warehouse.load import load_once
print("ready", flush=True)
while True:
    load_once(LoaderConfig(sys.argv[1], keep_loaded_hours=0))
"""


def started(code: str, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)


def killed(process: "subprocess.Popen[bytes]") -> bytes:
    """Everything that it printed until it was killed."""
    os.kill(process.pid, signal.SIGKILL)
    said, _ = process.communicate()
    return said


@pytest.mark.slow
def test_killed_writers_and_killed_loaders_lose_and_double_nothing(tmp_path: Path) -> None:
    chance = random.Random(5)
    acknowledged: dict[str, int] = {}
    for round_number in range(3):
        run = f"run{round_number}"
        writer, loader = started(WRITER, str(tmp_path), run), started(LOADER, str(tmp_path))
        try:
            assert writer.stdout is not None
            assert loader.stdout is not None
            writer.stdout.readline()
            loader.stdout.readline()
            time.sleep(chance.uniform(0.05, 0.6))  # when the kill falls is the point
        finally:
            written, _ = killed(writer), killed(loader)
        whole = written[: written.rfind(b"\n") + 1].split()
        acknowledged[run] = max((int(number) for number in whole), default=ROWS_A_BATCH)

    subprocess.run(
        [sys.executable, "-m", "actors.cli.main", "warehouse", "load", str(tmp_path)], check=True, capture_output=True
    )

    with contextlib.closing(duckdb.connect(str(tmp_path / "default.duckdb"), read_only=True)) as file:
        found = file.execute(
            "SELECT run_id, COUNT(*), COUNT(DISTINCT step), MAX(step) FROM steps GROUP BY 1"
        ).fetchall()
    assert {run for run, *_ in found} == set(acknowledged)
    for run, count, distinct, last in found:
        assert count == distinct == last + 1, "no row twice, and none missing in between"
        # a batch that was written when the kill came was not acknowledged, but may be whole
        assert acknowledged[run] <= count <= acknowledged[run] + ROWS_A_BATCH
    assert not list(tmp_path.glob("spool/default/*.open"))
