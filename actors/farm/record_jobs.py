"""A process that reads run folders, so that the daemon neither waits for it nor dies of it.

`python -m actors.farm.record_jobs` takes one job as JSON on standard input and answers with JSON on standard output:
`{"answer": ...}`, or `{"error": ...}` where the folder does not allow it. It writes nowhere but where an export goes.
"""

import json
import os
import sys
from typing import Any

from actors.farm.filmstrip import film

NICENESS = 10  # of what nobody waits for: engines and phones come first
BACKGROUND = ("scan", "training")


def answer(job: dict[str, Any]) -> str:
    """What is said to a job, as JSON."""
    try:
        if job["job"] == "film":
            return _told(film(job))
        # these load half of the house, which takes longer than a filmstrip
        from actors.farm.record_answers import FAILURES, JOBS  # noqa: PLC0415

        try:
            return _told(JOBS[job["job"]](job))
        except FAILURES as error:
            return json.dumps({"error": str(error)})
    except (OSError, ValueError, KeyError, TypeError) as error:  # damaged in a way that nobody thought of
        return json.dumps({"error": f"it cannot be read: {type(error).__name__}: {error}"})


def _told(found: dict[str, Any]) -> str:
    return json.dumps({"answer": found}, allow_nan=False)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    if given["job"] in BACKGROUND:
        os.nice(NICENESS)
    sys.stdout.write(answer(given))
