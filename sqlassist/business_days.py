"""When business days begin and end: dates as literals of a time column, and moments back to their day.

A day may begin at 05:00 in the business' zone, and otherwise in some regions. Boundaries are computed here, with the
zone's daylight saving, so that the database compares plain values.
"""

import datetime as dt
from zoneinfo import ZoneInfo

import attrs

from sqlassist.metric_query import Period
from sqlassist.semantic import Conventions, RegionDay, TimeColumn, TimeKind


@attrs.frozen
class DayRule:
    """When days begin."""

    zone: str
    day_start: dt.time

    def begin(self, day: dt.date) -> dt.datetime:
        """The moment at which a business day begins, in UTC. A local time that a clock change skips is the next one."""
        return dt.datetime.combine(day, self.day_start, tzinfo=ZoneInfo(self.zone)).astimezone(dt.UTC)

    def day_of(self, moment: dt.datetime) -> dt.date:
        """The business day that an aware moment belongs to."""
        day = moment.astimezone(ZoneInfo(self.zone)).date()
        return day if self.begin(day) <= moment else day - dt.timedelta(days=1)


def rule_of(conventions: Conventions) -> DayRule:
    """Of everything that is in no region with a rule of its own."""
    return DayRule(conventions.zone, dt.time.fromisoformat(conventions.day_start))


def region_rule(region: RegionDay) -> DayRule:
    """Of one region."""
    return DayRule(region.zone, dt.time.fromisoformat(region.day_start))


def boundary(rule: DayRule, day: dt.date, column: TimeColumn) -> str:
    """The begin of a business day as a literal that is compared with a column."""
    if column.kind is TimeKind.DATE:
        return f"'{day.isoformat()}'"
    moment = rule.begin(day)
    return moment_literal(moment, column)


def moment_literal(moment: dt.datetime, column: TimeColumn) -> str:
    """An aware moment as a literal that is compared with a column."""
    if column.kind is TimeKind.EPOCH_SECONDS:
        return str(int(moment.timestamp()))
    if column.kind is TimeKind.EPOCH_MILLISECONDS:
        return str(int(moment.timestamp() * 1000))
    return f"'{moment.astimezone(ZoneInfo(column.zone)).strftime('%Y-%m-%d %H:%M:%S')}'"


@attrs.frozen
class Stretch:
    """Days whose moments become days by adding one offset; or a single odd day, of 23 or 25 hours."""

    until: dt.date
    """The day after the last one."""
    offset_minutes: int
    """From the column's clock (UTC for epochs) to the one whose midnight is the begin of the business day."""
    odd_day: dt.date | None = None


def stretches(rule: DayRule, period: Period, column: TimeColumn) -> tuple[Stretch, ...]:
    """How a column's moments in a period become days, from its first day to its last one."""
    found: list[Stretch] = []
    begin = _on_the_clock(rule.begin(period.start), column)
    for number in range(period.days):
        day = period.start + dt.timedelta(days=number)
        after = day + dt.timedelta(days=1)
        end = _on_the_clock(rule.begin(after), column)
        offset = round((dt.datetime.combine(day, dt.time()) - begin).total_seconds() / 60)
        last = found[-1] if found else None
        if end - begin != dt.timedelta(days=1):
            found.append(Stretch(after, offset, day))
        elif last is not None and last.odd_day is None and last.offset_minutes == offset:
            found[-1] = attrs.evolve(last, until=after)
        else:
            found.append(Stretch(after, offset))
        begin = end
    return tuple(found)


def _on_the_clock(moment: dt.datetime, column: TimeColumn) -> dt.datetime:
    zone = column.zone if column.kind is TimeKind.DATETIME else "UTC"
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


STEADY_ZONES = frozenset(
    {
        "UTC",
        "Etc/UTC",
        "GMT",
        "Asia/Shanghai",
        "Asia/Hong_Kong",
        "Asia/Taipei",
        "Asia/Tokyo",
        "Asia/Seoul",
        "Asia/Singapore",
        "Asia/Bangkok",
        "Asia/Jakarta",
        "Asia/Kolkata",
        "Asia/Dubai",
    }
)
"""Their clocks have not changed this century: a day can be told from a moment whatever the period."""


def is_steady(rule: DayRule, column: TimeColumn) -> bool:
    """Whether one offset does for all days."""
    return rule.zone in STEADY_ZONES and (column.kind is not TimeKind.DATETIME or column.zone in STEADY_ZONES)
