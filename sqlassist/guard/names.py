"""Seventh check: every table and column is one of the tenant's, found by scope as the server finds it.

A WITH table is visible from its definition on, inside its own query, and nowhere else: a global list of such names
would let `WITH secret AS (SELECT 1) ...` open the real `secret` elsewhere. On the way, names get the spelling that the
server needs: that of the catalog for tables, that of the definition for aliases.
"""

from collections.abc import Iterable, Iterator, Mapping

import attrs
from sqlglot import exp

from sqlassist.catalog import Catalog, did_you_mean
from sqlassist.guard.functions import AGGREGATES
from sqlassist.guard.limits import Limits
from sqlassist.guard.refused import Refused

_UNNAMED = ""


@attrs.frozen
class Source:
    """Something in a FROM clause."""

    alias: str
    columns: Mapping[str, str]
    """Lower-case name → name; what has no name is not in it."""
    is_table: bool = False
    """True for a table of the catalog, which may have more columns than the tenant may see."""
    is_single_row: bool = False
    """True where it has at most one row, whatever the data: joining it multiplies nothing."""


@attrs.define(eq=False)
class Scope:
    """One SELECT with its sources."""

    select: exp.Select
    sources: list[Source]
    parent: "Scope | None"


@attrs.frozen
class Output:
    """What a query gives to the query round it."""

    columns: tuple[str, ...]
    """Names in order, `` for what has none."""
    is_single_row: bool
    name: str = ""
    """Of a WITH table, in the spelling of its definition."""


@attrs.frozen
class Resolved:
    """What the statement refers to."""

    tables: tuple[str, ...]
    """Tables of the catalog, each once, in order of appearance."""
    scopes: tuple[Scope, ...]
    output: Output


def resolved(tree: exp.Expr, catalog: Catalog, limits: Limits) -> Resolved:
    """Resolve all names of a checked tree, and write them as the server needs them.

    Raises:
        Refused: `unknown_table`, `unknown_column`, `unknown_alias`, `ambiguous_column`, `duplicate_alias`,
            `duplicate_column`, `union_columns`, `too_many_tables` or `construct_not_allowed`.
    """
    resolver = _Resolver(catalog, limits)
    output = resolver.query(tree, {}, None)
    return Resolved(tuple(dict.fromkeys(resolver.tables)), tuple(resolver.scopes), output)


class _Resolver:
    def __init__(self, catalog: Catalog, limits: Limits) -> None:
        self.catalog = catalog
        self.limits = limits
        self.tables: list[str] = []
        self.scopes: list[Scope] = []
        self.references = 0

    def query(self, node: exp.Expr, visible: Mapping[str, Output], parent: Scope | None) -> Output:
        while isinstance(node, exp.Subquery):
            node = node.this
        visible = self._with(node, visible)
        if isinstance(node, exp.Select):
            return self._select(node, visible, parent)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, visible, parent)
        raise Refused("construct_not_allowed", "only SELECT may stand in parentheses here", type(node).__name__)

    def _with(self, node: exp.Expr, visible: Mapping[str, Output]) -> Mapping[str, Output]:
        clause = node.args.get("with_")
        if clause is None:
            return visible
        made = dict(visible)
        own: set[str] = set()
        for table in clause.expressions:
            alias = table.args["alias"]
            name = alias.name.lower()
            if name in own:
                raise Refused("duplicate_alias", "two WITH tables have one name", alias.name)
            own.add(name)
            output = self.query(table.this, made, None)
            made[name] = attrs.evolve(_renamed(output, alias), name=alias.name)
        return made

    def _set_operation(self, node: exp.SetOperation, visible: Mapping[str, Output], parent: Scope | None) -> Output:
        arms: list[exp.Expr] = []
        left: exp.Expr = node
        while isinstance(left, exp.SetOperation) and (left is node or not _has_modifiers(left)):
            arms.append(left.expression)
            left = left.this
        outputs = [self.query(arm, visible, parent) for arm in (left, *reversed(arms))]
        first = outputs[0]
        if any(len(output.columns) != len(first.columns) for output in outputs):
            raise Refused("union_columns", "all parts of UNION, INTERSECT and EXCEPT need equally many columns")
        order = node.args.get("order")
        if order is not None:
            self._order_of_set(order, first)
        return Output(first.columns, is_single_row=False)

    @staticmethod
    def _order_of_set(order: exp.Expr, output: Output) -> None:
        names = {name.lower() for name in output.columns}
        for column in order.find_all(exp.Column, exp.Query):
            known = isinstance(column, exp.Column) and not column.table and column.name.lower() in names
            if not known:
                hint = "ORDER BY behind a UNION takes the column names of its first SELECT"
                raise Refused("unknown_column", hint, column.sql())

    def _select(self, select: exp.Select, visible: Mapping[str, Output], parent: Scope | None) -> Output:
        scope = Scope(select, [], parent)
        self.scopes.append(scope)
        joins = select.args.get("joins") or []
        from_ = select.args.get("from_")
        if from_ is None and joins:
            raise Refused("syntax", "a JOIN needs a FROM before it", "JOIN")
        for node in [from_.this] if from_ is not None else []:
            scope.sources.append(self._source(node, visible))
        merged: set[str] = set()
        for join in joins:
            source = self._source(join.this, visible)
            for column in join.args.get("using") or []:
                self._using(column, scope, source)
                merged.add(column.name.lower())
            scope.sources.append(source)
        _check_aliases(scope)
        names = list(self._output_names(select, scope))
        self._expand_stars(select, scope, has_using=bool(merged))
        own = {name.lower() for name in names if name}
        for key, value in select.args.items():
            if key in ("with_", "from_") or value is None:
                continue
            aliases = own if key in ("group", "having", "order") else set()
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, exp.Join):
                    node = node.args.get("on")
                if isinstance(node, exp.Expr):
                    self._expression(node, scope, visible, aliases, merged)
        return Output(tuple(names), _is_single_row(select, scope))

    def _source(self, node: exp.Expr, visible: Mapping[str, Output]) -> Source:
        self.references += 1
        if self.references > self.limits.max_tables:
            raise Refused("too_many_tables", f"at most {self.limits.max_tables} tables in one statement")
        alias = node.args.get("alias")
        if isinstance(node, exp.Subquery):
            output = self.query(node.this, visible, None)
            if alias is None or not alias.name:  # the servers demand one, and models forget it
                alias = exp.TableAlias(this=exp.to_identifier(f"_{self.references}", quoted=True))
                node.set("alias", alias)
            return self._derived(_renamed(output, alias), alias.name)
        if not isinstance(node, exp.Table):
            raise Refused("construct_not_allowed", "FROM takes tables, views and subqueries only", node.sql())
        name = node.this.name
        if name.lower() in visible:
            output = visible[name.lower()]
            node.set("this", exp.to_identifier(output.name, quoted=True))
            shown = alias.name if alias is not None and alias.name else output.name
            return self._derived(_renamed(output, alias) if alias is not None else output, shown)
        table = self.catalog.table(name)
        if table is None:
            raise self._unknown_table(name)
        self.tables.append(table.name)
        node.set("this", exp.to_identifier(table.name, quoted=True))
        output = Output(tuple(column.name for column in table.columns), is_single_row=False)
        shown = alias.name if alias is not None and alias.name else table.name
        source = self._derived(_renamed(output, alias) if alias is not None else output, shown)
        return attrs.evolve(source, is_table=True)

    def _derived(self, output: Output, alias: str) -> Source:
        columns: dict[str, str] = {}
        for name in output.columns:
            if name and name.lower() in columns and self.catalog.dialect.is_mysql_like:
                raise Refused("duplicate_column", "two columns of one table have one name: give one an alias", name)
            if name:
                columns[name.lower()] = name
        return Source(alias, columns, is_single_row=output.is_single_row)

    def _unknown_table(self, name: str) -> Refused:
        known = self.catalog.table_names()
        near = did_you_mean(name, known)
        hint = f"there is no table {name!r}{near}" if near else f"there is no table {name!r}; there are: {_some(known)}"
        return Refused("unknown_table", hint, name)

    def _using(self, column: exp.Expr, scope: Scope, source: Source) -> None:
        name = column.name.lower()
        if name not in source.columns or not any(name in other.columns for other in scope.sources):
            raise Refused("unknown_column", f"USING({column.name}) needs the column on both sides", column.name)

    def _output_names(self, select: exp.Select, scope: Scope) -> Iterator[str]:
        for projection in select.expressions:
            if isinstance(projection, exp.Star):
                if not scope.sources:
                    raise Refused("star", "* needs a FROM", "*")
                for source in scope.sources:
                    yield from source.columns.values()
            elif isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star):
                yield from self._qualifier(projection, scope).columns.values()
            elif isinstance(projection, exp.Alias):
                yield projection.alias
            else:
                yield projection.name if isinstance(projection, exp.Column) else _UNNAMED

    def _expand_stars(self, select: exp.Select, scope: Scope, *, has_using: bool) -> None:
        """Name the columns that `*` may mean: the server's table may have some that the catalog hides."""
        made: list[exp.Expr] = []
        for projection in select.expressions:
            if isinstance(projection, exp.Star):
                sources = scope.sources
                if has_using and any(source.is_table for source in sources):
                    raise Refused("star", "write the columns instead of * where tables are joined with USING", "*")
            elif isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star):
                sources = [self._qualifier(projection, scope)]
            else:
                made.append(projection)
                continue
            if not any(source.is_table for source in sources):
                made.append(projection)
                continue
            for source in sources:
                alias = source.alias if len(scope.sources) > 1 else None
                names = [exp.to_identifier(name, quoted=True) for name in source.columns.values()]
                parts = names if source.is_table else [exp.Star()]
                made += [
                    exp.Column(this=part, table=exp.to_identifier(alias, quoted=True) if alias else None)
                    for part in parts
                ]
        select.set("expressions", made)

    def _expression(
        self, root: exp.Expr, scope: Scope, visible: Mapping[str, Output], aliases: set[str], merged: set[str]
    ) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, exp.Query):
                self.query(node, visible, scope)
                continue
            if isinstance(node, exp.Column):
                self._column(node, scope, aliases, merged)
                continue
            for value in node.args.values():
                if isinstance(value, exp.Expr):
                    stack.append(value)
                elif isinstance(value, list):
                    stack.extend(entry for entry in value if isinstance(entry, exp.Expr))

    def _column(self, column: exp.Column, scope: Scope, aliases: set[str], merged: set[str]) -> None:
        if column.table:
            source = self._qualifier(column, scope)
            if not isinstance(column.this, exp.Star) and column.name.lower() not in source.columns:
                raise self._unknown_column(column, source.columns.values())
            return
        name = column.name.lower()
        inner: Scope | None = scope
        while inner is not None:
            owners = [source for source in inner.sources if name in source.columns]
            if len(owners) > 1 and name not in merged and name not in aliases:
                shown = _some([owner.alias for owner in owners])
                hint = f"{column.name} is in {shown}: write which, as in {owners[0].alias}.{column.name}"
                raise Refused("ambiguous_column", hint, column.name)
            if owners or name in aliases:
                return
            inner, aliases, merged = inner.parent, set(), set()
        raise self._unknown_column(column, [name for source in scope.sources for name in source.columns.values()])

    def _qualifier(self, column: exp.Column, scope: Scope) -> Source:
        wanted = column.table.lower()
        inner: Scope | None = scope
        while inner is not None:
            for source in inner.sources:
                if source.alias.lower() == wanted:
                    column.set("table", exp.to_identifier(source.alias, quoted=True))
                    return source
            inner = inner.parent
        aliases = [source.alias for source in scope.sources]
        raise Refused(
            "unknown_alias", f"no table here is called {column.table!r}; there are: {_some(aliases)}", column.sql()
        )

    def _unknown_column(self, column: exp.Column, candidates: Iterable[str]) -> Refused:
        names = list(candidates)
        elsewhere = self.catalog.tables_with(column.name)
        near = did_you_mean(column.name, names)
        if not self.catalog.dialect.is_mysql_like and column.this.args.get("quoted") and not near and not elsewhere:
            hint = f"there is no column {column.name!r} here; a text is written in single quotes"
        elif near:
            hint = f"there is no column {column.name!r} here{near}"
        elif elsewhere:
            hint = f"there is no column {column.name!r} here, but there is {_some(elsewhere)}: join that table"
        else:
            hint = f"there is no column {column.name!r} here; there are: {_some(names)}"
        return Refused("unknown_column", hint, column.sql())


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown}, ..." if len(names) > 12 else shown or "none"


def _has_modifiers(node: exp.Expr) -> bool:
    return any(node.args.get(name) for name in ("with_", "order", "limit", "offset"))


def _renamed(output: Output, alias: exp.Expr) -> Output:
    columns = alias.args.get("columns")
    if not columns:
        return output
    if len(columns) != len(output.columns):
        raise Refused(
            "union_columns", f"{alias.name} names {len(columns)} columns of {len(output.columns)}", alias.name
        )
    return Output(tuple(column.name for column in columns), output.is_single_row)


def _check_aliases(scope: Scope) -> None:
    seen: set[str] = set()
    for source in scope.sources:
        if source.alias.lower() in seen:
            hint = f"two tables are called {source.alias}: give each an alias of its own"
            raise Refused("duplicate_alias", hint, source.alias)
        seen.add(source.alias.lower())


def _is_single_row(select: exp.Select, scope: Scope) -> bool:
    limit = select.args.get("limit")
    if limit is not None and isinstance(limit.expression, exp.Literal) and limit.expression.name in ("0", "1"):
        return True
    if select.args.get("group"):
        return False
    if not scope.sources:
        return True
    return any(_is_aggregate(projection) for projection in select.expressions)


def _is_aggregate(node: exp.Expr) -> bool:
    """True when an aggregate of this very query is in the expression, which makes the query's result one row."""
    stack = [node]
    while stack:
        inner = stack.pop()
        if type(inner).__name__ in AGGREGATES:
            return True
        if isinstance(inner, exp.Query | exp.Window):
            continue
        for value in inner.args.values():
            if isinstance(value, exp.Expr):
                stack.append(value)
            elif isinstance(value, list):
                stack.extend(entry for entry in value if isinstance(entry, exp.Expr))
    return False
