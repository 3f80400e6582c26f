"""Numbers as people write them: `1,000`, `2k`, `three`, `三十`, `1.5万`, `20 %`."""

from collections.abc import Sequence

from sqlassist.parsing import words_en, words_zh
from sqlassist.parsing.tokens import Token

MAX_NUMBER = 1e15
_PERCENT = frozenset(words_en.PERCENT)


def han_number(text: str) -> int:
    """A whole number in digits or Han characters: `十二`, `两百`, `15`; 0 for no text."""
    if text.isdigit():
        return int(text)
    total = section = digit = 0
    for one in text:
        if one in words_zh.DIGITS:
            digit = words_zh.DIGITS[one]
            continue
        scale = words_zh.SCALES[one]
        if scale >= words_zh.SCALES["万"]:
            total = (total + section + digit) * scale
            section = 0
        else:
            section += (digit or 1) * scale
        digit = 0
    return total + section + digit


def is_han_digit(text: str) -> bool:
    """Whether a character can be part of a Chinese number."""
    return text in words_zh.DIGITS or text in words_zh.SCALES


def number_at(tokens: Sequence[Token], start: int) -> tuple[int, float, bool] | None:
    """(token behind it, value, whether in percent) of the longest number that begins at a token."""
    token = tokens[start]
    if token.is_number:
        value, end = float(token.text.replace(",", "")), start + 1
    elif token.text in words_en.NUMBERS:
        value, end = float(words_en.NUMBERS[token.text]), start + 1
        if value >= 20 and end < len(tokens) and 0 < words_en.NUMBERS.get(tokens[end].text, 0) < 10:
            value, end = value + words_en.NUMBERS[tokens[end].text], end + 1
    elif token.text == "百" and _texts(tokens, start, 3) == "百分之":
        found = number_at(tokens, start + 3) if start + 3 < len(tokens) else None
        return (found[0], found[1], True) if found is not None and not found[2] else None
    elif token.text in words_zh.DIGITS or token.text == "十":
        end = start
        while end < len(tokens) and is_han_digit(tokens[end].text) and end - start < 12:
            end += 1
        value = float(han_number(_texts(tokens, start, end - start)))
    else:
        return None
    if end < len(tokens) and tokens[end].text in words_en.SCALES and token.text not in words_zh.DIGITS:
        value, end = value * words_en.SCALES[tokens[end].text], end + 1
    elif token.is_number and end < len(tokens) and tokens[end].text in words_zh.SCALES:
        while end < len(tokens) and tokens[end].text in words_zh.SCALES:
            value, end = value * words_zh.SCALES[tokens[end].text], end + 1
    if value > MAX_NUMBER:
        return None
    for length in (1, 2):
        if " ".join(one.text for one in tokens[end : end + length]) in _PERCENT:
            return end + length, value, True
    return end, value, False


def _texts(tokens: Sequence[Token], start: int, count: int) -> str:
    return "".join(token.text for token in tokens[start : start + count])
