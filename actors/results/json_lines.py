"""Reads the JSON lines that a run leaves, those of a run that was killed too."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a JSON-lines file; none if it is not there. A line that was cut short is left out."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(value, dict):
                    yield value
    except (FileNotFoundError, NotADirectoryError):
        return
