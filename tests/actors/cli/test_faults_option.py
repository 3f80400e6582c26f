"""`--faults` and `--farm`: wrong files end in clear lines, before anything is started."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def corral(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "actors.cli.main", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", [("run", "scenarios/quickstart.toml"), ("phones", "simulate", "--count", "8")])
def test_every_mistake_of_a_fault_plan_is_a_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    plan = tmp_path / "faults.toml"
    plan.write_text('[[faults]]\nkind = "frees"\n[[faults]]\nkind = "trickle"\n')

    done = corral(*words, "--faults", str(plan))

    assert done.returncode == 2
    assert f"{plan}:1: 'faults[0]' needs kind = one of" in done.stderr
    assert "did you mean 'freeze'?" in done.stderr
    assert "missing key 'bytes_per_second'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plan_for_more_phones_than_there_are(tmp_path: Path) -> None:
    plan = tmp_path / "faults.toml"
    plan.write_text('[[faults]]\nkind = "freeze"\nphones = [8]\n')

    done = corral("run", "scenarios/quickstart.toml", "--faults", str(plan))

    assert (done.returncode, "there is no phone 8: they are 0 to 7" in done.stderr) == (2, True)


@pytest.mark.parametrize("option", ["--faults", "--farm"])
def test_a_file_that_is_not_there(tmp_path: Path, option: str) -> None:
    done = corral("run", "scenarios/quickstart.toml", option, str(tmp_path / "none.toml"))

    assert done.returncode == 2
    assert "cannot be read: No such file" in done.stderr
    assert "Traceback" not in done.stderr
