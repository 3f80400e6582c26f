"""Fifth check: every node of the tree is of a kind that is known to be harmless, and has no argument but known ones.

What is not on the list is refused: a new release of the parser may bring new kinds, and none of them gets through.
"""

import re
from collections.abc import Iterator

from sqlglot import exp

from sqlassist.catalog import Dialect
from sqlassist.guard.functions import check_function, words_in
from sqlassist.guard.refused import Refused

# kind → its arguments, by the parser's names
_KINDS: dict[str, frozenset[str]] = {
    kind: words_in(arguments)
    for kind, arguments in {
        "Select": "expressions from_ joins where group having order limit offset distinct windows with_",
        "Union": "this expression distinct order limit offset with_",
        "Intersect": "this expression distinct order limit offset with_",
        "Except": "this expression distinct order limit offset with_",
        "Subquery": "this alias",
        "With": "expressions",
        "CTE": "this alias",
        "TableAlias": "this columns",
        "From": "this",
        "Join": "this on using side kind",
        "Table": "this alias",
        "Where": "this",
        "Group": "expressions rollup",
        "Rollup": "expressions",
        "Having": "this",
        "Order": "this expressions",
        "Ordered": "this desc nulls_first",
        "Limit": "expression",
        "Offset": "expression",
        "Distinct": "expressions",
        "Window": "this partition_by order spec alias over",
        "WindowSpec": "kind start start_side end end_side",
        "Alias": "this alias",
        "Column": "this table",
        "Identifier": "this quoted",
        "Star": "",
        "Literal": "this is_string",
        "National": "this",
        "Null": "",
        "Boolean": "this",
        "Paren": "this",
        "Tuple": "expressions",
        "Var": "this",
        "DataType": "this expressions nested kind",
        "DataTypeParam": "this",
        "Interval": "this unit",
        "Case": "this ifs default",
        "In": "this expressions query",
        "Exists": "this",
        "Any": "this",
        "All": "this",
        "Between": "this low high",
        "Escape": "this expression",
        "Not": "this",
        "Neg": "this",
        "BitwiseNot": "this",
        "Cast": "this to",
        "TryCast": "this to requires_string",
        "Div": "this expression typed safe",
        "Filter": "this expression",
        **dict.fromkeys(
            words_in(
                "And Or Xor EQ NEQ LT LTE GT GTE NullSafeEQ Is Like ILike Add Sub Mul IntDiv Mod BitwiseAnd BitwiseOr "
                "BitwiseXor BitwiseLeftShift BitwiseRightShift"
            ),
            "this expression",
        ),
        **dict.fromkeys(("Is", "Like", "ILike"), "this expression negate"),
    }.items()
}
_NAMED_ARGUMENTS = {
    ("Select", "locks"): ("lock", "FOR UPDATE and FOR SHARE are not allowed: leave it out"),
    ("Select", "into"): ("into", "INTO is not allowed: leave it out"),
    ("Select", "operation_modifiers"): (
        "argument_not_allowed",
        "words like SQL_NO_CACHE are not allowed behind SELECT",
    ),
    ("Join", "method"): ("natural_join", "NATURAL JOIN is not allowed: write JOIN ... ON with the columns"),
    ("With", "recursive"): ("recursion", "WITH RECURSIVE is not allowed: use a calendar table, or ask in steps"),
}
_ONLY_DUCKDB = {"ILike", "Filter", "TryCast"}
_CAST_TYPES = words_in(
    "CHAR VARCHAR TEXT CHARACTER_SET DATE DATETIME TIMESTAMP TIMESTAMPTZ TIME DECIMAL FLOAT DOUBLE INT BIGINT SMALLINT "
    "TINYINT UBIGINT UINT BINARY VARBINARY BOOLEAN"
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_UNITS = words_in(
    "MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR YEAR_MONTH DAY_HOUR HOUR_MINUTE MINUTE_SECOND "
    "DAY_MINUTE DAY_SECOND HOUR_SECOND DOW DOY ISODOW EPOCH"
)
_CHARACTER_SETS = words_in("UTF8MB4 UTF8 UTF8MB3 LATIN1 ASCII BINARY")
_SIDES = {"", "LEFT", "RIGHT", "FULL"}
_JOIN_KINDS = {"", "INNER", "OUTER", "CROSS"}

# Predicates as operands of other operators: the server and the parser may group them differently, so parentheses
# are demanded. `a = b IS NOT NULL` is one of them.
_PREDICATES = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.Is,
    exp.Like,
    exp.ILike,
    exp.In,
    exp.Between,
    exp.Not,
    exp.RegexpLike,
    exp.Escape,
)
_LOGIC = (exp.And, exp.Or, exp.Xor)


def every_node(tree: exp.Expr) -> Iterator[exp.Expr]:
    """All nodes, parents first. A stack rather than recursion: depth is the attacker's choice."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                stack.append(value)
            elif isinstance(value, list):
                stack.extend(entry for entry in value if isinstance(entry, exp.Expr))


def check_nodes(tree: exp.Expr, dialect: Dialect) -> None:
    """Look at every node of the tree once.

    Raises:
        Refused: `construct_not_allowed`, `argument_not_allowed`, `function_not_allowed`, `qualified_name`, `star`,
            `ambiguous_precedence`, `bad_interval`, `cast_type` or `bad_literal`.
    """
    for node in every_node(tree):
        kind = type(node).__name__
        allowed = _KINDS.get(kind)
        if allowed is None or (kind in _ONLY_DUCKDB and dialect.is_mysql_like):
            if not isinstance(node, exp.Func):
                raise Refused("construct_not_allowed", f"{_shown(kind)} is not allowed in a query", kind)
            check_function(node, dialect)
        else:
            for name, value in node.args.items():
                if value is not None and value is not False and value != [] and name not in allowed:
                    _refuse_argument(kind, name, node)
        _check_details(node, kind)


def _refuse_argument(kind: str, name: str, node: exp.Expr) -> None:
    if kind in ("Table", "Column") and name in ("db", "catalog"):
        raise Refused("qualified_name", "name tables without a database before them", node.sql())
    if (kind, name) in _NAMED_ARGUMENTS:
        code, hint = _NAMED_ARGUMENTS[kind, name]
        raise Refused(code, hint, kind)
    raise Refused("argument_not_allowed", f"{_shown(kind)} is not allowed with {name.strip('_').upper()}", kind)


def _shown(kind: str) -> str:
    return {"Lock": "FOR UPDATE", "Into": "INTO", "Values": "VALUES", "Aliases": "name (...)"}.get(kind, kind)


def _check_details(node: exp.Expr, kind: str) -> None:  # noqa: C901  # a flat list of cases
    match kind:
        case "Star":
            if not isinstance(node.parent, exp.Select | exp.Count) and not _is_qualified_star(node):
                raise Refused("star", "* stands in the SELECT list or in COUNT(*) only", "*")
        case "Select" if not node.args.get("expressions"):
            raise Refused("syntax", "SELECT needs at least one column", "SELECT")
        case "Table" if type(node.this) is not exp.Identifier:
            raise Refused("construct_not_allowed", "FROM takes tables, views and subqueries only", node.sql())
        case "Column" if type(node.this) not in (exp.Identifier, exp.Star):
            raise Refused("construct_not_allowed", "this is no column", node.sql())
        case "Join":
            if node.args.get("side", "") not in _SIDES or node.args.get("kind", "") not in _JOIN_KINDS:
                raise Refused("argument_not_allowed", "use JOIN, LEFT JOIN or RIGHT JOIN", str(node.args.get("kind")))
        case "Interval":
            _check_interval(node)
        case "TimeToStr" | "StrToDate" | "StrToTime" | "UnixToTime":
            pattern = node.args.get("format")
            if isinstance(pattern, exp.Literal) and pattern.name in (
                "",
                "None",
            ):  # the parser makes None of an empty one
                raise Refused("bad_literal", "a format must not be empty", "''")
        case "DateAdd" | "DateSub":
            _check_amount(node.expression)
        case "Var":
            _check_word(node)
        case "DataType":
            _check_type(node)
        case "Identifier" if not node.name.strip():
            raise Refused("construct_not_allowed", "a name must not be empty", kind)
        case "WindowSpec":
            _check_frame(node)
        case _:
            pass
    if isinstance(node, _PREDICATES):
        _check_precedence(node)


def _is_qualified_star(node: exp.Expr) -> bool:
    column = node.parent
    return isinstance(column, exp.Column) and isinstance(column.parent, exp.Select)


def _check_precedence(node: exp.Expr) -> None:
    parent = node.parent
    if not isinstance(parent, exp.Binary | exp.In | exp.Between | exp.Neg | exp.BitwiseNot | exp.RegexpLike):
        return
    if isinstance(parent, _LOGIC) or (isinstance(parent, exp.In) and node.arg_key != "this"):
        return
    if isinstance(parent, exp.Escape) and isinstance(node, exp.Like | exp.ILike):
        return
    raise Refused("ambiguous_precedence", "put the inner comparison in parentheses", node.sql())


def _check_interval(node: exp.Expr) -> None:
    parent, unit = node.parent, node.args.get("unit")
    is_operand = isinstance(parent, exp.Add | exp.Sub) and node.arg_key == "expression"
    is_argument = isinstance(parent, exp.Anonymous) and parent.name.upper() in ("ADDDATE", "SUBDATE")
    is_frame = isinstance(parent, exp.WindowSpec)
    if not (is_operand or is_argument or is_frame) or type(unit) is not exp.Var:
        raise Refused("bad_interval", "write `date + INTERVAL 1 DAY` or DATE_ADD(date, INTERVAL 1 DAY)", "INTERVAL")
    _check_amount(node.this)


def _check_amount(amount: exp.Expr | None) -> None:
    """A number of units, or a column of them; composed and signed amounts come out as something else."""
    if isinstance(amount, exp.Column):
        return
    if isinstance(amount, exp.Literal) and re.fullmatch(r"[0-9]{1,9}", amount.name):
        return
    if isinstance(amount, exp.Interval):  # DuckDB's DATE_ADD(date, INTERVAL ...)
        return
    raise Refused("bad_interval", "an INTERVAL takes a whole number; use DATE_SUB for a negative one", "INTERVAL")


def _check_word(node: exp.Expr) -> None:
    name = node.name.upper()
    is_set = isinstance(node.parent, exp.DataType) and name in _CHARACTER_SETS
    if not _WORD.fullmatch(name) or not (name in _UNITS or is_set):
        raise Refused(
            "construct_not_allowed",
            f"{node.name} is neither a unit of time nor a character set that may be used",
            node.name,
        )


def _check_type(node: exp.Expr) -> None:
    assert isinstance(node, exp.DataType)
    kind = node.this
    name = kind.name if isinstance(kind, exp.DType) else ""
    if name not in _CAST_TYPES or not isinstance(node.parent, exp.Cast | exp.TryCast):
        raise Refused("cast_type", "CAST takes CHAR, SIGNED, UNSIGNED, DECIMAL, DOUBLE, DATE or DATETIME", str(name))
    for parameter in node.expressions:
        size = parameter.this if isinstance(parameter, exp.DataTypeParam) else None
        if not isinstance(size, exp.Literal) or not re.fullmatch(r"[0-9]{1,3}", size.name):
            raise Refused("cast_type", "the size of a type is a number below 1000", node.sql())


def _check_frame(node: exp.Expr) -> None:
    for name in ("start", "end"):
        edge = node.args.get(name)
        if isinstance(edge, str) or edge is None or isinstance(edge, exp.Interval):
            continue
        if not isinstance(edge, exp.Literal) or not re.fullmatch(r"[0-9]{1,9}", edge.name):
            raise Refused("construct_not_allowed", "a window frame is bounded by whole numbers", "OVER")
