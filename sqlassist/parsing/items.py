"""What a question is made of once its words are recognised: items, each with the senses that it may have."""

from enum import StrEnum

import attrs

from sqlassist.parsing.calendar import Span


class Kind(StrEnum):
    """What a recognised phrase is."""

    METRIC = "metric"
    DIMENSION = "dimension"
    VALUE = "value"
    ENTITY = "entity"
    """The thing that a metric counts, said beside it: `revenue of players in Europe`."""
    PERIOD = "period"
    NUMBER = "number"
    UNIT_OF_MEASURE = "unit_of_measure"
    FILLER = "filler"
    LEFTOVER = "leftover"
    AND = "and"
    OR = "or"
    RANGE = "range"
    BETWEEN = "between"
    BY = "by"
    RESPECTIVELY = "respectively"
    WHICH = "which"
    WHAT = "what"
    """`which` where a dimension follows at once, else a filler."""
    ALL = "all"
    NOT = "not"
    SUPERLATIVE = "superlative"
    """Named `high`, `low`, `best`, `worst`, or `top`, `bottom` where a number is expected."""
    RANKING = "ranking"
    """Named `high` or `low`: which comes first."""
    COMPARATOR = "comparator"
    """Before its number; named by its sign."""
    AND_MORE = "and_more"
    """A comparison behind its number: `or more`; named by its sign."""
    SHARE = "share"
    BREAKDOWN = "breakdown"
    """Asks for a split by the dimension that is named beside it: `distribution`, `ranking`."""
    AVERAGE = "average"
    """Named by its bucket where the word says it: `日均`."""
    BUCKET = "bucket"
    """`daily`: time cut into days."""
    TIME_UNIT = "time_unit"
    """`day`: a bucket where something says `each`, `by` or `which`."""
    TREND = "trend"
    COMPARE = "compare"
    GROWTH = "growth"
    """Named `up`, `down` or `any`."""
    OVER = "over"
    """A growth against the `previous` period, or a `year`, `month`, `week`, ... before."""
    FOLLOW_UP = "follow_up"
    ADDED = "added"
    """In follow-ups: beside what there was, rather than in its place."""


@attrs.frozen
class Sense:
    """One meaning of a phrase."""

    kind: Kind
    name: str = ""
    """Of a metric, dimension, bucket, sign, ..."""
    value: str = ""
    """As stored, of VALUE."""
    number: float = 0.0
    is_percent: bool = False
    span: Span | None = None
    """Of PERIOD."""
    rank: int = 0
    """0 as the vocabulary has it, 1 with another ending, 2 where it adds nothing: lower ones are taken."""


@attrs.frozen
class Item:
    """One recognised stretch of a question."""

    text: str
    start: int
    """Its first token."""
    end: int
    """The token behind its last one."""
    senses: tuple[Sense, ...]
    is_plural: bool = False
    is_han: bool = False

    @property
    def sense(self) -> Sense:
        """The sense, once it has been chosen."""
        return self.senses[0]

    @property
    def kind(self) -> Kind:
        """Of the sense."""
        return self.senses[0].kind
