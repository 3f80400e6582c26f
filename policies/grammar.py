"""The compact action grammar: one table makes the encoder, the decoder, and the constraints for decoding.

A chunk is 1 to 5 actions joined by `;`. Coordinates are three digits in thousandths of the screen, times are two
digits in tenths of a second, so the length of a reply is bounded: at most 16 characters for an action without text.

    T447,081            tap                 S500,800,500,300   swipe
    L447,081,08         press for 0.8 s     W03                wait 0.3 s
    B   H               back, home          K"tea"             type
    X1  X0              goal reached, goal impossible
"""

import re
from collections.abc import Sequence

import attrs

from policies.action import Finish, Key, KeyName, LongPress, PlanStep, Swipe, Tap, Text, Wait

MAX_ACTIONS = 5
MAX_TEXT_LENGTH = 32

# What each kind of field looks like: (regular expression, EBNF as xgrammar and llama.cpp both read it).
_FIELDS = {
    "point": (r"[0-9]{3},[0-9]{3}", '[0-9] [0-9] [0-9] "," [0-9] [0-9] [0-9]'),
    "tenths": (r"[0-9]{2}", "[0-9] [0-9]"),
    "flag": (r"[01]", "[01]"),
}
# letter → its fields, joined by commas. `K` stands apart because its field is quoted text.
_VERBS: dict[str, tuple[str, ...]] = {
    "T": ("point",),
    "L": ("point", "tenths"),
    "S": ("point", "point"),
    "W": ("tenths",),
    "B": (),
    "H": (),
    "X": ("flag",),
}
_TEXT_CLASS = r'[^"\\\r\n\t]'


@attrs.frozen
class Grammar:
    """Which replies are legal."""

    max_actions: int = MAX_ACTIONS
    max_text_length: int = MAX_TEXT_LENGTH
    """0 forbids typing."""


@attrs.frozen
class Parsed:
    """What a reply says, in model coordinates (thousandths)."""

    steps: tuple[PlanStep, ...]
    dropped: str = ""
    """What stood after the last whole action: the tail that a token limit cut, or words that are no action."""


@attrs.frozen
class ReplyFailure:
    """A reply that holds no action at all."""

    reason: str
    text: str
    """The reply, cut to 200 characters."""


def regex_for(grammar: Grammar) -> str:
    """The grammar as a regular expression (SGLang's `regex`)."""
    verbs = [letter + ",".join(_FIELDS[f][0] for f in fields) for letter, fields in _VERBS.items()]
    if grammar.max_text_length:
        verbs.append(f'K"{_TEXT_CLASS}{{1,{grammar.max_text_length}}}"')
    action = "(" + "|".join(verbs) + ")"
    return action if grammar.max_actions == 1 else f"{action}(;{action}){{0,{grammar.max_actions - 1}}}"


def ebnf_for(grammar: Grammar) -> str:
    """The same language as EBNF. It is also valid GBNF: both notations agree on all that is used here."""
    verbs = []
    for letter, fields in _VERBS.items():
        parts = [f'"{letter}"']
        for position, field in enumerate(fields):
            if position:
                parts.append('","')
            parts.append(_FIELDS[field][1])
        verbs.append(" ".join(parts))
    if grammar.max_text_length:
        verbs.append(f'"K\\"" {_TEXT_CLASS}{{1,{grammar.max_text_length}}} "\\""')
    tail = f' (";" action){{0,{grammar.max_actions - 1}}}' if grammar.max_actions > 1 else ""
    return f"root ::= action{tail}\naction ::= " + " | ".join(verbs) + "\n"


def max_length(grammar: Grammar) -> int:
    """Characters of the longest legal reply, which bounds its tokens too."""
    longest = max(len("S000,000,000,000"), 3 + grammar.max_text_length if grammar.max_text_length else 0)
    return grammar.max_actions * (longest + 1) - 1


def encode(steps: Sequence[PlanStep]) -> str:
    """Write steps in model coordinates as a reply.

    Raises:
        ValueError: a step that the grammar cannot say: a point outside 0..999, a time over 9.9 s, a text with a
            quote, or a kind of action that has no letter.
    """
    return ";".join(_encode_step(step) for step in steps)


def _encode_step(step: PlanStep) -> str:
    match step:
        case Tap(x, y):
            return f"T{_point(x, y)}"
        case LongPress(x, y, seconds):
            return f"L{_point(x, y)},{_tenths(seconds)}"
        case Swipe(x, y, to_x, to_y):
            return f"S{_point(x, y)},{_point(to_x, to_y)}"
        case Wait(seconds):
            return f"W{_tenths(seconds)}"
        case Key(KeyName.BACK):
            return "B"
        case Key(KeyName.HOME):
            return "H"
        case Text(text) if re.fullmatch(_TEXT_CLASS + "+", text):
            return f'K"{text}"'
        case Finish(success):
            return f"X{int(success)}"
        case _:
            raise ValueError(f"the compact grammar cannot say {step}")


def _point(x: int, y: int) -> str:
    if not (0 <= x <= 999 and 0 <= y <= 999):
        raise ValueError(f"({x}, {y}) is outside 0..999")
    return f"{x:03d},{y:03d}"


def _tenths(seconds: float) -> str:
    tenths = round(seconds * 10)
    if not 0 <= tenths <= 99:
        raise ValueError(f"{seconds} s is outside 0..9.9 s")
    return f"{tenths:02d}"


# What the decoder takes is a little wider than what the constraint lets through: blanks, and numbers of one to four
# digits, as models without a grammar write them. A point outside 0..999 is kept, to be refused as off the screen.
_ACTION = re.compile(
    r"""\s*(?:
      T\s*(?P<tx>\d{1,4})\s*,\s*(?P<ty>\d{1,4})
    | L\s*(?P<lx>\d{1,4})\s*,\s*(?P<ly>\d{1,4})\s*,\s*(?P<lt>\d{1,2})
    | S\s*(?P<sx>\d{1,4})\s*,\s*(?P<sy>\d{1,4})\s*,\s*(?P<su>\d{1,4})\s*,\s*(?P<sv>\d{1,4})
    | W\s*(?P<wt>\d{1,2})
    | X\s*(?P<xf>[01])
    | K\s*"(?P<kt>[^"\\\r\n\t]{1,200})"
    | (?P<b>B) | (?P<h>H)
    )(?=\s*(?:;|$)|[\s`<.])""",
    re.VERBOSE,
)
_SEPARATOR = re.compile(r"\s*;")
_FIRST = re.compile(r"(?:^|(?<=[\s`:>]))(?=[TLSWXKBH]\s*[\d\"]|[BH]\s*(?:;|$))")
SWIPE_SECONDS = 0.2  # the grammar has no field for it; long enough for every launcher, short enough for a flick


def decode(text: str, grammar: Grammar, *, cut: bool = False) -> Parsed | ReplyFailure:
    """Read a reply: the actions from the first one on, up to what is no action any more.

    At most `grammar.max_actions` are returned; the rest counts as dropped. Of a reply that a token limit `cut`,
    the last action is dropped unless a `;` ends it: `T447,08` may have been on its way to `T447,081`.
    """
    start = _FIRST.search(text)
    if start is None:
        return ReplyFailure("no action in the reply", text[:200])
    steps: list[PlanStep] = []
    position = start.end()
    while len(steps) < grammar.max_actions:
        match = _ACTION.match(text, position)
        if match is None:
            break
        separator = _SEPARATOR.match(text, match.end())
        if cut and separator is None and match.end() == len(text):
            break
        steps.append(_step_for(match))
        position = match.end()
        if separator is None:
            break
        position = separator.end()
    if not steps:
        return ReplyFailure("no whole action in the reply", text[:200])
    return Parsed(tuple(steps), text[position:].strip())


def _step_for(match: "re.Match[str]") -> PlanStep:
    group = match.groupdict()

    def number(name: str) -> int:
        return int(group[name])

    if group["tx"] is not None:
        return Tap(number("tx"), number("ty"))
    if group["lx"] is not None:
        return LongPress(number("lx"), number("ly"), number("lt") / 10)
    if group["sx"] is not None:
        return Swipe(number("sx"), number("sy"), number("su"), number("sv"), SWIPE_SECONDS)
    if group["wt"] is not None:
        return Wait(number("wt") / 10)
    if group["xf"] is not None:
        return Finish(group["xf"] == "1")
    if group["kt"] is not None:
        return Text(group["kt"])
    return Key(KeyName.BACK if group["b"] is not None else KeyName.HOME)
