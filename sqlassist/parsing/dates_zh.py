"""Times as Chinese writes them: a pattern and what it means, each."""

import re
from collections.abc import Callable, Iterable, Iterator

import attrs

from sqlassist.metric_query import Period
from sqlassist.parsing import calendar
from sqlassist.parsing.calendar import Span, Today
from sqlassist.parsing.numbers import han_number

Build = Callable[[re.Match[str], Today], Span | None]

_N = r"(?:\d{1,4}|[零一二两三四五六七八九十百]{1,5})"
_UNITS = {
    "天": "day",
    "日": "day",
    "周": "week",
    "星期": "week",
    "月": "month",
    "季度": "quarter",
    "年": "year",
    "季": "quarter",
}
_MONTH = (
    r"(?:(?P<year>(?:\d{4}|今|去|前|本|上|[一二][零〇一二三四五六七八九]{3}))年(?:的)?)?"
    r"(?P<month>(?:1[0-2]|0?[1-9]|十[一二]|[一二三四五六七八九十]))月(?:份)?"
)
_NAMED_MONTH = r"(?P<named>本月份?|这个月|当月|上个月|上月份?|上上个月|上上月)"
_ANY_MONTH = rf"(?:{_MONTH}|{_NAMED_MONTH})"
_DAY = r"(?:[12]\d|3[01]|0?[1-9]|[二三]?十[一二三四五六七八九]?|[一二三四五六七八九])"
_TO = r"\s*(?:到|至|-|~|直到)\s*"
_WEEKDAY = r"(?:周|星期|礼拜)(?P<day>[一二三四五六日天])(?![起周共直样般定下些个次月季年半百千二三四五六七八九十])"


def _year_number(text: str | None, today: Today) -> int | None:
    if not text:
        return None
    known = {"今": 0, "本": 0, "去": 1, "上": 1, "前": 2}
    if text in known:
        return today.date.year - known[text]
    return int(text) if text.isdigit() else int("".join(str(han_number(one)) for one in text))


def _month_of(found: re.Match[str], today: Today) -> Span | None:
    groups = found.groupdict()
    named = groups.get("named")
    if named:
        if named[:2] == "上上":
            return calendar.ago(today, "month", 2)
        if named[0] == "上":
            return calendar.ago(today, "month", 1)
        return calendar.running(today, "month")
    month, year = han_number(groups["month"]), _year_number(groups["year"], today)
    return calendar.month_span(year, month) if year is not None else calendar.latest_month(today, month)


def _whole_month(found: re.Match[str], today: Today) -> Span | None:
    month = _month_of(found, today)
    if month is None:
        return None
    start = month.period.start
    return Span(Period(start, calendar.moved(start, "month", 1)), "month")


def _date(found: re.Match[str], today: Today) -> Span | None:
    day = han_number(found["day"])
    if found["month"] and not found["year"]:
        return calendar.latest_date(today, han_number(found["month"]), day)
    month = _month_of(found, today)
    return calendar.date_span(month.period.start.year, month.period.start.month, day) if month is not None else None


def _date_range(found: re.Match[str], today: Today) -> Span | None:
    first = _date(found, today)
    if first is None:
        return None
    start = first.period.start
    last = calendar.date_span(start.year, start.month, han_number(found["last"]))
    return calendar.joined(first, last) if last is not None else None


def _iso(found: re.Match[str], _today: Today) -> Span | None:
    return calendar.date_span(*(int(found[name]) for name in ("y", "m", "d")))


def _ten_days(found: re.Match[str], today: Today) -> Span | None:
    month = _whole_month(found, today)
    return calendar.ten_days(month, "上中下".index(found["part"])) if month is not None else None


def _half_month(found: re.Match[str], today: Today) -> Span | None:
    month = _whole_month(found, today)
    return calendar.half_month(month, int(found["part"] in "下后")) if month is not None else None


def _end_of_month(found: re.Match[str], today: Today) -> Span | None:
    month = _whole_month(found, today)
    if month is None:
        return None
    count = han_number(found["n"]) * (1 if found["unit"] in "天日" else 7)
    return calendar.days_at_end(month, count, at_end=found["part"] in {"后", "最后"})


def _year(found: re.Match[str], today: Today) -> Span | None:
    text = found["year"]
    if text in {"今", "本"}:
        return calendar.running(today, "year")
    if text in {"去", "上", "前", "上一"}:
        return calendar.ago(today, "year", 2 if text == "前" else 1)
    year = _year_number(text, today)
    return calendar.year_span(year) if year is not None else None


def _part_of_year(found: re.Match[str], today: Today) -> Span | None:
    year, part = _year_number(found["year"], today), found["part"]
    unit = "half" if part in {"上半", "下半", "前半", "后半"} else "quarter"
    number = {"上半": 1, "前半": 1, "下半": 2, "后半": 2}.get(part) or han_number(part)
    if year is not None:
        return calendar.part_of_year(year, number, unit)
    span = calendar.part_of_year(today.date.year, number, unit)
    if span is not None and span.period.start > today.date:
        return calendar.part_of_year(today.date.year - 1, number, unit)
    return span


def _named_day(found: re.Match[str], today: Today) -> Span | None:
    days = {"今": 0, "当": 0, "昨": 1, "前": 2, "大": 3}[found.group()[0]]
    return calendar.ago(today, "day", days) if days else calendar.running(today, "day")


def _unit(found: re.Match[str], today: Today) -> Span | None:
    word, unit = found["word"], _UNITS[found["unit"]]
    if word in {"本", "这", "这个", "这一", "这一个", "当"}:
        return calendar.running(today, unit)
    if word.startswith("上上"):
        return calendar.ago(today, unit, 2)
    span = calendar.ago(today, unit, 1)
    return Span(span.period, unit, is_last=True, is_previous=word.startswith("前"))


def _units(found: re.Match[str], today: Today) -> Span | None:
    count, unit = han_number(found["n"]), _UNITS[found["unit"]]
    if unit in {"month", "quarter", "year"} and count == 1:
        days = {"month": 30, "quarter": 90, "year": 365}[unit]
        span = calendar.last_units(today, "day", days)
        return Span(span.period, "days", otherwise=(calendar.ago(today, unit, 1).period,)) if span is not None else None
    if unit == "week" and count == 1:
        return calendar.last_units(today, "day", 7)
    return calendar.last_units(today, unit, count)


def _units_before(found: re.Match[str], today: Today) -> Span | None:
    """`前7天`: the latest ones; of months and quarters it may be the first ones of the year as well."""
    span, unit = _units(found, today), _UNITS[found["unit"]]
    if span is None or unit not in {"month", "quarter"}:
        return span
    start = today.date.replace(month=1, day=1)
    first = Period(start, calendar.moved(start, unit, han_number(found["n"])))
    return attrs.evolve(span, otherwise=(*span.otherwise, first)) if first != span.period else span


def _months(found: re.Match[str], today: Today) -> Span | None:
    first, last = han_number(found["first"]), han_number(found["month"])
    end = calendar.latest_month(today, last)
    start = calendar.month_span(end.period.start.year, first) if end is not None else None
    return calendar.joined(start, end) if start is not None and end is not None else None


def _neighbours(found: re.Match[str], today: Today) -> Span | None:
    """`五六月`: one month and the next."""
    return _months(found, today) if han_number(found["month"]) == han_number(found["first"]) + 1 else None


def _weekend(_found: re.Match[str], today: Today) -> Span | None:
    return calendar.last_weekend(today)


def _half_a_month(found: re.Match[str], today: Today) -> Span | None:
    return calendar.last_units(today, "month", 6) if "年" in found.group() else calendar.last_units(today, "day", 15)


def _weekday(found: re.Match[str], today: Today) -> Span | None:
    weekday = "一二三四五六日天".index(found["day"])
    weekday = 6 if weekday == 7 else weekday
    word = found["word"] or ""
    if word.startswith("上"):
        return calendar.weekday_span(today, weekday, 2 if word.startswith("上上") else 1)
    span = calendar.weekday_span(today, weekday, 0)
    if word:
        return span if span.period.start <= today.date else None
    return span if span.period.start <= today.date else calendar.weekday_span(today, weekday, 1)


_SINGLE: tuple[tuple[str, Build], ...] = (
    (rf"{_MONTH}(?P<day>{_DAY})[日号]", _date),
    (rf"{_NAMED_MONTH}(?P<month>)(?P<year>)(?:的)?(?P<day>{_DAY})[日号]", _date),
    (rf"{_MONTH}(?P<day>{_DAY})[日号]?{_TO}(?P<last>{_DAY})[日号](?!\d)", _date_range),
    (
        rf"{_NAMED_MONTH}(?P<month>)(?P<year>)(?:的)?(?P<day>{_DAY})[日号]?{_TO}(?P<last>{_DAY})[日号](?!\d)",
        _date_range,
    ),
    (r"(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?!\d)", _iso),
    (_ANY_MONTH, _month_of),
    (rf"{_ANY_MONTH}(?:的)?(?P<part>[上中下])旬", _ten_days),
    (rf"{_ANY_MONTH}(?:的)?(?P<part>[上下前后])半(?:个)?月?", _half_month),
    (rf"{_ANY_MONTH}(?:的)?(?P<part>前|最后|后|头)(?P<n>{_N})个?(?P<unit>天|日|周|星期)", _end_of_month),
    (r"(?P<year>\d{4}|[一二][零〇一二三四五六七八九]{3}|今|去|前|本|上一?)年(?:全年|整年|度)?", _year),
    (
        r"(?:(?P<year>\d{4}|今|去|前|本)年(?:的)?)?(?:第)?(?P<part>[1-4一二三四])季度?",
        _part_of_year,
    ),
    (r"(?:(?P<year>\d{4}|今|去|前|本)年(?:的)?)?q(?P<part>[1-4])(?:季度)?", _part_of_year),
    (r"(?:(?P<year>\d{4}|今|去|前|本)(?:年(?:的)?)?)?(?P<part>上半|下半|前半|后半)年", _part_of_year),
    (rf"(?P<first>{_N}){_TO}(?P<month>(?:1[0-2]|0?[1-9]|十[一二]|[一二三四五六七八九十]))月(?:份)?(?![\d])", _months),
    (r"(?P<first>[一二三四五六七八九])(?P<month>[二三四五六七八九十])月", _neighbours),
    (r"上个?周末", _weekend),
    (r"今天|今日|当天|昨天|昨日|前天|前日|大前天", _named_day),
    (
        r"(?P<word>本|这个|这一个|这一|这|上一个|上一|上个|上上个|上上|上|前一个|前一|当)(?P<unit>周|星期|月|季度|年|季|天|日)",
        _unit,
    ),
    (
        rf"(?:最近|近|过去|过去的|最近的|之前|前面|刚过去的|此前)(?:的)?(?P<n>{_N})个?(?:完整)?(?:自然)?(?P<unit>天|日|周|星期|月|季度|年)",
        _units,
    ),
    (  # behind a metric or a superlative it is a number of rows: `收入前3个月`, `收入最高的前3天`
        rf"(?:^|(?<=[\s,，、的在下看查]))(?<![高多低少好差大小]的)前(?P<n>{_N})个?(?P<unit>天|日|周|星期|月|季度)",
        _units_before,
    ),
    (r"(?:最近|近|过去)半(?:个)?(?:月|年)", _half_a_month),
    (rf"(?P<word>本|这|这个|上个|上上|上|上一)?{_WEEKDAY}", _weekday),
)
_COMPILED = tuple((re.compile(pattern), build) for pattern, build in _SINGLE)
_CONNECTED = re.compile(_TO)
_FROM = re.compile(r"(?:从|自从|自|在)\s*")
_UNTIL = re.compile(r"(?:截至|截止到|截止|到|直到|截至到)\s*")
_SINCE = re.compile(
    r"初?(?:以来|起|开始|至今|到现在|到今天|以后至今|到目前为止|到目前|之后到现在|开始到现在|起至今|以来到现在|到今天为止)"
)
_AFTER = re.compile(r"(?:之后|以后|过后)")
_BEFORE = re.compile(r"(?:之前|以前)")
_END = re.compile(r"(?:为止|止|底为止|底)")
_BOTH = re.compile(r"(?:之间|期间|这段时间|间)")


def _singles(text: str, position: int, today: Today) -> Iterator[tuple[int, Span]]:
    for pattern, build in _COMPILED:
        found = pattern.match(text, position)
        span = build(found, today) if found is not None else None
        if found is not None and span is not None and span.period.start <= today.date:
            yield found.end(), span


def spans_at(text: str, position: int, today: Today) -> Iterable[tuple[int, Span]]:
    """(end, time) of everything that can begin at a position of a normalised text."""
    found = list(_singles(text, position, today))
    for end, span in tuple(found):
        found += _behind(text, end, span, today)
        found += _suffixed(text, end, span, today)
    for opening in (_FROM, _UNTIL):
        prefix = opening.match(text, position)
        if prefix is None:
            continue
        for end, span in list(_singles(text, prefix.end(), today)):
            if opening is _FROM:
                found += _behind(text, end, span, today)
                found += [one for one in _suffixed(text, end, span, today) if one[1].unit == "open"]
            else:
                closed = calendar.until(span)
                closing = _END.match(text, end)
                if closed is not None:
                    found.append((closing.end() if closing is not None else end, closed))
    return found


def _behind(text: str, end: int, first: Span, today: Today) -> Iterator[tuple[int, Span]]:
    connected = _CONNECTED.match(text, end)
    if connected is None:
        return
    for behind, last in _singles(text, connected.end(), today):
        whole = calendar.joined(first, last)
        if whole is not None:
            yield behind, whole
            both = _BOTH.match(text, behind)
            if both is not None:
                yield both.end(), whole


def _suffixed(text: str, end: int, span: Span, today: Today) -> Iterator[tuple[int, Span]]:
    for pattern, opened in (
        (_SINCE, calendar.since(span, today)),
        (_AFTER, calendar.since(span, today, after=True)),
        (_BEFORE, calendar.until(span, before=True)),
    ):
        found = pattern.match(text, end)
        if found is not None and opened is not None:
            yield found.end(), opened
