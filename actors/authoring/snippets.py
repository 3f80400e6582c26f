"""Probes and rules as TOML, and a rule file that grows by them without losing a comment."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from actors.configuration import Problem, ScenarioError, read_toml
from actors.rulefile import kind_of, parse_rule_file
from policies.geometry import Anchor, Region
from policies.probes import HsvRange, Probe
from policies.reflex import Rule

HEADER = (
    "# Probes and rules of one app. Regions are in pixels of the screen that 'reference' names (720x1280 where it is\n"
    "# not given); the anchor says which edge they keep their distance to on screens of another shape.\n"
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def probe_toml(name: str, probe: Probe) -> str:
    """`[probes.NAME]` with all that differs from the defaults."""
    lines = [f"[probes.{_key(name)}]", f"kind = {_value(kind_of(probe))}"]
    for field in attrs.fields(type(probe)):
        value = getattr(probe, field.name)
        if field.default is attrs.NOTHING or value != field.default:
            lines.append(f"{field.name} = {_value(value)}")
    return "\n".join(lines) + "\n"


def rule_toml(rule: Rule) -> str:
    """`[[rules]]` with all that differs from the defaults."""
    when = []
    for condition in rule.when:
        fields = {"probe": condition.probe}
        if condition.reads.value != "hit":
            fields["reads"] = condition.reads.value
        if condition.value:
            fields["value"] = condition.value  # type: ignore[assignment]
        when.append(fields)
    done = {
        f.name: getattr(rule.do, f.name) for f in attrs.fields(type(rule.do)) if getattr(rule.do, f.name) is not None
    }
    lines = ["[[rules]]", f"name = {_value(rule.name)}"]
    for key in ("priority", "cooldown_seconds", "frames", "voids_plan"):
        value = getattr(rule, key)
        if value != getattr(attrs.fields(Rule), key).default:
            lines.append(f"{key} = {_value(value)}")
    lines += [f"when = {_value(when)}", f"do = {_value(done)}"]
    return "\n".join(lines) + "\n"


def grown(source: str, addition: str, file: str) -> str:
    """A rule file's text with an addition at its end; every byte before it stays.

    Args:
        source: The file as it is; empty for a new one.
        addition: TOML tables.
        file: Its name, for messages.

    Raises:
        ScenarioError: the file is not right as it is, or would not be with the addition: nothing is to be written.
    """
    before = read_toml(source.encode(), file)
    parse_rule_file(source.encode(), file)
    start = source if source.strip() else HEADER
    text = f"{start}{'' if start.endswith(chr(10)) else chr(10)}\n{addition}"
    after = read_toml(text.encode(), file)
    parse_rule_file(text.encode(), file)
    if not _holds_all(after, before):
        raise ScenarioError([Problem("the addition would change what stands in the file", "$", file)])
    return text


def _holds_all(after: Any, before: Any) -> bool:
    if isinstance(before, dict):
        return isinstance(after, dict) and all(k in after and _holds_all(after[k], v) for k, v in before.items())
    if isinstance(before, list) and isinstance(after, list):
        return after[: len(before)] == before
    return bool(after == before)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Region():
            return _value(_region(value))
        case HsvRange():
            return _value({"low": value.low, "high": value.high})
        case str():
            # JSON's escapes are TOML's, but for DEL, which TOML wants escaped
            return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case Mapping():
            return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
        case Sequence():
            return "[" + ", ".join(_value(item) for item in value) + "]"
        case _:
            raise TypeError(f"no TOML for {type(value).__name__}")


def _region(region: Region) -> dict[str, Any]:
    fields: dict[str, Any] = {"x": region.x, "y": region.y, "width": region.width, "height": region.height}
    if region.anchor is not Anchor.STRETCH:
        fields["anchor"] = region.anchor.value
    if region.reference != (720, 1280):
        fields["reference"] = region.reference
    return fields
