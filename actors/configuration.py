"""TOML → frozen attrs values, exactly: every mistake at once, each with file, line and key path.

Field metadata says what values are legal: `{"min": 0, "max": 1, "pattern": "..."}`. Types are exact: `"9"` is no
number, `true` is no integer, but an integer is a float. Unknown keys name the nearest known one.
"""

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from enum import StrEnum
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, override

T = TypeVar("T")

MAX_INTEGER = 2**53  # beyond it a float no longer counts by ones, and every number here is a count or a size


@attrs.frozen
class Problem:
    """One mistake in a configuration file."""

    message: str
    path: str
    """`$.engines[0].gpu`."""
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part)
        return f"{place}: {self.message} @ {self.path}" if place else f"{self.message} @ {self.path}"


class ScenarioError(Exception):
    """A file that a person wrote is wrong. `problems` holds every mistake that was found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def read_toml(source: bytes, file: str = "") -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ScenarioError: not UTF-8, not TOML, or nested too deep; the parser's own line and column are kept.
    """
    try:
        return tomllib.loads(source.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ScenarioError([Problem(f"not UTF-8 at byte {error.start}", "$", file)]) from error
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"at line (\d+)", str(error))
        line = int(where.group(1)) if where else None
        raise ScenarioError([Problem(f"not TOML: {error}", "$", file, line)]) from error
    except RecursionError as error:
        raise ScenarioError([Problem("nested too deep to be read: no value needs that", "$", file)]) from error


def structured(
    data: Mapping[str, Any], cls: type[T], *, source: bytes = b"", file: str = "", at: str = "$"
) -> tuple[T | None, list[Problem]]:
    """Make a value of parsed TOML.

    Args:
        data: The parsed table.
        cls: The attrs class to make.
        source: The file's text, for line numbers.
        file: Its name, for messages.
        at: Where `data` stands in the file.

    Returns:
        The value, or None; and every mistake found.
    """
    try:
        return _CONVERTER.structure(data, cls), []
    except Exception as error:  # noqa: BLE001  # whatever a hook raises on bad data becomes a line for the author
        found = list(_problems(error, at))
    lines = source.decode("utf-8-sig", "replace").splitlines()
    return None, [Problem(message, path, file, line_of(lines, path)) for message, path in found]


def _problems(error: BaseException, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(error, ClassValidationError):
        with_notes, without = error.group_exceptions()
        for child, note in with_notes:
            yield from _problems(child, f"{path}.{note.name}")
        for child in without:
            yield from _problems(child, path)
    elif isinstance(error, IterableValidationError):
        with_index, without_index = error.group_exceptions()
        for child, place in with_index:
            key = f"[{place.index}]" if isinstance(place.index, int) else f".{place.index}"
            yield from _problems(child, f"{path}{key}")
        for child in without_index:
            yield from _problems(child, path)
    elif isinstance(error, ForbiddenExtraKeysError):
        known = [a.name for a in attrs.fields(error.cl)]
        for key in sorted(error.extra_fields):
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f", did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(sorted(known))}"
            yield f"unknown key {key!r}{hint}", f"{path}.{key}"
    elif isinstance(error, KeyError):
        yield f"missing key {error.args[0]!r}", path.removesuffix(f".{error.args[0]}")
    elif isinstance(error, _Unfit):
        name = path.rsplit(".", 1)[-1]
        yield f"{name!r} {error}", path
    else:
        yield str(error).splitlines()[0] if str(error) else type(error).__name__, path


class _Unfit(ValueError):
    """A value of the wrong type or outside its limits; the text goes on after the key's name."""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _exact(kinds: tuple[type, ...], name: str, convert: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def hook(value: Any, _: Any) -> Any:
        wrong_bool = isinstance(value, bool) and bool not in kinds
        if wrong_bool or not isinstance(value, kinds):
            raise _Unfit(f"must be {name}: {_shown(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise _Unfit(f"must be a finite number: {value}")
        if isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise _Unfit(f"is too large: {_shown(value)}")
        return convert(value)

    return hook


def _enum_hook(value: Any, cls: type[StrEnum]) -> StrEnum:
    try:
        return cls(value)
    except ValueError:
        legal = [str(member.value) for member in cls]
        near = difflib.get_close_matches(str(value), legal, n=1, cutoff=0.5)
        hint = f", did you mean {near[0]!r}?" if near else ""
        raise _Unfit(f"must be one of {', '.join(legal)}: {_shown(value)}{hint}") from None


def _checked(check: Mapping[str, Any], inner: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def hook(value: Any, kind: Any) -> Any:
        made = inner(value, kind)
        if made is None:
            return made
        if "min" in check and not made >= check["min"]:
            raise _Unfit(f"must be >= {check['min']}: {_shown(made)}")
        if "max" in check and not made <= check["max"]:
            raise _Unfit(f"must be <= {check['max']}: {_shown(made)}")
        if "above" in check and not made > check["above"]:
            raise _Unfit(f"must be > {check['above']}: {_shown(made)}")
        if "pattern" in check and not re.fullmatch(check["pattern"], made):
            raise _Unfit(f"must be {check.get('means', 'like ' + check['pattern'])}: {_shown(made)}")
        if "each_min" in check and not all(check["each_min"] <= one <= check["each_max"] for one in made):
            raise _Unfit(f"must hold numbers of {check['each_min']} to {check['each_max']}: {_shown(made)}")
        if check.get("nonempty") and not made:
            raise _Unfit("must not be empty")
        return made

    return hook


def _attrs_hook_factory(cls: Any) -> Callable[[Any, Any], Any]:
    attrs.resolve_types(cls)
    overrides: dict[str, Any] = {
        field.name: override(struct_hook=_checked(field.metadata, _CONVERTER.structure))
        for field in attrs.fields(cls)
        if field.metadata
    }
    skipped = {field.name: override(omit=True) for field in attrs.fields(cls) if field.name.startswith("_")}
    inner = make_dict_structure_fn(
        cls,
        _CONVERTER,
        _cattrs_forbid_extra_keys=True,
        _cattrs_detailed_validation=True,
        **{**overrides, **skipped},
    )

    def hook(value: Any, kind: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _Unfit(f"must be a table: {_shown(value)}")
        return inner(dict(value), kind)

    return hook


def _tuple_hook_factory(kind: Any) -> Callable[[Any, Any], Any]:
    """`tuple[X, ...]` and `tuple[X, Y]` of a list; cattrs itself would take a string for a list of characters."""
    arguments = get_args(kind)
    is_open = len(arguments) == 2 and arguments[1] is Ellipsis

    def hook(value: Any, _: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _Unfit(f"must be a list: {_shown(value)}")
        if not is_open and len(value) != len(arguments):
            raise _Unfit(f"must be a list of {len(arguments)}: {_shown(value)}")
        kinds = [arguments[0]] * len(value) if is_open else arguments
        made, errors = [], []
        for index, (element, element_kind) in enumerate(zip(value, kinds, strict=True)):
            try:
                made.append(_CONVERTER.structure(element, element_kind))
            except Exception as error:  # noqa: BLE001  # collected, to report all at once
                errors.append(_noted(error, index, element_kind))
        if errors:
            raise IterableValidationError("elements", errors, tuple)  # pyright: ignore[reportCallIssue]  # its stub hides the class argument
        return tuple(made)

    return hook


def _mapping_hook_factory(kind: Any) -> Callable[[Any, Any], Any]:
    _, value_kind = get_args(kind)

    def hook(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _Unfit(f"must be a table: {_shown(value)}")
        made, errors = {}, []
        for key, element in value.items():
            try:
                made[key] = _CONVERTER.structure(element, value_kind)
            except Exception as error:  # noqa: BLE001  # collected, to report all at once
                errors.append(_noted(error, key, value_kind))
        if errors:
            raise IterableValidationError("entries", errors, dict)  # pyright: ignore[reportCallIssue]
        return made

    return hook


def _noted(error: Exception, index: int | str, kind: Any) -> Exception:
    error.add_note(IterableValidationNote(f"at {index!r}", index, kind))
    return error


def register_tagged_union(union: Any, kinds: Mapping[str, type], *, tag: str = "kind") -> None:
    """Make a union readable from a table whose `tag` key names the member.

    Args:
        union: `A | B`.
        kinds: Value of the tag → class.
        tag: The key.
    """
    members = set(get_args(union))

    def matches(kind: Any) -> bool:
        return set(get_args(kind)) - {type(None)} == members and get_origin(kind) in (Union, UnionType)

    def hook(value: Any, _: Any) -> Any:
        if value is None:  # of a union with None; TOML itself has no null
            return None
        if not isinstance(value, Mapping):
            raise _Unfit(f"must be a table: {_shown(value)}")
        name = value.get(tag)
        if not isinstance(name, str) or name not in kinds:
            near = difflib.get_close_matches(str(name), list(kinds), n=1, cutoff=0.5)
            hint = f", did you mean {near[0]!r}?" if near else ""
            given = f": {_shown(name)}" if tag in value else ""
            raise _Unfit(f"needs {tag} = one of {', '.join(kinds)}{given}{hint}")
        return _CONVERTER.structure({k: v for k, v in value.items() if k != tag}, kinds[name])

    _CONVERTER.register_structure_hook_func(matches, hook)


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=True, forbid_extra_keys=True)
    converter.register_structure_hook(int, _exact((int,), "an integer", int))
    converter.register_structure_hook(float, _exact((int, float), "a number", float))
    converter.register_structure_hook(bool, _exact((bool,), "true or false", bool))
    converter.register_structure_hook(str, _exact((str,), "a text", str))
    converter.register_structure_hook(StrEnum, _enum_hook)  # else taken for a text
    converter.register_structure_hook_func(_is_id, lambda value, _: _exact((str,), "a text", str)(value, str))
    converter.register_structure_hook_factory(attrs.has, _attrs_hook_factory)
    converter.register_structure_hook_factory(_is_tuple, _tuple_hook_factory)
    converter.register_structure_hook_factory(_is_mapping, _mapping_hook_factory)
    return converter


def _is_tuple(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is tuple


def _is_mapping(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin in (dict, Mapping)


def _is_id(kind: Any) -> bool:
    return getattr(kind, "__supertype__", None) is str


def without(data: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """A copy of parsed TOML that lacks what stands at some key paths; what is no key of a table stays."""
    copy: dict[str, Any] = deepcopy(dict(data))
    for path in paths:
        place: Any = copy
        *way, last = _path_parts(path) or [""]
        for step in way:
            try:
                place = place[step]
            except (KeyError, IndexError, TypeError):
                place = None
                break
        if isinstance(place, dict) and way:  # a whole section is never left out
            place.pop(last, None)
    return copy


def line_of(lines: Sequence[str], path: str) -> int | None:
    """The line, from 1, on which a key path is set, as far as table headers and plain keys tell; else its table's."""
    wanted = _path_parts(path)
    counts: dict[tuple[str, ...], int] = {}
    table: tuple[str | int, ...] = ()
    best: tuple[int, int] | None = None  # (matched parts, line)
    for number, line in enumerate(lines, start=1):
        header = re.match(r"\s*\[(\[)?\s*([^\]]+?)\s*\]", line)
        if header and not re.match(r"\s*\[[^\]]*=", line):
            names = tuple(name.strip().strip("\"'") for name in header.group(2).split("."))
            table = _indexed(names, counts, is_array=bool(header.group(1)))
            key: tuple[str | int, ...] = table
        else:
            assignment = re.match(r"\s*([A-Za-z0-9_.\"'-]+)\s*=", line)
            if not assignment:
                continue
            key = table + tuple(part.strip("\"'") for part in assignment.group(1).split("."))
        if key and tuple(wanted[: len(key)]) == key and (best is None or len(key) > best[0]):
            best = (len(key), number)
    return best[1] if best else None


def _indexed(names: tuple[str, ...], counts: dict[tuple[str, ...], int], *, is_array: bool) -> tuple[str | int, ...]:
    """A header's names with the present index behind each array of tables."""
    if is_array:
        counts[names] = counts.get(names, -1) + 1
        for inner in [n for n in counts if n[: len(names)] == names and n != names]:
            del counts[inner]
    parts: list[str | int] = []
    for depth, name in enumerate(names, start=1):
        parts.append(name)
        if names[:depth] in counts:
            parts.append(counts[names[:depth]])
    return tuple(parts)


def _path_parts(path: str) -> list[str | int]:
    parts: list[str | int] = []
    for name, index in re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", path):
        parts.append(name or int(index))
    return parts


_CONVERTER = _make_converter()
