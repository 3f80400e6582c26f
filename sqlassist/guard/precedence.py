"""Second check, too: comparisons that follow each other without parentheses.

`a = b IS NULL` or `x <=> y <= z` mean one thing to a server and perhaps another one to the parser, which adds
parentheses of its own to such texts. So they are looked for among the words, and refused; `1 < x < 5` never means
what it says anyway.
"""

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from sqlassist.guard.refused import Refused

_COMPARISONS = {
    TokenType.EQ,
    TokenType.NEQ,
    TokenType.LT,
    TokenType.LTE,
    TokenType.GT,
    TokenType.GTE,
    TokenType.NULLSAFE_EQ,
    TokenType.LIKE,
    TokenType.ILIKE,
    TokenType.RLIKE,
    TokenType.IN,
    TokenType.BETWEEN,
    TokenType.IS,
}
_OPENS = {TokenType.L_PAREN, TokenType.CASE}
_CLOSES = {TokenType.R_PAREN, TokenType.END}
# Behind these a new condition begins.
_RESETS = {
    TokenType.AND,
    TokenType.OR,
    TokenType.XOR,
    TokenType.DAMP,
    TokenType.DPIPE,
    TokenType.COMMA,
    TokenType.SELECT,
    TokenType.ALIAS,
    TokenType.FROM,
    TokenType.JOIN,
    TokenType.ON,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.PARTITION_BY,
    TokenType.LIMIT,
    TokenType.UNION,
    TokenType.INTERSECT,
    TokenType.EXCEPT,
    TokenType.WHEN,
    TokenType.THEN,
    TokenType.ELSE,
    TokenType.WINDOW,
}


def check_precedence(tokens: Sequence[Token]) -> None:
    """Raises `Refused` with `ambiguous_precedence`."""
    comparisons = [0]  # one entry an open pair of parentheses, or CASE
    betweens = [0]  # whose AND is still to come
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind in _OPENS:
            comparisons.append(0)
            betweens.append(0)
        elif kind in _CLOSES and len(comparisons) > 1:
            comparisons.pop()
            betweens.pop()
        elif kind is TokenType.AND and betweens[-1]:
            betweens[-1] -= 1
        elif kind in _RESETS:
            comparisons[-1] = 0
        elif kind in _COMPARISONS and not _is_shift(tokens, index):
            comparisons[-1] += 1
            betweens[-1] += kind is TokenType.BETWEEN
            if comparisons[-1] > 1:
                hint = "put the inner comparison in parentheses: (a = b) = c, (a IS NULL) = b"
                raise Refused("ambiguous_precedence", hint, token.text)


def _is_shift(tokens: Sequence[Token], index: int) -> bool:
    """True for either half of `<<` and `>>`, which are two words to the tokeniser."""
    kind = tokens[index].token_type
    if kind not in (TokenType.LT, TokenType.GT):
        return False
    before, after = tokens[index - 1 : index], tokens[index + 1 : index + 2]
    return any(t.token_type is kind and t.end + 1 == tokens[index].start for t in before) or any(
        t.token_type is kind and tokens[index].end + 1 == t.start for t in after
    )
