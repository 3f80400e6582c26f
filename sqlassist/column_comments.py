"""What comments of tables and columns say, in English and Chinese: a name, and an enumeration where there is one.

`状态: 1=正常 2=封禁`, `channel (1 ios, 2 android)`: what is found is a guess, to be read by people.
"""

import re
from collections.abc import Mapping

import attrs

from sqlassist.language import HAN

MAX_NAME = 40
MAX_LABEL = 30
MAX_VALUES = 60  # more are no enumeration that somebody wrote into a comment
_SEPARATOR = r"\s*(?:=>|->|=|:|：|-|—|－|、|\.(?!\d))\s*"
_VALUE = r"-?\d{1,9}|'[^']{1,30}'|\"[^\"]{1,30}\"|(?<![A-Za-z0-9_])[A-Za-z][A-Za-z0-9_]{0,20}"
_BOUND = re.compile(
    rf"(?P<value>{_VALUE}){_SEPARATOR}(?P<label>[^,，;；|/=:：()（）\[\]【】]+?)"
    rf"(?=\s*(?:[,，;；|/)）\]】]|$|\s(?:-?\d{{1,9}}|'[^']*'){_SEPARATOR}))"
)
_SPACED = re.compile(r"(?P<value>-?\d{1,9})\s*(?P<label>[^\s\d,，;；|/=:：()（）][^,，;；|/=:：()（）]*)")
_BRACKETS = re.compile(r"[(（\[【]([^)）\]】]*)[)）\]】]")
_NAME_END = re.compile(r"[(（\[【:：,，;；。=|]|\s[-—]\s|\.\s|\s\d")
_IS_HAN = re.compile(f"[{HAN}]")


@attrs.frozen
class Said:
    """What a comment says."""

    en: str = ""
    """A name in English; empty where there is none."""
    zh: str = ""
    values: Mapping[str, str] = attrs.field(factory=dict)
    """Value as stored → what it is called; in the comment's order."""


def said_in(comment: str) -> Said:
    """Read a comment."""
    text = " ".join(comment.split())
    values, start = _enumeration(text)
    head = text[:start] if values else text
    cut = _NAME_END.search(head)
    name = (head[: cut.start()] if cut else head).strip(" -—_.·,，。")
    if not name or len(name) > MAX_NAME or re.fullmatch(r"[\d\W]+", name):
        return Said(values=values)
    return Said(zh=name, values=values) if _IS_HAN.search(name) else Said(en=name.lower(), values=values)


def _enumeration(text: str) -> tuple[dict[str, str], int]:
    """The values, and where they begin."""
    found = [one for one in _BOUND.finditer(text) if _IS_CODE.fullmatch(one["value"])]
    if len(found) < 2:
        found = [one for one in _BOUND.finditer(text) if not one["value"].isalpha() or one["value"].islower()]
        found = found if len(found) >= 2 and all(re.search(r"[=＝]|=>|->", one.group()) for one in found) else []
    values = _values(found)
    if len(values) >= 2:
        return values, found[0].start()
    for bracket in _BRACKETS.finditer(text):
        parts = [
            _SPACED.fullmatch(part.strip()) for part in re.split(r"[,，;；|/、]", bracket.group(1)) if part.strip()
        ]
        if len(parts) >= 2 and all(parts):
            values = _values([part for part in parts if part is not None])
            if len(values) >= 2:
                return values, bracket.start()
    tight = list(_TIGHT.finditer(text))
    values = _values(tight) if len(tight) >= 2 else {}
    return (values, tight[0].start()) if len(values) >= 2 else ({}, len(text))


_TIGHT = re.compile(rf"(?<!\S)(?P<value>\d{{1,4}})(?P<label>[{HAN}]{{1,12}})(?!\S)")
_IS_CODE = re.compile(r"-?\d{1,9}|'[^']*'|\"[^\"]*\"")


def _values(found: list[re.Match[str]]) -> dict[str, str]:
    values: dict[str, str] = {}
    for one in found:
        label = one["label"].strip(" 。.")
        if label and len(label) <= MAX_LABEL:
            values.setdefault(one["value"].strip("'\""), label)
    return values if len(values) <= MAX_VALUES else {}
