"""The semantic layer as the document that stands in a model's prompt: 4 to 8 KB that say what the numbers mean.

A curated document of this size is the largest single gain in accuracy, whatever the model (mission, C2). It is made of
the layer alone, so it is the same for every question of a tenant, and engines reuse what they computed for it.
"""

from collections.abc import Iterator

import attrs

from sqlassist.semantic import Dimension, Metric, Names, SemanticLayer, TimeKind

MAX_BYTES = 8 << 10
_NOTE = "\n(more metrics and dimensions exist than are listed)"
_SHARES = (0.9, 0.8, 0.65, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.02)
_KINDS = {
    TimeKind.DATE: "a DATE, the business day itself",
    TimeKind.DATETIME: "a DATETIME in {zone}",
    TimeKind.EPOCH_SECONDS: "seconds since 1970 UTC",
    TimeKind.EPOCH_MILLISECONDS: "milliseconds since 1970 UTC",
}


def document_for(layer: SemanticLayer, max_bytes: int = MAX_BYTES) -> str:
    """Markdown about conventions, metrics, dimensions, joins, times and ambiguous words.

    Args:
        layer: What the tenant may see.
        max_bytes: Of UTF-8. A larger layer loses first synonyms, then descriptions, then values, then its last
            metrics and dimensions; what is left is said to be a part.
    """
    for detail in (3, 2, 1, 0):
        text = "\n".join(_lines(layer, detail))
        if len(text.encode()) <= max_bytes:
            return text
    for share in _SHARES:  # joins and times stay: all that is left needs them
        text = "\n".join(_lines(_part_of(layer, share), 0)) + _NOTE
        if len(text.encode()) <= max_bytes:
            return text
    return _cut(text, max_bytes)


def _part_of(layer: SemanticLayer, share: float) -> SemanticLayer:
    """The first metrics, and the first dimensions, of which five times as large a share stays."""
    metrics = list(layer.metrics.items())[: max(1, int(len(layer.metrics) * share))]
    dimensions = list(layer.dimensions.items())[: max(1, int(len(layer.dimensions) * min(1.0, 5 * share)))]
    return attrs.evolve(layer, metrics=dict(metrics), dimensions=dict(dimensions))


def _cut(text: str, max_bytes: int) -> str:
    room = max_bytes - len(_NOTE.encode())
    kept = text.removesuffix(_NOTE).encode()[:room].decode("utf-8", "ignore")
    return kept[: kept.rfind("\n")] + _NOTE


def _lines(layer: SemanticLayer, detail: int) -> Iterator[str]:
    if layer.title:
        yield f"## {layer.title}"
    conventions = layer.conventions
    yield "## Conventions"
    yield (
        f"- Days are counted in {conventions.zone} and begin at {conventions.day_start};"
        f" weeks begin on {conventions.week_start}."
    )
    for name, region in conventions.regions.items():
        yield f"- In {name}, days are counted in {region.zone} and begin at {region.day_start}."
    yield from (f"- {note}" for note in conventions.notes)
    yield "## Metrics"
    for name, metric in layer.metrics.items():
        yield _metric_line(name, metric, detail)
    yield "## Dimensions"
    for name, dimension in layer.dimensions.items():
        yield _dimension_line(name, dimension, detail)
    if layer.references:
        yield "## Joins (many rows to one; never the other way)"
        for place, entity_name in layer.references.items():
            entity = layer.entities[entity_name]
            yield f"- {place} = {entity.table}.{entity.key}"
    if layer.times:
        yield "## Time columns"
        for place, time in layer.times.items():
            yield f"- {place}: {_KINDS[time.kind].format(zone=time.zone)}"
    if layer.disambiguations:
        yield "## Words with several meanings"
        for one in layer.disambiguations:
            meanings = ", ".join((*one.metrics, *one.dimensions))
            settled = f"; take {one.prefer}" if one.prefer else ""
            yield f"- {_phrases(one.phrases, 4)}: {meanings}{settled}"


def _metric_line(name: str, metric: Metric, detail: int) -> str:
    if metric.ratio:
        formula = f"{metric.ratio[0]} / {metric.ratio[1]}, each over its own table"
    else:
        condition = f" WHERE {metric.where}" if metric.where else ""
        formula = f"{metric.expression} FROM {metric.table}{condition}"
    text = f"- {name} = {formula}"
    if metric.time:
        text += f"; by {metric.time}"
    if metric.unit:
        text += f"; in {metric.unit}" if metric.unit != "%" else "; a fraction of 1"
    if not metric.additive and not metric.ratio:
        text += "; does not sum up"
    phrases = _phrases(metric.names, (0, 1, 2, 9)[detail])
    if phrases:
        text += f"; called {phrases}"
    return text + (f". {metric.description}" if metric.description and detail >= 2 else "")


def _dimension_line(name: str, dimension: Dimension, detail: int) -> str:
    text = f"- {name} = {dimension.column}"
    phrases = _phrases(dimension.names, (0, 1, 2, 9)[detail])
    if phrases:
        text += f"; called {phrases}"
    if dimension.values and detail >= 1:
        values = (
            f"'{value}'" + (f" ({_phrases(names, 1)})" if detail >= 2 and names.every else "")
            for value, names in dimension.values.items()
        )
        text += f"; values {', '.join(values)}"
    if dimension.number_format and detail >= 1:
        text += f"; number 3 is '{dimension.number_format.format(3)}'"
    return text + (f". {dimension.description}" if dimension.description and detail >= 2 else "")


def _phrases(names: Names, most: int) -> str:
    """A few names of each language."""
    return ", ".join((*names.en[:most], *names.zh[:most]))
