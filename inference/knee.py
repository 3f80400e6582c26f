"""How many requests an engine should have at a time: the knee of its time per output token (TPOT).

The knee is the largest concurrency whose TPOT is at most 1.25 times that of a request alone. Gradient and Vegas
limiters (Netflix's concurrency-limits, TCP Vegas) compare with the least latency that they happened to see; under
continuous load that is never the latency of a request alone. So here the floor is measured on purpose, and refreshed:
for some seconds the engine has one request. Then the limit climbs by doubling until TPOT is over the bound, and the
knee is searched for between the levels on both sides of it. What was measured at every level is kept, and made
monotone (more requests never make tokens faster), so noise does not lead astray. When tokens at the limit take longer
or shorter than they used to, the engine has changed. By much: all is measured anew. By little: the levels are
forgotten, and the floor is looked at.
"""

import math
from enum import StrEnum

import attrs

KNEE_RATIO = 1.25  # on the design document's A100 curve, 13.09 ms alone and 16.36 ms at 50: the knee is 50
MIN_TOKENS = 4  # an answer of fewer tokens gives no TPOT worth having
FLOOR_SAMPLES = (3, 12)  # enough when they agree, and the most that are waited for
FLOOR_ERROR = 0.005  # relative standard error that is enough: 1 % of the floor is 5 % of a flat curve's knee
FLOOR_REGION = 1.1  # levels up to 1.1 times the floor help to estimate it: nearly straight there on any convex curve
FLOOR_AGE_SECONDS = 600.0  # refreshing takes about 4 s, so under 1 % of the time
LEVEL_SAMPLES = (4, 64)  # a generation of requests, within this
CLOSE_BRACKET = 1.15  # nearer than this, the line between two levels is as good as the curve
REFRESH_SAMPLES = 5  # where a floor is known, new ones only confirm it or not
DRIFTED_RATIO = 1.04  # TPOT off by this for `OFF_SECONDS` is more than noise
CHANGED_RATIO = 1.15  # and by this it is another curve
SAME_FLOOR_RATIO = 1.05
OFF_SECONDS = 3.0
DRIFT_SECONDS = 60.0  # the floor is not looked at more often than this for a drift: contexts grow and shrink
FAST_SECONDS = 2.0  # time constant of the recent TPOT
MAX_WEIGHT = 400.0  # samples that a level remembers: about 8 s at a knee of 50
LEVEL_STEP = 1.05  # levels nearer than this are one


class Phase(StrEnum):
    """What the limiter does."""

    FLOOR = "floor"
    """One request at a time, to see how fast a token can be."""
    CLIMB = "climb"
    HOLD = "hold"


@attrs.frozen
class TokenTiming:
    """What one answer said of the engine. Times are of the run's clock."""

    started_at: float
    ended_at: float
    concurrency: float
    """Mean number of requests at the engine meanwhile, itself included."""
    concurrency_at_start: int
    tpot_seconds: float
    """Time from the first to the last token over the tokens between."""


@attrs.define
class _Level:
    concurrency: float = 0.0
    tpot: float = 0.0
    weight: float = 0.0

    def add(self, concurrency: float, tpot: float) -> None:
        self.weight = min(self.weight + 1.0, MAX_WEIGHT)
        self.concurrency += (concurrency - self.concurrency) / self.weight
        self.tpot += (tpot - self.tpot) / self.weight


@attrs.define
class KneeLimiter:
    """The limit of one engine. Feed it every answer; read `limit`."""

    max_limit: int
    ratio: float = KNEE_RATIO
    limit: int = attrs.field(default=1, init=False)
    phase: Phase = attrs.field(default=Phase.FLOOR, init=False)
    floor_seconds: float | None = attrs.field(default=None, init=False)
    """TPOT of a request alone; None until it was measured."""
    changes: int = attrs.field(default=0, init=False)
    """How often the engine's curve was found to have changed."""
    _levels: dict[int, _Level] = attrs.field(factory=dict, init=False)
    _alone: list[float] = attrs.field(factory=list, init=False)  # TPOT of requests alone, in this phase
    _floor_at: float = attrs.field(default=0.0, init=False)
    _floor_doubted: bool = attrs.field(default=False, init=False)
    _limit_at: float = attrs.field(default=0.0, init=False)  # when the limit was changed
    _here: int = attrs.field(default=0, init=False)  # samples since then that had the whole limit
    _resume: int = attrs.field(default=1, init=False)  # limit before the floor was measured anew
    _fast: float | None = attrs.field(default=None, init=False)
    _fast_at: float = attrs.field(default=0.0, init=False)
    _off_since: float | None = attrs.field(default=None, init=False)

    def observe(self, timing: TokenTiming) -> int:
        """Take in one answer; returns the limit that holds now."""
        now = timing.ended_at
        steady = abs(timing.concurrency_at_start - timing.concurrency) <= 0.5 + 0.15 * timing.concurrency
        if timing.started_at < self._limit_at or not steady or not timing.tpot_seconds > 0:
            return self.limit  # it saw two levels, and tells of neither
        full = timing.concurrency >= 0.9 * self.limit
        match self.phase:
            case Phase.FLOOR:
                self._measure_floor(timing, now)
            case Phase.CLIMB:
                self._add(timing)
                self._here += full
                self._climb(now)
            case Phase.HOLD:
                off = self._off_for_long(timing, now) if full else 1.0
                if off >= CHANGED_RATIO:
                    self._restart(now)
                elif off >= DRIFTED_RATIO:
                    self._doubt(now)
                elif self._off_since is None:  # else it may be of another curve: that must not blur this one
                    self._add(timing)
                    self._here += full
                    self._hold(now)
        return self.limit

    def _measure_floor(self, timing: TokenTiming, now: float) -> None:
        if timing.concurrency > 1.1:
            return
        self._alone.append(timing.tpot_seconds)
        least, most = FLOOR_SAMPLES
        count, before = len(self._alone), self.floor_seconds
        if before is not None:
            most = REFRESH_SAMPLES
        if count < least or (count < most and _relative_error(self._alone) > FLOOR_ERROR):
            return
        found = _middle_mean(self._alone)
        self._alone.clear()
        self._floor_at, self._floor_doubted = now, False
        same = before is not None and max(found / before, before / found) <= SAME_FLOOR_RATIO
        if not same:
            self._levels.clear()
        alone = self._levels.setdefault(_key(1.0), _Level(1.0))
        alone.weight, alone.tpot = (
            alone.weight + count,
            alone.tpot + (found - alone.tpot) * count / (alone.weight + count),
        )
        alone.weight = min(alone.weight, 2.0 * FLOOR_SAMPLES[1])
        self.floor_seconds = alone.tpot
        if same and len(self._levels) > 1:
            self.phase = Phase.HOLD
            self._set_limit(self._resume, now)
        else:
            self.phase = Phase.CLIMB
            self._set_limit(max(2, self._resume // 2), now)

    def _climb(self, now: float) -> None:
        if self._here < self._needed():
            return
        at_limit = self._levels.get(_key(self.limit)) or self._nearest(self.limit)
        if at_limit.tpot <= self._bound() and self.limit < self.max_limit:
            self._set_limit(2 * self.limit, now)
        else:
            self.phase = Phase.HOLD
            self._search(now)

    def _hold(self, now: float) -> None:
        if now - self._floor_at > (DRIFT_SECONDS if self._floor_doubted else FLOOR_AGE_SECONDS):
            self._measure_anew(now)
        elif self._here >= self._needed():
            self._search(now)

    def _restart(self, now: float) -> None:
        """The curve has changed: forget it. The floor is measured first, as everything is compared with it."""
        self.changes += 1
        self._levels.clear()
        self.floor_seconds = None
        self._measure_anew(now)

    def _doubt(self, now: float) -> None:
        """The curve has drifted: only the floor and what was just measured here are still believed."""
        here, alone = _key(self.limit), self._levels.get(_key(1.0))
        self._levels = {} if alone is None else {_key(1.0): alone}
        if self._fast is not None and here != _key(1.0):
            self._levels[here] = _Level(float(self.limit), self._fast, 1.0)
        self._floor_doubted = True
        self._set_limit(self.limit, now)

    def _measure_anew(self, now: float) -> None:
        self._alone.clear()
        self._resume = self.limit
        self.phase = Phase.FLOOR
        self._set_limit(1, now)

    def _search(self, now: float) -> None:
        below, above = self._bracket()
        if above is None:
            target = min(float(self.max_limit), max(self.limit, below[0]) * CLOSE_BRACKET)
        else:
            # The chord of a convex curve lies above it, so where it meets the bound is below the knee; and the upper
            # level is above the knee. Halving what lies between keeps a steep curve from being crept up to.
            share = (self._bound() - below[1]) / (above[1] - below[1])
            target = below[0] + share * (above[0] - below[0])
            if above[0] / target > CLOSE_BRACKET:
                target = math.sqrt(target * above[0])
        wanted = max(1, min(self.max_limit, math.floor(target + 0.25)))
        if wanted != self.limit and abs(wanted - self.limit) >= 0.02 * self.limit:
            self._set_limit(wanted, now)
        else:
            self._here = 0  # stay, and look again after as many more

    def _bracket(self) -> tuple[tuple[float, float], tuple[float, float] | None]:
        """The neighbouring levels (concurrency, TPOT) below and above the bound, made monotone."""
        pooled: list[list[float]] = []  # [concurrency, tpot, weight]; pool-adjacent-violators
        for level in sorted(self._levels.values(), key=lambda one: one.concurrency):
            pooled.append([level.concurrency, level.tpot, level.weight])
            while len(pooled) > 1 and pooled[-2][1] > pooled[-1][1]:
                later, earlier = pooled.pop(), pooled[-1]
                weight = earlier[2] + later[2]
                earlier[0] = (earlier[0] * earlier[2] + later[0] * later[2]) / weight
                earlier[1] = (earlier[1] * earlier[2] + later[1] * later[2]) / weight
                earlier[2] = weight
        bound = self._bound()
        below = (1.0, min(bound, pooled[0][1]))
        for concurrency, tpot, _ in pooled:
            if tpot > bound:
                return (below, (max(concurrency, below[0] + 1e-6), tpot))
            below = (concurrency, tpot)
        return (below, None)

    def _bound(self) -> float:
        """The TPOT that the knee may have. Levels near the floor help to tell it from its noise."""
        assert self.floor_seconds is not None
        near = [one for one in self._levels.values() if one.tpot <= FLOOR_REGION * self.floor_seconds]
        weight = sum(one.weight for one in near)
        if len(near) < 3:
            return self.ratio * self.floor_seconds
        mean_c = sum(one.weight * one.concurrency for one in near) / weight
        mean_t = sum(one.weight * one.tpot for one in near) / weight
        spread = sum(one.weight * (one.concurrency - mean_c) ** 2 for one in near)
        slope = sum(one.weight * (one.concurrency - mean_c) * (one.tpot - mean_t) for one in near) / spread
        return self.ratio * (mean_t + max(0.0, slope) * (1.0 - mean_c))

    def _off_for_long(self, timing: TokenTiming, now: float) -> float:
        """By what ratio tokens are faster or slower than they were at this level; 1 unless that lasted a while."""
        gone = max(0.02, now - self._fast_at)  # answers that come together are still some evidence each
        keep = 0.0 if self._fast is None else math.exp(-gone / FAST_SECONDS)
        self._fast = keep * (self._fast or 0.0) + (1.0 - keep) * timing.tpot_seconds
        self._fast_at = now
        usual = self._usual(timing.concurrency)
        off = 1.0 if usual is None else max(self._fast / usual, usual / self._fast)
        if off < DRIFTED_RATIO:
            self._off_since = None
            return 1.0
        if self._off_since is None:
            self._off_since = now
        return off if now - self._off_since >= OFF_SECONDS else 1.0

    def _usual(self, concurrency: float) -> float | None:
        """TPOT at a concurrency as far as it is known: measured there, or between two levels that are close."""
        here = self._levels.get(_key(concurrency))
        if here is not None:
            return here.tpot if here.weight >= LEVEL_SAMPLES[0] else None
        below = max(
            (one for one in self._levels.values() if one.concurrency <= concurrency), key=_concurrency_of, default=None
        )
        above = min(
            (one for one in self._levels.values() if one.concurrency > concurrency), key=_concurrency_of, default=None
        )
        if below is None or above is None or above.concurrency > CLOSE_BRACKET * below.concurrency:
            return None
        share = (concurrency - below.concurrency) / (above.concurrency - below.concurrency)
        return below.tpot + share * (above.tpot - below.tpot)

    def _add(self, timing: TokenTiming) -> None:
        self._levels.setdefault(_key(timing.concurrency), _Level()).add(timing.concurrency, timing.tpot_seconds)

    def _set_limit(self, limit: int, now: float) -> None:
        self.limit = max(1, min(self.max_limit, limit))
        self._limit_at = now
        self._here = 0
        self._fast = None
        self._off_since = None

    def _needed(self) -> int:
        least, most = LEVEL_SAMPLES
        if self.phase is Phase.CLIMB:
            return max(least, min(most, self.limit // 2))
        return max(3 * least, min(most, self.limit))

    def _nearest(self, concurrency: float) -> _Level:
        return min(self._levels.values(), key=lambda one: abs(one.concurrency - concurrency))


def _concurrency_of(level: _Level) -> float:
    return level.concurrency


def _key(concurrency: float) -> int:
    return round(math.log(max(1.0, concurrency)) / math.log(LEVEL_STEP))


def _middle_mean(values: list[float]) -> float:
    """Mean without the highest and the lowest fifth: a hiccup of the machine is in neither."""
    ordered = sorted(values)
    cut = len(ordered) // 5
    middle = ordered[cut : len(ordered) - cut]
    return sum(middle) / len(middle)


def _relative_error(values: list[float]) -> float:
    """Standard error of their mean, relative to it."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values)) / mean
