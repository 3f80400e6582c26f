"""What an evaluation found, in numbers with their intervals, and whether two configurations differ.

A share of questions comes with Wilson's interval. Wordings of one question are not independent, so intervals over all
wordings are a little too narrow; comparisons pair questions by their first wording (McNemar's exact test).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean
from typing import Any

import attrs

from actors.assistant_config import Prices
from actors.results.intervals import CONFIDENCE, MOST_RUNS, POWER, Interval, percentile, wilson
from sqlassist.evaluate import Judgement, Outcome, SetQuestion, Verdict

ALL = "all"
SIGNIFICANT = 0.05


@attrs.frozen(eq=False)
class Graded:
    """One wording, asked once."""

    question: SetQuestion
    wording: int
    """Which of the question's, from 0."""
    run: int
    """Which repetition, from 0."""
    judgement: Judgement
    outcome: Outcome

    @property
    def verdict(self) -> Verdict:
        """What became of it."""
        return self.judgement.verdict

    def as_json(self) -> dict[str, Any]:
        """Without rows."""
        outcome = self.outcome
        return {
            "id": self.question.id,
            "kind": self.question.kind.value,
            "wording": self.question.wordings[self.wording],
            "run": self.run,
            "verdict": self.verdict.value,
            "strict": self.judgement.is_strict,
            "stage": outcome.stage.value,
            "reached": outcome.reached.value if outcome.reached is not None else "",
            "route": outcome.route,
            "author": outcome.author,
            "code": outcome.code,
            "sql": outcome.sql,
            "choices": list(outcome.choices),
            "needs_model": outcome.needs_model,
            "retries": outcome.retries,
            "seconds": round(outcome.seconds, 4),
            "tokens": dict(outcome.tokens),
        }


def summary_of(graded: Sequence[Graded], prices: Prices) -> dict[str, Any]:
    """All numbers of one evaluation, as JSON. There is at least one."""
    first = [one for one in graded if one.wording == 0]
    accuracies = [_tally(run)["accuracy"]["value"] for run in _runs(graded)]
    answers = [one for one in graded if one.verdict in (Verdict.RIGHT, Verdict.WRONG)]
    costs = [prices.cost(one.outcome.tokens) for one in graded]
    return {
        "questions": len({one.question.id for one in graded}),
        "asked": len(graded),
        "repeats": len(accuracies),
        "first_wording": _by_kind(first),
        "all_wordings": _by_kind(graded),
        "all_wordings_right": _together(graded),
        "strictly_equal": sum(one.judgement.is_strict and one.question.kind.has_rows for one in graded),
        "right_rows": sum(one.verdict is Verdict.RIGHT and one.question.kind.has_rows for one in graded),
        "runs": {
            "accuracies": accuracies,
            "spread": round(max(accuracies) - min(accuracies), 4),
            "unstable_wordings": _unstable(graded),
        },
        "failures": _failures(graded),
        "routes": _routes(graded),
        "retries": sum(one.outcome.retries for one in graded),
        "seconds": _seconds(graded),
        "tokens": {
            kind: round(fmean(one.outcome.tokens.get(kind, 0) for one in graded), 1)
            for kind in ("input", "cached", "output")
        },
        "cost": {
            "currency": prices.currency,
            "per_question": fmean(costs),
            "per_answer": sum(costs) / len(answers) if answers else None,
        },
    }


def _runs(graded: Sequence[Graded]) -> list[list[Graded]]:
    runs: dict[int, list[Graded]] = {}
    for one in graded:
        runs.setdefault(one.run, []).append(one)
    return [runs[number] for number in sorted(runs)]


def _by_kind(graded: Sequence[Graded]) -> dict[str, Any]:
    kinds = dict.fromkeys(one.question.kind for one in graded)
    return {ALL: _tally(graded)} | {
        kind.value: _tally([one for one in graded if one.question.kind is kind]) for kind in kinds
    }


def _tally(graded: Sequence[Graded]) -> dict[str, Any]:
    counts = Counter(one.verdict for one in graded)
    return {
        "asked": len(graded),
        **{verdict.value: counts[verdict] for verdict in Verdict},
        "accuracy": wilson(counts[Verdict.RIGHT], len(graded)).rounded(),
        "wrong_share": wilson(counts[Verdict.WRONG], len(graded)).rounded(),
    }


def _together(graded: Sequence[Graded]) -> dict[str, Any]:
    """Questions that are right in every wording and every run."""
    asked: dict[str, list[Graded]] = {}
    for one in graded:
        asked.setdefault(one.question.id, []).append(one)
    right = sum(all(one.verdict is Verdict.RIGHT for one in group) for group in asked.values())
    return {"asked": len(asked), "right": right, "accuracy": wilson(right, len(asked)).rounded()}


def _unstable(graded: Sequence[Graded]) -> int:
    """Wordings that did not end alike in every run."""
    verdicts: dict[tuple[str, int], set[Verdict]] = {}
    for one in graded:
        verdicts.setdefault((one.question.id, one.wording), set()).add(one.verdict)
    return sum(len(each) > 1 for each in verdicts.values())


def _failures(graded: Sequence[Graded]) -> list[dict[str, Any]]:
    """What was not right, by the last stage that it reached: the most frequent first."""
    found = Counter(
        (one.verdict.value, one.outcome.reached.value if one.outcome.reached is not None else "", one.outcome.code)
        for one in graded
        if one.verdict is not Verdict.RIGHT
    )
    return [
        {"verdict": verdict, "after": reached, "code": code, "count": count}
        for (verdict, reached, code), count in sorted(found.items(), key=lambda one: (-one[1], one[0]))
    ]


def _routes(graded: Sequence[Graded]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for one in graded:
        found.setdefault(one.outcome.route or "none", Counter())[one.verdict.value] += 1
    return {route: dict(found[route]) for route in sorted(found)}


def _seconds(graded: Sequence[Graded]) -> dict[str, float]:
    times = [one.outcome.seconds for one in graded]
    return {"p50": round(percentile(times, 0.5), 4), "p95": round(percentile(times, 0.95), 4), "max": max(times)}


@attrs.frozen
class Comparison:
    """Two configurations on the same questions, by their first wordings."""

    pairs: int
    only_first: int
    """Right by the first one alone."""
    only_other: int
    p_value: float
    """McNemar's exact test: how often chance alone gives a difference as large, were both equally good."""
    needed: int | None
    """Questions that would tell a difference like the one seen; None where there is none, or it takes too many."""

    @property
    def is_significant(self) -> bool:
        """Whether chance is an unlikely reason."""
        return self.p_value < SIGNIFICANT

    def in_words(self, first: str, other: str) -> str:
        """For people."""
        seen = (
            f"{first} alone is right on {self.only_first} of {self.pairs} questions, {other} alone on "
            f"{self.only_other} (p = {self.p_value:.3g})"
        )
        if self.only_first == self.only_other:
            return f"{seen}: no difference."
        better = first if self.only_first > self.only_other else other
        if self.is_significant:
            return f"{seen}: {better} is better, and chance hardly explains it."
        more = f"; about {self.needed} questions would tell" if self.needed is not None else ""
        return f"{seen}: not significant, chance may explain it{more}."

    def as_json(self) -> dict[str, Any]:
        """Everything."""
        return {**attrs.asdict(self), "significant": self.is_significant}


def compared(first: Sequence[Graded], other: Sequence[Graded]) -> Comparison:
    """Pair two evaluations by question: the first wording, in the first run."""
    one, two = _right_by_question(first), _right_by_question(other)
    both = one.keys() & two.keys()
    only_first = sum(one[key] and not two[key] for key in both)
    only_other = sum(two[key] and not one[key] for key in both)
    return Comparison(
        len(both),
        only_first,
        only_other,
        mcnemar(only_first, only_other),
        questions_needed(len(both), only_first, only_other),
    )


def _right_by_question(graded: Sequence[Graded]) -> dict[str, bool]:
    return {one.question.id: one.verdict is Verdict.RIGHT for one in graded if one.wording == 0 and one.run == 0}


def mcnemar(only_first: int, only_other: int) -> float:
    """The two-sided exact p-value: twice the smaller tail of a fair coin thrown once for each pair that differs."""
    thrown = only_first + only_other
    tail = sum(math.comb(thrown, heads) for heads in range(min(only_first, only_other) + 1))
    share: float = tail / 2**thrown
    return min(1.0, 2 * share)


def questions_needed(pairs: int, only_first: int, only_other: int) -> int | None:
    """Questions that would tell the difference seen with 80 % power (Connor 1987); None: there is none, or too many."""
    if not pairs or only_first == only_other:
        return None
    normal = NormalDist()
    differing = (only_first + only_other) / pairs
    gap = abs(only_first - only_other) / pairs
    reach = normal.inv_cdf(0.5 + CONFIDENCE / 2) * math.sqrt(differing)
    reach += normal.inv_cdf(POWER) * math.sqrt(max(0.0, differing - gap**2))
    needed = math.ceil((reach / gap) ** 2)
    return None if needed > MOST_RUNS else needed


def interval_text(interval: Mapping[str, float]) -> str:
    """`83.0 % (77.2..87.6)`."""
    shown = Interval(**interval)
    return f"{shown.value:.1%} ({100 * shown.low:.1f}..{100 * shown.high:.1f})".replace("%", " %")
