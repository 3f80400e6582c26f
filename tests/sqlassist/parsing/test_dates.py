"""Times as people write them, seen from Wednesday 2026-06-17."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlassist.parsing import dates_en, dates_zh
from sqlassist.parsing.calendar import Span, Today, preceding
from tests.kit.questions import TODAY, period


def _read(text: str, today: Today | None = None) -> Span | None:
    """The time that a whole text is."""
    spans = dates_en if text.isascii() else dates_zh
    found = [span for end, span in spans.spans_at(text, 0, today or Today(TODAY)) if end == len(text)]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("today", "2026-06-17", "2026-06-17"),
        ("the day before yesterday", "2026-06-15", "2026-06-15"),
        ("last 7 days", "2026-06-10", "2026-06-16"),
        ("past week", "2026-06-10", "2026-06-16"),
        ("last week", "2026-06-08", "2026-06-14"),
        ("this week", "2026-06-15", "2026-06-17"),
        ("last three months", "2026-03-01", "2026-05-31"),
        ("this month", "2026-06-01", "2026-06-17"),
        ("december", "2025-12-01", "2025-12-31"),
        ("may 2025", "2025-05-01", "2025-05-31"),
        ("2026-05", "2026-05-01", "2026-05-31"),
        ("2026-05-01 to 2026-05-15", "2026-05-01", "2026-05-15"),
        ("may 5th", "2026-05-05", "2026-05-05"),
        ("5th of may 2026", "2026-05-05", "2026-05-05"),
        ("5-may-2026", "2026-05-05", "2026-05-05"),
        ("20260505", "2026-05-05", "2026-05-05"),
        ("since the start of june", "2026-06-01", "2026-06-17"),
        ("january till the end of march", "2026-01-01", "2026-03-31"),
        ("friday of last week", "2026-06-12", "2026-06-12"),
        ("last weekend", "2026-06-13", "2026-06-14"),
        ("4月初到现在", "2026-04-01", "2026-06-17"),
        ("4到6月", "2026-04-01", "2026-06-30"),
        ("1-15 may", "2026-05-01", "2026-05-15"),
        ("may 1 to 15", "2026-05-01", "2026-05-15"),
        ("from april 3 to may 2", "2026-04-03", "2026-05-02"),
        ("from april to may 2025", "2025-04-01", "2025-05-31"),
        ("between april and may", "2026-04-01", "2026-05-31"),
        ("q1", "2026-01-01", "2026-03-31"),
        ("q4", "2025-10-01", "2025-12-31"),
        ("the second quarter of 2025", "2025-04-01", "2025-06-30"),
        ("first half of 2026", "2026-01-01", "2026-06-30"),
        ("the second half of may", "2026-05-16", "2026-05-31"),
        ("the last 7 days of may", "2026-05-25", "2026-05-31"),
        ("since april", "2026-04-01", "2026-06-17"),
        ("until may", "2000-01-01", "2026-05-31"),
        ("before may", "2000-01-01", "2026-04-30"),
        ("after may 5", "2026-05-06", "2026-06-17"),
        ("last friday", "2026-06-12", "2026-06-12"),
        ("year to date", "2026-01-01", "2026-06-17"),
        ("今天", "2026-06-17", "2026-06-17"),
        ("前天", "2026-06-15", "2026-06-15"),
        ("上周", "2026-06-08", "2026-06-14"),
        ("上上周", "2026-06-01", "2026-06-07"),
        ("上周五", "2026-06-12", "2026-06-12"),
        ("周一", "2026-06-15", "2026-06-15"),
        ("周五", "2026-06-12", "2026-06-12"),
        ("最近一周", "2026-06-10", "2026-06-16"),
        ("近7天", "2026-06-10", "2026-06-16"),
        ("过去三个月", "2026-03-01", "2026-05-31"),
        ("本月", "2026-06-01", "2026-06-17"),
        ("五月份", "2026-05-01", "2026-05-31"),
        ("去年12月", "2025-12-01", "2025-12-31"),
        ("十二月", "2025-12-01", "2025-12-31"),
        ("5月1日到15日", "2026-05-01", "2026-05-15"),
        ("5月1日至5月15日", "2026-05-01", "2026-05-15"),
        ("4月到5月", "2026-04-01", "2026-05-31"),
        ("五月上旬", "2026-05-01", "2026-05-10"),
        ("5月下旬", "2026-05-21", "2026-05-31"),
        ("5月前10天", "2026-05-01", "2026-05-10"),
        ("一季度", "2026-01-01", "2026-03-31"),
        ("2025年第四季度", "2025-10-01", "2025-12-31"),
        ("上半年", "2026-01-01", "2026-06-30"),
        ("5月以来", "2026-05-01", "2026-06-17"),
        ("5月之前", "2000-01-01", "2026-04-30"),
        ("截至5月底", "2000-01-01", "2026-05-31"),
    ],
)
def test_times(text: str, first: str, last: str) -> None:
    found = _read(text)

    assert found is not None, text
    assert found.period == period(first, last)
    assert found.otherwise == ()


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-30",
        "february 31",
        "13月",
        "2月30日",
        "q5",
        "5/6/2026",
        "5月3",
        "last 9999 years",
        "july 2026",
        "2027年",
        "may i",
    ],
)
def test_what_is_no_time_or_lies_ahead_is_none(text: str) -> None:
    assert _read(text) is None


@pytest.mark.parametrize("text", ["past month", "最近一个月"])
def test_a_month_back_may_be_thirty_days_or_the_whole_month(text: str) -> None:
    found = _read(text)

    assert found is not None
    assert (found.period, *found.otherwise) == (period("2026-05-18", "2026-06-16"), period("2026-05-01", "2026-05-31"))


def test_last_friday_is_asked_back_where_this_week_has_had_one() -> None:
    found = _read("last friday", Today(dt.date(2026, 6, 20)))

    assert found is not None
    assert found.period == period("2026-06-19", "2026-06-19")
    assert found.otherwise == (period("2026-06-12", "2026-06-12"),)


def test_weeks_begin_as_the_layer_says() -> None:
    found = _read("last week", Today(TODAY, "sunday"))

    assert found is not None
    assert found.period == period("2026-06-07", "2026-06-13")


@given(st.dates(dt.date(2001, 1, 1), dt.date(2090, 12, 31)), st.sampled_from(["monday", "sunday", "saturday"]))
def test_relative_times_fit_together_on_every_day(day: dt.date, week_start: str) -> None:
    today = Today(day, week_start)
    for unit in ("week", "month", "quarter", "year"):
        running, last = _read(f"this {unit}", today), _read(f"last {unit}", today)

        assert running is not None
        assert last is not None
        assert running.period.end == day + dt.timedelta(days=1)
        assert last.period.end == running.period.start
        assert preceding(running)[-1] == last.period
