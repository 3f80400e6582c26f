"""Sixth check: which functions are called.

Asked twice: of the words, by the names that were written, and of the tree, by what the parser made of them. A name that
is on no list is refused, whatever it is.
"""

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sqlassist.catalog import Dialect, did_you_mean
from sqlassist.guard import functions_duckdb, functions_mariadb, functions_mysql
from sqlassist.guard.functions_mysql import Calls
from sqlassist.guard.refused import Refused

CALLS: dict[Dialect, Calls] = {
    Dialect.MYSQL: functions_mysql.CALLS,
    Dialect.MARIADB: functions_mariadb.CALLS,
    Dialect.DUCKDB: functions_duckdb.CALLS,
}


def words_in(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


# What the parser makes of the names above. Aggregates are apart: a query of nothing but these has one row.
AGGREGATES = words_in(
    "AnyValue ArgMax ArgMin Avg Count GroupConcat Max Median Min Stddev StddevPop StddevSamp Sum Variance VariancePop"
)
_TYPED = AGGREGATES | words_in(
    "Abs Acos Ascii Asin Atan Ceil Coalesce Concat ConcatWs Contains ConvertTimezone Cos CumeDist CurrentDate "
    "CurrentTime CurrentTimestamp Date DateAdd DateDiff DateFromParts DateSub DateTrunc Day DayOfMonth DayOfWeek "
    "DayOfWeekIso DayOfYear Dayname Degrees DenseRank Elt EndsWith Exp Extract FirstValue Floor Greatest Hour If "
    "JSONExtract Lag LastDay LastValue Lead Least Left Length Ln Log Lower Minute Month Monthname NthValue Ntile "
    "Nullif NumberToStr Pad PercentRank Pi Pow Quarter Radians Rank RegexpLike Replace Reverse Right Round "
    "RowNumber Second Sign Sin SplitPart Sqrt StartsWith StrPosition StrToDate StrToTime Substring SubstringIndex "
    "Tan Time TimeToStr TimeToUnix Timestamp TimestampDiff TimestampTrunc Trim Trunc TsOrDsToDate TsOrDsToTimestamp "
    "UnixToTime Upper UtcDate UtcTimestamp Week WeekOfYear Year"
)
# Arguments that change what a function is, rather than what it works on.
_BAD_ARGUMENTS = {
    "GroupConcat": {"on_overflow"},
    "Trim": {"collation"},
    "RegexpLike": {"flag", "full_match"},
    "TimeToStr": {"culture", "zone"},
    "NumberToStr": {"culture"},
    "JSONExtract": {"only_json_types", "variant_extract", "json_query", "option", "quote", "on_condition", "emits"},
}

_STRUCTURE = frozenset({"ORDER BY", "GROUP BY", "PARTITION BY"}) | words_in(
    "SELECT FROM WHERE AND OR XOR NOT IN ON USING AS OVER BY HAVING WHEN THEN ELSE CASE BETWEEN LIKE ILIKE RLIKE "
    "REGEXP EXISTS ANY ALL SOME UNION INTERSECT EXCEPT DISTINCT JOIN LIMIT OFFSET IS ESCAPE FILTER DIV ROLLUP"
)
_SIZED_TYPES = words_in("DECIMAL NUMERIC CHAR VARCHAR DATETIME TIME TIMESTAMP BINARY")


def check_call_tokens(tokens: Sequence[Token], dialect: Dialect) -> None:
    """Every `name(` is a function of the list, with a legal number of arguments, or no call at all.

    Raises:
        Refused: `function_not_allowed` or `argument_count`.
    """
    calls = CALLS[dialect]
    for index in range(len(tokens) - 1):
        if tokens[index + 1].token_type is TokenType.L_PAREN:
            _check_call(tokens, index, calls)


def _check_call(tokens: Sequence[Token], index: int, calls: Calls) -> None:
    token = tokens[index]
    before = tokens[index - 1] if index else None
    is_quoted = token.token_type is TokenType.IDENTIFIER
    if not is_quoted and not (token.text[:1].isalpha() or token.text[:1] == "_"):
        return
    name = token.text.upper()
    if before is not None and before.token_type is TokenType.DOT:
        raise _not_allowed(token, calls)
    if not is_quoted and name in _STRUCTURE:
        return
    if before is not None and before.text.upper() in ("AS", "WITH"):
        return  # a type, the alias of a derived table with its columns, or a WITH table with its columns
    if _is_with_table(tokens, index):
        return
    if not is_quoted and name in _SIZED_TYPES and _holds_numbers(tokens, index + 1):
        return
    if name == "MOD" and before is not None and _argument_count(tokens, index + 1) == 1:
        return  # the operator, as in `id MOD (2)`
    if is_quoted or name not in calls:
        raise _not_allowed(token, calls)
    fewest, most = calls[name]
    given = _argument_count(tokens, index + 1)
    if not fewest <= given <= most:
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise Refused("argument_count", f"{name} takes {wanted} arguments, not {given}", token.text)


def _not_allowed(token: Token, calls: Calls) -> Refused:
    if token.text.upper() in calls:
        return Refused("function_not_allowed", "write functions without quotes or a database before them", token.text)
    hint = f"{token.text} is no function that may be called here{did_you_mean(token.text, calls)}"
    return Refused("function_not_allowed", hint, token.text)


def _closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for index in range(opening, len(tokens)):
        kind = tokens[index].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth == 0:
            return index
    return len(tokens)


def _is_with_table(tokens: Sequence[Token], index: int) -> bool:
    if index == 0 or tokens[index - 1].token_type is not TokenType.COMMA:
        return False
    after = _closing(tokens, index + 1) + 1
    return (
        after + 1 < len(tokens)
        and tokens[after].text.upper() == "AS"
        and tokens[after + 1].token_type is TokenType.L_PAREN
    )


def _holds_numbers(tokens: Sequence[Token], opening: int) -> bool:
    inside = tokens[opening + 1 : _closing(tokens, opening)]
    return bool(inside) and all(t.token_type in (TokenType.NUMBER, TokenType.COMMA) for t in inside)


def _argument_count(tokens: Sequence[Token], opening: int) -> int:
    depth, commas = 0, 0
    closing = _closing(tokens, opening)
    for token in tokens[opening + 1 : closing]:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        commas += depth == 0 and token.token_type is TokenType.COMMA
    return 0 if closing == opening + 1 else commas + 1


def check_function(node: exp.Func, dialect: Dialect) -> None:
    """Raises `Refused` with `function_not_allowed` or `argument_not_allowed`."""
    if type(node) is exp.Anonymous:
        name = node.this
        if not isinstance(name, str) or name.upper() not in CALLS[dialect]:
            shown = name if isinstance(name, str) else node.name
            raise Refused("function_not_allowed", f"{shown} is no function that may be called here", shown)
        return
    kind = type(node).__name__
    if kind not in _TYPED:
        raise Refused("function_not_allowed", f"{node.sql_name()} is no function that may be called here", kind)
    for argument in _BAD_ARGUMENTS.get(kind, ()):
        if node.args.get(argument):
            raise Refused("argument_not_allowed", f"{node.sql_name()} is not allowed with {argument}", kind)
