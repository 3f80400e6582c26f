"""Figures of a farm for Prometheus that no single event changes: its phones as the runs see them, engines, the disk.

Each run is a process of its own, so what it knows of its phones is in no metric of the daemon's until it is asked.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from actors.farm.engine_views import engine_views
from actors.farm.engines import FarmEngines
from inference.knee import KNEE_RATIO
from runtime.telemetry import gauge

_GONE = frozenset({"offline", "unauthorized", "absent"})
ENGINE_STATES = ("up", "starting", "draining", "drained", "unfit", "down")
SEEN_STATES = ("playing", "needs_human", "offline")

_PHONES = gauge("actors_farm_phones", "Phones of the farm.", ["state"])
_ENGINES = gauge("actors_farm_engines", "Engines that all runs share.", ["state"])
_TOKEN = gauge("actors_farm_engine_token_seconds", "Time per output token of the latest requests.", ["engine"])
_BEYOND = gauge(
    "actors_farm_engine_knee_ratio",
    "That time by what it may be at the knee: above 1 the engine has more than it should.",
    ["engine"],
)
_KEPT = gauge("actors_farm_folders_bytes", "Run folders that are kept.")
_BUDGET = gauge("actors_farm_folders_budget_bytes", "What they may have: [retention] disk_gb.")
_WAIT = gauge("actors_farm_longest_wait_seconds", "How long the run that waits longest could have begun.")


def phone_trouble(row: Mapping[str, Any]) -> str | None:
    """What is wrong with a phone that plays, as its run says: `needs_human`, `offline`, or nothing."""
    state = str(row.get("state", ""))
    if state == "needs_human":
        return "needs_human"
    return "offline" if state == "quarantined" or row.get("connection") in _GONE else None


def knee_ratio(view: Mapping[str, Any]) -> float | None:
    """An engine's time per output token by what it may be at the knee; None where either is not known."""
    token, floor = view["tpot_ms"], view["floor_ms"]
    return token / (floor * KNEE_RATIO) if token is not None and floor else None


def tell_phones(rows: Sequence[Mapping[str, Any]]) -> None:
    """The phones of all runs that play."""
    counts = Counter(phone_trouble(row) or "playing" for row in rows)
    for state in SEEN_STATES:
        _PHONES.labels(state).set(counts[state])


def tell_engines(engines: FarmEngines) -> None:
    """All of them; those that are gone are told no more."""
    views = engine_views(engines, None)
    counts = Counter(view["state"] for view in views)
    for state in ENGINE_STATES:
        _ENGINES.labels(state).set(counts[state])
    for metric in (_TOKEN, _BEYOND):
        metric.clear()
    for view in views:
        token, ratio = view["tpot_ms"], knee_ratio(view)
        if token is not None:
            _TOKEN.labels(view["engine"]).set(token / 1000)
        if ratio is not None:
            _BEYOND.labels(view["engine"]).set(ratio)


def tell_folders(kept: int, budget: float) -> None:
    """Bytes of the run folders that are there, and how many there may be."""
    _KEPT.set(kept)
    _BUDGET.set(budget)


def tell_pool(*, phones: int, busy: int, paused: int) -> None:
    """All phones that the farm has, as the queue sees them."""
    for state, count in (("all", phones), ("busy", busy), ("paused", paused)):
        _PHONES.labels(state).set(count)


def tell_longest_wait(seconds: float) -> None:
    """Of the runs that may start and do not; 0 where there is none."""
    _WAIT.set(seconds)
