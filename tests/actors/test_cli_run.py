"""`corral run` and `corral check` as a user calls them: exit codes, one line an error, Ctrl-C at any moment."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from tests.kit.processes import descendants, wait_gone
from tests.kit.scenarios import SCENARIOS, scenario_text

CORRAL = [sys.executable, "-m", "actors.cli.main"]

TEN_MISTAKES = """
name = "two words"
seed = -1
colour = "red"
[limits]
seconds = "long"
[planner]
act_seconds = 0
stalenes = "verified"
[capture]
every_seconds = true
[[engines]]
id = "e0"
url = 5
[apps.battler]
goal = ""
package = "not a package"
[[phones]]
kind = "simulatd"
app = "battler"
"""


def corral(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CORRAL, *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=cwd)


def test_ten_mistakes_are_reported_at_once_each_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(TEN_MISTAKES)

    for command in ("check", "run"):
        done = corral(command, str(file))

        assert done.returncode == 2
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 11, done.stderr
        assert all(line.startswith(f"Error: {file}:") for line in lines)
        assert any("did you mean 'staleness'?" in line and ":9:" in line for line in lines)
        assert any("did you mean 'simulated'?" in line for line in lines)
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "/no/such/file.toml"), "cannot be read"),
        (("check", str(SCENARIOS)), "is a directory"),
        (("run", str(SCENARIOS / "quickstart.toml"), "--set", "limits"), "is not like limits.seconds=30"),
        (("run", str(SCENARIOS / "quickstart.toml"), "--set", "limits.seconds=-1"), "must be > 0"),
        (("run", str(SCENARIOS / "quickstart.toml"), "--set", "phones[9].count=1"), "names nothing that can be set"),
        (("run", str(SCENARIOS / "quickstart.toml"), "--set", 'planner.profile="gpt"'), "no profile 'gpt'"),
        (("replay", "/"), "is it a run folder?"),
        (("report", "/"), "is no run folder"),
        (("nonsense",), "No such command"),
    ],
)
def test_wrong_input_is_one_clear_error_and_exit_code_2(arguments: tuple[str, ...], says: str) -> None:
    done = corral(*arguments)

    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command", [(), ("run",), ("check",), ("report",), ("replay",), ("phones", "simulate"), ("engine", "rehearse")]
)
def test_every_command_has_help(command: tuple[str, ...]) -> None:
    done = corral(*command, "--help")

    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 5


@pytest.mark.adb
@pytest.mark.xdist_group("fleet")
def test_no_adb_and_no_engine_are_exit_code_3(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        scenario_text(engine_args=("--api-key-env", "CORRAL_TESTS_SET_NO_SUCH_KEY"))
        .replace("battler.rules.toml", str(SCENARIOS / "battler.rules.toml"))
        .replace('"errands.rules.toml"', f'"{SCENARIOS}/errands.rules.toml"')
    )

    no_adb = subprocess.run(
        [*CORRAL, "run", str(file), "--out", str(tmp_path / "r")],
        capture_output=True, text=True, timeout=120, check=False, env=os.environ | {"ADB": "/none"},
    )  # fmt: skip
    no_engine = corral("run", str(file), "--out", str(tmp_path / "r"), "--set", "engines[0].launch.start_seconds=3")

    for done, says in ((no_adb, "adb cannot be had"), (no_engine, "no engine can be had")):
        assert done.returncode == 3, done.stderr[-2000:]
        assert says in done.stderr
        assert "Traceback" not in done.stderr


def test_a_run_folder_that_cannot_be_made_is_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    done = corral("run", str(SCENARIOS / "quickstart.toml"), "--out", str(tmp_path / "file" / "runs"))

    assert done.returncode == 3
    assert "the run folder cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def started(tmp_path: Path, *more: str, prefix: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
    arguments = ["run", str(SCENARIOS / "quickstart.toml"), "--out", str(tmp_path / "runs"), *more]
    with (tmp_path / "log").open("wb") as log:
        return subprocess.Popen([*prefix, *CORRAL, *arguments], stdout=log, stderr=log)


@pytest.mark.adb
@pytest.mark.slow
@pytest.mark.xdist_group("fleet")
@pytest.mark.parametrize("number", range(10))
async def test_ctrl_c_at_any_moment_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    after = random.Random(number).uniform(0.5, 8.0)
    chosen = signal.SIGTERM if number % 3 == 2 else signal.SIGINT
    phones = [f"phones[{group}].count=1" for group in range(3)]
    process = started(tmp_path, *(word for phone in phones for word in ("--set", phone)))
    try:
        await trio.sleep(after)
        below = descendants(process.pid)
        process.send_signal(chosen)
        if number % 4 == 3:
            await trio.sleep(0.2)
            process.send_signal(chosen)  # an impatient user
        began = time.monotonic()
        while process.poll() is None and time.monotonic() - began < 30:
            below = sorted(set(below) | set(descendants(process.pid)))
            await trio.sleep(0.05)
        assert process.poll() is not None, "it ends"
    finally:
        process.kill()
        process.wait()
    await wait_gone(below, seconds=15)
    said = (tmp_path / "log").read_text()
    assert "Traceback" not in said, said[-3000:]
    by_signal = {-signal.SIGTERM} if "actors.run.started" not in said else set()
    if number % 4 == 3:
        by_signal |= {-chosen}  # the second one may find it on its way out
    assert process.returncode in {1, 130} | by_signal, said[-2000:]
    for episode in tmp_path.glob("runs/*/episodes/*/episode.json"):
        assert "cancelled" in episode.read_text()


@pytest.mark.adb
@pytest.mark.xdist_group("fleet")
async def test_a_kill_leaves_a_readable_folder_and_no_process(tmp_path: Path) -> None:
    process = started(tmp_path)
    try:
        with trio.fail_after(60):
            while sum(1 for _ in tmp_path.glob("runs/*/frames/*")) < 20:
                await trio.sleep(0.1)
        below = descendants(process.pid)
    finally:
        process.kill()
        process.wait()
    await wait_gone(below, seconds=15)
    (folder,) = (tmp_path / "runs").glob("2*")

    report, replay = corral("report", str(folder)), corral("replay", str(folder))

    assert report.returncode == 0, report.stderr
    assert report.stdout.strip() == str(folder / "report.html")
    assert "the run ended before the episode did" in (folder / "summary.json").read_text()
    assert replay.returncode == 0, replay.stdout + replay.stderr
    assert replay.stdout.count("same decisions") == 8


@pytest.mark.adb
@pytest.mark.xdist_group("fleet")
async def test_a_full_disk_stops_the_record_and_not_the_game(tmp_path: Path) -> None:
    """A file size limit refuses writes as a full disk does, without needing a disk of our own."""
    limited = ("bash", "-c", 'ulimit -f 150; exec "$@"', "limited")  # in KiB
    process = started(tmp_path, "--set", "limits.seconds=12", prefix=limited)
    try:
        with trio.fail_after(90):
            while process.poll() is None:
                await trio.sleep(0.1)
    finally:
        process.kill()
        process.wait()
    said = (tmp_path / "log").read_text()

    assert "Traceback" not in said, said[said.index("Traceback") :][:6000]
    assert "the record is incomplete" in said
    assert "the report cannot be written" in said
    assert process.returncode == 3
    assert said.count('"actors.episode.ended"') == 8, "every episode was played to its end"
    assert said.count("reached") + said.count("is below") >= 8, "and its result is told"

    (folder,) = (tmp_path / "runs").glob("2*")
    assert corral("report", str(folder)).returncode == 0, "once there is room, the report is made of what was kept"


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ('phones[0].size="99999x99999"', "must have sides of 64 to 8192 pixels"),
        ('phones[0].size="10x10"', "must have sides of 64 to 8192 pixels"),
        ('name=".."', "'name' must be usable as a name"),
        ("apps.battler.criteria.min_score=nan", "must be a finite number: nan"),
        ("limits.seconds=inf", "must be a finite number: inf"),
        ("planner.act_seconds=1e-300", "must be >= 0.01"),
        ("engines[0].max_in_flight=0", "'max_in_flight' must be 1 or more"),
        ("engines[0].launch.start_seconds=-1", "must be more than 0"),
    ],
)
def test_values_that_cannot_work_are_found_by_check(setting: str, says: str) -> None:
    done = corral("check", str(SCENARIOS / "quickstart.toml"), "--set", setting)

    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_region_without_size_is_found_by_check(tmp_path: Path) -> None:
    rules = (SCENARIOS / "battler.rules.toml").read_text().replace("width = 672,", "width = 0, reference = [0, 0],")
    (tmp_path / "bad.rules.toml").write_text(rules)

    done = corral("rules", "test", str(tmp_path / "bad.rules.toml"), "--on", str(tmp_path))

    assert done.returncode == 2
    assert "'width' must be >= 1: 0" in done.stderr
    assert "'reference' must hold numbers of 1 to 16384" in done.stderr


@pytest.mark.adb
@pytest.mark.xdist_group("fleet")
def test_an_engine_that_is_not_there_is_named_with_the_reason(tmp_path: Path) -> None:
    began = time.monotonic()
    file = tmp_path / "s.toml"
    text = scenario_text().replace(
        'launch = { kind = "rehearsal", args = ["--latency-ms", "150"] }', 'url = "http://127.0.0.1:9"'
    )
    for app in ("battler", "errands"):
        text = text.replace(f'"{app}.rules.toml"', f'"{SCENARIOS}/{app}.rules.toml"')
    file.write_text(text)

    done = corral("run", str(file), "--out", str(tmp_path / "r"))

    assert done.returncode == 3, done.stderr[-2000:]
    assert "http://127.0.0.1:9 does not answer: e0: cannot connect" in done.stderr
    assert time.monotonic() - began < 110
