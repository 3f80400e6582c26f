"""A tenant's catalog compiled into a decoding grammar: whatever a constrained model says passes the guard, and runs.

Columns are tied to the tables of the FROM clause, types to their operators, and every length is bounded. The notation
is what xgrammar's EBNF and llama.cpp's GBNF have in common, so both get one text.

    SELECT `server`, SUM(`amount`) FROM `payments` WHERE `paid_at` >= '2026-01-01' GROUP BY 1 ORDER BY 2 DESC LIMIT 10
"""

import attrs

from sqlassist.catalog import Catalog, ColumnType, JoinKey
from sqlassist.json_query import json_schema_for
from sqlassist.shapes import MAX_SHAPES, Shape, ShapeColumn, quoted, shapes_for

MAX_ITEMS = 6
MAX_MEASURES = 3
MAX_CONDITIONS = 5
MAX_LIST = 8
MAX_TEXT = 48

# Strings hold neither quotes nor backslashes, so that no two parsers can end them at different places.
_SHARED = rf"""
text ::= "'" [^'\\\x00-\x1f\x7f]{{0,{MAX_TEXT}}} "'"
pattern ::= "'" "%"? [^'\\\x00-\x1f\x7f%]{{1,{MAX_TEXT - 2}}} "%"? "'"
texts ::= text (", " text){{0,{MAX_LIST - 1}}}
number ::= "-"? [0-9]{{1,9}} ("." [0-9]{{1,4}})?
numbers ::= number (", " number){{0,{MAX_LIST - 1}}}
year ::= ("19" | "20") [0-9] [0-9]
month31 ::= "01" | "03" | "05" | "07" | "08" | "10" | "12"
month30 ::= "04" | "06" | "09" | "11"
day28 ::= "0" [1-9] | "1" [0-9] | "2" [0-8]
day ::= "02-" day28 | month30 "-" (day28 | "29" | "30") | month31 "-" (day28 | "29" | "30" | "31")
clock ::= ("0" [0-9] | "1" [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9]
date ::= "'" year "-" day "'" | "CURRENT_DATE" | "CURRENT_DATE - INTERVAL " [1-9] [0-9]{{0,2}} " " unit
moment ::= date | "'" year "-" day " " clock "'"
unit ::= "DAY" | "MONTH" | "YEAR"
compare ::= " = " | " <> " | " < " | " <= " | " > " | " >= "
same ::= " = " | " <> "
direction ::= "" | " DESC"
limit ::= "" | " LIMIT " [1-9] [0-9]{{0,2}}
null ::= " IS NULL" | " IS NOT NULL"
bool ::= "TRUE" | "FALSE"
"""


@attrs.frozen
class SqlGrammar:
    """A compiled grammar, in each form that some engine understands."""

    ebnf: str
    """For SGLang, with xgrammar."""
    gbnf: str
    """For llama.cpp."""
    json_schema: str
    """For engines that decode JSON only; `json_query.sql_for` makes SQL of such an answer."""
    catalog_version: str
    """Compile anew when the catalog's is another one."""
    rules: int
    shapes: int
    dropped_shapes: int
    """Joins that were left out to keep the grammar small."""
    max_characters: int
    """Of the longest statement: what bounds its tokens too."""


def grammar_for(catalog: Catalog, max_shapes: int = MAX_SHAPES) -> SqlGrammar:
    """Compile a catalog.

    Args:
        catalog: Must have at least one table.
        max_shapes: How many tables and joins get rules of their own.

    Returns:
        The grammar; every text that it accepts passes the guard with the same catalog.
    """
    shapes = shapes_for(catalog, max_shapes)
    writer = _Writer(catalog)
    for index, shape in enumerate(shapes.kept):
        writer.add_shape(index, shape)
    roots = " | ".join(f"q{index}" for index in range(len(shapes.kept)))
    text = f"root ::= {roots}\n" + "\n".join(writer.lines) + _SHARED
    longest = max((_longest(shape) for shape in shapes.kept), default=0)
    return SqlGrammar(
        ebnf=text,
        gbnf=text,
        json_schema=json_schema_for(catalog, max_shapes),
        catalog_version=catalog.version,
        rules=text.count("::="),
        shapes=len(shapes.kept),
        dropped_shapes=shapes.dropped,
        max_characters=longest,
    )


def literal(text: str) -> str:
    """A piece of text as a terminal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _Writer:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.lines: list[str] = []

    def add_shape(self, index: int, shape: Shape) -> None:
        """Rules `q<index>` and what it needs: `a` any column, `n` numbers, `t` texts, `d` moments."""
        kinds = {
            f"a{index}": list(shape.columns),
            f"n{index}": [c for c in shape.columns if c.column.type.is_numeric],
        }
        for name, columns in kinds.items():
            if columns:
                self._rule(name, [literal(column.sql) for column in columns])
        has_numbers = bool(kinds[f"n{index}"])
        self._rule(f"m{index}", self._measures(index, has_numbers=has_numbers))
        self._rule(f"g{index}", [f"a{index}", *self._buckets(shape)])
        self._rule(f"c{index}", self._conditions(index, shape, has_numbers=has_numbers))
        self._rule(f"w{index}", ['""', f'" WHERE " c{index} ((" AND " | " OR ") c{index}){{0,{MAX_CONDITIONS - 1}}}'])
        self._rule(f"h{index}", ['""', f'" HAVING " m{index} compare number'])
        from_ = literal(f" FROM {shape.sql}")
        more = f'(", " m{index}){{0,{MAX_MEASURES - 1}}}'
        self._rule(
            f"q{index}",
            [
                f'"SELECT " a{index} (", " a{index}){{0,{MAX_ITEMS - 1}}} {from_} w{index} '
                f'("" | " ORDER BY " a{index} direction) limit',
                f'"SELECT DISTINCT " a{index} {from_} w{index} ("" | " ORDER BY 1" direction) limit',
                f'"SELECT " m{index} {more} {from_} w{index}',
                f'"SELECT " g{index} ", " m{index} {more} {from_} w{index} " GROUP BY 1" h{index} '
                '("" | " ORDER BY " [1-2] direction) limit',
                f'"SELECT " g{index} ", " g{index} ", " m{index} {more} {from_} w{index} " GROUP BY 1, 2" h{index} '
                '("" | " ORDER BY " [1-3] direction) limit',
            ],
        )

    def _rule(self, name: str, alternatives: list[str]) -> None:
        self.lines.append(f"{name} ::= " + " | ".join(alternatives))

    @staticmethod
    def _measures(index: int, *, has_numbers: bool) -> list[str]:
        made = ['"COUNT(*)"', f'"COUNT(DISTINCT " a{index} ")"']
        if has_numbers:
            made += [
                f'("SUM(" | "AVG(" | "MIN(" | "MAX(") n{index} ")"',
                f'"ROUND(AVG(" n{index} "), " [0-4] ")"',
                f'"SUM(" n{index} ") / NULLIF(COUNT(*), 0)"',
                f'"SUM(" n{index} ") / NULLIF(COUNT(DISTINCT " a{index} "), 0)"',
            ]
        return made

    def _buckets(self, shape: Shape) -> list[str]:
        """Time in days, months and years; each moment column has its own alternatives."""
        made = []
        for column in shape.columns:
            if not column.column.type.is_temporal:
                continue
            if self.catalog.dialect.is_mysql_like:
                texts = (f"DATE({column.sql})", f"DATE_FORMAT({column.sql}, '%Y-%m')", f"YEAR({column.sql})")
            else:
                texts = (f"CAST({column.sql} AS DATE)", f"STRFTIME({column.sql}, '%Y-%m')", f"YEAR({column.sql})")
            made += [literal(text) for text in texts]
        return made

    def _conditions(self, index: int, shape: Shape, *, has_numbers: bool) -> list[str]:
        made = [f"a{index} null"]
        if has_numbers:
            made += [
                f"n{index} compare number",
                f'n{index} " BETWEEN " number " AND " number',
                f'n{index} " IN (" numbers ")"',
            ]
        for column in shape.columns:
            made += _typed_conditions(column)
        if len(shape.tables) == 1:
            made += self._subqueries(shape)
        return made

    def _subqueries(self, shape: Shape) -> list[str]:
        """`key IN (SELECT ...)` along the join keys, and comparisons with the table's own average."""
        dialect, table = self.catalog.dialect, shape.tables[0]
        made = []
        for key in self.catalog.joins:
            for one in (key, JoinKey(key.other_table, key.other_column, key.table, key.column)):
                if one.table == table.name and one.other_table != table.name:
                    text = (  # a terminal of the grammar, made of quoted names
                        f"{quoted(one.column, dialect)} IN (SELECT {quoted(one.other_column, dialect)} FROM "
                        f"{quoted(one.other_table, dialect)} WHERE {quoted(one.other_column, dialect)} IS NOT NULL)"
                    )
                    made.append(literal(text))
        for column in shape.columns:
            if column.column.type.is_numeric:
                average = f"(SELECT AVG({column.sql}) FROM {shape.sql})"
                made.append(f"{literal(column.sql)} compare {literal(average)}")
        return made


def _typed_conditions(column: ShapeColumn) -> list[str]:
    name = literal(column.sql)
    match column.column.type:
        case ColumnType.TEXT:
            return [f"{name} same text", f'{name} (" LIKE " | " NOT LIKE ") pattern', f'{name} " IN (" texts ")"']
        case ColumnType.DATE:
            return [f"{name} compare date", f'{name} " BETWEEN " date " AND " date']
        case ColumnType.DATETIME:
            return [f"{name} compare moment", f'{name} " BETWEEN " moment " AND " moment']
        case ColumnType.BOOLEAN:
            return [f'{name} " = " bool']
        case _:
            return []


def _longest(shape: Shape) -> int:
    """An upper bound, in characters, of what the shape's rules can say."""
    column = max(len(c.sql) for c in shape.columns)
    value = MAX_LIST * (MAX_TEXT + 4) + 8
    subquery = max((len(c.sql) for c in shape.columns), default=0) * 3 + 200
    condition = column + max(value, 96, subquery) + 8
    measure = column * 2 + 48
    items = max(MAX_ITEMS * (column + 2), 2 * (column + 32) + MAX_MEASURES * measure)
    return items + len(shape.sql) + MAX_CONDITIONS * condition + measure + column + 96


def is_current(grammar: SqlGrammar, catalog: Catalog) -> bool:
    """False once the schema has changed: compile anew."""
    return grammar.catalog_version == catalog.version
