"""First check: how long the text is, and which characters stand where. Nothing is parsed yet, so nothing can be fooled.

Outside of quotes only ASCII, and letters and digits of other scripts, are let through: no invisible character, no
full-width twin of a letter, no blank that one parser skips and another does not.
"""

import re
import unicodedata

from sqlassist.catalog import Dialect
from sqlassist.guard.limits import Limits
from sqlassist.guard.refused import Refused

# One quoted string, quoted identifier or comment. MySQL escapes with backslashes in both kinds of strings, DuckDB in
# neither. An unterminated one runs to the end, and is refused by the tokeniser.
_MYSQL = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|--(?=[\s]|$)[^\n]*|\#[^\n]*|/\*.*?\*/""", re.DOTALL
)
_DUCKDB = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_DEPTH = re.compile(r"[()]|\b(?:CASE|END)\b", re.IGNORECASE)


def check_characters(sql: str, dialect: Dialect, limits: Limits) -> None:
    """Raises `Refused` with `empty`, `too_long`, `bad_character`, `bad_comment` or `too_deep`."""
    if not sql.strip():
        raise Refused("empty", "write one SELECT statement")
    if len(sql) > limits.max_characters:
        raise Refused("too_long", f"the statement has {len(sql)} characters, at most {limits.max_characters} are read")
    if control := _CONTROL.search(sql):
        raise _bad(control.group(), "a control character")
    try:
        sql.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused("bad_character", "the text holds half a surrogate pair, which is no character") from error
    pattern = _MYSQL if dialect.is_mysql_like else _DUCKDB
    for quoted in pattern.finditer(sql):
        _check_comment(quoted.group())
    bare = pattern.sub(" ", sql)
    if not bare.isascii():
        _check_bare(bare)
    _check_depth(bare, limits)


def _check_comment(text: str) -> None:
    if not text.startswith("/*"):
        return
    body = text[2:-2]
    if body.startswith(("!", "M!", "m!")):
        raise Refused("bad_comment", "comments that a server executes are not allowed: leave it out", text)
    if body.startswith("+"):
        raise Refused("bad_comment", "optimizer hints are not allowed: leave it out", text)
    if "/*" in body:
        raise Refused("bad_comment", "a comment inside a comment ends differently for everybody: leave it out", text)


def _check_bare(bare: str) -> None:
    for character in bare:
        if character.isascii():
            continue
        is_letter = unicodedata.category(character) in ("Lu", "Ll", "Lo", "Lt", "Nd")
        if not is_letter or unicodedata.normalize("NFKC", character) != character:
            raise _bad(character, "outside of quotes")


def _bad(character: str, what: str) -> Refused:
    name = unicodedata.name(character, "unnamed")
    return Refused("bad_character", f"U+{ord(character):04X} ({name}), {what}, is not allowed", "")


def _check_depth(bare: str, limits: Limits) -> None:
    depth = 0
    for match in _DEPTH.finditer(bare):
        depth += 1 if match.group() == "(" or match.group().upper() == "CASE" else -1
        if depth > limits.max_depth:
            raise Refused("too_deep", f"more than {limits.max_depth} levels of parentheses and CASE: use WITH")
