"""What is told of run folders: findings and costs, coverage, comparison, training data.

All of it is called in the process of `actors.farm.record_jobs`; each takes a job as JSON and gives an answer as JSON.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from actors.farm.costs import Usage, usage_sum
from actors.farm.record_usage import usage_of
from actors.results.checked import row_problems
from actors.results.comparison import compared, played_rows
from actors.results.findings import Sighting, screens_in, sightings_in
from actors.results.findings_store import MAX_EXAMPLES, scanned_run, screens_of
from actors.results.plan_examples import plan_examples
from actors.results.record import RecordUnreadable
from actors.results.screens import Coverage, coverage_of
from actors.results.training_export import ExportFailed, ExportFilter, ExportFormat, export

MAX_SIGHTINGS = 20_000  # of one attempt; beyond, it is the same few things over and over
MAX_EXPORT_BYTES = 1 << 30  # of pictures; Parquet holds them in memory
MAX_TITLE = 300
MAX_EXCERPT = 2000
SHARES = (0.9, 0.05, 0.05)  # as `corral export`


def scan(job: Mapping[str, Any]) -> dict[str, Any]:
    """`{folder, screens}` → sightings, the screens that are told apart by now, and what was used."""
    run = Path(job["folder"])
    scanned = scanned_run(run)
    screens = screens_of(job["screens"])
    used = usage_of(run)
    sightings: list[dict[str, Any]] = []
    episodes: dict[str, set[str]] = {}  # {signature: where it was seen}
    times = Counter[str]()
    for one in sightings_in(run, screens):
        times[one.signature] += 1
        episodes.setdefault(one.signature, set()).add(one.episode)
        if len(sightings) < MAX_SIGHTINGS:
            sightings.append(_bounded(one, is_example=times[one.signature] <= MAX_EXAMPLES))
    costs = {
        signature: attrs.asdict(usage_sum(used.get(one, Usage()) for one in where))
        for signature, where in episodes.items()
    }
    return {
        "scanned": attrs.asdict(scanned),
        "sightings": sightings,
        "screens": [f"{one:016x}" for one in screens.known],
        "usage": attrs.asdict(usage_sum(used.values())),
        "costs": costs,
    }


def _bounded(one: Sighting, *, is_example: bool) -> dict[str, Any]:
    excerpt = one.excerpt[:MAX_EXCERPT] if is_example else ""
    return attrs.asdict(attrs.evolve(one, title=one.title[:MAX_TITLE], excerpt=excerpt))


def coverage(job: Mapping[str, Any]) -> dict[str, Any]:
    """`{folder, before}` → screens and transitions, and which of them the folder before had not."""
    seen = coverage_of(screens_in(Path(job["folder"])))
    shown = _shown(seen)
    if job["before"] is not None:
        before = coverage_of(screens_in(Path(job["before"])))
        screens, moves = seen.new_since(before)
        fresh = set(moves)
        shown["new_since"] = {
            "screens": [f"{one:016x}" for one in screens],
            "transitions": [_move(one, times) for one, times in seen.transitions.items() if one in fresh],
            "complete": seen.is_whole and before.is_whole,
        }
    return shown


def _shown(seen: Coverage) -> dict[str, Any]:
    return {
        "screens": [{"screen": f"{screen:016x}", "frames": count} for screen, count in seen.screens.items()],
        "transitions": [_move(one, times) for one, times in seen.transitions.items()],
        "complete": seen.is_whole,
        "new_since": None,
    }


def _move(transition: tuple[int, str, int], times: int) -> dict[str, Any]:
    start, action, end = transition
    return {"from": f"{start:016x}", "action": action, "to": f"{end:016x}", "times": times}


def compare(job: Mapping[str, Any]) -> dict[str, Any]:
    """`{a, b}`, two folders → both side by side, by their summaries."""
    return compared(*(played_rows(0, _rows(Path(job[side]))) for side in ("a", "b")))


def _rows(run: Path) -> list[dict[str, Any]]:
    """Episodes of a summary; damaged ones are left out."""
    try:
        found = json.loads((run / "summary.json").read_text("utf-8"))["episodes"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordUnreadable(f"attempt {run.name} has left no summary that can be read") from error
    if not isinstance(found, list):
        raise RecordUnreadable(f"attempt {run.name} has left no summary that can be read")
    return [row for row in found if isinstance(row, dict) and not row_problems(row, str(row.get("episode")))]


def training(job: Mapping[str, Any]) -> dict[str, Any]:
    """`{folder, out, format}`: write the plans of a run as training data to a new folder."""
    run = Path(job["folder"])
    form = ExportFormat(job["format"])
    if sum(file.lstat().st_size for file in (run / "frames").glob("*.jpg")) > MAX_EXPORT_BYTES:
        raise ExportFailed(f"its pictures are more than {MAX_EXPORT_BYTES >> 30} GiB: use corral export on the machine")
    done = export(plan_examples(run), Path(job["out"]), form, ExportFilter(), SHARES, [run.name])
    return {"examples": dict(done.examples), "pictures": done.pictures}


JOBS = {"scan": scan, "coverage": coverage, "compare": compare, "training": training}
FAILURES = (RecordUnreadable, ExportFailed)
"""What says in words for people that the folder does not allow it."""
