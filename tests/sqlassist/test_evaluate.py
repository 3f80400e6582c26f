"""The grader: liberal about headings and further columns, strict about rows."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlassist.evaluate import (
    Judgement,
    Outcome,
    QuestionKind,
    SetQuestion,
    Table,
    Verdict,
    is_right,
    is_strictly_equal,
    judged,
    outcome_of,
    table_from,
)
from sqlassist.messages import Event, Stage

Rows = list[tuple[float | str | None, ...]]


def table(*rows: tuple[float | str | None, ...]) -> Table:
    made = tuple(tuple(float(cell) if isinstance(cell, int) else cell for cell in row) for row in rows)
    return Table(len(rows[0]) if rows else 1, made)


GOLD = table(("S001", 10), ("S002", 20), ("S003", 20))


@pytest.mark.parametrize(
    ("prediction", "right"),
    [
        (GOLD, True),
        (table(("S003", 20), ("S001", 10), ("S002", 20)), True),
        (table((10, "S001"), (20, "S002"), (20, "S003")), True),
        (table((1, "S001", 10, "x"), (2, "S002", 20, "y"), (3, "S003", 20, "z")), True),
        (table(("S001", 10.004), ("S002", 20), ("S003", 19.995)), True),
        (table(("S001", 10.02), ("S002", 20), ("S003", 20)), False),
        (table(("S001", 20), ("S002", 10), ("S003", 20)), False),
        (table(("S001", 10), ("S002", 20)), False),
        (table(("S001", 10), ("S002", 20), ("S003", 20), ("S003", 20)), False),
        (table(("S001",), ("S002",), ("S003",)), False),
        (table(("S001", None), ("S002", 20), ("S003", 20)), False),
    ],
)
def test_rows_decide(prediction: Table, right: bool) -> None:
    assert is_right(prediction, GOLD, ordered=False) is right


def test_order_counts_where_it_was_asked_for() -> None:
    turned = table(("S002", 20), ("S001", 10), ("S003", 20))

    assert is_right(turned, GOLD, ordered=False)
    assert not is_right(turned, GOLD, ordered=True)
    assert is_right(GOLD, GOLD, ordered=True)


def test_two_gold_columns_never_share_one() -> None:
    gold = table((1, 1), (2, 2))

    assert not is_right(table((1, 5), (2, 6)), gold, ordered=False)
    assert is_right(table((1, 5, 1), (2, 6, 2)), gold, ordered=False)


def test_columns_that_match_alone_must_match_together() -> None:
    gold = table((1, 4), (2, 3))

    assert not is_right(table((1, 3), (2, 4)), gold, ordered=False)


def test_numbers_that_sorting_pairs_wrongly_are_still_paired() -> None:
    gold = table((1.0, 5), (1.0003, 2))
    mine = table((1.0002, 5), (1.0001, 2))

    assert is_right(mine, gold, ordered=False)


def test_nothing_equals_nothing_alone() -> None:
    assert is_right(table(), table(), ordered=False)
    assert not is_right(table((1,)), table(), ordered=False)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None]), st.floats(0, 10)), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_shuffled_rows_and_columns_are_right(rows: Rows, dice: random.Random) -> None:
    gold = Table(3, tuple(tuple(float(c) if isinstance(c, int) else c for c in row) for row in rows))
    order = [0, 1, 2]
    dice.shuffle(order)
    mine = [(*tuple(row[at] for at in order), "more") for row in gold.rows]
    dice.shuffle(mine)

    assert is_right(Table(4, tuple(mine)), gold, ordered=False)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 50)), min_size=1, max_size=8),
    st.data(),
)
def test_one_changed_number_is_wrong(rows: Rows, data: st.DataObject) -> None:
    gold = table(*rows)
    at = data.draw(st.integers(0, len(rows) - 1))
    changed = [*gold.rows]
    changed[at] = (changed[at][0], 1000.0)

    assert not is_right(Table(2, tuple(changed)), gold, ordered=False)


def test_values_are_read_by_their_types() -> None:
    found = table_from(
        ["decimal", "datetime", "text", "boolean", "integer"],
        [["12.50", "2026-06-01T00:00:00.000000", "12.50", True, "9007199254740993"]],
    )

    assert found.rows == ((12.5, "2026-06-01", "12.50", 1.0, 9007199254740993.0),)


def test_strictly_equal_takes_no_liberties() -> None:
    assert is_strictly_equal(table(("S002", 20), ("S001", 10), ("S003", 20)), GOLD, ordered=False)
    assert not is_strictly_equal(table((10, "S001"), (20, "S002"), (20, "S003")), GOLD, ordered=False)
    assert not is_strictly_equal(table(("S001", 10.001), ("S002", 20), ("S003", 20)), GOLD, ordered=False)
    assert not is_strictly_equal(table(("S002", 20), ("S001", 10), ("S003", 20)), GOLD, ordered=True)


def question(kind: QuestionKind) -> SetQuestion:
    return SetQuestion("q", kind, ("w",), ("SELECT 1",) if kind.has_rows else ())


@pytest.mark.parametrize(
    ("kind", "stage", "rows", "verdict"),
    [
        (QuestionKind.METRIC, Stage.ANSWER, GOLD, Verdict.RIGHT),
        (QuestionKind.METRIC, Stage.ANSWER, table((1,)), Verdict.WRONG),
        (QuestionKind.METRIC, Stage.ANSWER, None, Verdict.DECLINED),
        (QuestionKind.METRIC, Stage.CLARIFICATION, None, Verdict.CLARIFIED),
        (QuestionKind.METRIC, Stage.REFUSAL, None, Verdict.DECLINED),
        (QuestionKind.SQL, Stage.FAILED, None, Verdict.FAILED),
        (QuestionKind.CLARIFY, Stage.CLARIFICATION, None, Verdict.RIGHT),
        (QuestionKind.CLARIFY, Stage.ANSWER, GOLD, Verdict.WRONG),
        (QuestionKind.CLARIFY, Stage.REFUSAL, None, Verdict.DECLINED),
        (QuestionKind.REFUSE, Stage.REFUSAL, None, Verdict.RIGHT),
        (QuestionKind.REFUSE, Stage.ANSWER, GOLD, Verdict.WRONG),
        (QuestionKind.REFUSE, Stage.CLARIFICATION, None, Verdict.CLARIFIED),
        (QuestionKind.REFUSE, Stage.CANCELLED, None, Verdict.FAILED),
    ],
)
def test_verdicts(kind: QuestionKind, stage: Stage, rows: Table | None, verdict: Verdict) -> None:
    found = judged(question(kind), Outcome(stage, table=rows), [table((5,)), GOLD])

    assert found.verdict is verdict


def test_liberties_are_told() -> None:
    exact = judged(question(QuestionKind.METRIC), Outcome(Stage.ANSWER, table=GOLD), [GOLD])
    wider = Table(3, tuple((*row, "more") for row in GOLD.rows))

    assert exact == Judgement(Verdict.RIGHT, is_strict=True)
    assert judged(question(QuestionKind.METRIC), Outcome(Stage.ANSWER, table=wider), [GOLD]) == Judgement(Verdict.RIGHT)


def test_events_become_an_outcome() -> None:
    head = {"columns": ["a"], "types": ["integer"], "truncated": False}
    events = [
        Event(Stage.INTENT, {"route": "metric"}),
        Event(Stage.SQL, {"sql": "SELECT x", "author": "metric"}),
        Event(Stage.CHECK, {"verdict": "refuse", "attempt": 1}),
        Event(Stage.CHECK, {"verdict": "pass", "attempt": 2}),
        Event(Stage.ROWS, {**head, "rows": [[1]]}),
        Event(Stage.ROWS, {**head, "rows": [[2]]}),
        Event(Stage.SUMMARY, {"text": "1"}),
        Event(Stage.ANSWER, {"sql": "SELECT y", "tokens": {"input": 5}}),
    ]

    outcome = outcome_of(events, 0.5)

    assert outcome.table is not None
    assert outcome.table.rows == ((1.0,), (2.0,))
    assert (outcome.sql, outcome.route, outcome.author, outcome.retries) == ("SELECT y", "metric", "metric", 1)
    assert (outcome.reached, outcome.tokens, outcome.seconds) == (Stage.ROWS, {"input": 5}, 0.5)


def test_a_refusal_at_once_is_an_outcome() -> None:
    outcome = outcome_of([Event(Stage.REFUSAL, {"code": "read_only", "needs_model": False})], 0.1)

    assert (outcome.reached, outcome.code, outcome.table) == (None, "read_only", None)
