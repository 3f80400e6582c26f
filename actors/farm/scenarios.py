"""The folder of scenarios that may be submitted by name. Blocks."""

import tomllib
from pathlib import Path

from actors.farm.store import Refused

MAX_BYTES = 4 << 20


def scenario_names(folder: Path) -> list[str]:
    """What may be submitted; rule files and the like, as `battler.rules.toml`, lie there as well."""
    root = folder.resolve()
    files = (file for file in root.glob("*.toml") if "." not in file.stem and file.is_file())
    return sorted(file.stem for file in files if file.resolve().parent == root and not _is_other(file))


def _is_other(file: Path) -> bool:
    """It is a plan of faults, or whatever else has no app to play. What cannot be read is told of when it is played."""
    try:
        with file.open("rb") as opened:
            found = tomllib.loads(opened.read(MAX_BYTES).decode())
    except (OSError, ValueError):
        return False
    return "apps" not in found


def file_of(folder: Path, name: str) -> Path:
    """The file of a name.

    Raises:
        Refused: it would lie somewhere else.
    """
    root = folder.resolve()
    file = (root / f"{name}.toml").resolve()
    if file.parent != root:
        raise _missing(name)
    return file


def read_scenario(folder: Path, name: str) -> bytes:
    """Its content.

    Raises:
        Refused: there is none, or it cannot be read.
    """
    file = file_of(folder, name)
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_BYTES)
    except OSError as error:
        raise _missing(name) from error


def _missing(name: str) -> Refused:
    return Refused(f"there is no scenario {name!r}: corral farm scenarios lists them")
