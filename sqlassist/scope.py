"""What a tenant is answered about: the semantic layer without whatever he may not see, and the tables of a question."""

import attrs
from sqlglot import exp, parse_one

from sqlassist.catalog import Catalog
from sqlassist.guard.regenerate import language_for
from sqlassist.metric_query import MetricQuery
from sqlassist.references import path_between
from sqlassist.semantic import Metric, Scope, SemanticLayer


def layer_for(layer: SemanticLayer, catalog: Catalog) -> SemanticLayer:
    """The part of a layer that a tenant's catalog holds, less what his scope leaves out.

    Metrics, dimensions and references over a hidden table or column are gone, with the words that lead to them.
    """
    scope = layer.scopes.get(catalog.name, Scope())
    tables = {table for name in scope.areas for table in layer.areas[name].tables}
    metrics = {
        name: metric
        for name, metric in layer.metrics.items()
        if name not in scope.hidden_metrics
        and not metric.ratio
        and (not tables or metric.table in tables)
        and _is_visible(metric, catalog)
    }
    metrics |= {
        n: m
        for n, m in layer.metrics.items()
        if m.ratio and n not in scope.hidden_metrics and all(part in metrics for part in m.ratio)
    }
    dimensions = {n: d for n, d in layer.dimensions.items() if _has(catalog, d.column)}
    known = {*metrics, *dimensions}
    asked = []
    for one in layer.disambiguations:
        kept = attrs.evolve(
            one,
            metrics=tuple(name for name in one.metrics if name in known),
            dimensions=tuple(name for name in one.dimensions if name in known),
            prefer=one.prefer if one.prefer in known else "",
        )
        if kept.metrics or kept.dimensions:
            asked.append(kept)
    conventions = layer.conventions
    if conventions.region_dimension not in dimensions:
        conventions = attrs.evolve(conventions, region_dimension="", regions={})
    return attrs.evolve(
        layer,
        conventions=conventions,
        metrics={name: metrics[name] for name in layer.metrics if name in metrics},
        dimensions=dimensions,
        references={
            p: e
            for p, e in layer.references.items()
            if _has(catalog, p) and _has(catalog, f"{layer.entities[e].table}.{layer.entities[e].key}")
        },
        times={place: time for place, time in layer.times.items() if _has(catalog, place)},
        disambiguations=tuple(asked),
        areas={
            n: a
            for n, a in layer.areas.items()
            if (not scope.areas or n in scope.areas) and any(catalog.table(table) is not None for table in a.tables)
        },
        scopes={},
    )


def _has(catalog: Catalog, place: str) -> bool:
    table, _, column = place.partition(".")
    found = catalog.table(table)
    return found is not None and found.column(column) is not None


def _is_visible(metric: Metric, catalog: Catalog) -> bool:
    """Whether its table is, and every column that it is computed from."""
    if catalog.table(metric.table) is None:
        return False
    named = {metric.time} if metric.time else set[str]()
    for text in filter(None, (metric.expression, metric.where)):
        tree = parse_one(text, dialect=language_for(catalog.dialect))
        named |= {column.name for column in tree.find_all(exp.Column)}
    return all(_has(catalog, f"{metric.table}.{name}") for name in named)


@attrs.frozen
class TableChoice:
    """A table that a question is about, and why."""

    name: str
    why: str


def tables_of(query: MetricQuery, layer: SemanticLayer) -> tuple[TableChoice, ...]:
    """The tables that a metric query reads, in the order in which they are needed."""
    found: dict[str, str] = {}
    leaves = [leaf for metric in query.metrics for leaf in (layer.metrics[metric].ratio or (metric,))]
    for leaf in leaves:
        found.setdefault(layer.metrics[leaf].table, f"metric {leaf}")
    starts = tuple(found)
    for dimension in (*query.dimensions, *(one.dimension for one in query.filters)):
        goal = layer.dimensions[dimension].column.partition(".")[0]
        for start in starts:
            for hop in path_between(layer, start, goal) or ():
                found.setdefault(hop.to_table, f"dimension {dimension}")
    return tuple(TableChoice(name, why) for name, why in found.items())


def area_of(tables: tuple[TableChoice, ...], layer: SemanticLayer) -> str:
    """The subject that most of the tables belong to; empty where none is declared."""
    counts = {name: sum(table.name in area.tables for table in tables) for name, area in layer.areas.items()}
    best = max(counts, key=lambda name: counts[name], default="")
    return best if best and counts[best] else ""
