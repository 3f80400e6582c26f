"""What an operator says about the vendor of cloud phones: commands that rent, reboot and return one; no scenario does.

A scenario is passed around and run by people who did not write it, so it cannot name programs; a farm's own file can.
"""

import string
from collections.abc import Mapping, Sequence

import attrs

from actors.configuration import Problem, ScenarioError, line_of, read_toml, structured

PLACES = ("address", "phone")
SCENARIO_KEYS = ("vendor", "farm")
"""What a scenario might try to say; it is refused with a reason."""
_COMMANDS = ("acquire", "reboot", "release")


@attrs.frozen
class VendorConfig:
    """Commands as lists of words, run without a shell; `{address}` and `{phone}` are filled in."""

    acquire: tuple[str, ...] = ()
    """Before a run looks for the phone; empty: nothing is to be done."""
    reboot: tuple[str, ...] = ()
    """Once a run, when the phone keeps being lost."""
    release: tuple[str, ...] = ()
    """At the end, for what was acquired."""
    timeout_seconds: float = attrs.field(default=120.0, metadata={"above": 0, "max": 3600})


@attrs.frozen
class FarmFile:
    """The file of `corral run --farm`."""

    vendor: VendorConfig


def parse_farm(source: bytes, file: str = "") -> VendorConfig:
    """Read a farm's file.

    Raises:
        ScenarioError: with every mistake, each with its line and key path.
    """
    parsed, problems = structured(read_toml(source, file), FarmFile, source=source, file=file)
    if parsed is not None:
        lines = source.decode("utf-8-sig").splitlines()
        problems = [
            Problem(message, f"$.vendor.{name}", file, line_of(lines, f"$.vendor.{name}"))
            for name in _COMMANDS
            if (message := _problem_with(getattr(parsed.vendor, name)))
        ]
    if parsed is None or problems:
        raise ScenarioError(problems)
    return parsed.vendor


def _problem_with(words: Sequence[str]) -> str | None:
    if words and not words[0].strip():
        return "the first word must be a program"
    for word in words:
        if "\0" in word:
            return f"no word of a command can have a NUL in it: {word!r}"
        try:
            names = [name for _, name, _, _ in string.Formatter().parse(word) if name is not None]
        except ValueError as error:
            return f"{word!r}: {error}; a brace itself is written twice"
        unknown = [name for name in names if name not in PLACES]
        if unknown:
            return f"{word!r}: only {{address}} and {{phone}} can be filled in, not {{{unknown[0]}}}"
    return None


def command_for(words: Sequence[str], places: Mapping[str, str]) -> tuple[str, ...]:
    """The command with its places filled in; a value is always one word, whatever is in it."""
    return tuple(word.format(**places) for word in words)


def scenario_problems(data: Mapping[str, object]) -> list[tuple[str, str]]:
    """(message, path): a scenario that names commands is told where they belong."""
    return [
        (f"{key!r} does not belong in a scenario, which must run no programs: see corral run --farm FILE", f"$.{key}")
        for key in SCENARIO_KEYS
        if key in data
    ]
