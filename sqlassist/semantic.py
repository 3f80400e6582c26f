"""The semantic layer file: what the numbers of a database mean, how people call them, and which are pre-aggregated.

It is written by people who know the game, per source. A metric is an aggregate over one table; dimensions of other
tables are reached over references alone, which point from many rows to one: a join that multiplies rows cannot be
stated. Docs: docs/semantic-layer.md.
"""

import re
from collections.abc import Mapping
from enum import StrEnum

import attrs

NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_$]{0,63}"
COLUMN_PATTERN = rf"{NAME_PATTERN}\.{NAME_PATTERN}"
CLOCK_PATTERN = r"([01]\d|2[0-3]):[0-5]\d"
_NAME = {"pattern": NAME_PATTERN, "means": "a plain name of letters, digits and _"}
_COLUMN = {"pattern": COLUMN_PATTERN, "means": "table.column"}
_CLOCK = {"pattern": CLOCK_PATTERN, "means": "a time of day, like 05:00"}


@attrs.frozen
class Names:
    """What something is called. The first name of a language is the one that answers show; more are synonyms."""

    en: tuple[str, ...] = ()
    zh: tuple[str, ...] = ()

    def label(self, language: str, otherwise: str) -> str:
        """The first name in a language, or in the other one, or `otherwise`."""
        own, other = (self.zh, self.en) if language == "zh" else (self.en, self.zh)
        return next(iter((*own, *other)), otherwise)

    @property
    def every(self) -> tuple[str, ...]:
        """In both languages."""
        return (*self.en, *self.zh)


@attrs.frozen
class RollupConfig:
    """A pre-aggregated table: sums and counts of one table by day and further dimensions."""

    table: str = attrs.field(metadata=_NAME)
    """The configured table that is aggregated; its filter is an equality or IN, whose column becomes a dimension."""
    sequence: str = attrs.field(metadata=_NAME)
    """A base column that grows with every insert: the watermark. Late rows have old days and new numbers."""
    moment: str = attrs.field(metadata=_NAME)
    """The column whose day is the first dimension, called `day`."""
    dimensions: tuple[str, ...]
    measures: Mapping[str, str]
    """Name → `count` or `sum(<column>)`, `min(...)`, `max(...)`: what can be summed up again."""
    overlap: int = attrs.field(default=10_000, metadata={"min": 0})
    """Sequence numbers that are read again at each refresh: transactions commit out of their numbers' order."""

    def reads(self) -> set[str]:
        """The columns of the table that it is made of."""
        measured = (re.fullmatch(r"(?:sum|min|max)\((\w+)\)", measure) for measure in self.measures.values())
        return {self.sequence, self.moment, *self.dimensions, *(found.group(1) for found in measured if found)}


class TimeKind(StrEnum):
    """What a time column holds."""

    DATE = "date"
    """A business day, as the source itself counts days: it is never shifted."""
    DATETIME = "datetime"
    """A wall clock reading in `zone`."""
    EPOCH_SECONDS = "epoch_seconds"
    EPOCH_MILLISECONDS = "epoch_milliseconds"


@attrs.frozen
class TimeColumn:
    """How to read one time column."""

    kind: TimeKind
    zone: str = "UTC"
    """IANA name; of DATETIME alone."""


@attrs.frozen
class Metric:
    """A number that people ask for: an aggregate over the rows of one table, or a ratio of two metrics."""

    names: Names
    table: str = attrs.field(default="", metadata={"pattern": rf"|{NAME_PATTERN}"})
    expression: str = ""
    """SQL over columns of `table` alone, of aggregates: `SUM(amount) / COUNT(DISTINCT player_id)`."""
    ratio: tuple[str, ...] = ()
    """Instead of table and expression: two metrics, the first divided by the second, each over its own table."""
    where: str = ""
    """Rows that count, as SQL over columns of `table`: `day_number = 7`."""
    grain: str = ""
    """What one row of the table is, in words: `one payment`."""
    additive: bool = False
    """Its values over parts sum up to the value over the whole: shares and totals make sense."""
    time: str = attrs.field(default="", metadata={"pattern": rf"|{NAME_PATTERN}"})
    """The column of `table` that a period in a question is about; empty where the metric has no time."""
    unit: str = ""
    """`USD`, `minutes`, `%` (the expression then gives a fraction of 1)."""
    decimals: int = attrs.field(default=2, metadata={"min": 0, "max": 9})
    rollup: str = attrs.field(default="", metadata={"pattern": rf"|{NAME_PATTERN}"})
    rollup_expression: str = ""
    """The same number from the rollup's columns: `SUM(revenue)`."""
    lower_is_better: bool = False
    """`worst` and `best` then turn round."""
    description: str = ""


@attrs.frozen
class Dimension:
    """What a metric can be split or filtered by: one column."""

    names: Names
    column: str = attrs.field(metadata=_COLUMN)
    values: Mapping[str, Names] = attrs.field(factory=dict)
    """Value as stored → what people call it. Numbers are written as text."""
    enumerable: bool = False
    """Few values, and none of them personal: they may be sampled, shown as choices and put into prompts."""
    number_format: str = ""
    """How a spoken number becomes a value: with `S{:03d}`, server 3 is `S003`; with `{}`, 3."""
    description: str = ""


@attrs.frozen
class Entity:
    """A table with one row for each thing, that references lead to."""

    table: str = attrs.field(metadata=_NAME)
    key: str = attrs.field(metadata=_NAME)
    """The column that is unique in it."""
    names: Names = Names()


@attrs.frozen
class Disambiguation:
    """A word that means several metrics or dimensions: it is asked back, or settled here."""

    phrases: Names
    metrics: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    prefer: str = ""
    """Taken without asking; empty asks."""
    because: str = ""


@attrs.frozen
class RegionDay:
    """When days begin in one region."""

    zone: str
    day_start: str = attrs.field(default="00:00", metadata=_CLOCK)


@attrs.frozen
class Conventions:
    """What a day, a week and the like are."""

    zone: str = "UTC"
    """IANA name: where the business counts its days."""
    day_start: str = attrs.field(default="00:00", metadata=_CLOCK)
    """Local time at which a business day begins; 05:00 counts the small hours to the day before."""
    week_start: str = attrs.field(
        default="monday", metadata={"pattern": "monday|sunday|saturday", "means": "monday, sunday or saturday"}
    )
    region_dimension: str = ""
    """The dimension that `regions` are values of."""
    regions: Mapping[str, RegionDay] = attrs.field(factory=dict)
    """Regions whose days begin otherwise."""
    notes: tuple[str, ...] = ()
    """Definitions in words, for people and models: `A new player is one who registered in the period.`"""


@attrs.frozen
class Area:
    """A subject: tables that are asked about together."""

    names: Names
    tables: tuple[str, ...]


@attrs.frozen
class Scope:
    """What a tenant is answered about, within what he may see anyway."""

    areas: tuple[str, ...] = ()
    """None named is all."""
    hidden_metrics: tuple[str, ...] = ()


@attrs.frozen
class SemanticLayer:
    """The whole file."""

    title: str = ""
    conventions: Conventions = Conventions()
    times: Mapping[str, TimeColumn] = attrs.field(factory=dict)
    """`table.column` → how to read it."""
    entities: Mapping[str, Entity] = attrs.field(factory=dict)
    references: Mapping[str, str] = attrs.field(factory=dict)
    """`table.column` → the entity whose key it holds: many rows to one."""
    metrics: Mapping[str, Metric] = attrs.field(factory=dict)
    dimensions: Mapping[str, Dimension] = attrs.field(factory=dict)
    disambiguations: tuple[Disambiguation, ...] = ()
    areas: Mapping[str, Area] = attrs.field(factory=dict)
    scopes: Mapping[str, Scope] = attrs.field(factory=dict)
    """Tenant → what he is answered about; who is not named is answered about everything."""
    rollups: Mapping[str, RollupConfig] = attrs.field(factory=dict)
    """Head metrics by day and further dimensions; the catalog lists them before the tables that they are made of."""
