"""Second check: the tokens. What the parser would fold away or drop in silence is seen here, while it is there."""

from collections.abc import Sequence

from sqlglot.dialects.dialect import Dialect as Language
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from sqlassist.guard.limits import Limits
from sqlassist.guard.refused import Refused

_UNARY = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE, TokenType.EXCLAMATION}
# What may follow the operand of `!`: the server binds it tighter than any other operator, the parser may not.
_ENDS_OPERAND = {
    TokenType.COMMA,
    TokenType.R_PAREN,
    TokenType.AND,
    TokenType.OR,
    TokenType.XOR,
    TokenType.DAMP,
    TokenType.DPIPE,
    TokenType.FROM,
    TokenType.ALIAS,
    TokenType.THEN,
    TokenType.ELSE,
    TokenType.END,
}
_BEGINS_LIST = {
    TokenType.L_PAREN,
    TokenType.COMMA,
    TokenType.SELECT,
    TokenType.DISTINCT,
    TokenType.FROM,
    TokenType.WITH,
    TokenType.GROUP_BY,
    TokenType.ORDER_BY,
    TokenType.PARTITION_BY,
}
_ENDS_LIST = {
    TokenType.R_PAREN,
    TokenType.SEMICOLON,
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.UNION,
}
_FORBIDDEN = {
    TokenType.PARAMETER: ("variable", "variables (@x, @@x) are not allowed: write the value"),
    TokenType.SESSION_PARAMETER: ("variable", "variables (@x, @@x) are not allowed: write the value"),
    TokenType.PLACEHOLDER: ("placeholder", "placeholders are not allowed: write the value"),
    TokenType.COLON_EQ: ("variable", "assignments (:=) are not allowed"),
    TokenType.HINT: ("bad_comment", "optimizer hints are not allowed: leave it out"),
    TokenType.HEX_STRING: ("bad_literal", "hexadecimal and bit literals are not allowed: write a number or a text"),
    TokenType.BIT_STRING: ("bad_literal", "hexadecimal and bit literals are not allowed: write a number or a text"),
    TokenType.INTRODUCER: ("bad_literal", "character set introducers are not allowed: write a plain text"),
    TokenType.HEREDOC_STRING: ("bad_literal", "dollar-quoted texts are not allowed: use single quotes"),
    TokenType.L_BRACE: ("bad_token", "braces are not allowed"),
}


def tokens_for(sql: str, language: Language, limits: Limits) -> list[Token]:
    """The tokens of an acceptable text.

    Raises:
        Refused: `syntax`, `too_many_tokens`, `too_deep`, `variable`, `placeholder`, `bad_comment`, `bad_literal`,
            `bad_token` or `ambiguous_precedence`.
    """
    try:
        tokens = list(language.tokenize(sql))
    except TokenError as error:
        raise Refused("syntax", "the text cannot be cut into words: is a quote or a comment left open?") from error
    if len(tokens) > limits.max_tokens:
        raise Refused("too_many_tokens", f"the statement has {len(tokens)} words, at most {limits.max_tokens} are read")
    run = 0
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind in _FORBIDDEN:
            code, hint = _FORBIDDEN[kind]
            raise Refused(code, hint, token.text)
        run = run + 1 if kind in _UNARY else 0
        if run > limits.max_unary_run:
            raise Refused("too_deep", f"more than {limits.max_unary_run} signs or NOT in a row", token.text)
        _check_comments(token)
        if kind is TokenType.NOT and sql[token.start] == "!" and not _ends_soon(tokens, index + 1):
            raise Refused("ambiguous_precedence", "write NOT (...) instead of !", token.text)
        if kind is TokenType.COMMA and _is_stray(tokens, index):
            raise Refused("syntax", "there is a comma too many", token.text)
        if kind is TokenType.INTERVAL:
            _check_interval(tokens, index)
        if kind is TokenType.TIME:
            _check_time_literal(tokens, index)
    return tokens


def _check_comments(token: Token) -> None:
    for comment in token.comments or ():
        if comment.startswith(("!", "M!", "m!", "+")):
            raise Refused("bad_comment", "hints and comments that a server executes are not allowed", comment)


def _is_stray(tokens: Sequence[Token], index: int) -> bool:
    """The parser forgives a comma before the first and behind the last element; no server does."""
    before = tokens[index - 1].token_type if index else TokenType.SELECT
    after = tokens[index + 1].token_type if index + 1 < len(tokens) else TokenType.R_PAREN
    return before in _BEGINS_LIST or after in _ENDS_LIST


def _check_interval(tokens: Sequence[Token], index: int) -> None:
    """`INTERVAL '1' SECOND` adds microseconds to the answer; the parser forgets the quotes."""
    following = tokens[index + 1 : index + 3]
    if len(following) == 2 and following[0].token_type is TokenType.STRING and following[1].text.upper() == "SECOND":
        raise Refused("bad_interval", "write the number of seconds without quotes", following[0].text)


def _check_time_literal(tokens: Sequence[Token], index: int) -> None:
    """`TIME'..'` compares differently once it is a CAST: refused, not repaired."""
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if following is not None and following.token_type is TokenType.STRING:
        raise Refused("bad_literal", "write the time as a plain text in quotes", following.text)


def _ends_soon(tokens: Sequence[Token], index: int) -> bool:
    """True when one word, or one pair of parentheses, is the whole operand that begins at `index`."""
    depth = 0
    while index < len(tokens):
        kind = tokens[index].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        index += 1
        if depth <= 0:
            break
    return index >= len(tokens) or tokens[index].token_type in _ENDS_OPERAND
