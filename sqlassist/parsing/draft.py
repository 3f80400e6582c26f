"""A metric query while it is being read: what a question has said so far, and why a reading fails."""

import attrs

from sqlassist.metric_query import Bucket, MetricFilter, MetricQuery, Order, Period, Threshold


class CannotReadError(Exception):
    """A reading leads nowhere."""

    def __init__(self, code: str, *leftover: str) -> None:
        super().__init__(code)
        self.code = code
        self.leftover = leftover


@attrs.frozen
class DraftOrder:
    """How rows are sorted; by the first metric where none is said."""

    metric: str | None
    descending: bool
    by_change: bool = False


@attrs.define
class Draft:
    """What was said. In a follow-up most of it is empty."""

    metrics: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    bucket: Bucket | None = None
    filters: tuple[MetricFilter, ...] = ()
    period: Period | None = None
    compared: Period | None = None
    grows_from: str = ""
    """In a follow-up without a period of its own: `previous` or `year`, what the period before is compared with."""
    thresholds: tuple[Threshold, ...] = ()
    order: DraftOrder | None = None
    limit: int | None = None
    average_per: Bucket | None = None
    share: bool = False
    because: str = ""
    """The word that was taken in one of several ways."""

    def finished(self) -> MetricQuery:
        """As a query. It has a metric."""
        order = self.order
        return MetricQuery(
            metrics=self.metrics,
            dimensions=self.dimensions,
            bucket=self.bucket,
            filters=self.filters,
            period=self.period,
            compared=self.compared,
            thresholds=self.thresholds,
            order=Order(order.metric or self.metrics[0], order.descending, order.by_change) if order else None,
            limit=self.limit,
            average_per=self.average_per,
            share=self.share,
        )
