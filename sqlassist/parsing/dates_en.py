"""Times as English writes them: a pattern and what it means, each."""

import re
from collections.abc import Callable, Iterable, Iterator

from sqlassist.metric_query import Period
from sqlassist.parsing import calendar
from sqlassist.parsing.calendar import Span, Today
from sqlassist.parsing.words_en import NUMBERS

Build = Callable[[re.Match[str], Today], Span | None]

_MONTHS = {
    name: number
    for number, names in enumerate(
        [
            "jan january",
            "feb february",
            "mar march",
            "apr april",
            "may",
            "jun june",
            "jul july",
            "aug august",
            "sep sept september",
            "oct october",
            "nov november",
            "dec december",
        ],
        start=1,
    )
    for name in names.split()
}
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        [
            "monday mon",
            "tuesday tue tues",
            "wednesday wed",
            "thursday thu thurs",
            "friday fri",
            "saturday sat",
            "sunday sun",
        ]
    )
    for name in names.split()
}
_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "last": -1}

_MONTH = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_WEEKDAY = "(?:" + "|".join(sorted(_WEEKDAYS, key=len, reverse=True)) + r")\b"
_NUMBER = r"(?:\d{1,4}|" + "|".join(sorted(NUMBERS, key=len, reverse=True)) + r")\b"
_DAY = r"(?:[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?\b"
_YEAR = r"(?:19|20)\d\d\b"
_ORDINAL = "(?:" + "|".join(_ORDINALS) + ")"
_TO = r"(?:\s*-\s*|\s*~\s*|\s+(?:to|through|until|till|and)\s+(?:the\s+)?)"
_NAMED_MONTH = rf"(?P<month>{_MONTH})(?:(?:,|\s+of|\s+in)?\s+(?P<year>{_YEAR}))?"
_MENTIONED = rf"(?:{_NAMED_MONTH}|(?P<running>this|the|last|the last|the previous|the current)\s+month)"


def _number(text: str) -> int:
    return int(text) if text.isdigit() else NUMBERS[text]


def _day(text: str) -> int:
    return int(re.match(r"\d+", text).group())  # type: ignore[union-attr]  # the pattern of a day begins with digits


def _month(text: str) -> int:
    return _MONTHS[text.rstrip(".")]


def _month_of(found: re.Match[str], today: Today) -> Span | None:
    """Of `May`, `May 2026`, `this month`, `last month`."""
    groups = found.groupdict()
    if groups.get("running"):
        is_last = "last" in groups["running"] or "previous" in groups["running"]
        return calendar.ago(today, "month", 1) if is_last else _whole(calendar.running(today, "month"), "month")
    month = _month(groups["month"])
    return calendar.month_span(int(groups["year"]), month) if groups["year"] else calendar.latest_month(today, month)


def _whole(span: Span, unit: str) -> Span:
    start = span.period.start
    return Span(Period(start, calendar.moved(start, unit, 1)), unit)


def _iso(found: re.Match[str], _today: Today) -> Span | None:
    return calendar.date_span(*(int(found[name]) for name in ("y", "m", "d")))


def _iso_month(found: re.Match[str], _today: Today) -> Span | None:
    return calendar.month_span(int(found["y"]), int(found["m"]))


def _date(found: re.Match[str], today: Today) -> Span | None:
    month, day = _month(found["month"]), _day(found["day"])
    if found["year"]:
        return calendar.date_span(int(found["year"]), month, day)
    return calendar.latest_date(today, month, day)


def _date_range(found: re.Match[str], today: Today) -> Span | None:
    first = _date(found, today)
    if first is None:
        return None
    last = calendar.date_span(first.period.start.year, first.period.start.month, _day(found["last"]))
    return calendar.joined(first, last) if last is not None else None


def _part_of_month(found: re.Match[str], today: Today) -> Span | None:
    month = _month_of(found, today)
    return calendar.half_month(month, int(_ORDINALS[found["which"]] != 1)) if month is not None else None


def _end_of_month(found: re.Match[str], today: Today) -> Span | None:
    month = _month_of(found, today)
    if month is None:
        return None
    count = _number(found["n"]) * (7 if found["unit"].startswith("week") else 1)
    return calendar.days_at_end(month, count, at_end=found["which"] == "last")


def _part_of_year(found: re.Match[str], today: Today) -> Span | None:
    unit = "half" if found["unit"] in {"half", "h"} else "quarter"
    number = int(found["n"]) if found["n"].isdigit() else _ORDINALS[found["n"]]
    if number == -1:
        number = 2 if unit == "half" else 4
    if number > (2 if unit == "half" else 4):
        return None
    if found["year"] and found["year"].isdigit():
        return calendar.part_of_year(int(found["year"]), number, unit)
    if found["year"] in {"last", "previous"}:
        return calendar.part_of_year(today.date.year - 1, number, unit)
    span = calendar.part_of_year(today.date.year, number, unit)
    if span is not None and span.period.start > today.date and not found["year"]:
        return calendar.part_of_year(today.date.year - 1, number, unit)
    return span


def _year(found: re.Match[str], _today: Today) -> Span | None:
    return calendar.year_span(int(found["y"]))


def _named_day(found: re.Match[str], today: Today) -> Span | None:
    days = {"today": 0, "yesterday": 1}.get(found.group(), 2)
    return calendar.ago(today, "day", days) if days else calendar.running(today, "day")


def _unit(found: re.Match[str], today: Today) -> Span | None:
    word, unit = found["word"].removeprefix("the "), found["unit"]
    if word in {"this", "current"}:
        return calendar.running(today, unit)
    if word == "past" and unit != "day":
        rolling = {"week": 7, "month": 30, "year": 365}.get(unit)
        span = calendar.last_units(today, "day", rolling) if rolling else None
        if unit == "week" or span is None:
            return span
        return calendar.Span(span.period, "days", otherwise=(calendar.ago(today, unit, 1).period,))
    span = calendar.ago(today, unit, 1)
    return calendar.Span(span.period, unit, is_last=True, is_previous=word in {"previous", "preceding", "prior"})


def _units(found: re.Match[str], today: Today) -> Span | None:
    return calendar.last_units(today, found["unit"].removesuffix("s"), _number(found["n"]))


def _units_ago(found: re.Match[str], today: Today) -> Span | None:
    count, unit = _number(found["n"].replace("a", "1") if found["n"] == "a" else found["n"]), found["unit"]
    return calendar.ago(today, unit.removesuffix("s"), count) if 1 <= count <= 500 else None


def _to_date(found: re.Match[str], today: Today) -> Span | None:
    short = {"ytd": "year", "mtd": "month", "qtd": "quarter", "wtd": "week"}
    return calendar.running(today, short.get(found.group(), found.groupdict().get("unit") or "year"))


def _unit_before(found: re.Match[str], today: Today) -> Span | None:
    span = calendar.ago(today, found["unit"], 1)
    return calendar.Span(span.period, span.unit, is_previous=True)


def _unit_before_last(found: re.Match[str], today: Today) -> Span | None:
    return calendar.ago(today, found["unit"], 2)


def _weekday(found: re.Match[str], today: Today) -> Span | None:
    weekday, word = _WEEKDAYS[found["day"]], found["word"] or ""
    if word == "this":
        span = calendar.weekday_span(today, weekday, 0)
        return span if span.period.start <= today.date else None
    latest = calendar.latest_weekday(today, weekday)
    span = calendar.day_span(latest)
    of_last_week = calendar.weekday_span(today, weekday, 1)
    if word == "last" and of_last_week.period != span.period:
        return calendar.Span(span.period, "day", otherwise=(of_last_week.period,))
    return span


def _weekday_of_last_week(found: re.Match[str], today: Today) -> Span | None:
    return calendar.weekday_span(today, _WEEKDAYS[found["day"]], 1)


def _weekend(_found: re.Match[str], today: Today) -> Span | None:
    return calendar.last_weekend(today)


def _same_unit(found: re.Match[str], today: Today) -> Span | None:
    """`the second quarter against the first`: a quarter, where one was named before."""
    if "quarter" not in found.string[: found.start()]:
        return None
    year, number = today.date.year, _ORDINALS[found["n"]]
    span = calendar.part_of_year(year, number, "quarter")
    is_ahead = span is not None and span.period.start > today.date
    return calendar.part_of_year(year - 1, number, "quarter") if is_ahead else span


_SINGLE: tuple[tuple[str, Build], ...] = (
    (r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})\b", _iso),
    (r"(?P<y>\d{4})/(?P<m>\d{1,2})/(?P<d>\d{1,2})\b", _iso),
    (r"(?P<y>\d{4})\.(?P<m>\d{1,2})\.(?P<d>\d{1,2})\b", _iso),
    (r"(?P<y>20\d\d)(?P<m>\d\d)(?P<d>\d\d)\b", _iso),
    (rf"(?P<day>{_DAY})[-.]\s?(?P<month>{_MONTH})(?:[-.\s]\s?(?P<year>{_YEAR}))?", _date),
    (rf"(?P<month>{_MONTH})-(?P<day>{_DAY})(?:-(?P<year>{_YEAR}))?", _date),
    (r"(?P<y>\d{4})[-/](?P<m>\d{1,2})\b", _iso_month),
    (rf"(?P<month>{_MONTH})\s+(?:the\s+)?(?P<day>{_DAY})(?:,?\s+(?P<year>{_YEAR}))?", _date),
    (rf"(?:the\s+)?(?P<day>{_DAY})\s+(?:of\s+)?(?P<month>{_MONTH})(?:,?\s+(?P<year>{_YEAR}))?", _date),
    (rf"(?P<month>{_MONTH})\s+(?P<day>{_DAY}){_TO}(?P<last>{_DAY})(?:,?\s+(?P<year>{_YEAR}))?", _date_range),
    (
        rf"(?:the\s+)?(?P<day>{_DAY}){_TO}(?P<last>{_DAY})\s+(?:of\s+)?(?P<month>{_MONTH})(?:,?\s+(?P<year>{_YEAR}))?",
        _date_range,
    ),
    (rf"(?:the\s+)?(?:month\s+of\s+)?{_MENTIONED.split('|(?P<running>', maxsplit=1)[0]})", _month_of),
    (rf"(?:the\s+)?(?P<which>first|second|1st|2nd)\s+half\s+of\s+{_MENTIONED}", _part_of_month),
    (
        rf"(?:the\s+)?(?P<which>first|last)\s+(?P<n>{_NUMBER})\s+(?P<unit>days?|weeks?)\s+(?:of|in)\s+{_MENTIONED}",
        _end_of_month,
    ),
    (
        rf"(?:the\s+)?(?P<unit>q|h)\s?(?P<n>[1-4])\b(?:(?:,|\s+of|\s+in)?\s+(?P<year>{_YEAR}|this(?=\s+year)|last(?=\s+year))(?:\s+year)?)?",
        _part_of_year,
    ),
    (rf"(?P<year>{_YEAR})[\s-]?(?P<unit>q|h)(?P<n>[1-4])\b", _part_of_year),
    (
        rf"(?:the\s+)?(?P<n>{_ORDINAL})\s+(?P<unit>quarter|half)(?:\s+of)(?:\s+(?:the\s+)?(?P<year>{_YEAR}|this|last|previous|year|current)(?:\s+year)?)",
        _part_of_year,
    ),
    (r"(?:the\s+)?(?P<n>first|second|third|fourth|1st|2nd|3rd|4th)\s+(?P<unit>quarter)(?P<year>)\b", _part_of_year),
    (r"(?:the\s+)?(?P<n>first|second|third|fourth)(?=\s*[?!.,:;]|\s*$)", _same_unit),
    (rf"(?:the\s+)?(?:year\s+|year\s+of\s+)?(?P<y>{_YEAR})", _year),
    (r"today|yesterday|(?:the\s+)?day\s+before\s+yesterday", _named_day),
    (
        r"(?:the\s+)?(?P<word>this|current|last|past|previous|preceding|prior)\s+(?:calendar\s+)?(?P<unit>day|week|month|quarter|year)\b",
        _unit,
    ),
    (
        rf"(?:the\s+)?(?:last|past|previous|most\s+recent|preceding)\s+(?P<n>{_NUMBER})\s+(?:full\s+|whole\s+|calendar\s+|complete\s+)?(?P<unit>days?|weeks?|months?|quarters?|years?)\b",
        _units,
    ),
    (rf"(?P<n>{_NUMBER}|a)\s+(?P<unit>days?|weeks?|months?|years?)\s+ago\b", _units_ago),
    (r"ytd|mtd|qtd|wtd|(?:the\s+)?(?P<unit>year|month|quarter|week)[\s-]to[\s-]date", _to_date),
    (
        r"(?:so\s+far\s+this|this)\s+(?P<unit>year|month|quarter|week)(?:\s+so\s+far|\s+to\s+date|\s+until\s+now|\s+up\s+to\s+now|\s+up\s+to\s+today)?\b",
        _to_date,
    ),
    (
        r"the\s+(?P<unit>day|week|month|quarter|year)\s+(?:before\s+that|before\s+it|before|prior)\b(?!\s+(?:last|yesterday))",
        _unit_before,
    ),
    (r"(?:the\s+)?(?P<unit>week|month|quarter|year)\s+before\s+last\b", _unit_before_last),
    (rf"(?:on\s+)?(?:the\s+)?(?P<day>{_WEEKDAY})\s+of\s+(?:the\s+)?last\s+week\b", _weekday_of_last_week),
    (r"(?:the\s+)?last\s+weekend\b", _weekend),
    (rf"(?:(?P<word>last|this|on|past)\s+)?(?P<day>{_WEEKDAY})", _weekday),
)
_COMPILED = tuple((re.compile(pattern), build) for pattern, build in _SINGLE)
_CONNECTED = re.compile(rf"{_TO}(?:(?:the\s+)?end\s+of\s+)?")
_PREFIX = re.compile(
    r"(?:(?P<from>from(?:\s+the\s+(?:start|beginning)\s+of)?|between)|(?P<since>(?:since|starting\s+(?:from|in|on|with))(?:\s+the\s+(?:start|beginning)\s+of)?|beginning\s+(?:in|on))|(?P<after>after(?:\s+the\s+end\s+of)?)|(?P<until>(?:until|till|through|up\s+to|up\s+until|by)\s+the\s+end\s+of|until|till|through|up\s+to|up\s+until)|(?P<before>before(?:\s+the\s+(?:start|beginning)\s+of)?|prior\s+to))\s+"
)
_ONWARDS = re.compile(
    r"\s+(?:onwards?|on|until\s+today|until\s+now|to\s+today|up\s+to\s+today|up\s+to\s+now|to\s+now|till\s+today|till\s+now)\b"
)
_NO_YEAR_BEHIND = re.compile(
    r"(?:than|least|most|above|over|below|under|exceeding|exceeds|exceeded|top|level|[<>]=?)\s*[$€¥]?$"
)
_MODAL = re.compile(r"may\s+(?:i|we|you)\b")


def _singles(text: str, position: int, today: Today) -> Iterator[tuple[int, Span]]:
    if _MODAL.match(text, position):
        return
    for pattern, build in _COMPILED:
        found = pattern.match(text, position)
        if found is None or (build is _year and _NO_YEAR_BEHIND.search(text, 0, position)):
            continue
        span = build(found, today)
        if span is not None and span.period.start <= today.date:
            yield found.end(), span


def spans_at(text: str, position: int, today: Today) -> Iterable[tuple[int, Span]]:
    """(end, time) of everything that can begin at a position of a normalised text."""
    found = list(_singles(text, position, today))
    found += [one for end, span in found for one in _behind(text, end, span, today, is_between=False)]
    prefix = _PREFIX.match(text, position)
    if prefix is not None:
        for end, span in list(_singles(text, prefix.end(), today)):
            found += _prefixed(text, prefix, end, span, today)
    return found


def _behind(text: str, end: int, first: Span, today: Today, *, is_between: bool) -> Iterator[tuple[int, Span]]:
    """`A to B` once A is read."""
    connected = _CONNECTED.match(text, end)
    if connected is None or ("and" in connected.group() and not is_between):
        return
    for behind, last in _singles(text, connected.end(), today):
        whole = calendar.joined(first, last)
        if whole is not None:
            yield behind, whole


def _prefixed(text: str, prefix: re.Match[str], end: int, span: Span, today: Today) -> Iterator[tuple[int, Span]]:
    word = prefix.lastgroup or ""
    if word == "from":
        is_between = prefix.group().startswith("between")
        yield from _behind(text, end, span, today, is_between=is_between)
        onwards = _ONWARDS.match(text, end)
        opened = calendar.since(span, today)
        if onwards is not None and opened is not None and not is_between:
            yield onwards.end(), opened
        return
    opened = {
        "since": lambda: calendar.since(span, today),
        "after": lambda: calendar.since(span, today, after=True),
        "until": lambda: calendar.until(span),
        "before": lambda: calendar.until(span, before=True),
    }[word]()
    if opened is not None:
        yield end, opened
