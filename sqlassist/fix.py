"""Mends SQL by rule, without a model: names that do not exist become the nearest ones that do, dialects are translated.

Each step is a change that a refusal of the guard asked for; the guard decides about the result like about any other.
"""

import re
from collections.abc import Callable, Iterator

import attrs
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from sqlassist.catalog import Catalog, nearest
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.guard.limits import Limits
from sqlassist.guard.regenerate import language_for
from sqlassist.messages import Refusal

MAX_STEPS = 8  # each one mends one thing; what needs more is written anew
_QUOTED_TABLE = re.compile(r"\b(from|join)\s+\"\w+\"", re.IGNORECASE)
TRANSLATED = "translated from"
_OTHER_DIALECTS = ("postgres", "tsql", "oracle", "snowflake", "bigquery", "sqlite", "duckdb", "mysql")


@attrs.frozen
class Fixed:
    """SQL that passes, and what was done to it."""

    query: CheckedQuery
    sql: str
    changes: tuple[str, ...]
    """In words, in order; none where it was right as it came."""


@attrs.frozen
class NotFixed:
    """How far it came."""

    refusal: Refusal
    sql: str
    changes: tuple[str, ...]


def fix_by_rule(sql: str, catalog: Catalog, limits: Limits) -> Fixed | NotFixed:
    """Mend a statement.

    Args:
        sql: As it was written, often for another database.
        catalog: What the tenant may name.
        limits: As for any statement.
    """
    text, changes = sql.strip().rstrip(";").strip(), list[str]()
    if catalog.dialect.is_mysql_like and _QUOTED_TABLE.search(text):  # there "amount" is a text and sums up to 0
        text, changes = next(((one, [change]) for one, change in _translated(text, catalog)), (text, changes))
    seen = {text}
    for _ in range(MAX_STEPS):
        result = check(text, catalog, limits)
        if isinstance(result, CheckedQuery):
            return Fixed(result, text, tuple(changes))
        fresh = [one for one in _steps(text, catalog, result) if one[0] not in seen]
        if any(change.startswith(TRANSLATED) for change in changes):  # once: what it became is ours already
            fresh = [one for one in fresh if not one[1].startswith(TRANSLATED)]
        step = _best(fresh, catalog, limits)
        if step is None:
            return NotFixed(result, text, tuple(changes))
        text = step[0]
        seen.add(text)
        changes.append(step[1])
    result = check(text, catalog, limits)
    if isinstance(result, CheckedQuery):
        return Fixed(result, text, tuple(changes))
    return NotFixed(result, text, tuple(changes))


def _best(steps: list[tuple[str, str]], catalog: Catalog, limits: Limits) -> tuple[str, str] | None:
    """The first step whose result passes, else the first one."""
    passing = (one for one in steps if isinstance(check(one[0], catalog, limits), CheckedQuery))
    return next(passing, steps[0] if steps else None)


def _steps(text: str, catalog: Catalog, refusal: Refusal) -> Iterator[tuple[str, str]]:
    """(new text, what was changed), the likeliest first."""
    match refusal.code:
        case "unknown_table":
            yield from _renamed(text, catalog, exp.Table, refusal.where, catalog.table_names())
        case "unknown_column":
            yield from _renamed(text, catalog, exp.Column, refusal.where, _columns(text, catalog))
        case "qualified_name":
            yield from _changed(text, catalog, _without_qualifiers, "took the database names away")
        case "not_grouped":
            yield from _changed(text, catalog, _grouped, "grouped by every plain column")
        case "several_statements":
            first = text.split(";", 1)[0].strip()
            yield first, "kept the first statement alone"
        case "syntax" | "function_not_allowed" | "construct_not_allowed" | "bad_interval" | "cannot_regenerate":
            yield from _translated(text, catalog)
        case "ambiguous_column":
            yield from _qualified(text, catalog, refusal.where)


def _tree(text: str, catalog: Catalog) -> exp.Expr | None:
    try:
        return parse_one(text, dialect=language_for(catalog.dialect))
    except (SqlglotError, RecursionError):
        return None


def _written(tree: exp.Expr, catalog: Catalog) -> str:
    return tree.sql(dialect=language_for(catalog.dialect))


def _changed(text: str, catalog: Catalog, change: Callable[[exp.Expr], bool], words: str) -> Iterator[tuple[str, str]]:
    tree = _tree(text, catalog)
    if tree is not None and change(tree):
        yield _written(tree, catalog), words


def _renamed(
    text: str, catalog: Catalog, kind: type[exp.Expr], where: str, known: list[str]
) -> Iterator[tuple[str, str]]:
    wrong = where.rpartition(".")[2].strip('`"')
    for better in nearest(wrong, known):
        tree = _tree(text, catalog)
        if tree is None:
            return
        hits = [node for node in tree.find_all(kind) if node.name.lower() == wrong.lower()]
        for node in hits:
            node.this.set("this", better)
        if kind is exp.Table:  # columns may be written with the table's name before them
            for column in tree.find_all(exp.Column):
                if column.table.lower() == wrong.lower():
                    column.set("table", exp.to_identifier(better))
        if hits:
            yield _written(tree, catalog), f"{wrong} → {better}"


def _columns(text: str, catalog: Catalog) -> list[str]:
    """Of the tables that the statement names, or of all."""
    tree = _tree(text, catalog)
    named = [] if tree is None else [catalog.table(node.name) for node in tree.find_all(exp.Table)]
    tables = [table for table in named if table is not None] or list(catalog.tables)
    return list(dict.fromkeys(column.name for table in tables for column in table.columns))


def _without_qualifiers(tree: exp.Expr) -> bool:
    found = False
    for table in tree.find_all(exp.Table):
        if table.args.get("db") or table.args.get("catalog"):
            table.set("db", None)
            table.set("catalog", None)
            found = True
    for column in tree.find_all(exp.Column):
        if column.args.get("db"):
            column.set("db", None)
            column.set("catalog", None)
            found = True
    return found


def _grouped(tree: exp.Expr) -> bool:
    select = tree if isinstance(tree, exp.Select) else tree.find(exp.Select)
    if select is None:
        return False
    plain = [
        one.unalias().copy() for one in select.expressions if one.find(exp.AggFunc) is None and one.find(exp.Column)
    ]
    if not plain or len(plain) == len(select.expressions):
        return False
    select.set("group", exp.Group(expressions=plain))
    return True


def _qualified(text: str, catalog: Catalog, where: str) -> Iterator[tuple[str, str]]:
    name = where.rpartition(".")[2].strip('`"')
    tree = _tree(text, catalog)
    for table in [] if tree is None else list(tree.find_all(exp.Table)):
        known = catalog.table(table.name)
        if known is None or known.column(name) is None:
            continue
        again = _tree(text, catalog)
        assert again is not None
        for column in again.find_all(exp.Column):
            if not column.table and column.name.lower() == name.lower():
                column.set("table", exp.to_identifier(table.alias_or_name))
        yield _written(again, catalog), f"{name} → {table.alias_or_name}.{name}"


def _translated(text: str, catalog: Catalog) -> Iterator[tuple[str, str]]:
    """The statement read as another database's SQL and written as ours."""
    for dialect in _OTHER_DIALECTS:
        try:
            tree = parse_one(text, dialect=dialect)
            yield _written(tree, catalog), f"{TRANSLATED} {dialect}"
        except (SqlglotError, RecursionError, ValueError):
            continue
