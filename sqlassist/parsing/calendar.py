"""Days, weeks, months, quarters and years as periods, and what comes before them."""

import datetime as dt

import attrs

from sqlassist.metric_query import Period

ONE_DAY = dt.timedelta(days=1)
EARLIEST = dt.date(2000, 1, 1)
"""Where `before May` begins: a period has two ends."""
_FIRST_WEEKDAY = {"monday": 0, "saturday": 5, "sunday": 6}
_MOST = {"day": 3660, "week": 520, "month": 120, "quarter": 40, "year": 10}
"""Ten years: whoever asks for more of them means all."""
MONTHS_IN = {"month": 1, "quarter": 3, "half": 6, "year": 12}


@attrs.frozen
class Span:
    """A time that a question names."""

    period: Period
    unit: str
    """`day`, `week`, `month`, `quarter`, `half`, `year`, `days` (several of them) or `open` (since, until)."""
    count: int = 1
    is_to_date: bool = False
    """Of the running week, month, ...: from its begin to today."""
    is_last: bool = False
    """Said as `last month`, seen from today."""
    is_previous: bool = False
    """Said as `the month before`: beside another period it means the one before that."""
    otherwise: tuple[Period, ...] = ()
    """What it may mean as well."""
    has_year: bool = True
    """Its year was said, or follows from words like `last`; else it is the latest that is not in the future."""
    parts: tuple["Span", ...] = ()
    """The ends of `from April to May`: two periods where growth is asked for."""


@attrs.frozen
class Today:
    """The day of a question, and when weeks begin."""

    date: dt.date
    week_start: str = "monday"

    @property
    def end(self) -> dt.date:
        """The day behind today."""
        return self.date + ONE_DAY


def shifted(day: dt.date, months: int) -> dt.date:
    """The first of the month that lies some months away."""
    number = day.year * 12 + day.month - 1 + months
    return dt.date(number // 12, number % 12 + 1, 1)


def is_year(year: int) -> bool:
    """Whether a number can be a year in a question about a business."""
    return 1990 <= year <= 2100


def day_span(day: dt.date) -> Span:
    """One day."""
    return Span(Period(day, day + ONE_DAY), "day")


def month_span(year: int, month: int) -> Span | None:
    """One month of one year."""
    if not 1 <= month <= 12 or not is_year(year):
        return None
    first = dt.date(year, month, 1)
    return Span(Period(first, shifted(first, 1)), "month")


def date_span(year: int, month: int, day: int) -> Span | None:
    """One day by its numbers; None where there is no such day."""
    try:
        return day_span(dt.date(year, month, day)) if is_year(year) else None
    except ValueError:
        return None


def year_span(year: int) -> Span | None:
    """One year."""
    return Span(Period(dt.date(year, 1, 1), dt.date(year + 1, 1, 1)), "year") if is_year(year) else None


def part_of_year(year: int, number: int, unit: str) -> Span | None:
    """The quarter or half with a number from 1 on."""
    months = MONTHS_IN[unit]
    if not is_year(year) or not 1 <= number <= 12 // months:
        return None
    first = dt.date(year, (number - 1) * months + 1, 1)
    return Span(Period(first, shifted(first, months)), unit)


def latest_month(today: Today, month: int) -> Span | None:
    """The latest month of that number that is not in the future."""
    found = month_span(today.date.year - (month > today.date.month), month)
    return attrs.evolve(found, has_year=False) if found is not None else None


def latest_date(today: Today, month: int, day: int) -> Span | None:
    """The latest day of a month and number that is not in the future."""
    found = date_span(today.date.year, month, day)
    if found is None or found.period.start > today.date:
        found = date_span(today.date.year - 1, month, day)
    return attrs.evolve(found, has_year=False) if found is not None else None


def unit_start(day: dt.date, unit: str, week_start: str) -> dt.date:
    """The first day of the week, month, ... that a day lies in."""
    if unit == "day":
        return day
    if unit == "week":
        return day - dt.timedelta(days=(day.weekday() - _FIRST_WEEKDAY[week_start]) % 7)
    months = MONTHS_IN[unit]
    return dt.date(day.year, (day.month - 1) // months * months + 1, 1)


def moved(start: dt.date, unit: str, count: int) -> dt.date:
    """The begin of the unit that lies `count` units later."""
    if unit in {"day", "week"}:
        return start + dt.timedelta(days=count * (7 if unit == "week" else 1))
    return shifted(start, count * MONTHS_IN[unit])


def running(today: Today, unit: str) -> Span:
    """This week, month, ...: up to and including today."""
    start = unit_start(today.date, unit, today.week_start)
    return Span(Period(start, today.end), unit, is_to_date=unit != "day")


def ago(today: Today, unit: str, count: int) -> Span:
    """The whole week, month, ... that lies `count` before the running one."""
    start = moved(unit_start(today.date, unit, today.week_start), unit, -count)
    return Span(Period(start, moved(start, unit, 1)), unit, is_last=count == 1)


def last_units(today: Today, unit: str, count: int) -> Span | None:
    """The whole days, weeks, months, ... before the running one."""
    if not 1 <= count <= _MOST[unit]:
        return None
    end = unit_start(today.date, unit, today.week_start)
    start = moved(end, unit, -count)
    if unit == "day":
        return Span(Period(start, end), "day" if count == 1 else "days", count=count)
    return Span(Period(start, end), unit, count=count, is_last=count == 1)


def weekday_span(today: Today, weekday: int, weeks_ago: int) -> Span:
    """A weekday (0 is Monday) of the running week or of an earlier one."""
    start = unit_start(today.date, "week", today.week_start) - dt.timedelta(days=7 * weeks_ago)
    return day_span(start + dt.timedelta(days=(weekday - start.weekday()) % 7))


def latest_weekday(today: Today, weekday: int) -> dt.date:
    """The latest such weekday before today."""
    return today.date - dt.timedelta(days=(today.date.weekday() - weekday - 1) % 7 + 1)


def ten_days(month: Span, number: int) -> Span:
    """The first, second or third ten days of a month (the third has what is left)."""
    first = month.period.start
    start = first + dt.timedelta(days=10 * number)
    end = month.period.end if number == 2 else start + dt.timedelta(days=10)
    return Span(Period(start, end), "days", count=(end - start).days)


def half_month(month: Span, number: int) -> Span:
    """The first fifteen days of a month, or the rest."""
    middle = month.period.start + dt.timedelta(days=15)
    found = Period(month.period.start, middle) if number == 0 else Period(middle, month.period.end)
    return Span(found, "days", count=found.days)


def days_at_end(span: Span, count: int, *, at_end: bool) -> Span | None:
    """The first or last days of a longer time."""
    if not 1 <= count < span.period.days:
        return None
    start, end = span.period.start, span.period.end
    length = dt.timedelta(days=count)
    found = Period(end - length, end) if at_end else Period(start, start + length)
    return Span(found, "days", count=count)


def joined(first: Span, last: Span) -> Span | None:
    """From the begin of one to the end of the other; None where they lie the wrong way round."""
    first, last = with_year_of(first, last), with_year_of(last, first)
    if first.period.start >= last.period.start:
        return None
    found = Period(first.period.start, last.period.end)
    return Span(found, "days", count=found.days, parts=(first, last))


def since(span: Span, today: Today, *, after: bool = False) -> Span | None:
    """From the begin of a time (or, `after`, from its end) up to and including today."""
    start = span.period.end if after else span.period.start
    return Span(Period(start, today.end), "open") if start < today.end else None


def until(span: Span, *, before: bool = False) -> Span | None:
    """Up to the end of a time (or, `before`, up to its begin)."""
    end = span.period.start if before else span.period.end
    return Span(Period(EARLIEST, end), "open") if end > EARLIEST else None


def preceding(span: Span) -> tuple[Period, ...]:
    """The period before one, of the same length; two where the running one may go beside a whole or an equal one."""
    start = span.period.start
    if span.unit == "open":
        return ()
    if span.unit == "days":
        return (Period(start - dt.timedelta(days=span.period.days), start),)
    whole = Period(moved(start, span.unit, -span.count), start)
    if span.is_to_date and span.period.days < whole.days:
        return (Period(whole.start, whole.start + dt.timedelta(days=span.period.days)), whole)
    return (whole,)


def year_before(period: Period) -> Period:
    """The same days one year earlier."""
    return Period(_year_earlier(period.start), _year_earlier(period.end))


def _year_earlier(day: dt.date) -> dt.date:
    return day.replace(year=day.year - 1, day=28 if (day.month, day.day) == (2, 29) else day.day)


def with_year_of(span: Span, other: Span) -> Span:
    """A time without a year, in the year that the time beside it has: `April and May 2025`."""
    if span.has_year or not other.has_year or span.unit not in {"day", "month"}:
        return span
    if other.unit not in {"day", "month"} or other.is_last or other.is_to_date:
        return span
    start = span.period.start
    if span.unit == "day":
        found = date_span(other.period.start.year, start.month, start.day)
    else:
        found = month_span(other.period.start.year, start.month)
    return found or span


def span_of(period: Period) -> Span:
    """The time that a period is when nobody says so: a day, a month, a year, or some days."""
    if period.days == 1:
        return Span(period, "day")
    if period.days == 7:
        return Span(period, "days", count=7)
    for unit in ("month", "quarter", "year"):
        if period.start == unit_start(period.start, unit, "monday") and period.end == moved(period.start, unit, 1):
            return Span(period, unit)
    return Span(period, "days", count=period.days)


def last_weekend(today: Today) -> Span | None:
    """Saturday and Sunday of the week before this one; None at a weekend, when it may be the running one."""
    if today.date.weekday() >= 5:
        return None
    saturday = today.date - dt.timedelta(days=today.date.weekday() + 2)
    return Span(Period(saturday, saturday + 2 * ONE_DAY), "days", count=2)
