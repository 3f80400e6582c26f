"""Which flags an installed engine has, from its own `--help`."""

import re

import attrs

_DEFINITION = re.compile(r"^ {1,8}(-{1,2}[A-Za-z].*)$")  # argparse indents an option by two, and its help by 24
_FLAG = re.compile(r"(?:^|, )(-{1,2}[A-Za-z0-9][\w-]*)")
_CHOICES = re.compile(r"\{([^{}]*)\}")


@attrs.frozen
class EngineOptions:
    """The flags of one engine."""

    choices: dict[str, frozenset[str] | None]
    """Flag → the values it takes; None: any, or none at all."""

    def lacks(self, name: str, value: str | None = None) -> str | None:
        """Why the engine does not take the flag with that value; None where it does."""
        if name not in self.choices:
            return f"this engine has no {name}"
        known = self.choices[name]
        if value is not None and known is not None and value not in known:
            return f"this engine's {name} does not take {value!r}, but {', '.join(sorted(known))}"
        return None


def parse_options(help_text: str) -> EngineOptions:
    """Read a help text as argparse prints it: only lines that define an option count, not what is said about others."""
    choices: dict[str, frozenset[str] | None] = {}
    for line in help_text.splitlines():
        definition = _DEFINITION.match(line)
        if definition is None:
            continue
        signature = re.split(r"\s{2,}", definition.group(1))[0]
        listed = _CHOICES.search(signature)
        values = None if listed is None else frozenset(listed.group(1).split(","))
        for name in _FLAG.findall(_CHOICES.sub("", signature)):
            choices[name] = values
    return EngineOptions(choices)
