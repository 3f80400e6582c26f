import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest
import trio
from click.testing import CliRunner, Result

from actors.assets import BUNDLED_PROFILES, parse_profile
from actors.cli.main import corral
from actors.engine import url_in_ready_line
from actors.rehearsal.apps.catalog import APPS
from runtime.process import ManagedProcess, ProcessPlan, ReadyLine, open_process


@pytest.fixture
def shot(tmp_path: Path) -> Path:
    path = tmp_path / "shot.png"
    picture = APPS["battler"](seed=3, width=720, height=1280, now=0.0).draw(2.0)
    assert cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    return path


def check(*arguments: str) -> Result:
    return CliRunner().invoke(corral, ["model", "check", *arguments])


def test_a_given_reply_is_read_placed_and_drawn(shot: Path) -> None:
    result = check("compact", str(shot), "--reply", "T447,081;S500,800,900,300")

    assert result.exit_code == 0, result.output
    assert "tap 447, 81" in result.output
    assert "tap 322, 104" in result.output
    out = shot.with_suffix(".actions.png")
    assert result.output.strip().endswith(str(out))
    before, after = cv2.imread(str(shot)), cv2.imread(str(out))
    assert before is not None
    assert after is not None
    assert before.shape == after.shape
    assert np.any(before != after)


def test_json_has_both_spaces_and_what_was_dropped(shot: Path, tmp_path: Path) -> None:
    reply = tmp_path / "reply.txt"
    reply.write_text("T500,500;T1200,100;B and so on")
    result = check("compact", str(shot), "--reply-file", str(reply), "--json", "--out", str(tmp_path / "o.png"))
    said = json.loads(result.output)

    assert result.exit_code == 0
    assert said["actions"][0] == {
        "number": 1,
        "model": {"kind": "tap", "x": 500, "y": 500},
        "device": {"kind": "tap", "x": 360, "y": 640},
    }
    assert [action["device"] for action in said["actions"][1:]] == [None, None]
    assert (said["off_screen"], said["dropped"], said["engine"]) == (2, "and so on", None)


@pytest.mark.parametrize("text", ["I would wait.", "T1200,100", ""])
def test_no_action_is_exit_code_1(shot: Path, text: str) -> None:
    assert check("compact", str(shot), "--reply", text).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing", "SHOT", "--reply", "B"], "no profile 'nothing'"),
        (["missing.toml", "SHOT", "--reply", "B"], "cannot be read"),
        (["compact", "absent.png", "--reply", "B"], "absent.png"),
        (["compact", "SHOT"], "exactly one of"),
        (["compact", "SHOT", "--reply", "B", "--url", "http://127.0.0.1:9"], "exactly one of"),
        (["compact", "SHOT", "--url", "http://127.0.0.1:9"], "needs --model"),
        (["compact", "SHOT", "--url", "ftp://x", "--model", "m"], "--url"),
        (["compact", "SHOT", "--reply", "B", "--out", "SHOT"], "overwrite"),
        (
            ["compact", "SHOT", "--url", "http://127.0.0.1:9", "--model", "m", "--api-key-env", "NO_SUCH_KEY"],
            "NO_SUCH_KEY",
        ),
    ],
)
def test_wrong_input_is_exit_code_2_and_one_line(shot: Path, arguments: list[str], words: str) -> None:
    result = check(*(str(shot) if word == "SHOT" else word for word in arguments))

    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_an_engine_that_nobody_runs_is_exit_code_3_and_one_line(shot: Path) -> None:
    result = check("compact", str(shot), "--url", "http://127.0.0.1:9", "--model", "m", "--timeout", "5")

    assert result.exit_code == 3
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("Error: Engine")


def test_a_doubtful_profile_is_told_but_used(shot: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('name = "mine"\nmax_tokens = 40\n')
    result = check(str(mine), str(shot), "--reply", "B")

    assert result.exit_code == 0
    assert "Warning" in result.stderr
    assert "max_tokens" in result.stderr


def test_show_lists_and_prints_files_that_load() -> None:
    runner = CliRunner()

    assert runner.invoke(corral, ["model", "show"]).output.split() == list(BUNDLED_PROFILES)
    text = runner.invoke(corral, ["model", "show", "ui-tars-1.5"]).output
    assert parse_profile(text.encode(), "x").name == "ui-tars-1.5"
    assert runner.invoke(corral, ["model", "show", "nope"]).exit_code == 2


@asynccontextmanager
async def open_rehearsal(tmp_path: Path, *arguments: str) -> AsyncIterator[ManagedProcess]:
    command = (sys.executable, "-m", "actors.cli.main", "engine", "rehearse", "--port", "0", *arguments)
    plan = ProcessPlan("rehearsal", command, tmp_path / "engine.log", ReadyLine(url_in_ready_line), start_seconds=60.0)
    async with open_process(plan) as process:
        yield process


@pytest.mark.slow
async def test_a_real_engine_is_asked_as_a_bot_would_ask_it(shot: Path, tmp_path: Path) -> None:
    async with open_rehearsal(tmp_path, "--latency-ms", "20") as engine:
        arguments = ("compact", str(shot), "--url", engine.address, "--model", "rehearsal-7b", "--json")
        result = await trio.to_thread.run_sync(check, *arguments)
    said = json.loads(result.stdout)

    assert result.exit_code == 0, result.output
    assert said["engine"]["model"] == "rehearsal-7b"
    assert said["engine"]["prompt_tokens"] > 700, "the picture was not sent"
    assert said["engine"]["output_tokens"] == len(said["reply"])
    assert said["actions"]
    assert all(action["device"] is not None for action in said["actions"])


@pytest.mark.slow
async def test_a_real_engine_that_fails_is_exit_code_3(shot: Path, tmp_path: Path) -> None:
    async with open_rehearsal(tmp_path, "--fail-rate", "1.0") as engine:
        arguments = ("compact", str(shot), "--url", engine.address, "--model", "rehearsal-7b")
        result = await trio.to_thread.run_sync(check, *arguments)

    assert result.exit_code == 3
    assert len(result.stderr.strip().splitlines()) == 1
