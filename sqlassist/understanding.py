"""What became of a question in words, when it was read by the semantic layer alone."""

import attrs

from sqlassist.metric_query import MetricQuery


@attrs.frozen
class Understood:
    """Every word of it is accounted for."""

    query: MetricQuery
    is_follow_up: bool = False
    """It was completed from the question before it."""


@attrs.frozen
class Reading:
    """One thing that an ambiguous question may mean."""

    query: MetricQuery
    because: str = ""
    """The word that is taken so, in the question's language."""


@attrs.frozen
class Ambiguous:
    """It has several readings, the likeliest first; two to four are offered."""

    phrase: str
    """The word that means several things, or that is missing a meaning."""
    readings: tuple[Reading, ...]


@attrs.frozen
class NotUnderstood:
    """It is no metric question, or not one that the layer alone can tell for certain."""

    leftover: tuple[str, ...]
    """Words that nothing accounts for."""
    code: str
    """`no_metric`, `leftover`, `not_splittable` or `contradiction`."""
    nearest: tuple[MetricQuery, ...] = ()
    """What may have been meant: at most four, to be offered and never to be run unasked."""


Understanding = Understood | Ambiguous | NotUnderstood
