"""The guard: from any text to a `CheckedQuery` or a `Refusal`, by one straight list of checks.

It must hold even when the author of the text is hostile. Nothing is executed, nothing is looked up, and whatever goes
wrong on the way, a bug of ours or of the parser's included, is a refusal.
"""

import attrs
from sqlglot import exp
from sqlglot.tokenizer_core import Token

from sqlassist.catalog import Catalog
from sqlassist.guard.bounds import bounded
from sqlassist.guard.characters import check_characters
from sqlassist.guard.checked import CheckedQuery
from sqlassist.guard.functions import check_call_tokens
from sqlassist.guard.headings import keep_headings
from sqlassist.guard.limits import Limits
from sqlassist.guard.names import Resolved, resolved
from sqlassist.guard.nodes import check_nodes
from sqlassist.guard.precedence import check_precedence
from sqlassist.guard.refused import Refused
from sqlassist.guard.regenerate import language_for, regenerated, repaired
from sqlassist.guard.roots import Query, parsed
from sqlassist.guard.tokens import tokens_for
from sqlassist.messages import Refusal

DEFAULT_LIMITS = Limits()


@attrs.frozen
class _Passed:
    tree: Query
    names: Resolved
    bounds: tuple[str, ...]


def check(sql: str, catalog: Catalog, limits: Limits = DEFAULT_LIMITS) -> CheckedQuery | Refusal:
    """Decide about one statement.

    Args:
        sql: Any text at all.
        catalog: What the tenant may name.
        limits: The sizes that a statement may have.

    Returns:
        The statement, regenerated, or why not. It never raises.
    """
    try:
        return _checked(sql, catalog, limits)
    except Refused as refused:
        return Refusal(refused.code, refused.where, refused.hint)
    except RecursionError:
        return Refusal("too_deep", "", "the statement is nested too deeply: use WITH")
    except Exception as error:  # noqa: BLE001  # an unforeseen failure must not let anything through
        return Refusal("internal", type(error).__name__, "the statement cannot be checked: write it more simply")


def _checked(sql: str, catalog: Catalog, limits: Limits) -> CheckedQuery:
    tokens = _lexed(sql, catalog, limits)
    passed = _structure(sql, tokens, catalog, limits, with_headings=True)
    text = regenerated(passed.tree, catalog.dialect)
    _require_fixed_point(text, catalog, limits)
    limit = passed.tree.args["limit"].expression.name
    made = CheckedQuery._make(
        sql=text,
        source=sql,
        dialect=catalog.dialect,
        catalog_version=catalog.version,
        tables=passed.names.tables,
        columns=_headings(passed),
        max_rows=int(limit),
        is_clamped="limit" in passed.bounds,
        bounds=passed.bounds,
    )
    assert isinstance(made, CheckedQuery)
    return made


def _lexed(sql: str, catalog: Catalog, limits: Limits) -> list[Token]:
    check_characters(sql, catalog.dialect, limits)
    tokens = tokens_for(sql, language_for(catalog.dialect), limits)
    check_precedence(tokens)
    return tokens


def _structure(
    sql: str, tokens: list[Token], catalog: Catalog, limits: Limits, *, with_headings: bool = False
) -> _Passed:
    tree = parsed(sql, tokens, language_for(catalog.dialect))
    check_call_tokens(tokens, catalog.dialect)
    repaired(tree, catalog.dialect)
    check_nodes(tree, catalog.dialect)
    if with_headings:  # before `*` becomes more than one column
        keep_headings(tree, sql, tokens)
    names = resolved(tree, catalog, limits)
    return _Passed(tree, names, bounded(tree, names, limits))


def _require_fixed_point(text: str, catalog: Catalog, limits: Limits) -> None:
    """Read the new text as a stranger's: it must pass every check, and come out as it went in.

    The caps on length and number of words are for what people send; quotes and headings may take new text over them.
    """
    roomy = attrs.evolve(limits, max_characters=limits.max_characters * 4, max_tokens=limits.max_tokens * 4)
    try:
        again = _structure(text, _lexed(text, catalog, roomy), catalog, roomy)
        second = regenerated(again.tree, catalog.dialect)
    except Refused as refused:
        hint = "the statement changes when it is written anew: write it more simply"
        raise Refused("no_fixed_point", hint, f"{refused.code}: {refused.where}") from refused
    if second != text:
        raise Refused("no_fixed_point", "the statement changes when it is written anew: write it more simply")


def _headings(passed: _Passed) -> tuple[str, ...]:
    first: exp.Expr = passed.tree
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    names = passed.names.output.columns
    if len(first.expressions) != len(names):
        return names
    return tuple(p.alias if isinstance(p, exp.Alias) else n for p, n in zip(first.expressions, names, strict=True))
