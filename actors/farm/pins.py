"""Questions that are pinned: asked again by themselves, with a bound that somebody wants to be told of. Pure."""

import math
import re
from collections.abc import Mapping
from typing import Any

import attrs

from actors.farm.afterwards import next_daily, zone_problem
from actors.farm.work import TIME_OF_DAY, Daily
from runtime.ids import TenantId

LEAST_MINUTES, MOST_MINUTES = 5, 31 * 24 * 60
MAX_QUESTION = 4000  # characters
MAX_TITLE = 200
MAX_SQL = 20_000


class PinWrong(Exception):
    """It is no pin; the text says what is wrong with it."""


@attrs.frozen
class Every:
    """Again and again."""

    minutes: int


@attrs.frozen
class Threshold:
    """What somebody wants to be told of: a number of the answer beyond a bound."""

    column: str
    bound: float
    is_upper: bool
    """The bound is to be stayed below; else above."""

    def is_beyond(self, number: float) -> bool:
        """It is worth telling. The bound itself is not."""
        return number > self.bound if self.is_upper else number < self.bound


@attrs.frozen
class Draft:
    """What somebody wants pinned."""

    title: str
    question: str
    sql: str = ""
    """Of the answer that was pinned, to see whether a later one was computed in another way."""
    schedule: Daily | Every | None = None
    threshold: Threshold | None = None


@attrs.frozen
class Pin:
    """One as it is kept. Times are seconds since 1970."""

    id: str
    tenant: TenantId
    user: str
    token: str
    """Id of the token whose roles it asks with; never the token."""
    draft: Draft
    created_at: float
    due_at: float | None = None
    """When it is asked next; None: when somebody says so."""
    began_at: float | None = None
    """It is being asked since."""
    tries: int = 0
    """Times that it was begun without coming to an end, as the farm ended."""
    paused: str | None = None
    """Why it is not asked any more."""
    beyond: bool = False
    """The last answer was beyond the threshold."""
    last: Mapping[str, Any] | None = None
    """See `actors.farm.pin_answers`."""


def parse_pin(body: Mapping[str, Any]) -> Draft:
    """What a request wants pinned.

    Raises:
        PinWrong: it is none.
    """
    _known(body, {"title", "question", "sql", "schedule", "threshold"}, "a pin")
    question = _text(body.get("question"), "question", MAX_QUESTION)
    title = question[:MAX_TITLE] if body.get("title") is None else _text(body["title"], "title", MAX_TITLE)
    sql = "" if body.get("sql") is None else _text(body["sql"], "sql", MAX_SQL)
    return Draft(title, question, sql, _schedule(body.get("schedule")), _threshold(body.get("threshold")))


def next_due(schedule: Daily | Every | None, now: float) -> float | None:
    """When it is asked next. What was missed is asked once."""
    match schedule:
        case Daily():
            return next_daily(schedule, now)
        case Every(minutes):
            return now + minutes * 60.0
    return None


def draft_as_json(draft: Draft) -> dict[str, Any]:
    """As it came, and as it is stored and shown."""
    schedule: dict[str, Any] | None = None
    match draft.schedule:
        case Daily(at, zone):
            schedule = {"at": at, "zone": zone}
        case Every(minutes):
            schedule = {"every_minutes": minutes}
    threshold = draft.threshold
    return {
        "title": draft.title,
        "question": draft.question,
        "sql": draft.sql or None,
        "schedule": schedule,
        "threshold": None
        if threshold is None
        else {"column": threshold.column, "above" if threshold.is_upper else "below": threshold.bound},
    }


def _schedule(given: Any) -> Daily | Every | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise PinWrong("'schedule' must be an object, or null")
    if "every_minutes" in given:
        _known(given, {"every_minutes"}, "a schedule of minutes")
        minutes = given["every_minutes"]
        if type(minutes) is not int or not LEAST_MINUTES <= minutes <= MOST_MINUTES:
            raise PinWrong(f"'every_minutes' must be a whole number from {LEAST_MINUTES} to {MOST_MINUTES}")
        return Every(minutes)
    _known(given, {"at", "zone"}, "a daily schedule")
    at, zone = given.get("at"), given.get("zone", "UTC")
    if not isinstance(at, str) or re.fullmatch(TIME_OF_DAY, at) is None:
        raise PinWrong("'at' must be a time like 08:30")
    if not isinstance(zone, str):
        raise PinWrong("'zone' must be a text")
    problem = zone_problem(zone)
    if problem is not None:
        raise PinWrong(problem)
    return Daily(at, zone)


def _threshold(given: Any) -> Threshold | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise PinWrong("'threshold' must be an object, or null")
    _known(given, {"column", "above", "below"}, "a threshold")
    sides = [side for side in ("above", "below") if given.get(side) is not None]
    if len(sides) != 1:
        raise PinWrong("a threshold has a number 'above' or 'below' which it is told, and not both")
    bound = given[sides[0]]
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not -1e300 <= bound <= 1e300:
        raise PinWrong(f"'{sides[0]}' must be a number")
    return Threshold(_text(given.get("column"), "column", MAX_TITLE), float(bound), sides[0] == "above")


def number_in(cell: Any) -> float | None:
    """A cell's number; decimals come as texts."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        number = float(cell)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text(given: Any, name: str, most: int) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > most:
        raise PinWrong(f"{name!r} must be a text of 1 to {most} characters")
    if not given.isascii() and given != given.encode(errors="replace").decode():
        raise PinWrong(f"{name!r} has half a character in it")
    return given


def _known(given: Mapping[str, Any], names: set[str], what: str) -> None:
    unknown = sorted(set(given) - names)
    if unknown:
        raise PinWrong(f"there is no {unknown[0][:40]!r} in {what}")
