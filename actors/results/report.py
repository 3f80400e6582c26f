"""From a run folder to `summary.json`, `junit.xml` and a self-contained `report.html`."""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import attrs
import cv2
import jinja2
import numpy as np

from actors.assets import load_picture
from actors.configuration import ScenarioError
from actors.recorder import write_whole
from actors.results.charts import bar_chart, ledger_chart, line_chart
from actors.results.checked import is_display, is_note, is_number, is_step_input
from actors.results.folder import read_episodes, read_run
from actors.results.json_lines import read_lines
from actors.results.junit import junit_for
from actors.results.summary import totals_of
from policies.criteria import Outcome

FILM_FRAMES = 24  # pictures an episode; fewer when there are many, so that the page stays below about 10 MB
FILM_BUDGET = 480
FILM_MAX_SIDE, FILM_QUALITY = 360, 60
LEDGER_ROWS = 30
EVENT_ROWS = 40
ADB_LOST_EVENT = "actors.adb.lost"
STAGES = ("capture", "queue", "prefill", "decode", "dispatch", "effect")
_TOLD = {
    "policies.reflex.fired",
    "policies.plan.stale",
    "policies.plan.failed",
    "policies.plan.off_screen",
    "policies.action.had_no_effect",
    "policies.action.failed",
    "policies.geometry.changed",
}


@attrs.frozen
class Report:
    """What was written."""

    html: Path
    junit: Path
    summary: Path


def write_report(folder: Path) -> Report:
    """Build everything from what the folder holds, whoever ended the run and however.

    Raises:
        RecordUnreadable: the folder is no run, or its `run.json` or an episode's record is damaged.
        OSError: it cannot be written.
    """
    run = read_run(folder)
    episodes = read_episodes(folder)
    report = Report(folder / "report.html", folder / "junit.xml", folder / "summary.json")
    summary = {
        "run": run,
        "rehearsal": rehearsal_models(episodes),
        "episodes": episodes,
        "totals": {**totals_of(episodes), "adb_server_losses": adb_server_losses(folder)},
    }
    # "replace": JSON can hold half of a surrogate pair, UTF-8 cannot
    write_whole(report.summary, json.dumps(summary, ensure_ascii=False, indent=1).encode("utf-8", "replace"))
    write_whole(report.junit, junit_for(run, episodes))
    write_whole(report.html, render(folder, run, episodes).encode("utf-8", "replace"))
    return report


def adb_server_losses(folder: Path) -> int:
    """Times that our adb server ended by itself; the run started it again and connected its phones anew."""
    return sum(event.get("event") == ADB_LOST_EVENT for event in read_lines(folder / "events.jsonl"))


def rehearsal_models(episodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Models that are stand-ins: what they played says nothing about a model."""
    return sorted({model for e in episodes for model in e["models"] if model.startswith("rehearsal-")})


def render(folder: Path, run: dict[str, Any], episodes: Sequence[dict[str, Any]]) -> str:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.globals["number"] = _number
    comparison = compare(episodes)
    notes = _notes_by_episode(folder)
    film_frames = max(4, min(FILM_FRAMES, FILM_BUDGET // max(1, len(episodes))))
    warnings = []
    lost = [e["phone"] for e in episodes if not e["replayable"]]
    if lost:
        warnings.append(f"The record lost steps of {', '.join(lost)}: those episodes cannot be replayed.")
    if losses := adb_server_losses(folder):
        times = "once" if losses == 1 else f"{losses} times"
        warnings.append(
            f"Our adb server ended by itself {times}, was started again, and its phones were connected anew."
        )
    return environment.get_template("report.html.j2").render(
        run=run,
        started=datetime.fromtimestamp(run["started_at"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        rehearsal=rehearsal_models(episodes),
        warnings=warnings,
        totals=totals_of(episodes),
        episodes=episodes,
        comparison=comparison,
        comparison_chart=comparison_chart(comparison),
        details=[_details(folder, run, row, notes.get(row["episode"], []), film_frames) for row in episodes],
    )


def compare(episodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Planned bots beside random ones, one row an app that both played."""
    rows = []
    for app in sorted({e["app"] for e in episodes}):
        kinds = {kind: [e for e in episodes if e["app"] == app and e["bot"] == kind] for kind in ("planned", "random")}
        if all(kinds.values()):
            rows.append({"app": app, **{kind: _group(group) for kind, group in kinds.items()}})
    return rows


def _group(episodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    scores = [e["score"] for e in episodes if e["score"] is not None]
    succeeded = sum(e["outcome"] == Outcome.SUCCEEDED.value for e in episodes)
    return {"episodes": len(episodes), "succeeded": succeeded, "mean": fmean(scores) if scores else None}


def comparison_chart(rows: Sequence[Mapping[str, Any]]) -> str:
    """Mean scores as a share of the better bot's, so that games of different scales stand side by side."""
    values: dict[str, dict[str, float]] = {}
    for row in rows:
        means = {kind: row[kind]["mean"] or 0.0 for kind in ("planned", "random")}
        best = max(means.values()) or 1.0
        values[row["app"]] = {kind: round(100 * mean / best, 1) for kind, mean in means.items()}
    return bar_chart("mean score, in % of the better bot's", values) if values else ""


def _notes_by_episode(folder: Path) -> dict[str, list[dict[str, Any]]]:
    notes: dict[str, list[dict[str, Any]]] = {}
    for event in read_lines(folder / "events.jsonl"):
        if is_note(event):
            notes.setdefault(event["episode"], []).append(event)
    return notes


def _details(
    folder: Path, run: dict[str, Any], row: dict[str, Any], notes: Sequence[dict[str, Any]], film_frames: int
) -> dict[str, Any]:
    episode = folder / "episodes" / row["episode"]
    steps = [line["in"] for line in read_lines(episode / "steps.jsonl") if is_step_input(line.get("in"))]
    start = steps[0]["now"] if steps else 0.0
    began = notes[0]["at"] if notes else 0.0
    scores = [(s["now"] - start, s["score"]) for s in steps if s.get("score") is not None]
    captures = [
        (s["now"] - start, (s["percept"]["received_at"] - s["percept"]["requested_at"]) * 1000)
        for s in steps
        if s.get("percept")
    ]
    joined = [n for n in notes if n["event"] == "policies.plan.joined" and is_number(n.get("latency_seconds"))]
    plans = [(n["at"] - began, n["latency_seconds"] * 1000) for n in joined]
    settled = [n for n in notes if n["event"] == "policies.action.settled"][-LEDGER_ROWS:]
    labels = [f"{n['seq']:g}" if is_number(n.get("seq")) else "?" for n in settled]
    told = [n for n in notes if n["event"] in _TOLD][:EVENT_ROWS]
    return {
        "row": row,
        "goal": run["goals"].get(row["app"], ""),
        "film": _film(folder, episode, start, film_frames),
        "score_chart": line_chart("score over time", {"score": scores}),
        "latency_chart": line_chart("latency over time", {"capture": captures, "plan": plans}, unit=" ms"),
        "ledger_chart": ledger_chart("ledger of planned actions", [_ledger_row(n) for n in settled], STAGES, labels),
        "ledger_rows": len(settled),
        "events": [{"at": f"{n['at'] - began:.1f}", "event": n["event"], "text": _fields(n)} for n in told],
    }


def _ledger_row(note: Mapping[str, Any]) -> dict[str, float]:
    seconds = {stage: note.get(f"{stage}_seconds") for stage in STAGES}
    return {stage: value * 1000 if value is not None and is_number(value) else 0.0 for stage, value in seconds.items()}


def _fields(note: Mapping[str, Any]) -> str:
    hidden = {"at", "event", "phone", "episode", "step"}
    shown = {key: value for key, value in note.items() if key not in hidden and not isinstance(value, dict | list)}
    return ", ".join(f"{key} {value}" for key, value in shown.items())


def _film(folder: Path, episode: Path, start: float, count: int) -> list[dict[str, Any]]:
    """Evenly spaced display frames, those with an action first."""
    shots = [shot for shot in read_lines(episode / "display.jsonl") if is_display(shot)]
    acted = [shot for shot in shots if shot["taps"]] or shots
    step = max(1, -(-len(acted) // count))
    film = []
    for shot in acted[::step][:count]:
        source = _small_jpeg(folder / "frames" / shot["file"])
        if source is not None:
            film.append(
                {
                    "source": source,
                    "at": f"{shot['at'] - start:.1f}",
                    "taps": shot["taps"],
                    "label": shot["label"],
                    "aspect": shot["width"] / shot["height"],
                }
            )
    return film


def _small_jpeg(path: Path) -> str | None:
    """A data URI of a reduced picture; None where the picture was lost or is damaged."""
    try:
        picture = load_picture(path)
    except ScenarioError:
        return None
    height, width = picture.shape[:2]
    scale = FILM_MAX_SIDE / max(height, width)
    if scale < 1:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    ok, small = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, FILM_QUALITY])
    return "data:image/jpeg;base64," + base64.b64encode(np.asarray(small).tobytes()).decode() if ok else None


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}"
