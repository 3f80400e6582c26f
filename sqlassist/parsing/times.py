"""The times of a question: its period, what it is compared with, and how time is cut where a trend is wanted."""

import datetime as dt

import attrs

from sqlassist.metric_query import Bucket, Period
from sqlassist.parsing import calendar
from sqlassist.parsing.calendar import Span, Today
from sqlassist.parsing.draft import CannotReadError

MAX_DAYS_OF_A_TREND = 62  # two months by day are read at a glance; beyond, somebody may want weeks or months


@attrs.frozen
class Times:
    """One reading of a question's times."""

    period: Period | None = None
    compared: Period | None = None
    bucket: Bucket | None = None
    """Where the reading cuts time by itself."""
    grows_from: str = ""
    """`previous` or `year` in a follow-up, which has its period from the question before."""


@attrs.frozen
class Asked:
    """What the words around the times ask for."""

    spans: tuple[Span, ...]
    compares: bool
    """`compared with`, `vs`, unless something else is compared."""
    growth: str = ""
    """`up`, `down`, `any` or nothing."""
    over: str = ""
    """`previous`, `year`, `month`, ... or nothing."""
    has_bucket: bool = False
    are_listed: bool = False
    """`and` stands between two times."""
    together: bool = False
    """And they are wanted as one."""


def times_of(asked: Asked, today: Today) -> tuple[Times, ...]:
    """The readings of a question's times, the likeliest first.

    Raises:
        CannotReadError: They do not fit together, or a comparison lacks its other side.
    """
    spans = tuple(dict.fromkeys(asked.spans))
    wants_two = asked.compares or bool(asked.growth) or bool(asked.over)
    if len(spans) > 2:
        raise CannotReadError("contradiction")
    if len(spans) == 2:
        first, second = calendar.with_year_of(spans[0], spans[1]), calendar.with_year_of(spans[1], spans[0])
        return _of_two(first, second, asked, wants_two=wants_two)
    if len(spans) == 1:
        return _of_one(spans[0], asked, today) if wants_two else _alone(spans[0])
    if not wants_two:
        return (Times(),)
    if asked.has_bucket and asked.growth == "any" and not asked.over:
        return (Times(),)
    if asked.over or asked.growth:
        return _without_period(asked, today)
    raise CannotReadError("contradiction")


def _alone(span: Span) -> tuple[Times, ...]:
    return tuple(Times(period) for period in (span.period, *span.otherwise))


def _of_two(first: Span, second: Span, asked: Asked, *, wants_two: bool) -> tuple[Times, ...]:
    if first.otherwise or second.otherwise:
        raise CannotReadError("contradiction")
    first, second = _before_the_other(first, second), _before_the_other(second, first)
    if not wants_two and asked.are_listed:
        return _listed(first, second, together=asked.together)
    if not wants_two:
        raise CannotReadError("contradiction")
    return (_ordered(first, second),)


def _before_the_other(one: Span, other: Span) -> Span:
    """`the week before` beside another week: the one before that; so is `last month` beside that very month."""
    is_same = one.is_last and one.period == other.period and not (other.is_last or other.is_previous)
    if (one.is_previous and not other.is_previous and not other.is_to_date) or is_same:
        earlier = calendar.preceding(other)
        return attrs.evolve(one, period=earlier[0], unit=other.unit) if earlier else one
    return one


def _ordered(first: Span, second: Span) -> Times:
    """The later one is the period, the earlier one what it is compared with."""
    later, earlier = (first, second) if first.period.start > second.period.start else (second, first)
    if earlier.period.end > later.period.start:
        raise CannotReadError("contradiction")
    return Times(later.period, earlier.period)


def _listed(first: Span, second: Span, *, together: bool) -> tuple[Times, ...]:
    """`in April and May`: side by side, or both together where they follow each other."""
    found = _ordered(first, second)
    assert found.period is not None, "two periods were put in order"
    assert found.compared is not None, "two periods were put in order"
    if first.unit != second.unit or asked_unit(first) is None:
        raise CannotReadError("contradiction")
    if found.compared.end != found.period.start:
        if together:
            raise CannotReadError("contradiction")
        return (found,)
    whole = Period(found.compared.start, found.period.end)
    if together:
        return (Times(whole),)
    return (Times(whole, bucket=asked_unit(first)), Times(whole), found)


def asked_unit(span: Span) -> Bucket | None:
    """The bucket that a time is one of."""
    return Bucket(span.unit) if span.unit in {"day", "week", "month", "quarter", "year"} else None


def _of_one(span: Span, asked: Asked, today: Today) -> tuple[Times, ...]:
    if span.otherwise:
        raise CannotReadError("contradiction")
    if asked.over == "year":
        return (Times(span.period, calendar.year_before(span.period)),)
    if asked.over == "same_weekday":
        if span.unit != "day":
            raise CannotReadError("contradiction")
        week = dt.timedelta(days=7)
        return (Times(span.period, Period(span.period.start - week, span.period.end - week)),)
    if asked.over in {"day", "week", "month", "quarter"} and span.unit != asked.over:
        raise CannotReadError("contradiction")
    if asked.compares and span.is_last and not asked.over:
        current = calendar.running(today, span.unit)
        return (Times(current.period, span.period),)
    if asked.compares and not asked.over and not asked.growth:
        raise CannotReadError("contradiction")
    if span.parts and span.parts[0].unit == span.parts[1].unit and not asked.over:
        return (_ordered(*span.parts),)
    earlier = calendar.preceding(span)
    if not earlier:
        raise CannotReadError("contradiction")
    found = tuple(Times(span.period, period) for period in earlier)
    if asked.growth == "any" and not asked.over and not asked.has_bucket and span.period.days > 1:
        found += (Times(span.period, bucket=trend_buckets(span.period)[0]),)
    return found


def _without_period(asked: Asked, today: Today) -> tuple[Times, ...]:
    """Growth, but since when: the whole month that is over, or the running one."""
    unit = asked.over if asked.over in {"day", "week", "quarter"} else "month"
    spans = (calendar.ago(today, unit, 1), calendar.running(today, unit))
    if asked.over == "year":
        return tuple(Times(span.period, calendar.year_before(span.period)) for span in spans)
    return tuple(Times(span.period, calendar.preceding(span)[0]) for span in spans)


def trend_buckets(period: Period | None) -> tuple[Bucket, ...]:
    """How time is cut for a trend; several where the question leaves it open."""
    if period is not None and period.days <= MAX_DAYS_OF_A_TREND:
        return (Bucket.DAY,)
    return (Bucket.MONTH, Bucket.WEEK, Bucket.DAY) if period is not None else (Bucket.DAY, Bucket.WEEK, Bucket.MONTH)
