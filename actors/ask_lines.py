"""What a person types at the prompt of `corral ask`: a question, a number, or a command."""

from collections.abc import Sequence

import attrs

from actors.ask_view import Choice
from sqlassist.messages import Question, Verb
from sqlassist.protocol import MAX_SQL, MAX_TEXT

HELP = """\
A question in English or Chinese, or a number to choose.
  \\fix SQL        mend a statement; with --  at its end, what is wrong with it
  \\explain [SQL]  say what a statement, or the last answer, does
  \\review TEXT    have somebody look at the last answer
  \\think on|off|auto   whether a model is to think before it answers
  \\history        what was asked before
  \\help, \\quit
Ctrl-C cancels the question that runs; Ctrl-D leaves."""


@attrs.frozen
class ReviewLine:
    """Have the answer to `of` looked at."""

    of: str
    text: str


@attrs.frozen
class ThinkLine:
    """From now on."""

    think: bool | None


@attrs.frozen
class HistoryLine:
    """Show what was asked."""


@attrs.frozen
class HelpLine:
    """Show what can be typed."""


@attrs.frozen
class QuitLine:
    """Leave."""


@attrs.frozen
class WrongLine:
    """What was typed cannot be done."""

    message: str


Line = Question | ReviewLine | ThinkLine | HistoryLine | HelpLine | QuitLine | WrongLine
_THINK = {"on": True, "off": False, "auto": None}


def typed(text: str) -> str:
    """What was typed, as UTF-8 whatever the locale is; bytes that are none become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def parse_line(
    text: str, new_id: str, *, last: str = "", choices: Sequence[Choice] = (), think: bool | None = None
) -> Line | None:
    """Read a line; None where it is empty.

    Args:
        text: What was typed.
        new_id: Of the question, if it is one.
        last: The id of the question before; empty: there was none.
        choices: What that one gave to choose from.
        think: What the think command said.
    """
    text = text.strip()
    if not text:
        return None
    if text.isdecimal() and choices:
        number = int(text) if len(text) < 4 else 0
        if 1 <= number <= len(choices):
            return Question(new_id, verb=Verb.CHOOSE, of=last, choice=choices[number - 1].id)
        return WrongLine(f"choose 1 to {len(choices)}, or ask something else")
    if not text.startswith("\\"):
        if len(text) > MAX_TEXT:
            return WrongLine(f"a question has at most {MAX_TEXT} characters, not {len(text)}")
        return Question(new_id, text, think=think)
    command, _, rest = text[1:].partition(" ")
    return _command(command, rest.strip(), new_id, last)


def _command(command: str, rest: str, new_id: str, last: str) -> Line:
    match command:
        case "fix" | "explain" if len(rest) > MAX_SQL:
            return WrongLine(f"a statement has at most {MAX_SQL} characters, not {len(rest)}")
        case "fix":
            sql, _, complaint = rest.partition("--")
            if not sql.strip():
                return WrongLine("\\fix needs the statement: \\fix SELECT ... -- what is wrong with it")
            return Question(new_id, complaint.strip()[:MAX_TEXT], Verb.FIX, sql=sql.strip())
        case "explain":
            if rest:
                return Question(new_id, verb=Verb.EXPLAIN, sql=rest)
            return Question(new_id, verb=Verb.EXPLAIN, of=last) if last else WrongLine("nothing was answered yet")
        case "review":
            return ReviewLine(last, rest[:MAX_TEXT]) if last else WrongLine("nothing was answered yet")
        case "think" if rest in _THINK:
            return ThinkLine(_THINK[rest])
        case "history":
            return HistoryLine()
        case "help":
            return HelpLine()
        case "quit" | "q" | "exit":
            return QuitLine()
        case _:
            return WrongLine(f"\\{command[:20]} {rest[:20]}".rstrip() + " is not known: \\help")
