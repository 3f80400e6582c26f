"""Third and fourth check: the text parses, it is exactly one statement, and that statement can only read."""

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect as Language
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from sqlassist.guard.refused import Refused

Query = exp.Select | exp.SetOperation
_FIRST = {TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN}


def parsed(sql: str, tokens: list[Token], language: Language) -> Query:
    """The one query that the text is.

    Raises:
        Refused: `syntax`, `several_statements` or `not_a_query`.
    """
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens:
        raise Refused("empty", "write one SELECT statement")
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise Refused("several_statements", "write exactly one statement", ";")
    if tokens[0].token_type not in _FIRST:
        raise Refused("not_a_query", "only SELECT is allowed", tokens[0].text)
    try:
        trees = language.parser().parse(tokens, sql)
    except ParseError as error:
        raise Refused("syntax", _first_error(error), _place(error)) from error
    except RecursionError:
        raise
    except Exception as error:  # the parser stumbles over some texts, such as `SELECT ->`, with errors of any type
        raise Refused("syntax", "the statement does not parse: something is missing or misplaced") from error
    if len(trees) != 1 or trees[0] is None:
        raise Refused("several_statements", "write exactly one statement")
    return _unwrapped(trees[0])


def _unwrapped(root: exp.Expr) -> Query:
    while isinstance(root, exp.Subquery):
        if {name for name, value in root.args.items() if value} != {"this"}:
            raise Refused("not_a_query", "write SELECT without parentheses round the whole statement")
        root = root.this
    if type(root) not in (exp.Select, exp.Union, exp.Intersect, exp.Except):
        raise Refused("not_a_query", "only SELECT is allowed", root.key)
    assert isinstance(root, exp.Select | exp.SetOperation)
    return root.pop() if root.parent is not None else root


def _first_error(error: ParseError) -> str:
    first = error.errors[0] if error.errors else {}
    description = str(first.get("description") or "")
    if not description or "<" in description:  # the parser's own words for its own classes help nobody
        description = "something is missing or misplaced"
    return f"the statement does not parse: {description}".rstrip(".")


def _place(error: ParseError) -> str:
    first = error.errors[0] if error.errors else {}
    return str(first.get("highlight") or "")
