"""A question cut into words, numbers, single Han characters and signs."""

import re
import unicodedata

import attrs

from sqlassist.language import HAN, has_han

SILENT = frozenset("-_'‘’\"“”`()[]{}《》「」（）:：?？!！。….*#")
"""Signs that mean nothing by themselves; between the words of a phrase they are passed over."""
_TOKEN = re.compile(
    rf"\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?|[{HAN}]|'(?:s|d|re|ll|ve|m)(?![a-z])|(?:(?![{HAN}])[^\W\d_])+(?:'t)?|[<>]=|\S"
)
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_CURLY = str.maketrans({"’": "'", "‘": "'", "–": "-", "—": "-", "～": "~", "＋": "+"})

_UNEQUAL = re.compile(r"!=|<>|!(?=[^\W_])")
_NEGATIVE = re.compile(r"(?<![\w)\]'’.-])-(?=\w)|(?<=[于过])-(?=\d)")
"""A dash before a number or a name, and behind none: `5-10`, `5月-6月` and `new-player` hold another one."""


@attrs.frozen
class Token:
    """One of them."""

    text: str
    start: int
    """Where it begins in the normalised text."""
    end: int
    is_han: bool = False

    @property
    def is_silent(self) -> bool:
        """Whether it means nothing by itself."""
        return self.text in SILENT or self.text.startswith("'")

    @property
    def is_number(self) -> bool:
        """Whether it is digits."""
        return self.text[0].isdigit()


def normalised(text: str) -> str:
    """NFKC, lower case, plain quotes and dashes, `≠` and minus told from other signs, single spaces."""
    plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold().translate(_CURLY)
    # what turns a meaning round must not pass for a sign without one
    plain = _NEGATIVE.sub("\N{MINUS SIGN}", _UNEQUAL.sub("≠", plain))
    return " ".join(plain.split())


def tokens_of(text: str) -> tuple[Token, ...]:
    """The tokens of a normalised text."""
    return tuple(
        Token(found.group(), found.start(), found.end(), has_han(found.group())) for found in _TOKEN.finditer(text)
    )


def words_of(phrase: str) -> tuple[str, ...]:
    """The tokens of a phrase, without those that mean nothing."""
    return tuple(token.text for token in tokens_of(normalised(phrase)) if not token.is_silent)


def singular(word: str) -> str:
    """A word without its plural ending: for comparing, not for showing."""
    if len(word) <= 3 or not word.endswith("s") or not word.isascii():
        return word
    if word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1]
