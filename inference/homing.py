"""Which engine an episode's prompts go to.

An engine keeps what it computed for an episode's earlier prompts, so an episode has a *home*: it is placed at its
first prompt on the engine with the fewest homed episodes, and stays. A shared system prompt makes routing by prefix
send a whole fleet to one engine, and hashing alone is uneven for a few dozen keys; a table is neither.

The load that an engine may have before a request of its own spills is that of consistent hashing with bounded loads
(Mirrokni et al., 2016): 1.25 times its share. It spills only where the wait would cost more than computing it anew.
"""

import hashlib
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterable
from enum import StrEnum

import attrs

from runtime.ids import EngineId

MAX_HOMES = 100_000  # routing keys that nobody released; past it the longest unused one is forgotten and counted
LOAD_BOUND = 1.25  # as KubeAI's CHWBL and Mirrokni et al. have it: tight enough to matter, loose enough to stay home
SPILLS_TO_REHOME = 3
SPILL_WINDOW_SECONDS = 10.0  # about ten plans: an episode that spills every third time is better off elsewhere


class Why(StrEnum):
    """Why an engine was chosen."""

    BORN = "born"
    """The first prompt of the key: the least-homed engine."""
    STICKY = "sticky"
    """The key's home."""
    SPILLED = "spilled"
    """Its home must not be used for this one request; the home stays."""
    REHOMED = "rehomed"
    """Its home is gone, unhealthy or draining, or it spilled too often; this is its new one."""


class Cause(StrEnum):
    """What led to the choice, finer than `Why`; a metric's label."""

    FIRST_PROMPT = "first_prompt"
    HOME = "home"
    HOME_BUSY_BUT_WARM = "home_busy_but_warm"
    """Over its bound, and still cheaper to wait for than a cold prefill."""
    ALREADY_THERE = "already_there"
    """Another request of the key is out at that engine: no episode is on two engines at a time."""
    HOME_LOST_IT = "home_lost_it"
    """The request was just lost there."""
    HOME_OVERLOADED = "home_overloaded"
    HOME_UNAVAILABLE = "home_unavailable"
    """Draining, unhealthy, unfit or not registered any more."""
    SPILLED_OFTEN = "spilled_often"


@attrs.frozen
class Candidate:
    """An engine as homing sees it."""

    id: EngineId
    available: bool
    """Healthy, fit and not draining."""
    weight: float = 1.0
    """Share of episodes relative to others, more than 0."""
    load: int = 0
    """Requests at it and waiting for it."""
    wait_seconds: float = 0.0
    """How long one more request would wait for it."""
    cold_seconds: float = 0.0
    """How much longer a prompt takes there when nothing of it is cached."""


@attrs.frozen
class Placement:
    """Where a request goes."""

    engine: EngineId
    why: Why
    cause: Cause

    @property
    def is_cold(self) -> bool:
        """True when the engine has probably computed nothing of the prompt before."""
        return self.why is not Why.STICKY


@attrs.define(eq=False)
class _Home:
    engine: EngineId
    spilled_at: deque[float] = attrs.field(factory=lambda: deque(maxlen=SPILLS_TO_REHOME))
    out: Counter[EngineId] = attrs.field(factory=Counter)  # requests that are out, where `began` said so


@attrs.define
class Homing:
    """The table of homes. Times are seconds of the run's clock."""

    max_homes: int = MAX_HOMES
    forgotten: int = attrs.field(default=0, init=False)
    """Homes dropped because the table was full."""
    _homes: OrderedDict[str, _Home] = attrs.field(factory=OrderedDict, init=False)  # {key: home}, oldest use first
    _homed: Counter[EngineId] = attrs.field(factory=Counter, init=False)

    def place(
        self, key: str, candidates: Collection[Candidate], now: float, *, avoid: Collection[EngineId] = ()
    ) -> Placement | None:
        """The engine for a request of `key`, or None if none is available.

        Args:
            key: routing key.
            candidates: all registered engines.
            now: run clock.
            avoid: engines not to be used for this one request, e.g. as it was just lost there.
        """
        usable = {one.id: one for one in candidates if one.available}
        free = [one for one in usable.values() if one.id not in avoid]
        home = self._homes.get(key)
        if home is None:
            chosen = self._least_homed(key, free)
            if chosen is None:
                return None
            self._settle(key, chosen)
            return Placement(chosen, Why.BORN, Cause.FIRST_PROMPT)
        self._homes.move_to_end(key)
        there = next((one.id for one in free if home.out[one.id]), None)
        if there is not None:
            return Placement(there, Why.STICKY if there == home.engine else Why.SPILLED, Cause.ALREADY_THERE)
        if home.engine not in usable:
            return self._rehome(key, free, Cause.HOME_UNAVAILABLE)
        if home.engine in avoid:
            other = self._least_homed(key, free)
            return None if other is None else self._spill(home, other, Cause.HOME_LOST_IT, now)
        return self._stay_or_spill(key, home, usable, free, now)

    def began(self, key: str, engine: EngineId) -> None:
        """A request of the key goes to that engine; `ended` must follow."""
        home = self._homes.get(key)
        if home is not None:
            home.out[engine] += 1

    def ended(self, key: str, engine: EngineId) -> None:
        """It is out no more."""
        home = self._homes.get(key)
        if home is not None and home.out[engine] > 0:  # a key that was released meanwhile counts anew
            home.out[engine] -= 1

    def release(self, key: str) -> bool:
        """Forget a key, at the end of its episode; False if it was not known."""
        home = self._homes.pop(key, None)
        if home is None:
            return False
        self._homed[home.engine] -= 1
        return True

    def home_of(self, key: str) -> EngineId | None:
        """The home of a key; None if it has none."""
        home = self._homes.get(key)
        return None if home is None else home.engine

    def homed(self, engine: EngineId) -> int:
        """Keys whose home this engine is."""
        return self._homed[engine]

    def __len__(self) -> int:
        return len(self._homes)

    def _stay_or_spill(
        self, key: str, home: _Home, usable: dict[EngineId, Candidate], free: list[Candidate], now: float
    ) -> Placement:
        stay = usable[home.engine]
        if _has_room(stay, usable.values()):
            return Placement(stay.id, Why.STICKY, Cause.HOME)
        others = [
            one
            for one in free
            if one.id != stay.id
            and _has_room(one, usable.values())
            and one.wait_seconds + one.cold_seconds < stay.wait_seconds
        ]
        if not others:
            return Placement(stay.id, Why.STICKY, Cause.HOME_BUSY_BUT_WARM)
        best = min(others, key=lambda one: (one.wait_seconds + one.cold_seconds, *self._rank(key, one)))
        return self._spill(home, best.id, Cause.HOME_OVERLOADED, now)

    def _spill(self, home: _Home, to: EngineId, cause: Cause, now: float) -> Placement:
        home.spilled_at.append(now)
        often = len(home.spilled_at) == SPILLS_TO_REHOME and now - home.spilled_at[0] <= SPILL_WINDOW_SECONDS
        if not often:
            return Placement(to, Why.SPILLED, cause)
        self._move(home, to)
        return Placement(to, Why.REHOMED, Cause.SPILLED_OFTEN)

    def _rehome(self, key: str, free: list[Candidate], cause: Cause) -> Placement | None:
        chosen = self._least_homed(key, free)
        if chosen is None:
            return None
        self._move(self._homes[key], chosen)
        return Placement(chosen, Why.REHOMED, cause)

    def _move(self, home: _Home, to: EngineId) -> None:
        self._homed[home.engine] -= 1
        self._homed[to] += 1
        home.engine = to
        home.spilled_at.clear()

    def _settle(self, key: str, engine: EngineId) -> None:
        if len(self._homes) >= self.max_homes:
            _, oldest = self._homes.popitem(last=False)
            self._homed[oldest.engine] -= 1
            self.forgotten += 1
        self._homes[key] = _Home(engine)
        self._homed[engine] += 1

    def _least_homed(self, key: str, engines: Iterable[Candidate]) -> EngineId | None:
        best = min(engines, key=lambda one: self._rank(key, one), default=None)
        return None if best is None else best.id

    def _rank(self, key: str, one: Candidate) -> tuple[float, float, int]:
        """Fewest homed first, then the least busy; what is equal still is decided alike in every run."""
        return (self._homed[one.id] / one.weight, one.load / one.weight, rendezvous(key, one.id))


def _has_room(one: Candidate, usable: Collection[Candidate]) -> bool:
    """One more request leaves it within its bound: ceil(1.25 x (total + 1) x its share of the weights)."""
    total = sum(other.load for other in usable)
    weights = sum(other.weight for other in usable)
    return one.load + 1 <= math.ceil(LOAD_BOUND * (total + 1) * one.weight / weights)


def rendezvous(key: str, engine: EngineId) -> int:
    """A number that looks random and is the same in every run: ties are broken by it (highest-random-weight)."""
    return int.from_bytes(hashlib.blake2b(f"{key}\0{engine}".encode(), digest_size=8).digest(), "big")
