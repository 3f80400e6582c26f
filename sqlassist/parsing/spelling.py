"""One slip of the finger in a long English word, where only one known word is that near."""

import re
from collections.abc import Iterable

MIN_LETTERS = 6  # shorter words are one letter away from too many others
MAX_CORRECTED = 2


def corrected(text: str, unknown: Iterable[str], known: frozenset[str]) -> str | None:
    """A text with its mistyped words put right; None where any unknown word is not surely a known one."""
    words = tuple(dict.fromkeys(unknown))
    if len(words) > MAX_CORRECTED:
        return None
    for word in words:
        if len(word) < MIN_LETTERS or not word.isascii() or not word.isalpha():
            return None
        near = [one for one in known if is_one_slip(word, one)]
        stems = {one.removesuffix("s") for one in near}
        if len(stems) != 1:
            return None
        text = re.sub(
            rf"(?<![a-z]){re.escape(word)}(?![a-z])", min(near, key=lambda one: (abs(len(one) - len(word)), one)), text
        )
    return text


def is_one_slip(word: str, other: str) -> bool:
    """Whether one letter is wrong, missing, too many, or two neighbours are swapped."""
    if abs(len(word) - len(other)) > 1 or word == other:
        return False
    if len(word) == len(other) and word[:-1] == other[:-1]:
        return False  # `played` is not a slip for `player`
    start = 0
    while start < min(len(word), len(other)) and word[start] == other[start]:
        start += 1
    rest, other_rest = word[start:], other[start:]
    return (
        rest[1:] == other_rest[1:]
        or rest[1:] == other_rest
        or rest == other_rest[1:]
        or (rest[1::-1] == other_rest[:2] and rest[2:] == other_rest[2:])
    )
