"""Ninth step: new text is made from the tree, and only that text is ever executed; the old one is data.

What the parser's own generator gets wrong (release 30) is repaired here, each with a fixture. What cannot be repaired
is refused by the checks before.
"""

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect as Language
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import ErrorLevel, UnsupportedError

from sqlassist.catalog import Dialect
from sqlassist.guard.refused import Refused

_LANGUAGES: dict[Dialect, Language] = {Dialect.MYSQL: MySQL(), Dialect.MARIADB: MySQL(), Dialect.DUCKDB: DuckDB()}


def language_for(dialect: Dialect) -> Language:
    """The parser's dialect."""
    return _LANGUAGES[dialect]


def repaired(tree: exp.Select | exp.SetOperation, dialect: Dialect) -> None:
    """Take out of a freshly parsed tree what would come out wrong: FROM DUAL, which would become a quoted table."""
    if not dialect.is_mysql_like:
        return
    for select in tree.find_all(exp.Select):
        from_ = select.args.get("from_")
        table = from_.this if from_ is not None else None
        if not isinstance(table, exp.Table) or table.name.upper() != "DUAL" or table.this.args.get("quoted"):
            continue
        if set(filter(select.args.get, select.args)) <= {"expressions", "from_", "limit"} and not table.alias:
            select.set("from_", None)


def regenerated(tree: exp.Expr, dialect: Dialect) -> str:
    """SQL text of a tree: every identifier quoted, no comments, one line.

    Raises:
        Refused: `cannot_regenerate`.
    """
    generator = _LANGUAGES[dialect].generator(identify=True, comments=False, unsupported_level=ErrorLevel.RAISE)
    # The compiled build allows no subclasses of its generator; an instance's own table of methods is as good.
    generator._dispatch = {**generator._dispatch, **_REPAIRS[dialect]}  # noqa: SLF001
    try:
        return generator.generate(tree, copy=False)
    except UnsupportedError as error:
        raise Refused("cannot_regenerate", "this cannot be written in the database's dialect") from error


def _infix_regexp(self: Any, node: exp.Expr) -> str:
    return f"{self.sql(node, 'this')} REGEXP {self.sql(node, 'expression')}"


def _utc_date(self: Any, node: exp.Expr) -> str:
    del self, node
    return "DATE(UTC_TIMESTAMP())"


def _plain_interval(self: Any, node: exp.Expr) -> str:
    """`INTERVAL '1' SECOND`, as the parser's own generator writes it, adds microseconds; with 1 there are none."""
    amount = node.this
    is_number = isinstance(amount, exp.Literal) and amount.name.isdigit()
    return f"INTERVAL {amount.name if is_number else self.sql(amount)} {self.sql(node, 'unit')}"


def _logarithm(self: Any, node: exp.Expr) -> str:
    """LOG10(x) and LOG2(x) differ from LOG(10, x) in the last digit."""
    base, of = node.this, node.expression
    if of is None:
        return f"LOG({self.sql(base)})"
    name = {"2": "LOG2", "10": "LOG10"}.get(base.name if isinstance(base, exp.Literal) else "")
    if name is None:
        raise UnsupportedError("a logarithm to this base")
    return f"{name}({self.sql(of)})"


def _convert_using(self: Any, node: exp.Expr) -> str:
    """A CAST with a character set loses what CONVERT ... USING keeps: the number of decimals, for one."""
    to = node.args["to"]
    if to.this is exp.DType.CHARACTER_SET:
        return f"CONVERT({self.sql(node, 'this')} USING {to.args['kind'].name})"
    original = MySQL.Generator.TRANSFORMS.get(exp.Cast)
    return str(original(self, node) if original is not None else self.cast_sql(node))


def _modulo(self: Any, node: exp.Expr) -> str:
    """MOD(a, b) ^ c comes out as a % b ^ c, which is another number; the function needs no parentheses round it."""
    texts = []
    for operand in (node.this, node.expression):
        while type(operand) is exp.Paren:  # the parser adds them round what it finds in MOD(...)
            operand = operand.this
        texts.append(self.sql(operand))
    return f"MOD({', '.join(texts)})"


def _month_name(self: Any, node: exp.Expr) -> str:
    """MONTHNAME is parsed as a format of a date; of a TIME, DATE_FORMAT gives nothing."""
    if type(node.this) is exp.TsOrDsToDate:
        return f"MONTHNAME({self.sql(node.this, 'this')})"
    return str(MySQL.Generator.TRANSFORMS[exp.TimeToStr](self, node))


_Repairs = dict[type[exp.Expr], Callable[[Any, Any], str]]
_MYSQL_REPAIRS: _Repairs = {
    exp.Cast: _convert_using,
    exp.Mod: _modulo,
    exp.TimeToStr: _month_name,
    exp.RegexpLike: _infix_regexp,
    exp.UtcDate: _utc_date,
    exp.Interval: _plain_interval,
    exp.Log: _logarithm,
}
_REPAIRS: dict[Dialect, _Repairs] = {
    Dialect.MYSQL: _MYSQL_REPAIRS,
    Dialect.MARIADB: _MYSQL_REPAIRS,
    Dialect.DUCKDB: {exp.Log: _logarithm, exp.Mod: _modulo},
}
