"""What `corral devices` shows of each phone, and what it says to do about one that cannot be used."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from actors.devices.adb.errors import (
    AdbServerLost,
    AdbServerUnavailable,
    AdbServerUnresponsive,
    DeviceNotFound,
    DeviceOffline,
    DeviceUnauthorized,
)
from actors.devices.base import DeviceError, DeviceTimeout

READY = "ready"
"""It has just answered, end to end."""
SILENT = "silent"
"""adb lists it as usable, but it does not answer: adb itself never finds out."""
FAULTY = "faulty"
"""It answers, but not with what was asked for."""
MISSING = "missing"
UNKNOWN = "unknown"
"""The adb server is the trouble, so nothing can be said about the phone."""
_LISTED = {"no": "no permission", "device": READY}
_USABLE_IN_A_RUN = frozenset({"waiting", "opening", "preparing", "playing", "done", "installing", "restarting"})

_ADVICE: Mapping[str, str] = {
    "unauthorized": "allow this computer on the phone's screen, or set $ADB_VENDOR_KEYS to a key that it knows",
    "offline": "connect it anew: adb disconnect {address}, then adb connect {address}; a run does so by itself",
    MISSING: "is it on, is the address right, and does adb connect {address} reach it from here?",
    SILENT: "adb lists it, but it does not answer: restart the phone",
    FAULTY: "look at what it said; a restart of the phone helps most",
    UNKNOWN: "see the adb server: corral doctor",
    "no permission": "this user may not open the USB device: install the package android-sdk-platform-tools-common",
    "authorizing": "look again in a moment",
    "connecting": "look again in a moment",
    "recovery": "it does not run Android now: reboot it",
    "sideload": "it does not run Android now: reboot it",
    "bootloader": "it does not run Android now: reboot it",
    "needs_human": "help on its screen, then: corral resume {run}",
    "quarantined": "the run has given it up: see its log",
    "lost": "the run is trying to get it back",
}


@attrs.frozen(kw_only=True)
class DeviceRow:
    """One phone as it was when it was looked at."""

    address: str
    """What adb knows it by."""
    state: str
    """READY, SILENT, ...; adb's own word where it is not usable; the run's word where a run has it."""
    phone: str = ""
    """`ro.serialno`; empty where it was not told."""
    model: str = ""
    android: str = ""
    width: int | None = None
    height: int | None = None
    rotation: int | None = None
    density: int | None = None
    capture_method: str = ""
    capture_ms: float | None = None
    probe_age_seconds: float | None = None
    """Since its last answer, end to end; None: none is known."""
    used_by: str = ""
    """Folder of the `corral run` that plays on it."""
    app: str = ""
    seen_through: str = ""
    """Who was asked: which adb server, or the run."""
    error: str = ""
    advice: str = ""

    @property
    def is_well(self) -> bool:
        """Nothing needs to be done about it."""
        return not self.advice


def advice_for(state: str, address: str, *, run: str = "") -> str:
    """What to do about a phone in that state; empty: nothing."""
    return _ADVICE.get(state, "").format(address=address, run=run)


def state_of(listed: str) -> str:
    """The state for a word that adb lists."""
    return _LISTED.get(listed, listed)


def state_for(error: DeviceError) -> str:
    """The state that an error means."""
    match error:
        case DeviceUnauthorized():
            return "unauthorized"
        case DeviceOffline():
            return "offline"
        case DeviceNotFound():
            return MISSING
        case AdbServerUnavailable() | AdbServerUnresponsive() | AdbServerLost():
            return UNKNOWN
        case DeviceTimeout():
            return SILENT
        case _:
            return FAULTY


def row_for_error(address: str, error: DeviceError, *, seen_through: str, **known: Any) -> DeviceRow:
    """A phone that could not be asked; `known` are fields of the row that are known all the same."""
    state = state_for(error)
    text = str(error).removeprefix(f"{address}: ")
    advice = advice_for(state, address)
    return DeviceRow(address=address, state=state, error=text, advice=advice, seen_through=seen_through, **known)


def row_for_listed(address: str, listed: str, fields: Mapping[str, str], *, seen_through: str) -> DeviceRow:
    """A phone that an adb server lists in a state in which it cannot be asked anything."""
    state = state_of(listed)
    return DeviceRow(
        address=address,
        state=state,
        model=fields.get("model", ""),
        advice=advice_for(state, address) or f"adb lists it as {state!r}",
        seen_through=seen_through,
    )


def row_for_run(told: Mapping[str, Any], *, folder: str) -> DeviceRow | None:
    """A phone as a run tells of it over its control socket; None where that makes no sense."""
    phone, state = told.get("phone"), told.get("state")
    if not isinstance(phone, str) or not isinstance(state, str):
        return None
    address = _text(told, "address") or phone
    is_well = state in _USABLE_IN_A_RUN
    return DeviceRow(
        address=address,
        state=state,
        phone=phone,
        model=_text(told, "model"),
        android=_text(told, "android"),
        width=_whole(told, "width"),
        height=_whole(told, "height"),
        rotation=_whole(told, "rotation"),
        capture_method=_text(told, "capture_method"),
        capture_ms=_number(told, "capture_ms"),
        probe_age_seconds=_number(told, "probe_age_seconds"),
        used_by=folder,
        app=_text(told, "app"),
        seen_through="the run",
        advice="" if is_well else advice_for(state, address, run=folder),
    )


def with_doubles(rows: Sequence[DeviceRow]) -> list[DeviceRow]:
    """The same rows; one that shows a phone which an earlier row shows under another address says so."""
    first: dict[str, str] = {}
    told = []
    for row in rows:
        other = first.setdefault(row.phone, row.address) if row.phone else row.address
        is_double = other != row.address
        told.append(attrs.evolve(row, advice=f"the same phone as {other}: name it once") if is_double else row)
    return told


def as_json(row: DeviceRow, *, at: float) -> dict[str, Any]:
    """One line of `corral devices --json`; `at`: seconds since 1970."""
    return {**attrs.asdict(row), "at": round(at, 3)}


def shown_size(row: DeviceRow) -> str:
    """`720x1280`, with the rotation where the screen is turned."""
    if row.width is None or row.height is None:
        return "-"
    return f"{row.width}x{row.height}" + (f" r{row.rotation}" if row.rotation else "")


def shown_capture(row: DeviceRow) -> str:
    """`raw 12 ms`."""
    if row.capture_ms is None:
        return row.capture_method or "-"
    return f"{row.capture_method} {row.capture_ms:.0f} ms".strip()


def shown_age(row: DeviceRow, *, later_seconds: float = 0.0) -> str:
    """How long ago the phone answered, `later_seconds` after it was looked at."""
    if row.probe_age_seconds is None:
        return "never"
    age = row.probe_age_seconds + later_seconds
    return "now" if age < 1 else f"{age:.0f} s ago"


def _text(told: Mapping[str, Any], key: str) -> str:
    value = told.get(key)
    return value if isinstance(value, str) else ""


def _number(told: Mapping[str, Any], key: str) -> float | None:
    value = told.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(told: Mapping[str, Any], key: str) -> int | None:
    value = told.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
