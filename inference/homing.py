"""Which engine an episode's prompts go to.

An engine keeps what it computed for an episode's earlier prompts, so an episode has a *home*: it is placed at its
first prompt on the engine with the fewest homed episodes, and stays. A shared system prompt makes routing by prefix
send a whole fleet to one engine, and hashing alone is uneven for a few dozen keys; a table is neither.
"""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable
from enum import StrEnum

import attrs

from runtime.ids import EngineId

MAX_HOMES = 100_000  # routing keys that nobody released; past it the longest unused one is forgotten and counted


class Why(StrEnum):
    """Why an engine was chosen."""

    BORN = "born"
    """The first prompt of the key: the least-homed engine."""
    STICKY = "sticky"
    """The key's home."""
    SPILLED = "spilled"
    """Its home must not be used for this one request; the home stays."""
    REHOMED = "rehomed"
    """Its home is gone, unhealthy or draining; this is its new one."""


@attrs.frozen
class Candidate:
    """An engine as homing sees it."""

    id: EngineId
    available: bool
    """Healthy and not draining."""
    weight: float = 1.0
    """Share of episodes relative to others, more than 0."""


@attrs.frozen
class Placement:
    """Where a request goes."""

    engine: EngineId
    why: Why


@attrs.define
class Homing:
    """The table of homes."""

    max_homes: int = MAX_HOMES
    forgotten: int = attrs.field(default=0, init=False)
    """Homes dropped because the table was full."""
    _homes: OrderedDict[str, EngineId] = attrs.field(factory=OrderedDict, init=False)  # {key: home}, oldest use first
    _homed: Counter[EngineId] = attrs.field(factory=Counter, init=False)

    def place(
        self, key: str, candidates: Collection[Candidate], *, avoid: Collection[EngineId] = ()
    ) -> Placement | None:
        """The engine for a request of `key`, or None if none is available.

        Args:
            key: routing key.
            candidates: all registered engines.
            avoid: engines not to be used for this one request, e.g. as it was just lost there.
        """
        usable = {one.id: one for one in candidates if one.available}
        home = self._homes.get(key)
        if home is not None:
            self._homes.move_to_end(key)
        if home is not None and home in usable:
            if home not in avoid:
                return Placement(home, Why.STICKY)
            other = self._least_homed(key, (one for one in usable.values() if one.id not in avoid))
            return None if other is None else Placement(other, Why.SPILLED)
        chosen = self._least_homed(key, (one for one in usable.values() if one.id not in avoid))
        if chosen is None:
            return None
        self._settle(key, chosen)
        return Placement(chosen, Why.BORN if home is None else Why.REHOMED)

    def release(self, key: str) -> bool:
        """Forget a key, at the end of its episode; False if it was not known."""
        home = self._homes.pop(key, None)
        if home is None:
            return False
        self._homed[home] -= 1
        return True

    def home_of(self, key: str) -> EngineId | None:
        """The home of a key; None if it has none."""
        return self._homes.get(key)

    def homed(self, engine: EngineId) -> int:
        """Keys whose home this engine is."""
        return self._homed[engine]

    def __len__(self) -> int:
        return len(self._homes)

    def _settle(self, key: str, engine: EngineId) -> None:
        self.release(key)
        if len(self._homes) >= self.max_homes:
            _, oldest_home = self._homes.popitem(last=False)
            self._homed[oldest_home] -= 1
            self.forgotten += 1
        self._homes[key] = engine
        self._homed[engine] += 1

    def _least_homed(self, key: str, engines: Iterable[Candidate]) -> EngineId | None:
        best = min(engines, key=lambda one: (self._homed[one.id] / one.weight, rendezvous(key, one.id)), default=None)
        return None if best is None else best.id


def rendezvous(key: str, engine: EngineId) -> int:
    """A number that looks random and is the same in every run: ties are broken by it (highest-random-weight)."""
    return int.from_bytes(hashlib.blake2b(f"{key}\0{engine}".encode(), digest_size=8).digest(), "big")
