"""Scenarios that come as text from somebody who may submit runs but is no operator of this machine. Pure.

Such a text may say what is played and how, and nothing else: what reads a file, runs a command, fetches an address,
takes a secret from the environment or chooses a phone or an engine is refused. Keys are allowed one by one, so a key
that scenarios learn later is refused until somebody has thought about it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actors.configuration import Problem, ScenarioError, line_of, read_toml

MAX_TEXT_BYTES = 64 << 10
_PLAINLY: Mapping[str, Any] = {}  # anything below it, as no key of it names anything

_PLANNER: Mapping[str, Any] = {
    "enabled": None,
    "profile": None,
    "overlap": None,
    "act_seconds": None,
    "staleness": None,
    "max_age_seconds": None,
    "timeout_seconds": None,
    "effect": _PLAINLY,
}
_READING: Mapping[str, Any] = {"kind": None, "pattern": None, "probe": None}
_APP: Mapping[str, Any] = {
    "goal": None,
    "package": None,
    "activity": None,
    "score": _READING,
    "goal_reached": _READING,
    "criteria": _PLAINLY,
    "health": _PLAINLY,
    "limits": _PLAINLY,
    "needed_wait_seconds": None,
    "planner": _PLANNER,
}
_ALLOWED: Mapping[str, Any] = {
    "name": None,
    "description": None,
    "seed": None,
    "episodes_per_phone": None,
    "limits": _PLAINLY,
    "planner": _PLANNER,
    "capture": _PLAINLY,
    "apps": {"*": _APP},
    "phones": {"kind": None, "app": None, "count": None, "bot": None, "seed": None, "size": None},
}
_READING_KINDS = ("logcat",)
_ACTIVITY = re.compile(r"[A-Za-z.][A-Za-z0-9_.]{0,200}")  # it becomes a word of a command on the phone


def inline_problems(text: str) -> list[Problem]:
    """Every reason why a scenario that came as text is not taken; whether it is a good one is not looked at.

    An empty list means that it names no file, command, address, secret, phone and engine.
    """
    source = text.encode("utf-8", "surrogatepass")
    if len(source) > MAX_TEXT_BYTES:
        return [Problem(f"it has {len(source)} bytes; a scenario as text has at most {MAX_TEXT_BYTES}", "$")]
    try:
        data = read_toml(source)
    except ScenarioError as error:
        return list(error.problems)
    lines = text.splitlines()
    return [Problem(why, path, "", line_of(lines, path)) for why, path in _refused(data, _ALLOWED, "$")]


def _refused(data: Mapping[str, Any], allowed: Mapping[str, Any], at: str) -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        path = f"{at}.{key}"
        if key not in allowed and "*" not in allowed:
            known = ", ".join(sorted(allowed))
            why = f"'{key[:60]}' is not taken in a scenario that is sent as text, which names no files, commands, "
            yield f"{why}addresses, secrets, phones and engines; taken are {known}", path
            continue
        below = allowed[key] if key in allowed else allowed["*"]
        if key == "kind":
            yield from _kind_refused(value, at, path)
        elif key == "profile" and isinstance(value, str) and ("/" in value or "." in value):
            yield "'profile' must be the name of a bundled profile here", path
        elif key == "activity" and isinstance(value, str) and not _ACTIVITY.fullmatch(value):
            yield f"'activity' must be the name of an activity: {value[:40]!r}", path
        if below is None and isinstance(value, Mapping | Sequence) and not isinstance(value, str):
            yield f"'{key[:60]}' must be a single value", path
        elif below:
            for place, table in _tables(value, path):
                yield from _refused(table, below, place)


def _tables(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        yield path, value
    elif isinstance(value, list):
        for index, one in enumerate(value):
            if isinstance(one, Mapping):
                yield f"{path}[{index}]", one


def _kind_refused(value: Any, at: str, path: str) -> Iterator[tuple[str, str]]:
    if at.startswith("$.phones"):
        if value != "simulated":
            text = 'phones are counted here, and chosen by the farm: kind = "simulated", whatever they will be'
            yield f"{text}, not {str(value)[:40]!r}", path
    elif value not in _READING_KINDS:
        yield f'a score is read from the log here (kind = "logcat"), not by {str(value)[:40]!r}', path
