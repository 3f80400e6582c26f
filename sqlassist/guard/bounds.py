"""Eighth check: what the statement may cost is bounded: rows of the answer, joins, patterns, padded texts."""

import re

from sqlglot import exp

from sqlassist.guard.joins import check_joins
from sqlassist.guard.limits import Limits
from sqlassist.guard.names import Resolved
from sqlassist.guard.nodes import every_node
from sqlassist.guard.patterns import check_pattern
from sqlassist.guard.refused import Refused

# What a statement may still lean on, once it runs: the session's own settings.
GROUP_CONCAT_BOUND = "group_concat_max_len"
ROW_BOUND = "row_gate"
TIME_BOUND = "statement_time"


def bounded(tree: exp.Select | exp.SetOperation, names: Resolved, limits: Limits) -> tuple[str, ...]:
    """Check every cost, and set the outermost LIMIT.

    Returns:
        What bounds the statement: `limit` where the guard set or lowered it, `join_equality` where tables are joined by
        one, and what the executor must have on: `row_gate`, `group_concat_max_len`, `statement_time`.

    Raises:
        Refused: `limit_not_literal`, `offset_too_large`, `join_without_equality`,
            `pattern_not_literal`, `pattern_too_long`, `pattern_too_costly` or `pad_not_literal`.
    """
    bounds = []
    for node in every_node(tree):
        if isinstance(node, exp.Limit):
            _whole_number(node.expression, "LIMIT")
        elif isinstance(node, exp.Offset):
            if _whole_number(node.expression, "OFFSET") > limits.max_offset:
                hint = f"OFFSET is at most {limits.max_offset}: restrict with WHERE instead"
                raise Refused("offset_too_large", hint, node.expression.name)
        elif isinstance(node, exp.RegexpLike):
            _check_regexp(node, limits)
        elif isinstance(node, exp.Pad):
            _check_pad(node, limits)
        elif isinstance(node, exp.GroupConcat):
            bounds.append(GROUP_CONCAT_BOUND)
    for scope in names.scopes:
        if check_joins(scope):
            bounds.append(ROW_BOUND)
        elif len(scope.sources) > 1:
            bounds.append("join_equality")
    if _clamp(tree, limits):
        bounds.insert(0, "limit")
    return tuple(dict.fromkeys([*bounds, TIME_BOUND]))


def _whole_number(node: exp.Expr | None, what: str) -> int:
    if not isinstance(node, exp.Literal) or node.is_string or not re.fullmatch(r"[0-9]{1,20}", node.name):
        shown = node.sql() if node is not None else ""
        raise Refused("limit_not_literal", f"{what} takes a whole number", shown)
    return int(node.name)


def _clamp(tree: exp.Select | exp.SetOperation, limits: Limits) -> bool:
    limit = tree.args.get("limit")
    if limit is not None and int(limit.expression.name) <= limits.max_rows:
        return False
    tree.set("limit", exp.Limit(expression=exp.Literal.number(limits.max_rows)))
    return True


def _check_regexp(node: exp.RegexpLike, limits: Limits) -> None:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise Refused("pattern_not_literal", "a regular expression is written as a text in quotes", pattern.sql())
    check_pattern(pattern.name, limits.max_pattern_characters)


def _check_pad(node: exp.Pad, limits: Limits) -> None:
    length = node.expression
    if not isinstance(length, exp.Literal) or length.is_string or not re.fullmatch(r"[0-9]{1,9}", length.name):
        raise Refused("pad_not_literal", "the length of LPAD and RPAD is a whole number", "PAD")
    if int(length.name) > limits.max_pad_characters:
        raise Refused("pad_not_literal", f"LPAD and RPAD make at most {limits.max_pad_characters} characters", "PAD")
