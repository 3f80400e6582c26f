"""Draws random strings from a grammar's text, as EBNF and GBNF read it: a second opinion about what the text says."""

import random
import re
from collections.abc import Callable

Draw = Callable[[random.Random], str]
_TOKEN = re.compile(
    r"""\s+ | (?P<define>[A-Za-z]\w*\s*::=) | (?P<name>[A-Za-z]\w*) | "(?P<text>(?:[^"\\]|\\.)*)"
    | \[(?P<class>(?:[^\]\\]|\\.)+)\] | (?P<mark>[()|?]) | \{(?P<low>\d+),(?P<high>\d+)\}""",
    re.VERBOSE,
)
_ODD = 'abcXYZ019 _-%.,;:!?()/*#@`"=<>üß中文😀\u200b--/*'


class Sampler:
    """A parsed grammar."""

    def __init__(self, text: str) -> None:
        self._rules: dict[str, Draw] = {}
        position, name = 0, ""
        tokens: list[re.Match[str]] = []
        while position < len(text):
            match = _TOKEN.match(text, position)
            assert match, f"not EBNF: {text[position : position + 40]!r}"
            position = match.end()
            if match["define"]:
                if name:
                    self._rules[name] = self._choice(tokens)
                name, tokens = match["define"].removesuffix("::=").strip(), []
            elif match.group().strip():
                tokens.append(match)
        self._rules[name] = self._choice(tokens)

    def draw(self, source: random.Random, rule: str = "root") -> str:
        """One string."""
        return self._rules[rule](source)

    def _choice(self, tokens: "list[re.Match[str]]") -> Draw:
        options = [self._sequence(tokens)]
        while tokens and tokens[0]["mark"] == "|":
            tokens.pop(0)
            options.append(self._sequence(tokens))
        return lambda source: source.choice(options)(source)

    def _sequence(self, tokens: "list[re.Match[str]]") -> Draw:
        parts: list[Draw] = []
        while tokens and tokens[0]["mark"] not in ("|", ")"):
            token = tokens.pop(0)
            part = self._single(token, tokens)
            if tokens and tokens[0]["mark"] == "?":
                tokens.pop(0)
                part = _repeated(part, 0, 1)
            elif tokens and tokens[0]["low"]:
                bounds = tokens.pop(0)
                part = _repeated(part, int(bounds["low"]), int(bounds["high"]))
            parts.append(part)
        return lambda source: "".join(part(source) for part in parts)

    def _single(self, token: "re.Match[str]", tokens: "list[re.Match[str]]") -> Draw:
        if token["name"]:
            name = token["name"]
            return lambda source: self.draw(source, name)
        if token["text"] is not None:
            text = re.sub(r"\\(.)", r"\1", token["text"])
            return lambda _: text
        if token["class"]:
            letters = _letters(token["class"])
            return lambda source: source.choice(letters)
        assert token["mark"] == "(", token
        inner = self._choice(tokens)
        assert tokens.pop(0)["mark"] == ")"
        return inner


def _repeated(part: Draw, low: int, high: int) -> Draw:
    return lambda source: "".join(part(source) for _ in range(source.randint(low, high)))


def _letters(body: str) -> list[str]:
    pattern = re.compile(f"[{body}]")
    if not body.startswith("^"):
        return [chr(code) for code in range(32, 127) if pattern.fullmatch(chr(code))]
    candidates = [*_ODD, *(chr(code) for code in range(256))]
    return [letter for letter in candidates if pattern.fullmatch(letter)]
