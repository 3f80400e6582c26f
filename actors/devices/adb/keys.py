"""Which keys our adb server shows to phones: those of $ADB_VENDOR_KEYS, and the user's own. A new one is announced.

Phones keep the keys that their owners accepted, so a server with another key finds every phone `unauthorized`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from runtime.telemetry import emit

VENDOR_KEYS = "ADB_VENDOR_KEYS"
KEY_SUFFIX = ".adb_key"  # what adb looks for in a folder of keys


@attrs.frozen
class Keys:
    """The keys of one server, by path."""

    own: Path
    """The user's; adb makes it where it is not there."""
    is_new: bool
    """It was not there when this was looked at."""
    vendor: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()
    """Named keys that cannot be used, which adb itself passes over."""

    @property
    def shown(self) -> str:
        """All of them, for people."""
        return ", ".join(map(str, (*self.vendor, self.own)))


def find_keys(environ: Mapping[str, str]) -> Keys:
    """The keys that a server with this environment will have."""
    own = Path(environ.get("HOME") or "/") / ".android" / "adbkey"
    vendor: list[Path] = []
    problems: list[str] = []
    for name in filter(None, environ.get(VENDOR_KEYS, "").split(":")):
        path = Path(name)
        if path.is_dir():
            inside = sorted(path.glob(f"*{KEY_SUFFIX}"))
            vendor += inside
            if not inside:
                problems.append(f"${VENDOR_KEYS}: no *{KEY_SUFFIX} in {path}")
        elif not path.is_file():
            problems.append(f"${VENDOR_KEYS}: there is no {path}")
        elif not os.access(path, os.R_OK):
            problems.append(f"${VENDOR_KEYS}: {path} cannot be read")
        else:
            vendor.append(path)
    return Keys(own, not own.exists(), tuple(vendor), tuple(problems))


def announce(keys: Keys) -> None:
    """Tell of a key that was made since, and of those that cannot be used; called once the server answers."""
    for problem in keys.problems:
        emit("actors.adb.key_unusable", level="warning", problem=problem)
    if keys.is_new and keys.own.exists():
        emit(
            "actors.adb.key_made",
            level="warning",
            path=str(keys.own),
            advice="phones that ask for authorisation must accept it once; keep it, or name yours in $ADB_VENDOR_KEYS",
        )
