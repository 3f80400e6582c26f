"""Questions over any semantic layer that differ in one thing only, in English and Chinese: a cache's hardest cases.

Each knows what it means, as a metric query, so that whoever answers one with another's answer is found out.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from random import Random

import attrs

from sqlassist.cache import ngram_cosine
from sqlassist.catalog import Catalog
from sqlassist.messages import Refusal
from sqlassist.metric_compile import compiled
from sqlassist.metric_query import Bucket, Comparison, MetricFilter, MetricQuery, Order, Period
from sqlassist.references import reachable_dimensions
from sqlassist.semantic import SemanticLayer

LANGUAGES = ("en", "zh")
NEAREST_METRICS = 3  # the ones whose names are most alike
NUMBERS = (3, 5, 10, 13)
_FORMS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "total": "{metric} in {period}",
        "filter": "{metric} of {value} in {period}",
        "without": "{metric} without {value} in {period}",
        "split": "{metric} by {split} in {period}",
        "top": "top {number} {split} by {metric} in {period}",
        "bottom": "bottom {number} {split} by {metric} in {period}",
        "trend": "{metric} per {bucket} in {period}",
    },
    "zh": {
        "total": "{period}的{metric}",
        "filter": "{period}{value}的{metric}",
        "without": "{period}除{value}以外的{metric}",
        "split": "{period}按{split}的{metric}",
        "top": "{period}{metric}前{number}的{split}",
        "bottom": "{period}{metric}后{number}的{split}",
        "trend": "{period}每{bucket}的{metric}",
    },
}
_BUCKETS = {Bucket.DAY: ("day", "天"), Bucket.WEEK: ("week", "周"), Bucket.MONTH: ("month", "月")}
_POLITE = {"en": "please show me ", "zh": "请问"}


@attrs.frozen
class Spec:
    """What a question says, before it is put into words."""

    form: str
    metric: str
    period: str
    """English name; a key of `periods_on`."""
    value: tuple[str, str] = ("", "")
    """Dimension and value."""
    split: str = ""
    number: int = 5
    bucket: Bucket = Bucket.DAY


@attrs.frozen
class AskedFor:
    """A question and its meaning."""

    text: str
    language: str
    query: MetricQuery
    differs: str
    """From the question that it was made of, in what; empty: it is one of those."""


def periods_on(today: dt.date) -> dict[str, tuple[str, Period]]:
    """English name → Chinese name, and the days that it means."""
    day = dt.timedelta(days=1)
    monday = today - day * today.weekday()
    first = today.replace(day=1)
    found = {
        "yesterday": ("昨天", Period(today - day, today)),
        "today": ("今天", Period(today, today + day)),
        "last week": ("上周", Period(monday - 7 * day, monday)),
        "this week": ("本周", Period(monday, today + day)),
        "last month": ("上个月", Period((first - day).replace(day=1), first)),
        "this month": ("本月", Period(first, today + day)),
        "the last 7 days": ("最近7天", Period(today - 7 * day, today)),
        "the last 30 days": ("最近30天", Period(today - 30 * day, today)),
    }
    names = ["January", "February", "March", "April", "May", "June"]
    for year in (today.year - 1, today.year):
        for number, name in enumerate(names, start=1):
            start = dt.date(year, number, 1)
            end = dt.date(year, number + 1, 1)
            found[f"{name} {year}"] = (f"{year}年{number}月", Period(start, end))
    return found


def near_misses(layer: SemanticLayer, catalog: Catalog, today: dt.date, most: int, seed: int) -> tuple[AskedFor, ...]:
    """Questions, each followed by those that differ from it in one thing, and by the same in other words.

    Args:
        layer: Whose metrics, dimensions and values.
        catalog: Only what compiles over it is asked.
        today: The business day.
        most: Questions that others are made of, in each language.
        seed: Equal ones give equal questions.
    """
    maker = _Maker(layer, catalog, today)
    dice = Random(seed)
    specs = list(maker.specs(dice))
    dice.shuffle(specs)
    found: dict[tuple[str, str], AskedFor] = {}
    for language in LANGUAGES:
        for spec in specs[:most]:
            for one in chain(maker.asked(spec, language, ""), maker.variants(spec, language, dice)):
                found.setdefault((one.text, one.language), one)
    return tuple(found.values())


class _Maker:
    def __init__(self, layer: SemanticLayer, catalog: Catalog, today: dt.date) -> None:
        self.layer = layer
        self.catalog = catalog
        self.periods = periods_on(today)
        self.metrics = [name for name, metric in layer.metrics.items() if metric.time]

    def specs(self, dice: Random) -> Iterator[Spec]:
        for metric in self.metrics:
            splits = reachable_dimensions(self.layer, self.layer.metrics[metric].table)
            values = [(name, value) for name in splits for value in self._values(name)]
            for form in _FORMS["en"]:
                spec = Spec(form, metric, dice.choice(list(self.periods)), number=dice.choice(NUMBERS))
                if "value" in _fields(form) and values:
                    yield attrs.evolve(spec, value=dice.choice(values))
                elif "split" in _fields(form) and splits:
                    yield attrs.evolve(spec, split=dice.choice(splits))
                elif not {"value", "split"} & _fields(form):
                    yield attrs.evolve(spec, bucket=dice.choice(list(_BUCKETS)))

    def variants(self, spec: Spec, language: str, dice: Random) -> Iterator[AskedFor]:
        """One thing changed, or only the words."""
        others = {
            "period": [attrs.evolve(spec, period=name) for name in self.periods if name != spec.period],
            "metric": [attrs.evolve(spec, metric=name) for name in self._alike(spec.metric, language)],
            "value": [
                attrs.evolve(spec, value=(spec.value[0], value))
                for value in (self._values(spec.value[0]) if spec.value[0] else ())
                if value != spec.value[1]
            ],
            "split": [attrs.evolve(spec, split=name) for name in self._other_splits(spec)],
            "number": [attrs.evolve(spec, number=number) for number in NUMBERS if number != spec.number],
            "bucket": [attrs.evolve(spec, bucket=bucket) for bucket in _BUCKETS if bucket is not spec.bucket],
            "direction": [attrs.evolve(spec, form={"top": "bottom", "bottom": "top"}.get(spec.form, spec.form))],
            "negation": [attrs.evolve(spec, form={"filter": "without", "without": "filter"}.get(spec.form, spec.form))],
        }
        for differs, specs in others.items():
            changed = [one for one in specs if one != spec]
            for one in dice.sample(changed, min(3, len(changed))):
                yield from self.asked(one, language, differs)
        yield from self._reworded(spec, language)

    def asked(self, spec: Spec, language: str, differs: str, synonym: int = 0) -> Iterator[AskedFor]:
        """The question, where it can be asked at all."""
        query = self._query(spec)
        phrases = self._phrases(spec.metric, language)
        if synonym >= len(phrases) or isinstance(compiled(query, self.layer, self.catalog), Refusal):
            return
        period = spec.period if language == "en" else self.periods[spec.period][0]
        dimension = self.layer.dimensions.get(spec.value[0])
        names = dimension.values.get(spec.value[1]) if dimension is not None else None
        text = _FORMS[language][spec.form].format(
            metric=phrases[synonym],
            period=period,
            value=spec.value[1] if names is None else names.label(language, spec.value[1]),
            split=self.layer.dimensions[spec.split].names.label(language, spec.split) if spec.split else "",
            number=spec.number,
            bucket=_BUCKETS[spec.bucket][language == "zh"],
        )
        yield AskedFor(text, language, query, differs)

    def _reworded(self, spec: Spec, language: str) -> Iterator[AskedFor]:
        for one in self.asked(spec, language, "words"):
            yield attrs.evolve(one, text=f"{one.text.upper()} {'?' if language == 'en' else '？'}")
            yield attrs.evolve(one, text=f"{_POLITE[language]}{one.text}")
        yield from self.asked(spec, language, "words", synonym=1)

    def _query(self, spec: Spec) -> MetricQuery:
        fields = _fields(spec.form)
        comparison = Comparison.NOT_IN if spec.form == "without" else Comparison.IN
        is_ranking = spec.form in ("top", "bottom")
        return MetricQuery(
            (spec.metric,),
            dimensions=(spec.split,) if "split" in fields else (),
            bucket=spec.bucket if "bucket" in fields else None,
            filters=(MetricFilter(spec.value[0], comparison, (spec.value[1],)),) if "value" in fields else (),
            period=self.periods[spec.period][1],
            order=Order(spec.metric, descending=spec.form == "top") if is_ranking else None,
            limit=spec.number if is_ranking else None,
        )

    def _phrases(self, metric: str, language: str) -> tuple[str, ...]:
        names = self.layer.metrics[metric].names
        return names.zh if language == "zh" else names.en

    def _alike(self, metric: str, language: str) -> Sequence[str]:
        name = self.layer.metrics[metric].names.label(language, metric)
        others = [other for other in self.metrics if other != metric]
        likeness = {
            other: ngram_cosine(name, self.layer.metrics[other].names.label(language, other), 2) for other in others
        }
        return sorted(others, key=lambda other: (-likeness[other], other))[:NEAREST_METRICS]

    def _other_splits(self, spec: Spec) -> Sequence[str]:
        if not spec.split:
            return ()
        reachable = reachable_dimensions(self.layer, self.layer.metrics[spec.metric].table)
        return [name for name in reachable if name != spec.split]

    def _values(self, name: str) -> Sequence[str]:
        dimension = self.layer.dimensions[name]
        if dimension.values:
            return tuple(dimension.values)
        form = dimension.number_format
        return [form.format(number) for number in NUMBERS] if form and form != "{}" else ()


def _fields(form: str) -> set[str]:
    return {name for name in ("value", "split", "bucket", "number") if f"{{{name}}}" in _FORMS["en"][form]}
