"""What a question was found to ask."""

import attrs

from sqlassist.metric_query import MetricQuery


@attrs.frozen
class Decision:
    """What a question was found to ask, as SQL that is still to be checked and run."""

    sql: str
    source: str
    author: str
    """`metric`, `model`, `verified`, `person` or `rule`."""
    query: MetricQuery | None = None
    described: str = ""
    """What was understood, in words."""
    verified_id: str = ""
