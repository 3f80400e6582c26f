"""What is read of run folders in a process of its own, so that the daemon neither waits for it nor dies of it.

`python -m actors.farm.record_jobs` takes one job as JSON on standard input and answers with JSON on standard output:
`{"answer": ...}`, or `{"error": ...}` where the folder does not allow it. It writes nowhere but where an export goes.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from actors.farm.costs import Usage, usage_sum
from actors.farm.filmstrip import filmstrip_of
from actors.farm.record_usage import usage_of
from actors.results.findings import Sighting, screens_in, sightings_in
from actors.results.findings_store import MAX_EXAMPLES, scanned_run
from actors.results.plan_examples import plan_examples
from actors.results.record import RecordUnreadable
from actors.results.screens import Coverage, Screens, coverage_of, hash_of
from actors.results.training_export import ExportFailed, ExportFilter, ExportFormat, export

NICENESS = 10  # engines and phones come first
MAX_SIGHTINGS = 20_000  # of one attempt; beyond, it is the same few things over and over
MAX_TITLE = 300
MAX_EXCERPT = 2000
SHARES = (0.9, 0.05, 0.05)  # as `corral export`


def scan(job: Mapping[str, Any]) -> dict[str, Any]:
    """`{folder, screens}` → sightings, the screens that are told apart by now, and what was used."""
    run = Path(job["folder"])
    scanned = scanned_run(run)
    screens = Screens([hash_of(text) for text in job["screens"]])
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


def film(job: Mapping[str, Any]) -> dict[str, Any]:
    """`{folder, episode}` → its filmstrip."""
    return {"episodes": filmstrip_of(Path(job["folder"]), job["episode"])}


def coverage(job: Mapping[str, Any]) -> dict[str, Any]:
    """`{folder, before}` → screens and transitions, and which of them the folder before had not."""
    seen = coverage_of(screens_in(Path(job["folder"])))
    shown = _shown(seen)
    if job["before"] is not None:
        screens, moves = seen.new_since(coverage_of(screens_in(Path(job["before"]))))
        fresh = set(moves)
        shown["new_since"] = {
            "screens": [f"{one:016x}" for one in screens],
            "transitions": [_move(one, times) for one, times in seen.transitions.items() if one in fresh],
        }
    return shown


def _shown(seen: Coverage) -> dict[str, Any]:
    return {
        "screens": [{"screen": f"{screen:016x}", "frames": count} for screen, count in seen.screens.items()],
        "transitions": [_move(one, times) for one, times in seen.transitions.items()],
        "new_since": None,
    }


def _move(transition: tuple[int, str, int], times: int) -> dict[str, Any]:
    start, action, end = transition
    return {"from": f"{start:016x}", "action": action, "to": f"{end:016x}", "times": times}


def training(job: Mapping[str, Any]) -> dict[str, Any]:
    """`{folder, out, format}`: write the plans of a run as training data to a new folder."""
    run = Path(job["folder"])
    form = ExportFormat(job["format"])
    done = export(plan_examples(run), Path(job["out"]), form, ExportFilter(), SHARES, [run.name])
    return {"examples": dict(done.examples), "pictures": done.pictures}


JOBS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "scan": scan,
    "film": film,
    "coverage": coverage,
    "training": training,
}


def main() -> int:
    """One job."""
    os.nice(NICENESS)
    job = json.load(sys.stdin)
    try:
        said = json.dumps({"answer": JOBS[job["job"]](job)}, allow_nan=False)
    except (RecordUnreadable, ExportFailed) as error:
        said = json.dumps({"error": str(error)})
    except (OSError, ValueError, KeyError, TypeError) as error:  # a damaged folder, in a way that nobody thought of
        said = json.dumps({"error": f"it cannot be read: {type(error).__name__}: {error}"})
    sys.stdout.write(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
