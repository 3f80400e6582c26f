"""`corral rules test` on pictures and on runs, also on those that a kill left half written."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from click.testing import CliRunner

from actors.authoring.frames import frames_in
from actors.cli.rules import rules

GREEN = "{ low = [50, 150, 150], high = [70, 255, 255] }"
RULES = f"""
[probes.go]
kind = "color"
region = {{ x = 0, y = 0, width = 720, height = 100 }}
color = {GREEN}

[[rules]]
name = "go"
cooldown_seconds = 1.0
when = [{{ probe = "go" }}]
do = {{ tap_match = "go" }}
"""


def picture(path: Path, *, green: bool) -> None:
    pixels = np.full((128, 72, 3), 30, np.uint8)
    if green:
        pixels[:10] = (0, 255, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), pixels)


def run_folder(folder: Path) -> Path:
    """Five frames, 0.6 s apart: PNGs of 0 to 2, the display JPEG of 3, a prompt JPEG and a display JPEG of 4."""
    episode = folder / "episodes" / "e0"
    episode.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    lines = [json.dumps({"version": 1})]
    for seq in range(5):
        percept = {"seq": seq, "requested_at": seq * 0.6, "width": 72, "height": 128, "rotation": 0, "epoch": 0}
        line: dict[str, Any] = {"in": {"percept": percept}, "out": {}}
        if seq < 3:
            line["png"] = f"p{seq}"
            picture(folder / "frames" / f"p{seq}.png", green=seq != 1)
        lines.append(json.dumps(line))
    (episode / "steps.jsonl").write_text("\n".join(lines) + '\n{"in": {"perc')
    shown = [json.dumps({"seq": seq, "file": f"d{seq}.jpg"}) for seq in (2, 3, 4)]
    (episode / "display.jsonl").write_text("\n".join(shown))
    for name in ("d2", "d3", "d4", "m4"):
        picture(folder / "frames" / f"{name}.jpg", green=name == "d3")
    event = {"event": "actors.plan.asked", "episode": "e0", "frames": {"4": "m4"}}
    (folder / "events.jsonl").write_text(json.dumps(event) + "\n")
    return folder


def report(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    file = tmp_path / "r.toml"
    file.write_text(RULES)
    result = CliRunner().invoke(rules, ["test", str(file), "--json", "--on", *arguments])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.output))


def test_the_best_copy_of_each_frame_of_a_run_is_taken(tmp_path: Path) -> None:
    frames = frames_in(run_folder(tmp_path / "run"))

    assert [(frame.seq, frame.copy) for frame in frames] == [
        (0, "png"), (1, "png"), (2, "png"), (3, "display"), (4, "prompt"),
    ]  # fmt: skip
    assert [frame.at for frame in frames] == pytest.approx([0.0, 0.6, 1.2, 1.8, 2.4])


@pytest.mark.parametrize(
    "damage",
    [
        {"in": {"percept": {"seq": "1", "width": 8, "height": 8, "rotation": 0}}},
        {"in": {"percept": {"width": 8, "height": 8, "rotation": 0}}},
        {"in": {"percept": {"seq": 9, "width": 0, "height": 8, "rotation": 0}, "png": 3}},
        {"in": {"percept": {"seq": 9, "width": 8, "height": 8, "rotation": 7}}},
        {"in": {"percept": {"seq": 9, "width": 8, "height": 8, "rotation": 0, "requested_at": "now"}}},
        {"in": [], "app": 3},
    ],
)
def test_a_damaged_line_of_a_record_is_left_out(tmp_path: Path, damage: dict[str, Any]) -> None:
    folder = run_folder(tmp_path / "run")
    steps = folder / "episodes" / "e0" / "steps.jsonl"
    steps.write_text(json.dumps(damage) + "\n" + steps.read_text())
    events = folder / "events.jsonl"
    events.write_text(
        events.read_text() + json.dumps({"event": "actors.plan.asked", "frames": {"x": 1, "3": []}}) + "\n"
    )

    assert [frame.seq for frame in frames_in(folder)] == [0, 1, 2, 3, 4]


def test_frames_of_one_app_can_be_chosen(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    other = folder / "episodes" / "e1"
    other.mkdir()
    steps = (folder / "episodes" / "e0" / "steps.jsonl").read_text()
    (other / "steps.jsonl").write_text(json.dumps({"app": "merge"}) + "\n" + steps)
    (folder / "episodes" / "e0" / "steps.jsonl").write_text(json.dumps({"app": "battler"}) + "\n" + steps)
    file = tmp_path / "r.toml"
    file.write_text(RULES)

    mixed = CliRunner().invoke(rules, ["test", str(file), "--json", "--on", str(folder)])
    assert "several apps: battler, merge; choose one with --app" in mixed.stderr
    one = report(tmp_path, str(folder), "--app", "battler")
    assert one["frames"] < json.loads(mixed.stdout)["frames"]
    none = CliRunner().invoke(rules, ["test", str(file), "--on", str(folder), "--app", "chess"])
    assert none.exit_code == 2
    assert "there are: battler, merge" in none.stderr


def test_a_run_is_judged_in_time_with_cooldowns(tmp_path: Path) -> None:
    said = report(tmp_path, str(run_folder(tmp_path / "run")))

    assert said["frames"] == 5
    assert said["copies"] == {"png": 3, "display": 1, "prompt": 1}
    (probe,) = said["probes"]
    assert (probe["hits"], probe["misses"], probe["value_min"], probe["value_median"]) == (3, 2, 0.0, 1.0)
    assert 0 < probe["ms_p50"] <= probe["ms_p95"]
    (rule,) = said["rules"]
    assert rule["matched"] == 3
    assert rule["fired"] == ["e0 0", "e0 2"], "frame 3 is within a second of frame 2"


def test_pictures_are_judged_each_alone_and_shown(tmp_path: Path) -> None:
    for number in range(3):
        picture(tmp_path / "shots" / f"{number}.png", green=number != 1)
    said = report(tmp_path, str(tmp_path / "shots"), str(tmp_path / "shots" / "0.png"), "--show", str(tmp_path / "out"))

    assert said["frames"] == 4
    assert said["rules"][0]["fired"] == ["0.png", "2.png", "0.png"]
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["00000-0.png", "00001-1.png", "00002-2.png", "00003-0.png"]
    drawn = cv2.imread(str(tmp_path / "out" / "00001-1.png"))
    original = cv2.imread(str(tmp_path / "shots" / "1.png"))
    assert drawn is not None
    assert original is not None
    assert drawn.shape == original.shape
    assert not np.array_equal(drawn, original)


def test_the_table_names_what_json_names(tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    file.write_text(RULES)
    picture(tmp_path / "a.png", green=True)

    result = CliRunner().invoke(rules, ["test", str(file), "--on", str(tmp_path / "a.png")])

    assert result.exit_code == 0
    assert "1 frames (1 png)" in result.output
    assert "a.png" in result.output


@pytest.mark.parametrize(
    ("file", "target", "said"),
    [
        ("r.toml", "none", "no such file or folder"),
        ("r.toml", "r.toml", "not a picture"),
        ("r.toml", "empty", "no frames in it"),
        ("none.toml", "empty", "cannot be read"),
        ("r.toml", "broken.png", "not a picture that OpenCV can read"),
    ],
)
def test_wrong_files_are_said_and_exit_with_2(tmp_path: Path, file: str, target: str, said: str) -> None:
    (tmp_path / "r.toml").write_text(RULES)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.png").write_bytes(b"no picture")

    result = CliRunner().invoke(rules, ["test", str(tmp_path / file), "--on", str(tmp_path / target)])

    assert result.exit_code == 2
    assert said in result.output
