"""What a run folder's files must hold before anything is made of them: any may be damaged."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from policies.criteria import Outcome

MAX_DEPTH = 32  # of a JSON value; what is written here is at most 5 deep, and writing it again must not overflow
MAX_NUMBER = 1e15  # beyond this no count, time or score of a run is meant
MAX_TIME = 253402300799.0  # the end of the year 9999, as seconds since 1970
_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_RUN_TEXTS = ("run", "scenario", "description", "tenant", "corral", "python")
_ROW_TEXTS = ("phone", "episode", "app", "reason")
_ROW_NUMBERS = ("seed", "steps", "seconds", "no_effect", "stall_fraction", "phone_lost", "pauses", "paused_seconds")
_ROW_COUNTS: Mapping[str, tuple[str, ...]] = {
    "actions": ("reflex", "planned", "retried", "recovery", "failed"),
    "dropped": ("stale_age", "stale_target", "stale_geometry", "voided", "late", "off_screen"),
}
_FAULT_TEXTS = ("kind", "process", "cause", "excerpt", "at")
_LATENCIES = ("capture", "plan", "act")


def is_number(value: object) -> bool:
    """An int or float, neither a bool nor beyond any number of a run."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -MAX_NUMBER <= value <= MAX_NUMBER


def run_problems(run: object) -> list[str]:
    """What is wrong with the content of `run.json`: one text a key."""
    if not isinstance(run, dict):
        return [f"it holds {_kind(run)} where an object is expected"]
    if not _is_shallow(run):
        return [f"it is nested deeper than {MAX_DEPTH}"]
    problems = [f"{key} is {_found(run, key)}, not a text" for key in _RUN_TEXTS if not _is_text(run.get(key))]
    started = run.get("started_at")
    if not is_number(started) or not 0 <= float(started or 0) <= MAX_TIME:
        problems.append(f"started_at is {_found(run, 'started_at')}, not a time in seconds since 1970")
    if not is_number(run.get("seed")):
        problems.append(f"seed is {_found(run, 'seed')}, not a number")
    goals = run.get("goals")
    if not isinstance(goals, dict) or not all(_is_text(goal) for goal in goals.values()):
        problems.append(f"goals is {_found(run, 'goals')}, not a text for each app")
    return problems


def row_problems(row: object, episode: str) -> list[str]:
    """What is wrong with the content of an `episode.json` in the folder `episode`: one text a key."""
    if not isinstance(row, dict):
        return [f"it holds {_kind(row)} where an object is expected"]
    if not _is_shallow(row):
        return [f"it is nested deeper than {MAX_DEPTH}"]
    wrong = [key for key in _ROW_TEXTS if not _is_text(row.get(key))]
    wrong += [key for key in _ROW_NUMBERS if not is_number(row.get(key))]
    wrong += [key for key, names in _ROW_COUNTS.items() if not _are_counts(row.get(key), names)]
    if row.get("episode") != episode:
        wrong.append("episode")
    if row.get("bot") not in ("planned", "random"):
        wrong.append("bot")
    if not isinstance(row.get("outcome"), str) or row["outcome"] not in {outcome.value for outcome in Outcome}:
        wrong.append("outcome")
    if "score" not in row or not _is_number_or_none(row["score"]):
        wrong.append("score")
    if not _are_counts(row.get("bad_frames", {}), ()):  # runs of before have none
        wrong.append("bad_frames")
    plans = row.get("plans")
    if not isinstance(plans, dict) or not all(
        is_number(plans.get(name)) for name in ("requested", "completed", "failed", "aborted")
    ):
        wrong.append("plans")
    wrong += [key for key in ("engines", "models") if not _are_texts(row.get(key))]
    latencies = row.get("latency_ms")
    if not isinstance(latencies, dict) or not all(_is_latency(latencies.get(kind)) for kind in _LATENCIES):
        wrong.append("latency_ms")
    if not _are_counts(row.get("bad_frames"), ()):
        wrong.append("bad_frames")
    if not _are_faults(row.get("faults")):
        wrong.append("faults")
    if not isinstance(row.get("replayable"), bool):
        wrong.append("replayable")
    return [f"{key} is {_found(row, key)}" for key in dict.fromkeys(wrong)]


def is_display(shot: Mapping[str, Any]) -> bool:
    """A line of `display.jsonl` that a filmstrip can be made of."""
    taps = shot.get("taps")
    return (
        isinstance(taps, list)
        and all(isinstance(tap, list) and len(tap) == 2 and all(map(is_number, tap)) for tap in taps)
        and isinstance(shot.get("file"), str)
        and _FILE.fullmatch(shot["file"]) is not None
        and isinstance(shot.get("label"), str)
        and is_number(shot.get("at"))
        and all(is_number(shot.get(side)) and shot[side] >= 1 for side in ("width", "height"))
    )


def is_note(event: Mapping[str, Any]) -> bool:
    """A line of `events.jsonl` that belongs to an episode."""
    return isinstance(event.get("event"), str) and isinstance(event.get("episode"), str) and is_number(event.get("at"))


def is_step_input(given: object) -> bool:
    """The input of a step, as far as charts are made of it."""
    if not isinstance(given, dict) or not is_number(given.get("now")) or not _is_number_or_none(given.get("score")):
        return False
    percept = given.get("percept")
    return percept is None or (
        isinstance(percept, dict) and is_number(percept.get("received_at")) and is_number(percept.get("requested_at"))
    )


def _is_number_or_none(value: object) -> bool:
    return value is None or is_number(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_faults(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(fault, dict) and all(_is_text(fault.get(key)) for key in _FAULT_TEXTS) for fault in value
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_counts(value: object, names: Sequence[str]) -> bool:
    return isinstance(value, dict) and set(names) <= set(value) and all(map(is_number, value.values()))


def _is_latency(value: object) -> bool:
    return isinstance(value, dict) and {"p50", "p95"} <= set(value) and all(map(_is_number_or_none, value.values()))


def _is_shallow(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return True
    return not any(isinstance(one, dict | list) and one for one in level)


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "true or false", str: "a text", list: "a list", dict: "an object"}
    return names.get(type(value), "a number") if not (isinstance(value, float) and math.isnan(value)) else "NaN"


def _found(table: Mapping[str, Any], key: str) -> str:
    return f"{_kind(table[key])}: {str(table[key])[:40]!r}" if key in table else "missing"
