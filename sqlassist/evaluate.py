"""Is an answer right? Question sets with gold SQL, and how a prediction's rows are compared with gold rows.

The rule: every column of the gold answer is found in the prediction, so that the rows over these columns are the same
multiset, or the same sequence where the order is part of the question. Columns may have other names and another order,
more columns may stand beside them, and numbers may differ by 0.05 %: people ask for numbers, not for headings. Answers
that are equal without any of these liberties are counted apart.
"""

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice

import attrs

from sqlassist.language import folded
from sqlassist.messages import Event, Stage
from sqlassist.result import Cell, ResultSet

TOLERANCE = 0.0005  # of a number: gold SQL and a metric round at different places
MAX_ASSIGNMENTS = 2000  # ways to take columns for each other; more only come with many equal columns
MAX_MATCHED_ROWS = 300  # rows of one group that are matched one by one where sorting alone does not pair them
_MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d)[T ]00:00:00(?:\.0+)?")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


class QuestionKind(StrEnum):
    """What a good answer to a question is."""

    METRIC = "metric"
    """Rows, that the semantic layer alone can give."""
    SQL = "sql"
    """Rows, that need more than the semantic layer."""
    CLARIFY = "clarify"
    """A question back."""
    REFUSE = "refuse"
    """A refusal."""

    @property
    def has_rows(self) -> bool:
        """True where there is a gold answer."""
        return self in (QuestionKind.METRIC, QuestionKind.SQL)


@attrs.frozen
class SetQuestion:
    """One question, in several wordings of equal meaning."""

    id: str = attrs.field(metadata={"pattern": r"[A-Za-z0-9._-]{1,96}", "means": "letters, digits, . _ and -"})
    kind: QuestionKind
    wordings: tuple[str, ...]
    answers: tuple[str, ...] = ()
    """SQL of which any one is right."""
    answers_mysql: tuple[str, ...] = ()
    """The same for MySQL and MariaDB, where they need other words; the same number of them."""
    ordered: bool = False
    """The order of rows is part of the question."""
    choices: tuple[str, ...] = ()
    """What a good question back offers: names of metrics or dimensions, or readings in words."""
    reason: str = ""
    """Why it is refused."""
    note: str = ""
    """Why these answers, where the meaning is debatable."""

    def gold(self, *, is_mysql_like: bool) -> tuple[str, ...]:
        """The right answers in a dialect."""
        return self.answers_mysql if is_mysql_like and self.answers_mysql else self.answers


@attrs.frozen
class QuestionSet:
    """A file of questions."""

    today: str = attrs.field(metadata={"pattern": r"\d{4}-\d\d-\d\d", "means": "a day, like 2026-06-30"})
    """The business day on which all of them are asked."""
    questions: tuple[SetQuestion, ...]
    tenant: str = ""
    """As whom they are asked, unless the command says otherwise."""


def set_problems(questions: QuestionSet) -> Iterator[tuple[str, str]]:
    """Every mistake of a set, with its key path."""
    try:
        dt.date.fromisoformat(questions.today)
    except ValueError:
        yield f"{questions.today!r} is no day", "$.today"
    if not questions.questions:
        yield "a set has at least one question", "$.questions"
    ids = Counter(one.id for one in questions.questions)
    owners: dict[str, str] = {}
    for index, one in enumerate(questions.questions):
        at = f"$.questions[{index}]"
        if ids[one.id] > 1:
            yield f"{ids[one.id]} questions are called {one.id!r}", f"{at}.id"
        if not one.wordings:
            yield "a question has at least one wording", f"{at}.wordings"
        for number, wording in enumerate(one.wordings):
            key = folded(wording)
            if not key:
                yield "a wording is empty", f"{at}.wordings[{number}]"
            elif owners.setdefault(key, f"{index} {number}") != f"{index} {number}":
                yield f"{wording!r} is there twice", f"{at}.wordings[{number}]"
        yield from ((text, f"{at}.{key}") for text, key in _kind_problems(one))


def _kind_problems(one: SetQuestion) -> Iterator[tuple[str, str]]:
    if one.kind.has_rows and not one.answers:
        yield f"a question of kind {one.kind} has answers", "answers"
    if not one.kind.has_rows and one.answers:
        yield f"a question of kind {one.kind} has no answers", "answers"
    if one.answers_mysql and len(one.answers_mysql) != len(one.answers):
        yield f"has {len(one.answers_mysql)} answers, 'answers' has {len(one.answers)}", "answers_mysql"
    if one.kind is QuestionKind.REFUSE and not one.reason:
        yield "say why it is refused", "reason"
    if any(not text.strip() for text in (*one.answers, *one.answers_mysql)):
        yield "an answer is empty", "answers"


@attrs.frozen(eq=False)
class Table:
    """Rows to compare: cells are None, numbers or texts."""

    width: int
    rows: tuple[tuple[float | str | None, ...], ...]


def table_of(result: ResultSet) -> Table:
    """A result's rows with numbers as numbers, whatever the database sent them as."""
    return table_from([column.type for column in result.columns], result.rows)


def table_from(types: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """As `table_of`, of the columns' types and the rows as events tell them."""
    made = tuple(tuple(_cell(cell, kind) for cell, kind in zip(row, types, strict=True)) for row in rows)
    return Table(len(types), made)


def _cell(cell: Cell, kind: str) -> float | str | None:
    if cell is None:
        return None
    if isinstance(cell, bool | int | float):
        return float(cell)
    if kind in ("integer", "decimal", "float") and _NUMBER.fullmatch(cell):
        return float(cell)
    day = _MIDNIGHT.fullmatch(cell)
    return day.group(1) if day is not None else cell


def is_right(prediction: Table, gold: Table, *, ordered: bool) -> bool:
    """Whether a prediction answers as gold does, by the rule above."""
    if len(prediction.rows) != len(gold.rows) or prediction.width < gold.width:
        return False
    if not gold.rows:
        return True
    mine = list(zip(*prediction.rows, strict=True))
    candidates = []
    for column in zip(*gold.rows, strict=True):
        fitting = [at for at, own in enumerate(mine) if _same_column(own, column, ordered=ordered)]
        if not fitting:
            return False
        candidates.append(fitting)
    for chosen in islice(_assignments(candidates), MAX_ASSIGNMENTS):
        rows = [tuple(row[at] for at in chosen) for row in prediction.rows]
        if _same_rows(rows, gold.rows, ordered=ordered):
            return True
    return False


def is_strictly_equal(prediction: Table, gold: Table, *, ordered: bool) -> bool:
    """Whether it has the same columns in the same order with exactly the same values."""
    if prediction.width != gold.width:
        return False
    if ordered:
        return prediction.rows == gold.rows
    return Counter(prediction.rows) == Counter(gold.rows)


def _assignments(candidates: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Every way to give each gold column one of its candidates, none twice."""
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        chosen = waiting.pop()
        if len(chosen) == len(candidates):
            yield chosen
            continue
        waiting += [(*chosen, at) for at in reversed(candidates[len(chosen)]) if at not in chosen]


_Row = tuple[float | str | None, ...]


def _same_column(one: _Row, other: _Row, *, ordered: bool) -> bool:
    if not ordered:
        one, other = tuple(sorted(one, key=_key)), tuple(sorted(other, key=_key))
    return all(_same(a, b) for a, b in zip(one, other, strict=True))


def _same_rows(rows: Sequence[_Row], gold: Sequence[_Row], *, ordered: bool) -> bool:
    if ordered:
        return all(_same_row(a, b) for a, b in zip(rows, gold, strict=True))
    groups: dict[_Row, tuple[list[_Row], list[_Row]]] = {}
    for number, side in enumerate((rows, gold)):
        for row in side:  # what is no number must be equal: rows are paired within it
            key = tuple("" if isinstance(cell, float) else cell for cell in row)
            groups.setdefault(key, ([], []))[number].append(row)
    return all(_paired(mine, other) for mine, other in groups.values())


def _paired(rows: Sequence[_Row], gold: Sequence[_Row]) -> bool:
    if len(rows) != len(gold):
        return False
    if all(map(_same_row, sorted(rows, key=_row_key), sorted(gold, key=_row_key))):
        return True
    return len(rows) <= MAX_MATCHED_ROWS and _matched(rows, gold)


def _matched(rows: Sequence[_Row], gold: Sequence[_Row]) -> bool:
    """Whether each row has one of its own among gold (augmenting paths)."""
    fitting = [[at for at, other in enumerate(gold) if _same_row(row, other)] for row in rows]
    owner: dict[int, int] = {}

    def placed(number: int, tried: set[int]) -> bool:
        for at in fitting[number]:
            if at not in tried:
                tried.add(at)
                if at not in owner or placed(owner[at], tried):
                    owner[at] = number
                    return True
        return False

    return all(placed(number, set()) for number in range(len(rows)))


def _same_row(one: _Row, other: _Row) -> bool:
    return all(map(_same, one, other))


def _same(one: float | str | None, other: float | str | None) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-9)
    return one == other


def _key(cell: float | str | None) -> tuple[int, float, str]:
    if cell is None:
        return (0, 0.0, "")
    return (2, 0.0, cell) if isinstance(cell, str) else (1, cell, "")


def _row_key(row: _Row) -> tuple[tuple[int, float, str], ...]:
    return tuple(map(_key, row))


class Verdict(StrEnum):
    """What became of one wording."""

    RIGHT = "right"
    WRONG = "wrong"
    """Rows that are not those of any gold answer, or rows where there should be none: the costly kind."""
    CLARIFIED = "clarified"
    """A question back where rows, or a refusal, were right."""
    DECLINED = "declined"
    """A refusal where rows, or a question back, were right."""
    FAILED = "failed"
    """Nobody's question is to blame: a database, a model or a limit."""


@attrs.frozen(eq=False)
class Outcome:
    """How the assistant ended one question."""

    stage: Stage
    """Of the last event."""
    reached: Stage | None = None
    """The last stage before it."""
    table: Table | None = None
    is_truncated: bool = False
    sql: str = ""
    route: str = ""
    author: str = ""
    code: str = ""
    text: str = ""
    choices: tuple[str, ...] = ()
    """Labels that were offered."""
    needs_model: bool = False
    retries: int = 0
    seconds: float = 0.0
    tokens: Mapping[str, int] = attrs.field(factory=dict)
    """`input`, `cached` (a part of the input) and `output`."""


@attrs.frozen
class Judgement:
    """A verdict, and whether it needed the grader's liberties."""

    verdict: Verdict
    is_strict: bool = False
    """Right, with exactly the gold's columns and values."""


def judged(question: SetQuestion, outcome: Outcome, gold: Sequence[Table]) -> Judgement:
    """Whether an outcome is right.

    Args:
        question: What was asked.
        outcome: What came of it.
        gold: Rows of its right answers.
    """
    kind = question.kind
    if outcome.stage is Stage.CLARIFICATION:
        is_right_kind = kind is QuestionKind.CLARIFY
        return Judgement(Verdict.RIGHT, is_right_kind) if is_right_kind else Judgement(Verdict.CLARIFIED)
    if outcome.stage is Stage.REFUSAL:
        return Judgement(Verdict.RIGHT, is_strict=True) if kind is QuestionKind.REFUSE else Judgement(Verdict.DECLINED)
    if outcome.stage is not Stage.ANSWER:
        return Judgement(Verdict.FAILED)
    table = outcome.table
    if table is None:  # words without rows: small talk, an explanation
        return Judgement(Verdict.DECLINED if kind is not QuestionKind.REFUSE else Verdict.RIGHT)
    if not kind.has_rows or not any(is_right(table, one, ordered=question.ordered) for one in gold):
        return Judgement(Verdict.WRONG)
    return Judgement(Verdict.RIGHT, any(is_strictly_equal(table, one, ordered=question.ordered) for one in gold))


def outcome_of(events: Sequence[Event], seconds: float) -> Outcome:
    """What the events of one question say about how it ended. The last one is an ending."""
    last = events[-1]
    before = [event for event in events[:-1] if event.stage not in (Stage.SUMMARY, Stage.CHART)]
    by_stage = {event.stage: event.data for event in before}
    told = [event.data for event in before if event.stage is Stage.ROWS]
    table = None
    if told and last.stage is Stage.ANSWER:
        table = table_from(told[-1]["types"], [row for data in told for row in data["rows"]])
    attempts = [int(event.data.get("attempt", 1)) for event in before if event.stage is Stage.CHECK]
    return Outcome(
        stage=last.stage,
        reached=before[-1].stage if before else None,
        table=table,
        is_truncated=bool(told and told[-1]["truncated"]),
        sql=str(last.data.get("sql") or by_stage.get(Stage.SQL, {}).get("sql", "")),
        route=str(by_stage.get(Stage.INTENT, {}).get("route", "")),
        author=str(by_stage.get(Stage.SQL, {}).get("author", "")),
        code=str(last.data.get("code", "")),
        text=str(last.data.get("text", "")),
        choices=tuple(str(one["label"]) for one in last.data.get("choices", ())),
        needs_model=bool(last.data.get("needs_model")),
        retries=max(0, max(attempts, default=1) - 1),
        seconds=seconds,
        tokens=dict(last.data.get("tokens", {})),
    )
