"""Damaged run folders: a report or one typed error, whatever the files hold."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.cli.main import corral
from actors.results.checked import MAX_DEPTH, is_number, run_problems
from actors.results.folder import read_episodes
from actors.results.record import RecordUnreadable
from actors.results.report import write_report
from tests.kit.run_folder import EPISODE, RUN, row, run_folder

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, 1e300, -1e300, float("inf"), float("nan"), -1, 0])
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "../../etc/passwd", "a\0b", EPISODE, "P", "game", "planned", "policies.plan.joined"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
SHOT = {"seq": 1, "at": 1.0, "file": "a.jpg", "width": 9, "height": 16, "taps": [[0.5, 0.5]], "label": "tap"}
NOTE = {
    "at": 1.0, "event": "policies.action.settled", "episode": EPISODE, "phone": "P", "seq": 1, "effect": "seen",
    "capture_seconds": 0.1, "queue_seconds": None, "effect_seconds": 0.3, "latency_seconds": 0.2,
}  # fmt: skip
STEP = {"in": {"step": 0, "now": 5.0, "score": 1.0, "percept": {"received_at": 5.0, "requested_at": 4.9}}, "out": {}}
WHOLE: dict[str, dict[str, Any]] = {
    "run.json": RUN,
    f"episodes/{EPISODE}/episode.json": row(),
    f"episodes/{EPISODE}/display.jsonl": SHOT,
    "events.jsonl": NOTE,
    f"episodes/{EPISODE}/steps.jsonl": STEP,
}


@st.composite
def damaged(draw: st.DrawFn, whole: dict[str, Any]) -> Any:
    """The whole value with some keys, inner ones too, replaced or taken away; or something else altogether."""
    if draw(st.integers(0, 4)) == 0:
        return draw(VALUES)
    value = json.loads(json.dumps(whole))
    for _ in range(draw(st.integers(1, 3))):
        inner = value
        while True:
            key = draw(st.sampled_from(sorted(inner))) if inner else None
            if key is not None and isinstance(inner[key], dict) and draw(st.booleans()):
                inner = inner[key]
                continue
            break
        if key is not None and draw(st.booleans()):
            del inner[key]
        else:
            inner[key or "x"] = draw(VALUES)
    return value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = run_folder(tmp_path_factory.mktemp("damaged"), steps=3)
    (made / "frames").mkdir()
    assert cv2.imwrite(str(made / "frames" / "a.jpg"), np.zeros((16, 9, 3), np.uint8))
    return made


@pytest.mark.parametrize("key", sorted(row()))
def test_a_row_without_a_key_is_refused_or_makes_a_report(folder: Path, key: str) -> None:
    path = folder / "episodes" / EPISODE / "episode.json"
    before = path.read_bytes()
    path.write_text(json.dumps({name: value for name, value in row().items() if name != key}))
    try:
        write_report(folder)
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize("name", sorted(WHOLE))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_json_in_any_file_gives_a_report_or_a_typed_error(folder: Path, name: str, data: st.DataObject) -> None:
    path = folder / name
    before = path.read_bytes() if path.exists() else None
    text = json.dumps(data.draw(damaged(WHOLE[name])))
    refused = ""
    try:
        path.write_text(f"{before.decode()}{text}\n" if before and name.endswith("l") else f"{text}\n")
        try:
            write_report(folder)
        except RecordUnreadable as error:
            refused = str(error)
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)
    if refused:
        assert name in ("run.json", f"episodes/{EPISODE}/steps.jsonl")
        assert name in refused


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[]", "it holds a list where an object is expected"),
        ("{}", "run is missing, not a text; scenario is missing"),
        (json.dumps({**RUN, "started_at": 1e300}), "started_at is a number: '1e+300'"),
        (json.dumps({**RUN, "started_at": True}), "started_at is true or false"),
        (json.dumps({**RUN, "goals": {"game": 3}}), "goals is an object"),
        ("[" * 5000, "is no run folder"),
        ('{"a":' + "[" * 300 + "]" * 300 + "}", f"nested deeper than {MAX_DEPTH}"),
    ],
)
def test_a_damaged_run_file_is_one_line_that_says_what_is_missing(tmp_path: Path, content: str, says: str) -> None:
    folder = run_folder(tmp_path, steps=3)
    (folder / "run.json").write_text(content)

    result = CliRunner().invoke(corral, ["report", str(folder)])

    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
    assert len(result.output.splitlines()) == 1
    assert says in result.output
    assert "run.json" in result.output


@pytest.mark.parametrize(
    "content",
    ["[]", "{}", "null", "[" * 5000, json.dumps({**row(), "episode": "../other"}), json.dumps({**row(), "steps": "9"})],
)
def test_a_damaged_episode_file_is_made_again_from_its_steps(tmp_path: Path, content: str) -> None:
    folder = run_folder(tmp_path, steps=3)
    (folder / "episodes" / EPISODE / "episode.json").write_text(content)

    (episode,) = read_episodes(folder)

    assert (episode["episode"], episode["steps"], episode["outcome"]) == (EPISODE, 3, "cancelled")
    write_report(folder)


def test_bad_display_lines_are_left_out_and_good_ones_shown(folder: Path) -> None:
    lines = ["{}", json.dumps({**SHOT, "file": "../run.json"}), json.dumps({**SHOT, "height": 0}), json.dumps(SHOT)]
    path = folder / "episodes" / EPISODE / "display.jsonl"
    path.write_text("\n".join(lines) + "\n")

    page = write_report(folder).html.read_text("utf-8")
    path.unlink()

    assert page.count("<figure>") == 1


def test_a_whole_run_has_no_problems_and_numbers_are_within_reason() -> None:
    assert run_problems(RUN) == []
    assert not any(map(is_number, [True, None, "1", float("nan"), float("inf"), 10**400]))
    assert is_number(-3)
