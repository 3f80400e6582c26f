"""Part of the eighth check: every joined table is tied to the others by an equality between columns of both.

One exception: two groups of tables may stand side by side when the second one is restricted by a condition of its own,
as in `FROM players JOIN payments WHERE payments.amount > 100`. Such a statement is left to the executor's row gate, and
says so.
"""

from collections.abc import Iterator

from sqlglot import exp

from sqlassist.guard.names import Scope, Source
from sqlassist.guard.nodes import every_node
from sqlassist.guard.refused import Refused

# Arithmetic on a key, as in `a.id * 0 = b.id * 0`, is an equality that ties nothing.
_HARMLESS = (exp.Column, exp.Identifier, exp.Literal, exp.Cast, exp.DataType, exp.Paren, exp.Lower, exp.Upper, exp.Trim)
_DAYS = (exp.TsOrDsToDate, exp.Date, exp.TimestampTrunc, exp.Var)


def check_joins(scope: Scope) -> bool:
    """True when the join is bounded by the row gate alone.

    Raises:
        Refused: `join_without_equality`.
    """
    sources = scope.sources
    if len(sources) < 2:
        return False
    joins = scope.select.args.get("joins") or []
    group = {index: index for index in range(len(sources))}
    for index, join in enumerate(joins, start=1):
        for column in join.args.get("using") or []:
            for other in range(index):
                if column.name.lower() in sources[other].columns:
                    _merge(group, other, index)
                    break
    restricted: set[int] = set()
    for condition in _conditions(scope.select, joins):
        restricted |= _restricted(condition, sources)
        pairs = {_tied(part, sources) for part in _alternatives(condition)}
        if len(pairs) == 1 and (pair := pairs.pop()) is not None:
            _merge(group, *pair)
    many = [index for index, source in enumerate(sources) if not source.is_single_row]
    roots = {_root(group, index) for index in many}
    if len(roots) < 2:
        return False
    lone = next(index for index in many if _root(group, index) != _root(group, many[0]))
    if len(roots) == 2 and _root(group, lone) in {_root(group, index) for index in restricted}:
        return True
    first, second = sources[many[0]].alias, sources[lone].alias
    hint = f"join {second} with an equality, as in ON {first}.x = {second}.y"
    raise Refused("join_without_equality", hint, second)


def _restricted(condition: exp.Expr, sources: list[Source]) -> set[int]:
    """The source whose column is compared with what is no column of another: a value, a list or a subquery."""
    if not isinstance(condition, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE | exp.In | exp.Between):
        return set()
    owner = _owner(condition.this, sources)
    others = [value for name in ("expression", "low", "high") if (value := condition.args.get(name)) is not None]
    is_value = all(isinstance(value, exp.Literal | exp.Subquery | exp.Paren) for value in others)
    return {owner} if owner is not None and is_value else set()


def _conditions(select: exp.Select, joins: list[exp.Expr]) -> Iterator[exp.Expr]:
    """What must hold for every row: the parts of AND in ON and WHERE."""
    where = select.args.get("where")
    stack = [where.this] if where is not None else []
    stack.extend(join.args["on"] for join in joins if join.args.get("on") is not None)
    while stack:
        node = stack.pop()
        if isinstance(node, exp.And):
            stack += [node.this, node.expression]
        elif isinstance(node, exp.Paren):
            stack.append(node.this)
        else:
            yield node


def _alternatives(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of OR: each of them has to tie the same two tables."""
    stack = [condition]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Or):
            stack += [node.this, node.expression]
        elif isinstance(node, exp.Paren):
            stack.append(node.this)
        else:
            yield node


def _tied(node: exp.Expr, sources: list[Source]) -> tuple[int, int] | None:
    if not isinstance(node, exp.EQ):
        return None
    left, right = _owner(node.this, sources), _owner(node.expression, sources)
    if left is None or right is None or left == right:
        return None
    return min(left, right), max(left, right)


def _owner(node: exp.Expr, sources: list[Source]) -> int | None:
    """Which source's single column this side is; None where it is anything else."""
    columns = []
    for inner in every_node(node):
        if not isinstance(inner, _HARMLESS + _DAYS):
            return None
        if isinstance(inner, exp.Column):
            columns.append(inner)
    if len(columns) != 1:
        return None
    (column,) = columns
    for index, source in enumerate(sources):
        if column.table:
            if source.alias.lower() == column.table.lower():
                return index
        elif column.name.lower() in source.columns:
            return index
    return None


def _root(group: dict[int, int], index: int) -> int:
    while group[index] != index:
        index = group[index]
    return index


def _merge(group: dict[int, int], one: int, other: int) -> None:
    group[_root(group, other)] = _root(group, one)
