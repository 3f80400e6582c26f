"""Numbers of an evaluation: counted by hand, and tests against known values."""

import pytest

from actors.assistant_config import Prices
from actors.evaluation_report import Graded, compared, interval_text, mcnemar, questions_needed, summary_of
from sqlassist.evaluate import Judgement, Outcome, QuestionKind, SetQuestion, Verdict
from sqlassist.messages import Stage

R, W, D = Verdict.RIGHT, Verdict.WRONG, Verdict.DECLINED


def graded(verdicts: dict[str, list[list[Verdict]]], seconds: float = 0.1) -> list[Graded]:
    """Question → run → verdict of each wording."""
    found = []
    for name, runs in verdicts.items():
        for run, wordings in enumerate(runs):
            question = SetQuestion(
                name, QuestionKind.METRIC, tuple(f"{name} {n}" for n in range(len(wordings))), ("S",)
            )
            for number, verdict in enumerate(wordings):
                outcome = Outcome(
                    Stage.ANSWER, Stage.ROWS, seconds=seconds, tokens={"input": 100, "cached": 40, "output": 10}
                )
                found.append(Graded(question, number, run, Judgement(verdict, verdict is R), outcome))
    return found


def test_a_summary() -> None:
    found = summary_of(
        graded({"a": [[R, R], [R, R]], "b": [[R, W], [R, R]], "c": [[D, D], [D, D]]}), Prices(1.0, 0.5, 2.0, "EUR")
    )

    assert (found["questions"], found["asked"], found["repeats"]) == (3, 12, 2)
    first = found["first_wording"]["all"]
    assert (first["right"], first["declined"], first["wrong"], first["asked"]) == (4, 2, 0, 6)
    assert found["all_wordings"]["metric"]["wrong"] == 1
    assert found["all_wordings_right"]["right"] == 1
    assert found["runs"] == {"accuracies": [0.5, 0.6667], "spread": 0.1667, "unstable_wordings": 1}
    assert found["failures"][0] == {"verdict": "declined", "after": "rows", "code": "", "count": 4}
    assert found["seconds"]["p95"] == 0.1
    assert found["tokens"] == {"input": 100, "cached": 40, "output": 10}
    cost = (60 * 1.0 + 40 * 0.5 + 10 * 2.0) / 1e6
    assert found["cost"]["per_question"] == pytest.approx(cost)
    assert found["cost"]["per_answer"] == pytest.approx(cost * 12 / 8)


@pytest.mark.parametrize(
    ("only_first", "only_other", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 5, 1.0), (10, 2, 0.0385742), (0, 6, 0.03125), (1500, 1600, 0.0754)],
)
def test_mcnemar_is_the_exact_binomial_test(only_first: int, only_other: int, p: float) -> None:
    assert mcnemar(only_first, only_other) == pytest.approx(p, abs=2e-3 if p == 0.0754 else 1e-6)
    assert mcnemar(only_first, only_other) == mcnemar(only_other, only_first)


def test_a_clear_difference_is_said() -> None:
    better = graded({str(n): [[R]] for n in range(20)})
    worse = graded({str(n): [[R if n > 9 else W]] for n in range(20)})

    found = compared(better, worse)

    assert (found.pairs, found.only_first, found.only_other) == (20, 10, 0)
    assert found.is_significant
    assert "A is better" in found.in_words("A", "B")
    assert "A is better" in compared(worse, better).in_words("B", "A")


def test_a_small_difference_says_what_it_takes() -> None:
    one = graded({str(n): [[R if n != 3 else W]] for n in range(20)})
    other = graded({str(n): [[R if n not in (1, 2) else W]] for n in range(20)})

    found = compared(one, other)

    assert not found.is_significant
    assert found.needed == questions_needed(20, 2, 1)
    assert f"about {found.needed} questions would tell" in found.in_words("A", "B")
    assert "no difference" in compared(one, one).in_words("A", "B")


def test_more_questions_are_needed_for_smaller_differences() -> None:
    small, large = questions_needed(200, 12, 10), questions_needed(200, 22, 10)

    assert small is not None
    assert large is not None
    assert small > 10 * large > 200
    assert questions_needed(0, 0, 0) is None
    assert questions_needed(100, 4, 4) is None


def test_intervals_in_words() -> None:
    assert interval_text({"value": 0.8, "low": 0.739, "high": 0.85}) == "80.0 % (73.9..85.0)"
