"""A bounded run of the coverage-guided fuzzer, where atheris is installed: it is large, so nothing depends on it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="pip install atheris, to fuzz with it")
def test_a_bounded_run_finds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kit.guard_fuzzer", "-runs=3000", "-max_total_time=15", "-seed=1"]
    command.append(f"-artifact_prefix={tmp_path}/")

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "Done" in done.stderr
