"""How days and coarser buckets of a time column are written in each dialect."""

import datetime as dt

from sqlassist.business_days import DayRule, Stretch, boundary, is_steady, moment_literal, stretches
from sqlassist.catalog import Dialect
from sqlassist.metric_query import Bucket, Period
from sqlassist.semantic import TimeColumn, TimeKind

_EPOCH_DAY = 719528  # MySQL's day number of 1970-01-01
_WEEK_SHIFTS = {"monday": 0, "sunday": 1, "saturday": 2}
"""Days that are added before the Monday is looked for, and taken off again."""


class PeriodNeeded(Exception):
    """Clocks change in this zone: without a period days cannot be told from moments by plain arithmetic."""


class ClocksChange(Exception):
    """Clocks change within the period: its hours are told from moments by no one offset."""


def period_condition(column: str, time: TimeColumn, rule: DayRule, period: Period) -> str:
    """The rows of a period, by literals that the column is compared with.

    Args:
        column: As SQL writes it.
        time: What it holds.
        rule: When days begin.
        period: Which days.
    """
    first, last = boundary(rule, period.start, time), boundary(rule, period.end, time)
    return f"{column} >= {first} AND {column} < {last}"


def bucket_expression(
    bucket: Bucket,
    column: str,
    time: TimeColumn,
    rule: DayRule,
    period: Period | None,
    week_start: str,
    dialect: Dialect,
) -> str:
    """What rows are grouped by.

    Returns:
        SQL that gives a DATE, the first day of the bucket; or a number for hours and weekdays.

    Raises:
        PeriodNeeded: see there.
        ClocksChange: see there; for hours alone.
    """
    if bucket is Bucket.HOUR_OF_DAY:
        return _hour(column, time, rule, period, dialect)
    day = _day(column, time, rule, period, dialect)
    if dialect is Dialect.DUCKDB:
        return _coarser_in_duckdb(bucket, day, week_start)
    return _coarser_in_mysql(bucket, day, week_start)


def _coarser_in_duckdb(bucket: Bucket, day: str, week_start: str) -> str:
    shift = _WEEK_SHIFTS[week_start]
    match bucket:
        case Bucket.DAY:
            return day
        case Bucket.DAY_OF_WEEK:
            return f"ISODOW({day})"
        case Bucket.WEEK if shift:
            moved = f"DATE_TRUNC('week', {day} + INTERVAL {shift} DAY)"
            return f"CAST({moved} - INTERVAL {shift} DAY AS DATE)"
        case _:
            return f"CAST(DATE_TRUNC('{bucket}', {day}) AS DATE)"


def _coarser_in_mysql(bucket: Bucket, day: str, week_start: str) -> str:
    number = f"DATEDIFF({day}, '1970-01-01') + {_EPOCH_DAY}"
    shift = _WEEK_SHIFTS[week_start]
    match bucket:
        case Bucket.DAY:
            return day
        case Bucket.DAY_OF_WEEK:
            return f"WEEKDAY({day}) + 1"
        case Bucket.WEEK:
            weekday = f"WEEKDAY({day})" if not shift else f"(WEEKDAY({day}) + {shift}) MOD 7"
            return f"FROM_DAYS({number} - {weekday})"
        case Bucket.MONTH:
            return f"CAST(DATE_FORMAT({day}, '%Y-%m-01') AS DATE)"
        case Bucket.QUARTER:
            return f"CAST(CONCAT(YEAR({day}), '-', 3 * QUARTER({day}) - 2, '-01') AS DATE)"
        case _:
            return f"CAST(DATE_FORMAT({day}, '%Y-01-01') AS DATE)"


def _day(column: str, time: TimeColumn, rule: DayRule, period: Period | None, dialect: Dialect) -> str:
    if time.kind is TimeKind.DATE:
        return column
    pieces = _pieces(time, rule, period)
    if len(pieces) == 1:
        return _piece_day(column, time, pieces[0], dialect)
    cases = []
    for piece in pieces[:-1]:
        until = moment_literal(rule.begin(piece.until), time)
        cases.append(f"WHEN {column} < {until} THEN {_piece_day(column, time, piece, dialect)}")
    return f"CASE {' '.join(cases)} ELSE {_piece_day(column, time, pieces[-1], dialect)} END"


def _piece_day(column: str, time: TimeColumn, piece: Stretch, dialect: Dialect) -> str:
    if piece.odd_day is not None:
        return f"CAST('{piece.odd_day.isoformat()}' AS DATE)"
    return _shifted_day(column, time, piece.offset_minutes, dialect)


def _pieces(time: TimeColumn, rule: DayRule, period: Period | None) -> tuple[Stretch, ...]:
    if is_steady(rule, time):
        day = dt.date(2026, 1, 1)
        return stretches(rule, Period(day, day + dt.timedelta(days=1)), time)
    if period is None:
        raise PeriodNeeded
    return stretches(rule, period, time)


def _shifted_day(column: str, time: TimeColumn, minutes: int, dialect: Dialect) -> str:
    if time.kind is TimeKind.DATETIME:
        moved = _moved(column, minutes)
        return f"CAST({moved} AS DATE)" if dialect is Dialect.DUCKDB else f"DATE({moved})"
    number = f"FLOOR({_epoch_seconds(column, time, minutes)} / 86400)"
    if dialect is Dialect.DUCKDB:
        return f"CAST('1970-01-01' AS DATE) + CAST({number} AS INTEGER)"
    return f"FROM_DAYS({_EPOCH_DAY} + {number})"


def _moved(column: str, minutes: int) -> str:
    if not minutes:
        return column
    return f"{column} {'+' if minutes > 0 else '-'} INTERVAL {abs(minutes)} MINUTE"


def _epoch_seconds(column: str, time: TimeColumn, minutes: int) -> str:
    seconds = column if time.kind is TimeKind.EPOCH_SECONDS else f"FLOOR({column} / 1000)"
    if not minutes:
        return seconds
    return f"({seconds} {'+' if minutes > 0 else '-'} {abs(minutes) * 60})"


def _hour(column: str, time: TimeColumn, rule: DayRule, period: Period | None, dialect: Dialect) -> str:
    if time.kind is TimeKind.DATE:
        raise PeriodNeeded  # a column of days knows no hours; the caller has asked before
    pieces = _pieces(time, rule, period)
    if any(piece.odd_day is not None for piece in pieces) or len({piece.offset_minutes for piece in pieces}) > 1:
        raise ClocksChange
    minutes = pieces[0].offset_minutes
    clock = minutes + rule.day_start.hour * 60 + rule.day_start.minute  # the wall clock, not the business day's
    if time.kind is TimeKind.DATETIME:
        return f"EXTRACT(HOUR FROM {_moved(column, clock)})"
    seconds = _epoch_seconds(column, time, clock)
    inner = f"FLOOR({seconds} / 3600)"
    return f"CAST({inner} AS INTEGER) % 24" if dialect is Dialect.DUCKDB else f"{inner} MOD 24"
