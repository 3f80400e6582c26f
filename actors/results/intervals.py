"""How sure a number is: percentiles, Wilson's interval, bootstrap intervals, and how many runs would tell more.

Everything is deterministic: the bootstrap's draws come from a seed, so equal values give equal intervals.
"""

import math
from collections.abc import Callable, Sequence
from random import Random
from statistics import NormalDist, fmean, median, pstdev, stdev

import attrs

CONFIDENCE = 0.95
RESAMPLES = 2000  # an interval's ends then move by about a hundredth of its width from seed to seed
POWER = 0.8  # the usual: four of five repetitions of the comparison would find the difference
MOST_RUNS = 1_000_000  # past it "how many runs" is no useful answer any more


@attrs.frozen
class Interval:
    """A number and where it lies with 95 % confidence."""

    value: float
    low: float
    high: float

    def excludes(self, point: float) -> bool:
        """True when the point is outside: the difference from it is more than chance."""
        return not self.low <= point <= self.high

    def rounded(self, digits: int = 4) -> dict[str, float]:
        """As JSON."""
        return {name: round(number, digits) for name, number in attrs.asdict(self).items()}


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile; `share` is from 0 to 1. `values` need not be in order, but there must be some."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def wilson(successes: int, runs: int) -> Interval:
    """The share of successes with Wilson's score interval; (0, 0, 1) of no runs at all."""
    if runs == 0:
        return Interval(0.0, 0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    share = successes / runs
    scale = 1 + z * z / runs
    middle = (share + z * z / (2 * runs)) / scale
    reach = z / scale * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    low, high = max(0.0, middle - reach), min(1.0, middle + reach)
    return Interval(share, min(share, low), max(share, high))  # at 0 and at 1 rounding would leave it just outside


def bootstrap(
    values: Sequence[float], statistic: Callable[[Sequence[float]], float] = fmean, *, seed: int = 1
) -> Interval:
    """A statistic of values with its percentile bootstrap interval. There must be at least one value."""
    dice = Random(seed)
    count = len(values)
    drawn = sorted(statistic([values[dice.randrange(count)] for _ in range(count)]) for _ in range(RESAMPLES))
    tail = (1 - CONFIDENCE) / 2
    return Interval(statistic(values), percentile(drawn, tail), percentile(drawn, 1 - tail))


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of a few independent values with Student's interval, which the bootstrap's is too narrow for.

    Raises:
        ValueError: there are fewer than two.
    """
    if len(values) < 2:
        raise ValueError("one value says nothing of its spread")
    reach = student95(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(fmean(values), fmean(values) - reach, fmean(values) + reach)


def student95(degrees: int) -> float:
    """Student's t, two-sided 95 %, by degrees of freedom (1 or more)."""
    return _T95.get(degrees, 1.96 + 2.6 / degrees)  # beyond the table it is near that


_T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23}


def median_interval(values: Sequence[float]) -> Interval:
    """The median with its bootstrap interval."""
    return bootstrap(values, median)


def bootstrap_difference(first: Sequence[float], other: Sequence[float], *, seed: int = 1) -> Interval:
    """How much larger the mean of the other is, of two samples that are not paired. Each has at least one value."""
    dice = Random(seed)

    def drawn_mean(values: Sequence[float]) -> float:
        return fmean(dice.choices(values, k=len(values)))

    drawn = sorted(drawn_mean(other) - drawn_mean(first) for _ in range(RESAMPLES))
    tail = (1 - CONFIDENCE) / 2
    return Interval(fmean(other) - fmean(first), percentile(drawn, tail), percentile(drawn, 1 - tail))


def newcombe(first: tuple[int, int], other: tuple[int, int]) -> Interval:
    """How much more often the first succeeds, from two (successes, runs): Newcombe's interval, made of Wilson's two."""
    one, two = wilson(*first), wilson(*other)
    gap = one.value - two.value
    low = gap - math.hypot(one.value - one.low, two.high - two.value)
    high = gap + math.hypot(one.high - one.value, two.value - two.low)
    return Interval(gap, low, high)


def runs_to_tell_shares(first: float, other: float) -> int | None:
    """Runs of each side that would tell two true success rates apart (95 % confidence, 80 % power); None: too many."""
    if first == other:
        return None
    normal = NormalDist()
    alpha, beta = normal.inv_cdf(0.5 + CONFIDENCE / 2), normal.inv_cdf(POWER)
    mean = (first + other) / 2
    spread = alpha * math.sqrt(2 * mean * (1 - mean)) + beta * math.sqrt(first * (1 - first) + other * (1 - other))
    return _whole((spread / (first - other)) ** 2)


def runs_to_tell_means(differences: Sequence[float]) -> int | None:
    """Pairs that would tell a mean difference as large as the one seen from none; None: it is 0, or too many."""
    if len(differences) < 2 or not fmean(differences):
        return None
    normal = NormalDist()
    reach = normal.inv_cdf(0.5 + CONFIDENCE / 2) + normal.inv_cdf(POWER)
    deviation = pstdev(differences) * math.sqrt(len(differences) / (len(differences) - 1))
    return _whole((reach * deviation / fmean(differences)) ** 2)


def _whole(runs: float) -> int | None:
    return None if runs > MOST_RUNS else max(2, math.ceil(runs))
