"""The pictures that a run kept of its episodes, each with the step and the action that belongs to it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.results.checked import is_display, is_number
from actors.results.json_lines import read_lines

MAX_FRAMES = 2000  # of one episode; more are thinned out evenly
MAX_EPISODES = 500
MAX_LINES = 500_000  # of a record that are looked at for actions
_PICTURE = re.compile(r"([0-9a-f]{64})\.jpg")
_POINTS = ("x", "to_x", "y", "to_y")
_SHORT = {"to_x": "x2", "to_y": "y2"}


def filmstrip_of(run: Path, episode: str | None) -> list[dict[str, Any]]:
    """Every episode of a run, or one, with its frames in order; those without pictures have no frames."""
    folders = sorted(path for path in (run / "episodes").glob("*/") if episode in (None, path.name))
    return [_strip(folder) for folder in folders[:MAX_EPISODES] if not folder.is_symlink()]


def film(job: Mapping[str, Any]) -> dict[str, Any]:
    """`{folder, episode}` as `actors.farm.record_jobs` has it → its filmstrip."""
    return {"episodes": filmstrip_of(Path(job["folder"]), job["episode"])}


def read_summary(episode: Path) -> dict[str, Any]:
    """What `episode.json` says; empty where there is none, as a kill leaves it."""
    try:
        found = json.loads((episode / "episode.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _strip(folder: Path) -> dict[str, Any]:
    summary = read_summary(folder)
    shots = [shot for shot in read_lines(folder / "display.jsonl") if is_display(shot)]
    shots = shots[:: max(1, -(-len(shots) // MAX_FRAMES))]
    steps = _steps_by_frame(folder / "steps.jsonl", {_whole(shot.get("seq")) for shot in shots})
    start, score = shots[0]["at"] if shots else 0.0, summary.get("score")
    frames = []
    for shot in shots:
        name = _PICTURE.fullmatch(str(shot["file"]))
        if name is None:
            continue
        step, action = steps.get(_whole(shot.get("seq")), (None, None))
        frames.append(
            {"sha": name[1], "step": step, "at_seconds": round(shot["at"] - start, 3), "action": action}
            | {"label": str(shot.get("label", ""))}
        )
    return {
        "episode": folder.name,
        "phone": str(summary.get("phone", "")),
        "outcome": str(summary.get("outcome", "interrupted")),
        "reason": str(summary.get("reason", "")),
        "score": score if is_number(score) else None,
        "frames": frames,
    }


def _steps_by_frame(path: Path, wanted: set[int]) -> dict[int, tuple[int, dict[str, Any] | None]]:
    """Number of a frame → (the step that was decided on it, what was done then or before a newer frame came)."""
    found: dict[int, tuple[int, dict[str, Any] | None]] = {}
    seq, width, height = -1, 0, 0
    for number, line in enumerate(read_lines(path)):
        if number >= MAX_LINES:
            break
        given, output = line.get("in"), line.get("out")
        if not isinstance(given, dict) or not isinstance(output, dict):
            continue
        percept = given.get("percept")
        if isinstance(percept, dict):
            seq, width, height = (_whole(percept.get(name)) for name in ("seq", "width", "height"))
        if seq not in wanted:
            continue
        command = output.get("command")
        action = action_view(command, width, height) if isinstance(command, dict) else None
        step, before = found.get(seq, (_whole(given.get("step")), None))
        found[seq] = (step, before or action)
    return found


def action_view(command: Mapping[str, Any], width: int, height: int) -> dict[str, Any] | None:
    """A recorded command as the API shows it: kind in small letters, places in 0..1 of the frame."""
    action = command.get("action")
    if not isinstance(action, dict):
        return {"kind": "restart", "why": str(command.get("why", ""))}
    shown: dict[str, Any] = {"kind": re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(action.get("type", ""))).lower()}
    for name, value in action.items():
        if name in _POINTS and isinstance(value, int | float):
            side = width if name.endswith("x") else height
            shown[_SHORT.get(str(name), str(name))] = round(value / max(1, side), 4)
        elif name in ("seconds", "text", "name", "radius", "direction_degrees"):
            shown[name] = value
    return {**shown, "why": str(command.get("why", ""))}


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
