"""Texts of people in English and Chinese: which one it is, and one form for what is written in several ways."""

import re
import unicodedata

HAN = r"㐀-䶿一-鿿豈-﫿"
_HAN = re.compile(f"[{HAN}]")
_SPACE = re.compile(r"\s+")
_SPACE_IN_HAN = re.compile(rf"(?<=[{HAN}]) (?=[{HAN}])")
_ENDING = re.compile(r"[\s?？!！。.,，;；~～]+$")
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def language_of(text: str) -> str:
    """`zh` where a text has any Han character, else `en`: names of games and metrics are often English in Chinese."""
    return "zh" if _HAN.search(text) else "en"


def folded(text: str) -> str:
    """One form of equal texts: NFKC, lower case, single spaces, no invisible characters, nothing behind the last word.

    It is what caches compare; nothing that could change a meaning is taken away.
    """
    plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
    spaced = _SPACE_IN_HAN.sub("", _SPACE.sub(" ", plain).strip())
    return _ENDING.sub("", spaced)


def has_han(text: str) -> bool:
    """True where a Han character is in it."""
    return _HAN.search(text) is not None
