"""Programs on a benchmark's lifeline, as real processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from actors.bench.bound_process import first_line, start_bound
from actors.bench.engines import BenchUnavailable

SAYS = "import sys, time; print('here', flush=True); time.sleep(60)"


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / "said.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return "said"


def test_its_first_line_and_its_own_process_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = program(tmp_path, "import os, sys; print(os.getpid(), sys.argv[1], flush=True)", monkeypatch)
    with start_bound(name, "word") as process:
        assert first_line(process, "it", 30.0).split() == [str(process.pid), "word"]


def test_one_that_says_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        start_bound(program(tmp_path, "raise SystemExit(3)", monkeypatch)) as process,
        pytest.raises(BenchUnavailable, match="the farm does not start"),
    ):
        first_line(process, "the farm", 30.0)
    assert process.returncode == 3


def test_it_is_gone_when_whoever_started_it_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, SAYS, monkeypatch)
    owner = (
        "import sys, time; from actors.bench.bound_process import first_line, start_bound;"
        "process = start_bound('said'); first_line(process, 'it', 30.0); print(process.pid, flush=True); time.sleep(60)"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", owner], stdout=subprocess.PIPE, cwd=root, text=True) as killed:
        assert killed.stdout is not None
        child = int(killed.stdout.readline())
        killed.send_signal(signal.SIGKILL)
    until = time.monotonic() + 20
    while _is_alive(child):
        assert time.monotonic() < until
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    """It may be dead and not buried yet, where nobody waits for orphans."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
