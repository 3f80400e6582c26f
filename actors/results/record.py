"""The lossless record of an episode: one JSON line a step, versioned, so that decisions can be made again.

`steps.jsonl` starts with a header line, then one line a step with what went in and what came out. A line that a crash
cut short is the end of the record.
"""

import json
import math
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from policies.action import Action
from policies.perception import Percept
from policies.planner import PlanFailed, PlanReply, PlanRequest
from policies.probes import Probe, Reading
from policies.step import EpisodeSettings, StepInput, StepOutput
from policies.thumbnail import Thumbnail, decode_thumbnail, encode_thumbnail

VERSION = 1


class RecordUnreadable(Exception):
    """A record that cannot be replayed; the text says which line and why."""


@attrs.frozen
class Header:
    """The first line: whose record it is, and all that its decisions depend on."""

    version: int
    episode: str
    phone: str
    app: str
    seed: int
    policy: str
    """`episode` or `random`."""
    settings: EpisodeSettings
    probes: dict[str, Probe] = attrs.field(factory=dict)
    """So that a replay can run perception again on recorded pixels."""


@attrs.frozen
class RecordedStep:
    """One later line."""

    given: StepInput
    output: dict[str, Any]
    """Encoded, for comparison with an encoded output of a replay."""
    png: str | None = None
    """SHA-256 of the frame's PNG, where pixels were recorded."""


def _tagged(name: str, plain: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {"type": name, **plain(value)}


def _tag_members(converter: cattrs.Converter, union: Any) -> None:
    """Write each member with its class's name under `type`, wherever it stands, and read unions of them by it."""
    members = {member.__name__: member for member in get_args(union)}
    for name, member in members.items():
        plain = make_dict_unstructure_fn(member, converter, _cattrs_omit_if_default=True)
        converter.register_unstructure_hook(member, _tagged(name, plain))

    def matches(kind: Any) -> bool:
        return set(get_args(kind)) - {type(None)} == set(members.values()) and get_origin(kind) in (Union, UnionType)

    def read(value: Any, _: Any) -> Any:
        if value is None:
            return None
        return converter.structure({k: v for k, v in value.items() if k != "type"}, members[value["type"]])

    converter.register_structure_hook_func(matches, read)
    # by the value's own class: a union says nothing about which member it is
    converter.register_unstructure_hook_func(matches, converter.unstructure)


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(omit_if_default=True, forbid_extra_keys=True)
    for union in (Action, PlanReply | PlanFailed, Probe):
        _tag_members(converter, union)
    converter.register_unstructure_hook(Thumbnail, encode_thumbnail)
    converter.register_structure_hook(Thumbnail, lambda text, _: decode_thumbnail(text))

    def reading_out(reading: Reading) -> list[Any]:
        value = None if math.isnan(reading.value) else reading.value
        if reading.text is None and not reading.age_seconds:
            return [value, reading.hit, *(reading.at or ())]
        return [value, reading.hit, *(reading.at or (None, None)), reading.text, reading.age_seconds]

    def reading_in(parts: list[Any], _: Any) -> Reading:
        """[value, hit], then x and y, then a slow probe's text and age: each pair only where there is something."""
        whole = parts + [None] * (6 - len(parts))
        value, hit, x, y, text, age = whole
        return Reading(math.nan if value is None else value, hit, None if x is None else (x, y), text, age or 0.0)

    converter.register_unstructure_hook(Reading, reading_out)
    converter.register_structure_hook(Reading, reading_in)
    # a request's frame is the step's own percept or one of an earlier step: its number says which
    converter.register_unstructure_hook(
        PlanRequest,
        make_dict_unstructure_fn(
            PlanRequest,
            converter,
            current=override(unstruct_hook=lambda percept: percept.seq),
            turns=override(unstruct_hook=lambda turns: [attrs.asdict(turn) for turn in turns]),
        ),
    )
    converter.register_structure_hook(Percept, make_dict_structure_fn(Percept, converter))
    return converter


_CONVERTER = _make_converter()


def encode_header(header: Header) -> str:
    """The header as one line without its line end."""
    return json.dumps(_CONVERTER.unstructure(header), ensure_ascii=False, separators=(",", ":"))


def encode_output(output: StepOutput) -> dict[str, Any]:
    """An output as JSON values: equal outputs give equal values, whether made now or read back."""
    encoded: dict[str, Any] = json.loads(json.dumps(_CONVERTER.unstructure(output)))
    return encoded


def encode_percept(percept: Percept) -> dict[str, Any]:
    """A percept as JSON values: equal percepts give equal values, whether made now or read back."""
    encoded: dict[str, Any] = json.loads(json.dumps(_CONVERTER.unstructure(percept)))
    return encoded


def encode_step(given: StepInput, output: StepOutput, png: str | None = None) -> str:
    """A step as one line without its line end."""
    line: dict[str, Any] = {"in": _CONVERTER.unstructure(given), "out": _CONVERTER.unstructure(output)}
    if png is not None:
        line["png"] = png
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


def decode_header(line: str) -> Header:
    """The inverse of `encode_header`.

    Raises:
        RecordUnreadable: not a header, or of a version that this program does not know.
    """
    try:
        data = json.loads(line)
        version = data["version"]
        header = _CONVERTER.structure(data, Header) if version == VERSION else None
    except Exception as error:
        raise RecordUnreadable(f"line 1: not a record's header: {type(error).__name__}: {error}") from error
    if header is None:
        raise RecordUnreadable(f"line 1: record version {version!r}; this program reads {VERSION}")
    return header


def decode_steps(lines: Iterator[str]) -> Iterator[RecordedStep]:
    """The steps of the lines after the header. A last line that is not whole ends them; another one is an error.

    Raises:
        RecordUnreadable: names the line.
    """
    broken: str | None = None
    for number, line in enumerate(lines, start=2):
        if broken is not None:
            raise RecordUnreadable(broken)
        try:
            data = json.loads(line)
            step = RecordedStep(_CONVERTER.structure(data["in"], StepInput), data["out"], data.get("png"))
        except Exception as error:  # noqa: BLE001  # whatever is wrong, the next line decides whether it matters
            broken = f"line {number}: not a step: {type(error).__name__}: {str(error)[:200]}"
            continue
        yield step
