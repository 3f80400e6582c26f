"""What a statement does, in words, by its syntax tree: no model is asked."""

from collections.abc import Iterator

from sqlglot import exp, parse_one

from sqlassist.catalog import Dialect
from sqlassist.guard.regenerate import language_for
from sqlassist.semantic import SemanticLayer

MAX_PART = 160  # characters of one piece of SQL in a sentence


def explain_sql(sql: str, dialect: Dialect, layer: SemanticLayer, language: str) -> str:
    """One line a part: what is read, what counts, how it is split, sorted and cut.

    Args:
        sql: It has passed the guard, so it can be parsed.
        dialect: Of the source.
        layer: For the names of what is computed.
        language: `en` or `zh`.
    """
    tree = parse_one(sql, dialect=language_for(dialect))
    zh = language == "zh"
    lines = [f"{'·' if zh else '-'} {line}" for line in _parts(tree, layer, dialect, zh=zh)]
    return "\n".join(lines)


def _parts(tree: exp.Expr, layer: SemanticLayer, dialect: Dialect, *, zh: bool) -> Iterator[str]:
    tables = list(dict.fromkeys(table.name for table in tree.find_all(exp.Table)))
    withs = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    shown = ", ".join(name for name in tables if name not in withs)
    yield f"读取：{shown}" if zh else f"reads {shown}"
    select = tree if isinstance(tree, exp.Select) else tree.find(exp.Select)
    if select is None:
        return
    if isinstance(tree, exp.SetOperation):
        yield "合并多个查询的结果" if zh else "puts the rows of several queries together"
    values = ", ".join(_item(one, layer, dialect, zh=zh) for one in select.expressions)
    yield f"给出：{values}" if zh else f"gives {values}"
    where = select.args.get("where")
    if where is not None:
        yield f"条件：{_sql(where.this, dialect)}" if zh else f"counts rows where {_sql(where.this, dialect)}"
    group = select.args.get("group")
    if group is not None:
        heads = ", ".join(_grouped(one, select, dialect) for one in group.expressions)
        yield f"分组：{heads}" if zh else f"one row for each {heads}"
    having = select.args.get("having")
    if having is not None:
        yield f"仅保留：{_sql(having.this, dialect)}" if zh else f"keeps groups where {_sql(having.this, dialect)}"
    order = tree.args.get("order")
    if order is not None:
        keys = ", ".join(_sql(one, dialect) for one in order.expressions)
        yield f"排序：{keys}" if zh else f"sorted by {keys}"
    limit = tree.args.get("limit")
    if limit is not None:
        yield f"最多 {limit.expression.name} 行" if zh else f"at most {limit.expression.name} rows"


def _item(one: exp.Expr, layer: SemanticLayer, dialect: Dialect, *, zh: bool) -> str:
    name = one.alias_or_name
    language = "zh" if zh else "en"
    inner = _sql(one.unalias(), dialect)
    if name in layer.metrics:
        return f"{layer.metrics[name].names.label(language, name)} = {inner}"
    if name in layer.dimensions:
        return f"{layer.dimensions[name].names.label(language, name)} = {inner}"
    return inner if name in ("", inner) else f"{name} = {inner}"


def _grouped(one: exp.Expr, select: exp.Select, dialect: Dialect) -> str:
    if isinstance(one, exp.Literal) and one.name.isdecimal() and 1 <= int(one.name) <= len(select.expressions):
        return str(select.expressions[int(one.name) - 1].alias_or_name)
    return _sql(one, dialect)


def _sql(node: exp.Expr, dialect: Dialect) -> str:
    text = node.sql(dialect=language_for(dialect)).replace("`", "").replace('"', "")
    return text if len(text) <= MAX_PART else text[: MAX_PART - 1] + "…"
