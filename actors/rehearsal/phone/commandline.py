"""The part of a phone's shell language that drivers use: quotes, `;` `&&` `||`, pipes, and output redirection.

What is not understood (variables other than `$?`, loops, globs, background jobs) is refused with an error as `sh`
would print it, never guessed at.
"""

from enum import Enum

import attrs


class ShellSyntaxError(Exception):
    """The command line is outside the language that this phone's shell speaks."""


class Run(Enum):
    """When a pipeline runs, given the exit code of the one before."""

    ALWAYS = ";"
    IF_SUCCEEDED = "&&"
    IF_FAILED = "||"


@attrs.frozen
class Command:
    """One program with its arguments."""

    argv: tuple[str, ...]
    """`$?` stands as LAST_EXIT_CODE inside, to be replaced when the command runs."""
    stdout: str | None = None
    """File to write to, or None; `&2` joins it to the errors."""
    append: bool = False
    stderr: str | None = None
    """File to write errors to; `&1` joins them to the output."""


@attrs.frozen
class Pipeline:
    """Commands of which each reads what the one before printed."""

    run: Run
    commands: tuple[Command, ...]


LAST_EXIT_CODE = "\0?"
_OPERATORS = ("&&", "||", "2>>", "2>&1", ">&2", "1>&2", "1>", "2>", ">>", ">", ";", "|", "\n")
_REFUSED = {"&": "background jobs", "<": "input redirection", "(": "subshells", "`": "command substitution"}


def parse_script(text: str) -> tuple[Pipeline, ...]:
    """The pipelines of a command line, in order.

    Raises:
        ShellSyntaxError: an open quote, a missing command, or something that this shell does not speak.
    """
    pipelines: list[Pipeline] = []
    commands: list[Command] = []
    words: list[str] = []
    redirect: dict[str, str | bool] = {}
    run = Run.ALWAYS
    tokens = _tokens(text)
    tokens.append((True, ";"))
    position = 0

    def end_command(operator: str) -> None:
        nonlocal words, redirect
        if not words:
            raise ShellSyntaxError(f"syntax error: unexpected '{operator}'")
        commands.append(Command(tuple(words), **redirect))  # type: ignore[arg-type]
        words, redirect = [], {}

    while position < len(tokens):
        is_operator, token = tokens[position]
        position += 1
        if not is_operator:
            words.append(token)
        elif token == "2>&1":  # noqa: S105  an operator, not a password
            redirect["stderr"] = "&1"
        elif token.endswith(">&2"):
            redirect["stdout"] = "&2"
        elif ">" in token:
            if position >= len(tokens) or tokens[position][0]:
                raise ShellSyntaxError(f"syntax error: no file after '{token}'")
            redirect["stderr" if token.startswith("2") else "stdout"] = tokens[position][1]
            if token == ">>":  # noqa: S105
                redirect["append"] = True
            position += 1
        elif token == "|":  # noqa: S105
            end_command(token)
        else:
            if token in (";", "\n") and not words and not commands:
                continue
            end_command(token)
            pipelines.append(Pipeline(run, tuple(commands)))
            commands = []
            run = Run(token) if token in ("&&", "||") else Run.ALWAYS
    if run is not Run.ALWAYS:
        raise ShellSyntaxError(f"syntax error: nothing after '{run.value}'")
    return tuple(pipelines)


def _tokens(text: str) -> list[tuple[bool, str]]:
    """[(is an operator, text)], quotes taken away."""
    tokens: list[tuple[bool, str]] = []
    word: str | None = None
    position = 0
    while position < len(text):
        char = text[position]
        operator = None
        if word is None or not word.isdigit() or char in ";|&\n":
            operator = next((op for op in _OPERATORS if text.startswith(op, position)), None)
        if operator is not None and operator[0].isdigit() and word is not None:
            operator = None  # the digit belongs to the word, as in `x2>f`
        if char in " \t" or operator is not None:
            if word is not None:
                tokens.append((False, word))
                word = None
            if operator is None:
                position += 1
            else:
                tokens.append((True, operator))
                position += len(operator)
            continue
        if char in _REFUSED:
            raise ShellSyntaxError(f"syntax error: {_REFUSED[char]} ('{char}') are not simulated")
        piece, position = _piece(text, position)
        word = (word or "") + piece
    if word is not None:
        tokens.append((False, word))
    return tokens


def _piece(text: str, position: int) -> tuple[str, int]:
    """The quoted run, escape, `$?` or single character at `position`, and where it ends."""
    char = text[position]
    if char == "'":
        end = text.find("'", position + 1)
        if end < 0:
            raise ShellSyntaxError("syntax error: no closing quote")
        return text[position + 1 : end], end + 1
    if char == '"':
        out = ""
        position += 1
        while position < len(text) and text[position] != '"':
            if text[position] == "\\" and text[position + 1 : position + 2] in ('"', "\\", "$", "`"):
                out += text[position + 1]
                position += 2
            elif text[position] == "$":
                piece, position = _dollar(text, position)
                out += piece
            else:
                out += text[position]
                position += 1
        if position >= len(text):
            raise ShellSyntaxError("syntax error: no closing quote")
        return out, position + 1
    if char == "\\":
        return text[position + 1 : position + 2], position + 2
    if char == "$":
        return _dollar(text, position)
    return char, position + 1


def _dollar(text: str, position: int) -> tuple[str, int]:
    following = text[position + 1 : position + 2]
    if following == "?":
        return LAST_EXIT_CODE, position + 2
    if following.isalnum() or following in ("{", "(", "_"):
        raise ShellSyntaxError(f"syntax error: '${following}' is not simulated")
    return "$", position + 1
