"""Does a query restrict the partition column of every partitioned table? The predicate is judged, not a server's list.

RANGE(TO_DAYS(...)) lists its first partition for any predicate, as it holds the impossible dates.
"""

from sqlglot import exp, parse_one

from sqlassist.catalog import Catalog, Table
from sqlassist.execute.errors import NO_PARTITION_FILTER
from sqlassist.guard.checked import CheckedQuery
from sqlassist.guard.regenerate import language_for
from sqlassist.messages import Refusal


def judge_partitions(query: CheckedQuery, catalog: Catalog) -> Refusal | None:
    """Why a query reads all partitions of some table, or None."""
    partitioned = [table for name in query.tables if (table := catalog.table(name)) is not None and table.partition]
    if not partitioned:
        return None
    by_name = {table.name.lower(): table for table in partitioned}
    tree = parse_one(query.sql, dialect=language_for(query.dialect))
    for select in tree.find_all(exp.Select):
        for source in _tables(select):
            table, alias = by_name.get(source.name.lower()), source.alias_or_name
            if table is None or any(_restricts(given, table, alias) for given in _conditions(select, alias)):
                continue
            hint = f"{table.name} is kept by {table.partition}: compare it with dates, as in {table.partition} >= '...'"
            return Refusal(NO_PARTITION_FILTER, table.name, hint)
    return None


def _tables(select: exp.Select) -> list[exp.Table]:
    from_ = select.args.get("from_")
    nodes = [from_.this] if from_ is not None else []
    nodes += [join.this for join in select.args.get("joins") or []]
    return [node for node in nodes if isinstance(node, exp.Table)]


def _conditions(select: exp.Select, alias: str) -> list[exp.Expr]:
    """What restricts the rows of one table: WHERE, and ON except where an outer join keeps that table whole."""
    where = select.args.get("where")
    found = [where.this] if where is not None else []
    for join in select.args.get("joins") or []:
        on, is_joined = join.args.get("on"), join.this.alias_or_name == alias
        kept = {"LEFT": not is_joined, "RIGHT": is_joined, "FULL": True}.get(str(join.args.get("side") or "").upper())
        if on is not None and not kept:
            found.append(on)
    return found


def _restricts(condition: exp.Expr, table: Table, alias: str) -> bool:
    match condition:
        case exp.Paren():
            return _restricts(condition.this, table, alias)
        case exp.And():
            return any(_restricts(side, table, alias) for side in (condition.left, condition.right))
        case exp.Or():
            return all(_restricts(side, table, alias) for side in (condition.left, condition.right))
        case exp.Between() | exp.In():
            values = [value for key, value in condition.args.items() if key != "this" and value is not None]
            flat = [entry for value in values for entry in (value if isinstance(value, list) else [value])]
            return _is_partition(condition.this, table, alias) and all(_is_constant(value) for value in flat)
        case exp.EQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            sides = (condition.left, condition.right)
            return any(
                _is_partition(one, table, alias) and _is_constant(other) for one, other in (sides, reversed(sides))
            )
        case _:
            return False


def _is_partition(node: exp.Expr, table: Table, alias: str) -> bool:
    assert table.partition is not None
    if not isinstance(node, exp.Column) or node.name.lower() != table.partition.lower():
        return False
    return not node.table or node.table.lower() == alias.lower()


def _is_constant(node: object) -> bool:
    return isinstance(node, exp.Expr) and node.find(exp.Column, exp.Query) is None
