"""Values that must not be seen: a type that does not show them, and a filter for texts that they got into anyway."""

import os
import re
import threading
from collections.abc import Mapping, MutableMapping
from typing import NoReturn
from urllib.parse import quote

MASK = "***"
MIN_REDACTED_LENGTH = 4  # masking every occurrence of a shorter value would make logs unreadable, and give it away

_lock = threading.Lock()
_spellings: set[str] = set()
_pattern: re.Pattern[str] | None = None
_taken: dict[str, "Secret"] = {}  # {variable: its secret}


class SecretMissing(Exception):
    """An environment variable that should hold a secret is not set, or empty: set it and start again."""


class Secret:
    """A value that `str`, `repr`, formatting, logs and pickles do not show. Its text is redacted from then on.

    Two secrets are equal when their values are.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        _register(value)

    def reveal(self) -> str:
        """The value itself: call this only where it is handed to whoever needs it."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, format_spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied: hand over the name of its environment variable")


def secret_from_environment(name: str, environ: Mapping[str, str] | None = None) -> Secret:
    """The secret in an environment variable.

    Raises:
        SecretMissing: the variable is not set, or empty.
    """
    value = (os.environ if environ is None else environ).get(name, "")
    if not value:
        raise SecretMissing(f"environment variable {name} is not set: it must hold the secret")
    return Secret(value)


def take_from_environment(name: str, environ: MutableMapping[str, str] | None = None) -> Secret:
    """As `secret_from_environment`, and the variable is removed: processes that we start later do not inherit it.

    Asked again of our own environment, it gives the same secret, or the new one if the variable was set again. What
    the kernel shows in our own `/proc/PID/environ` is what we were started with; only our own user can read that.

    Raises:
        SecretMissing: the variable is not set, or empty, and was not taken before.
    """
    variables = os.environ if environ is None else environ
    if not variables.get(name) and environ is None and name in _taken:
        return _taken[name]
    taken = secret_from_environment(name, variables)
    del variables[name]
    if environ is None:
        _taken[name] = taken
    return taken


def is_taken(name: str) -> bool:
    """`take_from_environment` gives this one without the variable being set."""
    return name in _taken


def redact(text: str) -> str:
    """`text` with every known secret replaced by `***`, also where it is URL-quoted or escaped as in a repr."""
    pattern = _pattern
    return text if pattern is None else pattern.sub(MASK, text)


def _register(value: str) -> None:
    global _pattern  # noqa: PLW0603  # one process, one set of secrets: the log filter must know all of them
    if len(value) < MIN_REDACTED_LENGTH:
        return
    with _lock:
        if value in _spellings:
            return
        _spellings.update({value, quote(value, safe=""), repr(value)[1:-1], _as_json(value)})
        longest_first = sorted(_spellings, key=len, reverse=True)
        _pattern = re.compile("|".join(re.escape(spelling) for spelling in longest_first))


def _as_json(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
