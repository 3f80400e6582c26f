"""What every benchmark leaves: its numbers, with the commit, the machine and the command that repeats them."""

import json
import os
import platform
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs

Tell = Callable[[str, float], None]
"""Takes (what is being measured, share of the whole that is done, 0 to 1), for whoever watches."""


def tell_nobody(what: str, share: float) -> None:
    """A `Tell` for tests."""
    del what, share


@attrs.frozen
class BenchResult:
    """One benchmark's numbers."""

    name: str
    command: str
    """Repeats it."""
    summary: dict[str, Any]
    """What a reader looks at first."""
    rows: list[dict[str, Any]]
    """One a single measurement."""
    notes: tuple[str, ...] = ()
    points: list[dict[str, Any]] | None = None
    """A curve of latency over concurrency, as `corral plan --measured` reads it."""

    def as_dict(self) -> dict[str, Any]:
        """With where and when it was measured."""
        return {
            "name": self.name,
            "command": self.command,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "corral": metadata.version("corral"),
            "commit": _commit(),
            "machine": {
                "cores": os.cpu_count(),
                "architecture": platform.machine(),
                "python": platform.python_version(),
                "load_average": round(os.getloadavg()[0], 2),
            },
            "summary": self.summary,
            "rows": self.rows,
            "notes": list(self.notes),
            **({} if self.points is None else {"points": self.points}),
        }

    def write(self, path: Path) -> None:
        """Raises `OSError` where the file cannot be written."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _commit() -> str | None:
    """The checkout's commit; None where this is no checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
