"""What is wrong with a semantic layer beyond a single key: every mistake at once."""

import re
from collections.abc import Iterable, Iterator, Mapping
from zoneinfo import available_timezones

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from sqlassist.catalog import ColumnType, Dialect, did_you_mean
from sqlassist.guard.functions import AGGREGATES
from sqlassist.guard.regenerate import language_for
from sqlassist.semantic import NAME_PATTERN, Metric, Names, SemanticLayer, TimeKind

MAX_PHRASE = 60  # a longer one is a sentence, which nobody types twice in the same way

MAX_FORMAT = 40  # characters of a number's format, as `S{:03d}`

Tables = Mapping[str, Mapping[str, ColumnType]]
"""Table → column → type: what may be named."""

_FITS = {
    TimeKind.DATE: (ColumnType.DATE,),
    TimeKind.DATETIME: (ColumnType.DATETIME,),
    TimeKind.EPOCH_SECONDS: (ColumnType.INTEGER, ColumnType.NUMBER),
    TimeKind.EPOCH_MILLISECONDS: (ColumnType.INTEGER, ColumnType.NUMBER),
}


def layer_problems(
    layer: SemanticLayer, tables: Tables, tenants: Iterable[str], dialect: Dialect
) -> Iterator[tuple[str, str]]:
    """(message, path in the layer's file) of everything that no single key shows.

    Args:
        layer: Read, so every key is right by itself.
        tables: Of the source, rollups left out.
        tenants: Who uses the source.
        dialect: Of the source: in which expressions are written.
    """
    yield from _convention_problems(layer)
    yield from _time_problems(layer, tables)
    yield from _reference_problems(layer, tables)
    for name, metric in layer.metrics.items():
        at = f"metrics.{name}"
        yield from ((message, at) for message in _naming_problems(name, metric.names))
        if metric.ratio:
            yield from ((message, at) for message in _ratio_problems(layer, metric))
        else:
            yield from ((message, f"{at}.{key}") for message, key in _metric_problems(layer, metric, tables, dialect))
    yield from _dimension_problems(layer, tables)
    yield from _phrase_problems(layer)
    yield from _subject_problems(layer, tables, tuple(tenants))


def _naming_problems(name: str, names: Names) -> Iterator[str]:
    if not re.fullmatch(NAME_PATTERN, name):
        yield f"{name!r} is no plain name of letters, digits and _"
    if not names.every:
        yield "needs a name in a language at least: names = { en = [...], zh = [...] }"
    for phrase in names.every:
        if not phrase.strip() or len(phrase) > MAX_PHRASE:
            yield f"a name has 1 to {MAX_PHRASE} characters: {phrase[:MAX_PHRASE]!r}"


def _convention_problems(layer: SemanticLayer) -> Iterator[tuple[str, str]]:
    conventions = layer.conventions
    zones = available_timezones()
    if conventions.zone not in zones:
        yield f"there is no time zone {conventions.zone!r}{did_you_mean(conventions.zone, zones)}", "conventions.zone"
    for name, region in conventions.regions.items():
        if region.zone not in zones:
            yield (
                f"there is no time zone {region.zone!r}{did_you_mean(region.zone, zones)}",
                f"conventions.regions.{name}.zone",
            )
    if conventions.regions and conventions.region_dimension not in layer.dimensions:
        yield "regions need region_dimension: the dimension that they are values of", "conventions"
    for place, time in layer.times.items():
        if time.zone not in zones:
            yield f"there is no time zone {time.zone!r}{did_you_mean(time.zone, zones)}", f"times.{place}"


def _column_problem(place: str, tables: Tables) -> str | None:
    table, dot, column = place.partition(".")
    if table not in tables:
        return f"there is no table {table!r}{did_you_mean(table, tables)}"
    if not dot or column not in tables[table]:
        return f"table {table!r} has no column {column!r}{did_you_mean(column, tables[table])}"
    return None


def _time_problems(layer: SemanticLayer, tables: Tables) -> Iterator[tuple[str, str]]:
    for place, time in layer.times.items():
        problem = _column_problem(place, tables)
        if problem is not None:
            yield problem, f"times.{place}"
            continue
        table, _, column = place.partition(".")
        kind = tables[table][column]
        if kind not in _FITS[time.kind]:
            yield f"{place} is configured as {kind}, which is no {time.kind}", f"times.{place}"


def _reference_problems(layer: SemanticLayer, tables: Tables) -> Iterator[tuple[str, str]]:
    for name, entity in layer.entities.items():
        problem = _column_problem(f"{entity.table}.{entity.key}", tables)
        if problem is not None:
            yield problem, f"entities.{name}"
    for place, entity_name in layer.references.items():
        at = f"references.{place}"
        problem = _column_problem(place, tables)
        if problem is not None:
            yield problem, at
        elif entity_name not in layer.entities:
            yield f"there is no entity {entity_name!r}{did_you_mean(entity_name, layer.entities)}", at
        elif layer.entities[entity_name].table == place.partition(".")[0]:
            yield f"{place} would refer to its own table, which is not followed", at


def _ratio_problems(layer: SemanticLayer, metric: Metric) -> Iterator[str]:
    if metric.table or metric.expression or metric.where or metric.rollup:
        yield "a ratio has no table, expression, where or rollup: its two metrics have"
    if metric.additive:
        yield "a ratio does not sum up: additive is false"
    if len(metric.ratio) != 2:
        yield "a ratio is of two metrics: [divided, divisor]"
    for part in metric.ratio:
        if part not in layer.metrics:
            yield f"there is no metric {part!r}{did_you_mean(part, layer.metrics)}"
        elif layer.metrics[part].ratio:
            yield f"{part!r} is a ratio itself: divide its parts"


def _metric_problems(
    layer: SemanticLayer, metric: Metric, tables: Tables, dialect: Dialect
) -> Iterator[tuple[str, str]]:
    if not metric.table or not metric.expression:
        yield "a metric needs table and expression, or ratio", "expression"
        return
    if metric.table not in tables:
        yield f"there is no table {metric.table!r}{did_you_mean(metric.table, tables)}", "table"
        return
    columns = tables[metric.table]
    yield from ((m, "expression") for m in _aggregate_problems(metric.expression, columns, metric.table, dialect))
    if metric.where:
        yield from ((m, "where") for m in _expression_problems(metric.where, columns, metric.table, dialect))
    if metric.additive and re.search(
        r"\b(DISTINCT|AVG|MIN|MAX|MEDIAN|STDDEV\w*)\b|/", metric.expression, re.IGNORECASE
    ):
        yield f"{metric.expression} does not sum up over parts: additive is false", "additive"
    if metric.time and f"{metric.table}.{metric.time}" not in layer.times:
        yield f"{metric.table}.{metric.time} is not among [times]: say what it holds", "time"
    if not metric.rollup:
        if metric.rollup_expression:
            yield "needs rollup: the one that it reads", "rollup_expression"
        return
    rollup = layer.rollups.get(metric.rollup)
    if rollup is None:
        yield f"there is no rollup {metric.rollup!r}{did_you_mean(metric.rollup, layer.rollups)}", "rollup"
    elif rollup.table != metric.table:
        yield f"rollup {metric.rollup!r} is of {rollup.table!r}, not of {metric.table!r}", "rollup"
    elif metric.where:
        yield "a metric with where cannot be read from a rollup, which counts every row", "rollup"
    else:
        known = dict.fromkeys(rollup.measures, ColumnType.NUMBER)
        problems = _aggregate_problems(metric.rollup_expression or "0", known, metric.rollup, dialect)
        yield from ((message, "rollup_expression") for message in problems)


def _aggregate_problems(text: str, columns: Iterable[str], table: str, dialect: Dialect) -> Iterator[str]:
    tree = _parsed(text, dialect)
    yield from _expression_problems(text, columns, table, dialect, with_aggregates=True)
    if tree is None:
        return
    aggregates = [node for node in tree.walk() if type(node).__name__ in AGGREGATES]
    if not aggregates:
        yield f"{text} is no aggregate: a metric is a SUM, a COUNT or the like of rows"
    for column in tree.find_all(exp.Column):
        parents = iter(_ancestors(column))
        if not any(type(parent).__name__ in AGGREGATES for parent in parents):
            yield f"{column.name} stands outside any aggregate in {text}"


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _expression_problems(
    text: str, columns: Iterable[str], table: str, dialect: Dialect, *, with_aggregates: bool = False
) -> Iterator[str]:
    tree = _parsed(text, dialect)
    if isinstance(tree, exp.Alias):
        yield f"{text!r} names its result, which is called like the metric: leave AS out"
        return
    if tree is None:
        yield f"{text!r} is no expression that can be read as {dialect} SQL"
        return
    known = {column.lower() for column in columns}
    for column in tree.find_all(exp.Column):
        if column.table:
            yield f"write {column.name}, not {column.sql()}: an expression is about one table"
        elif column.name.lower() not in known:
            yield f"table {table!r} has no column {column.name!r}{did_you_mean(column.name, known)}"
    if tree.find(exp.Query, exp.Window) is not None:
        yield f"{text!r} holds a query or a window: an expression is about the rows of one table"
    if not with_aggregates and any(type(node).__name__ in AGGREGATES for node in tree.walk()):
        yield f"{text!r} holds an aggregate, but decides about single rows"


def _parsed(text: str, dialect: Dialect) -> exp.Expr | None:
    try:
        return parse_one(text, dialect=language_for(dialect))
    except (SqlglotError, RecursionError):
        return None


def _dimension_problems(layer: SemanticLayer, tables: Tables) -> Iterator[tuple[str, str]]:
    for name, dimension in layer.dimensions.items():
        at = f"dimensions.{name}"
        yield from ((message, at) for message in _naming_problems(name, dimension.names))
        if name in layer.metrics:
            yield f"a metric is called {name!r} as well: columns of answers would be confused", at
        problem = _column_problem(dimension.column, tables)
        if problem is not None:
            yield problem, f"{at}.column"
            continue
        table, _, column = dimension.column.partition(".")
        if tables[table][column].is_numeric:
            for value in dimension.values:
                if not re.fullmatch(r"-?\d+(\.\d+)?", value):
                    yield f"{value!r} is no number, as {dimension.column} holds", f"{at}.values"
        if dimension.number_format:
            yield from ((message, f"{at}.number_format") for message in _format_problems(dimension.number_format))


def _format_problems(text: str) -> Iterator[str]:
    if len(text) > MAX_FORMAT or re.search(r"\{[^}]*\d{3}", text):  # {:999999999d} is a format too, of a gigabyte
        yield f"{text[:MAX_FORMAT]!r} is no format of one number: write {{}} or {{:03d}}"
        return
    try:
        if text.format(7) == text.format(8):
            yield f"{text!r} has no place for the number: write {{}} or {{:03d}}"
    except (ValueError, IndexError, KeyError, AttributeError):
        yield f"{text!r} is no format of one number: write {{}} or {{:03d}}"


def _phrase_problems(layer: SemanticLayer) -> Iterator[tuple[str, str]]:
    settled = {phrase.casefold() for one in layer.disambiguations for phrase in one.phrases.every}
    kinds: tuple[tuple[str, Mapping[str, Names]], ...] = (
        ("metrics", {name: metric.names for name, metric in layer.metrics.items()}),
        ("dimensions", {name: dimension.names for name, dimension in layer.dimensions.items()}),
        (
            "dimensions",
            {f"{n}.values.{v}": names for n, d in layer.dimensions.items() for v, names in d.values.items()},
        ),
    )
    for section, named in kinds:
        owners: dict[str, str] = {}
        for name, names in named.items():
            for phrase in dict.fromkeys(phrase.casefold() for phrase in names.every):
                if phrase in owners and phrase not in settled:
                    message = f"{phrase!r} is a name of {owners[phrase]!r} as well: settle it by a disambiguation"
                    yield message, f"{section}.{name}"
                owners.setdefault(phrase, name)
    for index, one in enumerate(layer.disambiguations):
        at = f"disambiguations[{index}]"
        if not one.phrases.every:
            yield "needs the phrases that it is about", at
        if len(one.metrics) + len(one.dimensions) < (1 if one.prefer else 2):
            yield "needs two meanings at least, metrics or dimensions", at
        for kind, chosen, known in (
            ("metric", one.metrics, layer.metrics),
            ("dimension", one.dimensions, layer.dimensions),
        ):
            for name in chosen:
                if name not in known:
                    yield f"there is no {kind} {name!r}{did_you_mean(name, known)}", at
        if one.prefer and one.prefer not in (*one.metrics, *one.dimensions):
            yield f"prefer is one of its metrics or dimensions: {one.prefer!r}", at


def _subject_problems(layer: SemanticLayer, tables: Tables, tenants: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name, area in layer.areas.items():
        for table in area.tables:
            if table not in tables:
                yield f"there is no table {table!r}{did_you_mean(table, tables)}", f"areas.{name}.tables"
    for tenant, scope in layer.scopes.items():
        at = f"scopes.{tenant}"
        if tenant not in tenants:
            yield f"there is no tenant {tenant!r} on this source{did_you_mean(tenant, tenants)}", at
        for area_name in scope.areas:
            if area_name not in layer.areas:
                yield f"there is no area {area_name!r}{did_you_mean(area_name, layer.areas)}", f"{at}.areas"
        for metric in scope.hidden_metrics:
            if metric not in layer.metrics:
                yield f"there is no metric {metric!r}{did_you_mean(metric, layer.metrics)}", f"{at}.hidden_metrics"
