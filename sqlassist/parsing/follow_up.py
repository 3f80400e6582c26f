"""A question that only makes sense after another one: `and last week?`, `那安卓呢？`."""

from sqlassist.metric_query import Comparison, MetricFilter, MetricQuery, Order
from sqlassist.parsing.calendar import preceding, span_of, year_before
from sqlassist.parsing.draft import Draft

_SIZES = frozenset({Comparison.ABOVE, Comparison.AT_LEAST, Comparison.BELOW, Comparison.AT_MOST})


def merged(draft: Draft, previous: MetricQuery, *, is_added: bool) -> MetricQuery | None:
    """The question before, with what is said now in its place.

    Args:
        draft: What the new words say.
        previous: The question before.
        is_added: A new split or metric stands beside the old one.

    Returns:
        The whole question; None where the new words change nothing.
    """
    metrics = draft.metrics or previous.metrics
    if is_added and draft.metrics:
        metrics = tuple(dict.fromkeys((*previous.metrics, *draft.metrics)))
    dimensions, bucket = previous.dimensions, previous.bucket
    if draft.dimensions or draft.bucket is not None:
        if is_added:
            dimensions = tuple(dict.fromkeys((*dimensions, *draft.dimensions)))
            bucket = draft.bucket or bucket
        else:
            dimensions, bucket = draft.dimensions, draft.bucket
    period, compared = draft.period or previous.period, draft.compared
    if draft.period is not None and draft.compared is None and previous.compared is not None:
        earlier = preceding(span_of(draft.period))
        compared = earlier[0] if earlier else None
    if draft.grows_from and period is not None:
        earlier = (year_before(period),) if draft.grows_from == "year" else preceding(span_of(period))
        compared = earlier[0] if earlier else None
    order = previous.order if previous.order is not None and previous.order.metric in metrics else None
    limit = previous.limit if order is not None or previous.order is None else None
    if draft.order is not None:
        order = Order(draft.order.metric or metrics[0], draft.order.descending, draft.order.by_change)
        limit = draft.limit or previous.limit or 1
    elif draft.limit is not None:
        limit = draft.limit or previous.limit or 1
    elif previous.order is not None and order is None:
        order = Order(metrics[0], previous.order.descending)
        limit = previous.limit
    if not dimensions and bucket is None:
        order, limit = None, None
    found = MetricQuery(
        metrics=metrics,
        dimensions=dimensions,
        bucket=bucket,
        filters=_filters(draft.filters, previous.filters),
        period=period,
        compared=compared if compared is not None or draft.period is not None else previous.compared,
        thresholds=draft.thresholds or previous.thresholds,
        order=order,
        limit=limit,
        average_per=draft.average_per or (None if draft.bucket is not None else previous.average_per),
        share=draft.share or previous.share,
    )
    return found if found != previous else None


def _filters(new: tuple[MetricFilter, ...], old: tuple[MetricFilter, ...]) -> tuple[MetricFilter, ...]:
    """New ones replace those of the same dimension; their places stay."""
    named = {one.dimension for one in new}
    kept = tuple(one for one in old if one.dimension not in named)
    return (*kept, *new)
