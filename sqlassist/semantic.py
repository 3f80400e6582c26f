"""The semantic layer file: what the numbers of a database mean, and which of them are kept pre-aggregated."""

import re
from collections.abc import Mapping

import attrs

NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_$]{0,63}"
_NAME = {"pattern": NAME_PATTERN, "means": "a plain name of letters, digits and _"}


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


@attrs.frozen
class SemanticLayer:
    """The whole file."""

    rollups: Mapping[str, RollupConfig] = attrs.field(factory=dict)
    """Head metrics by day and further dimensions; the catalog lists them before the tables that they are made of."""
