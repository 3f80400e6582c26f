"""What the API shows of a farm's engines: JSON."""

import hashlib
from typing import Any

import attrs

from actors.farm.engine_tally import EngineTally
from actors.farm.engines import FarmEngines, Rollout
from actors.farm.rollout import shown
from inference.config import EngineConfig
from inference.health import CircuitState
from inference.seat import EngineStatistics
from runtime.child import ChildStatistics
from runtime.lifecycle import State


def engine_views(engines: FarmEngines, tenant: str | None) -> list[dict[str, Any]]:
    """What the API shows of each engine.

    Args:
        engines: All.
        tenant: Whose tokens are told; None: those of all.
    """
    statistics = engines.pool.statistics()
    known = {one.id: one for one in statistics.engines}
    views = []
    for config in engines.configured:
        found, child = known.get(config.id), engines.child(config.id)
        rates = engines.tally.engine(config.id)
        view: dict[str, Any] = {
            "engine": config.id,
            "model": config.model,
            "state": _state(child, found, drained=engines.is_drained(config.id)),
            "reason": "" if child is None or found is not None else child.last_error or "",
            "version": _version(config),
            "circuit": None if found is None else found.circuit.value,
            "unfit": None if found is None else found.unfit,
            "kv_usage": None if found is None else found.load.token_usage,
            "running": 0 if found is None else found.in_flight,
            "queued": 0 if found is None else found.waiting,
            "concurrency": None if found is None else found.limit,
            "knee": None if found is None or found.knee is None else found.limit,
            "knee_phase": None if found is None or found.knee is None else found.knee.value,
            "floor_ms": None if found is None else _milliseconds(found.floor_seconds),
            "tpot_ms": _milliseconds(rates.token_seconds),
            "ttft_ms": _milliseconds(rates.first_token_seconds),
            "homes": 0 if found is None else found.homed,
            "failed_share": round(rates.failure_share, 4),
            "cached_share": engines.tally.tokens_of(config.id).cached_share,
            "tokens": _tokens(engines.tally, config.id, tenant),
        }
        views.append(view)
    return views


def rollout_view(rollout: Rollout | None) -> dict[str, Any] | None:
    """The latest rollout; None where there was none."""
    if rollout is None:
        return None
    steps = [shown(step) for step in rollout.steps]
    now = steps[rollout.done] if rollout.done < len(steps) else None
    return {"state": rollout.state.value, "why": rollout.why, "steps": steps, "done": rollout.done, "engine": now}


def _tokens(tally: EngineTally, engine: str, tenant: str | None) -> dict[str, Any]:
    """Of one tenant; or of all, and of each."""
    found = attrs.asdict(tally.tokens_of(engine, tenant))
    if tenant is None:
        found["tenants"] = {name: attrs.asdict(one) for name, one in sorted(tally.tokens.get(engine, {}).items())}
    return found


def _state(child: ChildStatistics | None, found: EngineStatistics | None, *, drained: bool) -> str:
    """In a word: up, starting, draining, drained, unfit, down."""
    if drained:
        return "drained" if found is None else "draining"
    if found is None:
        return "starting" if child is not None and child.state is State.STARTING and not child.restarts else "down"
    if found.draining:
        return "draining"
    if found.unfit is not None:
        return "unfit"
    return "down" if found.circuit is CircuitState.OPEN else "up"


def _version(config: EngineConfig) -> str:
    """Engines of equal configurations have equal versions."""
    return hashlib.sha256(repr(config).encode()).hexdigest()[:8]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)
