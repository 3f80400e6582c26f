"""A first semantic layer from what a database says of itself: keys, references, types and comments.

It loads as it is, and every guess is marked: whoever knows the game reads those lines, and writes the metrics that no
schema tells. No value is read from the data but from columns that a person has marked enumerable.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

import attrs

from sqlassist.catalog import ColumnType
from sqlassist.column_comments import Said, said_in
from sqlassist.config import SourceConfig
from sqlassist.semantic import NAME_PATTERN, TimeKind
from sqlassist.semantic_checks import MAX_PHRASE

GUESS = "# guess:"
MILLISECONDS_FROM = 100_000_000_000  # as seconds that is the year 5138, as milliseconds 1973
_TIME_NAME = re.compile(
    r"(^|_)(time|date|at|ts|timestamp|epoch|created|updated|modified|expires?)(_?(ms|millis|s|sec))?$", re.IGNORECASE
)
_TIME_COMMENT = re.compile(r"时间|日期|时刻|timestamp|epoch|unix", re.IGNORECASE)
_ADDS_UP = re.compile(
    r"amount|price|cost|revenue|income|fee|pay|money|gold|gems?|coins?|diamonds?|count|num|qty|quantity|minutes|seconds|"
    r"duration|total|points|exp$|score|金额|数量|次数|时长|费|收入|消耗|产出",
    re.IGNORECASE,
)
_PERSONAL = re.compile(
    r"name|nick|mail|phone|mobile|address|ip$|_ip|device|imei|idfa|token|passw|secret|openid|account|birth|card|"
    r"昵称|姓名|邮箱|手机|电话|地址|设备|账号|密码|身份证",
    re.IGNORECASE,
)


@attrs.frozen
class SeenColumn:
    """A column as the database describes it."""

    comment: str = ""
    is_unique: bool = False
    """Alone it is a key of its table."""
    refers_to: str = ""
    """`table.column`, by a foreign key."""


@attrs.frozen
class SeenTable:
    """A table as the database describes it."""

    comment: str = ""
    columns: Mapping[str, SeenColumn] = attrs.field(factory=dict)


@attrs.frozen
class Magnitude:
    """The largest value of a column of integers that may hold moments."""

    largest: int


def is_time_candidate(name: str, comment: str, kind: ColumnType) -> bool:
    """Whether a column of integers looks like moments since 1970."""
    return kind.is_numeric and bool(_TIME_NAME.search(name) or _TIME_COMMENT.search(comment))


def draft_of(
    name: str, source: SourceConfig, seen: Mapping[str, SeenTable], magnitudes: Mapping[str, Magnitude]
) -> str:
    """The draft as TOML.

    Args:
        name: Of the source.
        source: Which tables and columns may be named, and their types.
        seen: What the database says of them; what is missing there is guessed from names.
        magnitudes: `table.column` → what was read of it, where reading was allowed.
    """
    return "\n".join(_Draft(name, source, seen, magnitudes).lines()) + "\n"


class _Draft:
    def __init__(
        self,
        name: str,
        source: SourceConfig,
        seen: Mapping[str, SeenTable],
        magnitudes: Mapping[str, Magnitude],
    ) -> None:
        self.name = name
        self.source = source
        self.seen = seen
        self.magnitudes = magnitudes
        self.phrases: dict[str, set[str]] = {"metrics": set(), "dimensions": set(), "values": set()}
        self.names: set[str] = set()
        self.times = dict(self._times())
        self.references = dict(self._references())
        self.entities = dict.fromkeys(goal for goal, _ in self.references.values())

    def lines(self) -> Iterator[str]:
        yield f"# A draft of the semantic layer of {self.name!r}, from its tables, keys and comments alone."
        yield f"# Lines with `{GUESS}` are guesses: mend or confirm each, then write the metrics that people ask for."
        yield "# Mark dimensions with few values, none of them personal, by `enumerable = true`, then sample them:"
        yield "#   corral semantic draft CONFIG --sample THIS-FILE --tenant TENANT"
        yield f"title = {_text(self.name.replace('_', ' '))}  {GUESS} what people call this database"
        yield ""
        yield "[conventions]"
        yield f'zone = "UTC"  {GUESS} where the business counts its days'
        yield f'day_start = "00:00"  {GUESS} 05:00 would count the small hours to the day before'
        yield f'week_start = "monday"  {GUESS} or sunday, saturday'
        yield "notes = []"
        yield ""
        yield from self._time_lines()
        yield from self._entity_lines()
        for table in self.source.tables:
            yield from self._metric_lines(table)
        for table in self.source.tables:
            yield from self._dimension_lines(table)

    # --- times -----------------------------------------------------------------------------------------------------
    def _times(self) -> Iterator[tuple[str, tuple[TimeKind, str]]]:
        """`table.column` → its kind, and why that is a guess; empty where it is none."""
        for table, column, kind in self._columns():
            place = f"{table}.{column}"
            if kind is ColumnType.DATE:
                yield place, (TimeKind.DATE, "its days are the business' days")
            elif kind is ColumnType.DATETIME:
                yield place, (TimeKind.DATETIME, "the zone of its clock")
            elif is_time_candidate(column, self._seen(table, column).comment, kind):
                yield place, self._epoch(place, column)

    def _epoch(self, place: str, column: str) -> tuple[TimeKind, str]:
        magnitude = self.magnitudes.get(place)
        if magnitude is not None:
            is_fine = abs(magnitude.largest) >= MILLISECONDS_FROM
            kind = TimeKind.EPOCH_MILLISECONDS if is_fine else TimeKind.EPOCH_SECONDS
            return kind, f"its largest value is {magnitude.largest}"
        is_fine = re.search(r"ms$|milli|毫秒", f"{self._seen(*place.split('.')).comment} {column}") is not None
        kind = TimeKind.EPOCH_MILLISECONDS if is_fine else TimeKind.EPOCH_SECONDS
        return kind, "by its name alone: seconds or milliseconds"

    def _time_lines(self) -> Iterator[str]:
        if not self.times:
            return
        yield "[times]"
        for place, (kind, why) in self.times.items():
            zone = ', zone = "UTC"' if kind is TimeKind.DATETIME else ""
            yield f"{_text(place)} = {{ kind = {_text(kind)}{zone} }}  {GUESS} {why}"
        yield ""

    # --- references ------------------------------------------------------------------------------------------------
    def _references(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """`table.column` → (`table.key` that it refers to, why that is a guess)."""
        for table, column, _ in self._columns():
            goal = self._seen(table, column).refers_to
            if goal and goal.partition(".")[0] != table and self._is_known(goal):
                yield f"{table}.{column}", (goal, "")
        for one, other in self.source.joins:
            for start, goal in ((one, other), (other, one)):
                if start.partition(".")[0] != goal.partition(".")[0] and self._is_key(goal) and not self._is_key(start):
                    yield start, (goal, "")
                    break
            else:
                if one.partition(".")[0] != other.partition(".")[0] and not self._is_key(one):
                    yield one, (other, "which of the two columns is unique")

    def _entity_lines(self) -> Iterator[str]:
        if not self.references:
            return
        ids = self._entity_ids()
        yield "[entities]"
        for goal in self.entities:
            table, _, key = goal.partition(".")
            said = self._said_of_table(table)
            names = self._names("entities", [_singular(table)], said)
            unsure = any(why for other, why in self.references.values() if other == goal)
            note = f"  {GUESS} that {goal} is unique" if unsure else ""
            yield f"{ids[goal]} = {{ table = {_text(table)}, key = {_text(key)}, names = {names} }}{note}"
        yield ""
        yield "[references]"
        for place, (goal, why) in self.references.items():
            yield f"{_text(place)} = {_text(ids[goal])}" + (f"  {GUESS} {why}" if why else "")
        yield ""

    def _entity_ids(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for goal in self.entities:
            table, _, key = goal.partition(".")
            name = _plain(_singular(table))
            found[goal] = name if name not in found.values() else _plain(f"{table}_{key}")
        return found

    # --- metrics ---------------------------------------------------------------------------------------------------
    def _metric_lines(self, table: str) -> Iterator[str]:
        said = self._said_of_table(table)
        time = self._time_of(table)
        clock = [f"time = {_text(time)}  {GUESS} the time that a question is about"] if time else []
        yield from self._section(
            "metrics",
            table,
            [f"number of {_words(table)}", _words(table)],
            Said(zh=f"{said.zh}数" if said.zh else ""),
            [
                f"table = {_text(table)}",
                'expression = "COUNT(*)"',
                f"grain = {_text(f'one row of {table}')}  {GUESS} say what one row is",
                "additive = true",
                *clock,
                "decimals = 0",
            ],
        )
        for column, kind in self.source.tables[table].columns.items():
            place = f"{table}.{column}"
            own = said_in(self._seen(table, column).comment)
            comment = self._seen(table, column).comment
            is_sum = kind.is_numeric and _ADDS_UP.search(f"{column} {comment}") is not None
            if not is_sum or place in self.times or place in self.references or own.values or self._is_id(column):
                continue
            yield from self._section(
                "metrics",
                f"total_{column}",
                [f"total {_words(column)}", *([f"total {own.en}"] if own.en else [])],
                Said(zh=f"总{own.zh}" if own.zh else ""),
                [
                    f"table = {_text(table)}",
                    f"expression = {_text(f'SUM({column})')}  {GUESS} that it sums up",
                    "additive = true",
                    *clock,
                ],
            )

    def _time_of(self, table: str) -> str:
        own = [place.partition(".")[2] for place in self.times if place.partition(".")[0] == table]
        partition = self.source.tables[table].partition
        return partition if partition in own else next(iter(own), "")

    # --- dimensions ------------------------------------------------------------------------------------------------
    def _dimension_lines(self, table: str) -> Iterator[str]:
        for column, kind in self.source.tables[table].columns.items():
            place = f"{table}.{column}"
            seen = self._seen(table, column)
            said = said_in(seen.comment)
            if place in self.times or place in self.references or not (kind is ColumnType.TEXT or said.values):
                continue
            if seen.is_unique and not said.values and kind is not ColumnType.TEXT:
                continue
            words = _words(column)
            first = words if words not in {"name", "kind", "type", "status", "state"} else f"{_singular(table)} {words}"
            values = self._values(said, kind)
            body = [f"column = {_text(place)}"]
            if values:
                body.append(f"values = {{ {', '.join(values)} }}  {GUESS} from the comment {_remark(seen.comment)}")
            personal = _PERSONAL.search(f"{column} {seen.comment}") is not None
            hint = (
                "it looks personal: leave it so" if personal else "true where it has few values, none of them personal"
            )
            body.append(f"enumerable = false  {GUESS} {hint}")
            yield from self._section("dimensions", column, [first, f"{_words(table)} {words}"], said, body)

    def _values(self, said: Said, kind: ColumnType) -> list[str]:
        found = []
        for value, label in said.values.items():
            if kind.is_numeric and not re.fullmatch(r"-?\d+", value):
                continue
            is_free = label.casefold() not in self.phrases["values"]
            self.phrases["values"].add(label.casefold())
            language = "zh" if said_in(label).zh else "en"
            found.append(f"{_text(value)} = {{ {f'{language} = [{_text(label)}]' if is_free else ''} }}")
        return found

    # --- pieces ----------------------------------------------------------------------------------------------------
    def _section(self, kind: str, name: str, words: Sequence[str], said: Said, body: Sequence[str]) -> Iterator[str]:
        unique = _plain(name)
        number = 2
        while unique in self.names:
            unique, number = f"{_plain(name)}_{number}", number + 1
        self.names.add(unique)
        yield f"[{kind}.{unique}]"
        yield f"names = {self._names(kind, words, said)}  {GUESS} what people call it"
        yield from body
        yield ""

    def _names(self, kind: str, words: Sequence[str], said: Said) -> str:
        """Phrases that nothing else of this kind is called: a name twice would have to be settled first."""
        taken = self.phrases.setdefault(kind, set())
        found: dict[str, list[str]] = {"en": [], "zh": []}
        for language, phrases in (("en", [*words, said.en]), ("zh", [said.zh])):
            for phrase in phrases:
                short = phrase.strip()[:MAX_PHRASE]
                if short and short.casefold() not in taken:
                    taken.add(short.casefold())
                    found[language].append(short)
        if not any(found.values()):
            number = 2
            while f"{words[-1]} {number}".casefold() in taken:
                number += 1
            taken.add(f"{words[-1]} {number}".casefold())
            found["en"].append(f"{words[-1]} {number}")
        parts = [f"{key} = [{', '.join(map(_text, phrases))}]" for key, phrases in found.items() if phrases]
        return f"{{ {', '.join(parts)} }}"

    def _columns(self) -> Iterator[tuple[str, str, ColumnType]]:
        for table, config in self.source.tables.items():
            for column, kind in config.columns.items():
                yield table, column, kind

    def _said_of_table(self, table: str) -> Said:
        said = said_in(self._table(table).comment)
        return attrs.evolve(said, zh=said.zh.removesuffix("表"))

    def _table(self, table: str) -> SeenTable:
        return self.seen.get(table, SeenTable())

    def _seen(self, table: str, column: str) -> SeenColumn:
        return self._table(table).columns.get(column, SeenColumn())

    def _is_known(self, place: str) -> bool:
        table, _, column = place.partition(".")
        return table in self.source.tables and column in self.source.tables[table].columns

    def _is_key(self, place: str) -> bool:
        table, _, column = place.partition(".")
        return self._seen(table, column).is_unique

    def _is_id(self, column: str) -> bool:
        return re.search(r"(^|_)id$|Id$", column) is not None


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").strip().lower() or name


def _singular(table: str) -> str:
    words = _words(table)
    if words.endswith("ies"):
        return f"{words[:-3]}y"
    return words[:-1] if words.endswith("s") and not words.endswith(("ss", "us")) else words


def _plain(name: str) -> str:
    made = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
    made = made if not made[0].isdigit() else f"x_{made}"
    assert re.fullmatch(NAME_PATTERN, made[:60]), made
    return made[:60]


def _text(text: str) -> str:
    """A basic string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _remark(comment: str) -> str:
    """A comment of a database inside a comment of TOML: one line, nothing that ends it."""
    return _text("".join(char if char.isprintable() else " " for char in comment)[:80])
