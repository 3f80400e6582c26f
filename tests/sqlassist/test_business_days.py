import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlassist.business_days import DayRule, boundary, stretches
from sqlassist.metric_query import Period
from sqlassist.semantic import TimeColumn, TimeKind

ZONES = st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
STARTS = st.sampled_from([dt.time(0), dt.time(5), dt.time(2, 30)])
DAYS = st.dates(dt.date(2024, 1, 2), dt.date(2027, 12, 30))
EPOCH = TimeColumn(TimeKind.EPOCH_SECONDS)


@given(ZONES, STARTS, DAYS, st.integers(0, 86399))
def test_a_moment_belongs_to_the_day_whose_bounds_hold_it(zone: str, start: dt.time, day: dt.date, second: int) -> None:
    rule = DayRule(zone, start)
    moment = dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC) + dt.timedelta(seconds=second)

    found = rule.day_of(moment)

    assert rule.begin(found) <= moment < rule.begin(found + dt.timedelta(days=1))


def test_five_in_the_morning_in_berlin_is_three_in_summer_and_four_in_winter() -> None:
    rule = DayRule("Europe/Berlin", dt.time(5))
    column = TimeColumn(TimeKind.DATETIME, "UTC")

    assert boundary(rule, dt.date(2026, 7, 1), column) == "'2026-07-01 03:00:00'"
    assert boundary(rule, dt.date(2026, 1, 1), column) == "'2026-01-01 04:00:00'"
    assert (
        boundary(rule, dt.date(2026, 1, 1), TimeColumn(TimeKind.DATETIME, "Asia/Shanghai")) == "'2026-01-01 12:00:00'"
    )
    assert boundary(rule, dt.date(2026, 1, 1), TimeColumn(TimeKind.EPOCH_MILLISECONDS)) == "1767240000000"
    assert boundary(rule, dt.date(2026, 1, 1), TimeColumn(TimeKind.DATE)) == "'2026-01-01'"


@given(ZONES, STARTS, DAYS, st.integers(1, 40), st.integers(0, 86399))
def test_stretches_give_each_moment_its_day(
    zone: str, start: dt.time, first: dt.date, length: int, second: int
) -> None:
    """What SQL does with a stretch (add the offset, take the day; or the odd day) gives the rule's own day."""
    rule = DayRule(zone, start)
    period = Period(first, first + dt.timedelta(days=length))
    day = first + dt.timedelta(days=length // 2)
    moment = rule.begin(day) + dt.timedelta(seconds=second)
    if moment >= rule.begin(period.end):
        return

    piece = next(one for one in stretches(rule, period, EPOCH) if moment < rule.begin(one.until))
    shifted = (moment.replace(tzinfo=None) + dt.timedelta(minutes=piece.offset_minutes)).date()

    assert (piece.odd_day or shifted) == rule.day_of(moment)


def test_a_day_of_twenty_five_hours_stands_apart() -> None:
    period = Period(dt.date(2026, 10, 24), dt.date(2026, 10, 27))

    found = stretches(DayRule("Europe/Berlin", dt.time(0)), period, EPOCH)

    assert [piece.odd_day for piece in found] == [None, dt.date(2026, 10, 25), None]
    assert [piece.offset_minutes for piece in found] == [120, 120, 60]


def test_a_skipped_begin_is_the_next_moment_that_there_is() -> None:
    rule = DayRule("Europe/Berlin", dt.time(2, 30))  # does not exist on 29 March 2026

    begin = rule.begin(dt.date(2026, 3, 29))

    assert begin == dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)
    assert begin.astimezone(ZoneInfo("Europe/Berlin")).time() == dt.time(3, 30)


def test_an_empty_period_has_no_constructor() -> None:
    with pytest.raises(AssertionError):
        Period(dt.date(2026, 1, 1), dt.date(2026, 1, 1))
