"""Recorded pictures as phones of a scenario: rules are tried on them by a whole run, without any adb."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import trio
from click.testing import CliRunner

from actors.assets import load_assets
from actors.cli.main import corral
from actors.devices.base import DeviceError
from actors.fleet import Fleet
from actors.replayed import pictures_of, replay_phones
from actors.results.replay import episode_folders, replay_episode
from actors.run import run_scenario
from actors.scenario import parse_scenario, warnings_for
from policies.criteria import Outcome
from tests.kit.gate_app import COLORS, GATE_RULES

SCENARIO = """
name = "seen"
[limits]
seconds = 3
[capture]
every_seconds = 0.05
[planner]
enabled = false
[record]
pixels = {pixels}
[apps.gate]
package = "dev.corral.gate"
goal = "Play."
rules = "gate.rules.toml"
goal_reached = {{ kind = "probe", probe = "lobby" }}
score = {{ kind = "logcat", pattern = "score=([0-9]+)" }}
criteria = {{ goal_reached = true }}
[apps.gate.setup]
flow = [{{ name = "log in", when = [{{ probe = "captcha" }}], do = {{ key = "BACK" }} }}]
[[phones]]
kind = "replay"
app = "gate"
source = "{source}"
every_seconds = 0.2
"""


def write_pictures(folder: Path, *screens: str) -> None:
    folder.mkdir()
    (folder.parent / "gate.rules.toml").write_text(GATE_RULES)
    for number, screen in enumerate(screens):
        pixels = np.empty((640, 360, 3), np.uint8)
        pixels[:] = COLORS[screen][::-1]
        assert cv2.imwrite(str(folder / f"{number:03}.png"), pixels)


async def no_view(_: Fleet) -> None:
    await trio.sleep_forever()


async def play(folder: Path, source: str, *, pixels: bool = False) -> tuple[Path, Outcome]:
    text = SCENARIO.format(source=source, pixels=str(pixels).lower())
    scenario = parse_scenario(text.encode(), "seen.toml")
    assets = load_assets(scenario, folder)
    result = await run_scenario(scenario, assets, source=text.encode(), out=folder / "runs", view=no_view)
    (summary,) = result.summaries
    assert summary.replayable
    return result.folder, summary.outcome


async def test_a_run_plays_on_pictures_and_then_on_its_own_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADB", "/no/such/adb")  # none is needed
    write_pictures(tmp_path / "shots", "login", "login", "lobby", "lobby")

    run, outcome = await play(tmp_path, "shots", pixels=True)
    again, same = await play(tmp_path, str(run))

    assert (outcome, same) == (Outcome.SUCCEEDED, Outcome.SUCCEEDED)
    for folder in (run, again):
        (episode,) = episode_folders(folder)
        assert "replay-0-" in episode.name
        assert replay_episode(episode).differences == ()


async def test_pictures_that_never_show_the_goal_fail(tmp_path: Path) -> None:
    write_pictures(tmp_path / "shots", "login")

    _, outcome = await play(tmp_path, "shots")

    assert outcome is Outcome.FAILED


def test_what_cannot_be_read_off_pictures_is_told(tmp_path: Path) -> None:
    write_pictures(tmp_path / "shots", "login")
    file = tmp_path / "seen.toml"
    file.write_text(SCENARIO.format(source="shots", pixels="false"))

    checked = CliRunner().invoke(corral, ["check", str(file)])
    (tmp_path / "missing.toml").write_text(SCENARIO.format(source="nowhere", pixels="false"))
    missing = CliRunner().invoke(corral, ["check", str(tmp_path / "missing.toml")])

    assert checked.exit_code == 0, checked.output
    assert "'score' of app 'gate' is read from the phone, which recorded pictures do not have" in checked.output
    (warning,) = warnings_for(parse_scenario(file.read_bytes()))
    assert warning[1] == "$.phones[0]"
    assert missing.exit_code == 2
    assert f"there is nothing at {tmp_path / 'nowhere'}" in missing.output


def test_a_folder_without_pictures_is_told_when_the_run_begins(tmp_path: Path) -> None:
    write_pictures(tmp_path / "shots")
    file = tmp_path / "seen.toml"
    file.write_text(SCENARIO.format(source="shots", pixels="false"))

    done = CliRunner().invoke(corral, ["run", str(file), "--out", str(tmp_path / "runs")])

    assert done.exit_code == 3
    assert "no frames in it" in done.output.splitlines()[-1]


def test_of_a_run_only_the_apps_own_frames_are_shown(tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    for app, name in (("gate", "a"), ("other", "b")):
        episode = tmp_path / "episodes" / f"e-{app}"
        episode.mkdir(parents=True)
        (episode / "steps.jsonl").write_text(json.dumps({"app": app}) + "\n")
        (episode / "display.jsonl").write_text(json.dumps({"seq": 0, "file": f"{name}.jpg"}) + "\n")
        assert cv2.imwrite(str(tmp_path / "frames" / f"{name}.jpg"), np.zeros((64, 36, 3), np.uint8))

    assert [path.name for path in pictures_of(tmp_path, "gate")] == ["a.jpg"]
    with pytest.raises(DeviceError, match="no frames of 'third' in it, but of gate, other"):
        pictures_of(tmp_path, "third")


def test_each_group_is_a_phone_of_its_own(tmp_path: Path) -> None:
    write_pictures(tmp_path / "shots", "login")
    text = (
        SCENARIO.format(source="shots", pixels="false")
        + '[[phones]]\nkind = "replay"\napp = "gate"\nsource = "shots"\n'
    )

    first, second = replay_phones(parse_scenario(text.encode()), tmp_path)

    assert first.phone != second.phone
    assert len(first.pictures) == 1
