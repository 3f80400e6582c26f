"""Two ways to play, side by side: success, score, latency and tokens, with intervals, and the runs that are needed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import attrs

from actors.results.intervals import (
    Interval,
    bootstrap,
    bootstrap_difference,
    newcombe,
    runs_to_tell_means,
    runs_to_tell_shares,
    wilson,
)

LEAST_OF_AN_INTERVAL = 6  # a bootstrap of fewer values is far too sure of itself
JUDGED = ("succeeded", "failed")
"""Outcomes that say something about the bot; the others are about phones and engines."""


@attrs.frozen
class Played:
    """One episode of one side. Equal keys were played on the same phone with the same seed."""

    round: int
    phone: str
    app: str
    number: int
    """Of the phone's episodes in this run."""
    outcome: str
    score: float | None
    plan_ms: float | None
    """Median of its plans."""
    output_tokens: float | None
    """Mean of its plans."""
    cached_share: float | None

    @property
    def key(self) -> tuple[int, str, str, int]:
        """What it is paired by."""
        return (self.round, self.phone, self.app, self.number)


_MEASURES: Mapping[str, Callable[[Played], float | None]] = {
    "score": lambda one: one.score,
    "plan ms": lambda one: one.plan_ms,
    "output tokens a plan": lambda one: one.output_tokens,
    "cached share": lambda one: one.cached_share,
}


def played_rows(number: int, rows: Iterable[Mapping[str, Any]]) -> list[Played]:
    """What counts of a run's episode rows (as in `summary.json`): those of bots that ask a model.

    Args:
        number: Of its round.
        rows: Checked.
    """
    counts: dict[str, int] = {}
    found = []
    for row in sorted(rows, key=lambda row: (row["phone"], row["episode"])):
        phone = row["phone"]
        counts[phone] = counts.get(phone, 0) + 1
        if row["bot"] == "random":
            continue
        found.append(
            Played(
                round=number,
                phone=phone,
                app=row["app"],
                number=counts[phone],
                outcome=str(row["outcome"]),
                score=row["score"],
                plan_ms=row["latency_ms"]["plan"]["p50"],
                output_tokens=row["plans"]["output_tokens_mean"],
                cached_share=row["plans"]["cached_share"],
            )
        )
    return found


def compared(first: Sequence[Played], other: Sequence[Played]) -> dict[str, Any]:
    """Two runs in numbers, not paired: their phones need not be the same.

    Returns:
        `episodes` and `not_judged` of each; and for each measure `a` and `b` with `value`, `low`, `high` (None: nothing
        was measured; the bounds are None where too little was), `difference` (b less a), `differs` (by more than
        chance; None: that cannot be told); of success, `runs_needed` to tell such a difference.
    """
    judged = [[one for one in side if one.outcome in JUDGED] for side in (first, other)]
    counts = [_count(side) for side in judged]
    success: dict[str, Any] = {
        name: wilson(*count).rounded() if count[1] else None for name, count in zip("ab", counts, strict=True)
    }
    gap = newcombe(counts[1], counts[0]) if all(count[1] for count in counts) else None
    needed = None if gap is None else runs_to_tell_shares(*(won / runs for won, runs in counts))
    row: dict[str, Any] = {
        "episodes": {name: len(side) for name, side in zip("ab", judged, strict=True)},
        "not_judged": {
            name: len(side) - len(kept) for name, side, kept in zip("ab", (first, other), judged, strict=True)
        },
        "success": {**success, **_difference(gap), "runs_needed": needed},
    }
    for name, of in _MEASURES.items():
        values = [[value for one in side if (value := of(one)) is not None] for side in judged]
        sides = {side: _mean_of(mine) for side, mine in zip("ab", values, strict=True)}
        enough = all(len(mine) >= LEAST_OF_AN_INTERVAL for mine in values)
        row[name.replace(" ", "_")] = {**sides, **_difference(bootstrap_difference(*values) if enough else None)}
    return row


def _mean_of(values: Sequence[float]) -> dict[str, float | None] | None:
    if not values:
        return None
    if len(values) < LEAST_OF_AN_INTERVAL:
        return {"value": round(fmean(values), 4), "low": None, "high": None}
    return {**bootstrap(values).rounded()}


def _difference(gap: Interval | None) -> dict[str, Any]:
    return {
        "difference": None if gap is None else gap.rounded(),
        "differs": None if gap is None else gap.excludes(0.0),
    }


def summarise(first: Sequence[Played], other: Sequence[Played]) -> dict[str, Any]:
    """Both sides, and B less A, paired. Means are of episodes that were judged."""
    judged = [[one for one in side if one.outcome in JUDGED] for side in (first, other)]
    return {
        "A": _without_gaps(_side(first, judged[0])),
        "B": _without_gaps(_side(other, judged[1])),
        "B - A": _without_gaps(_differences(judged[0], judged[1])),
        "runs needed": _without_gaps(_runs_needed(judged[0], judged[1])),
    }


def _side(played: Sequence[Played], judged: Sequence[Played]) -> dict[str, Any]:
    won = sum(one.outcome == JUDGED[0] for one in judged)
    row: dict[str, Any] = {
        "episodes": len(judged),
        "not judged": len(played) - len(judged),
        "success": told(wilson(won, len(judged))) if judged else None,
    }
    for name, of in _MEASURES.items():
        values = [value for one in judged if (value := of(one)) is not None]
        row[name] = _told_mean(values)
    return row


def _differences(first: Sequence[Played], other: Sequence[Played]) -> dict[str, Any]:
    row: dict[str, Any] = {"episodes": len(_pairs(first, other))}
    if first and other:
        row["success"] = marked(newcombe(_count(other), _count(first)))
    for name, of in _MEASURES.items():
        gaps = _gaps(first, other, of)
        row[name] = _told_mean(gaps, is_difference=True)
    return row


def _runs_needed(first: Sequence[Played], other: Sequence[Played]) -> dict[str, Any]:
    """Episodes of each side that would tell differences as large as those seen from chance."""
    row: dict[str, Any] = {}
    if first and other:
        (won, runs), (also_won, others) = _count(first), _count(other)
        row["success"] = runs_to_tell_shares(won / runs, also_won / others)
    for name, of in _MEASURES.items():
        row[name] = runs_to_tell_means(_gaps(first, other, of))
    return row


def _count(played: Sequence[Played]) -> tuple[int, int]:
    return sum(one.outcome == JUDGED[0] for one in played), len(played)


def _pairs(first: Sequence[Played], other: Sequence[Played]) -> list[tuple[Played, Played]]:
    by_key = {one.key: one for one in other}
    return [(one, by_key[one.key]) for one in first if one.key in by_key]


def _gaps(first: Sequence[Played], other: Sequence[Played], of: Callable[[Played], float | None]) -> list[float]:
    both = [(of(one), of(two)) for one, two in _pairs(first, other)]
    return [theirs - mine for mine, theirs in both if mine is not None and theirs is not None]


def told(interval: Interval) -> str:
    """`value [low, high]`."""
    return f"{interval.value:.4g} [{interval.low:.4g}, {interval.high:.4g}]"


def _told_mean(values: Sequence[float], *, is_difference: bool = False) -> str | None:
    if len(values) < LEAST_OF_AN_INTERVAL:
        return f"{fmean(values):.4g}" if values else None
    interval = bootstrap(values)
    return marked(interval) if is_difference else told(interval)


def _without_gaps(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def marked(interval: Interval) -> str:
    """The same of a difference, with a star where it is more than chance."""
    return told(interval) + (" *" if interval.excludes(0.0) else "")


def verdict_for(first: Sequence[Played], other: Sequence[Played]) -> str:
    """The comparison in one sentence, for people."""
    judged = [[one for one in side if one.outcome in JUDGED] for side in (first, other)]
    if not all(judged):
        return "nothing can be said: a side has no episode that was judged"
    success = newcombe(_count(judged[1]), _count(judged[0]))
    gaps = _gaps(judged[0], judged[1], _MEASURES["score"])
    score = bootstrap(gaps) if len(gaps) >= LEAST_OF_AN_INTERVAL else None
    if success.excludes(0.0):
        return f"{'B' if success.value > 0 else 'A'} succeeds more often"
    if score is not None and score.excludes(0.0):
        return f"{'B' if fmean(gaps) > 0 else 'A'} scores higher; how often they succeed is not told apart"
    return "success and score are not told apart: see the runs that would be needed"
