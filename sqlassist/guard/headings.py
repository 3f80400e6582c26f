"""Columns of the answer keep the headings that the author wrote, though the text round them is made anew."""

import re
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

MAX_HEADING = 60
_END = {
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.UNION,
    TokenType.INTERSECT,
    TokenType.EXCEPT,
    TokenType.WINDOW,
    TokenType.SEMICOLON,
}


def keep_headings(tree: exp.Select | exp.SetOperation, sql: str, tokens: Sequence[Token]) -> None:
    """Give every unnamed expression of the outermost SELECT list its own source text as an alias."""
    first: exp.Expr = tree
    while isinstance(first, exp.SetOperation):
        first = first.this
    if not isinstance(first, exp.Select):
        return
    texts = _texts(sql, tokens)
    if len(texts) != len(first.expressions):
        return
    made = []
    for projection, text in zip(first.expressions, texts, strict=True):
        is_named = isinstance(projection, exp.Alias | exp.Column | exp.Star)
        heading = re.sub(r"\s+", " ", text).strip()[:MAX_HEADING].strip()
        if is_named or not heading or any(ord(c) > 0xFFFF for c in heading):
            made.append(projection)
        else:
            made.append(exp.Alias(this=projection, alias=exp.to_identifier(heading, quoted=True)))
    first.set("expressions", made)


def _texts(sql: str, tokens: Sequence[Token]) -> list[str]:
    depth, begin, texts = 0, -1, []
    end = len(sql)
    for index, token in enumerate(tokens):
        kind = token.token_type
        if depth == 0 and begin < 0 and kind is TokenType.SELECT:
            following = tokens[index + 1] if index + 1 < len(tokens) else token
            is_distinct = following.token_type is TokenType.DISTINCT
            begin = following.end + 1 if is_distinct else token.end + 1
            continue
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth or begin < 0:
            continue
        if kind is TokenType.COMMA:
            texts.append(sql[begin : token.start])
            begin = token.end + 1
        elif kind in _END:
            end = token.start
            break
    return [*texts, sql[begin:end]] if begin >= 0 else []
