"""How phones and engines are, a row each every few seconds."""

from typing import Any

import attrs
import trio

from actors.fleet import Fleet
from actors.phone import UNAUTHORIZED, PhoneJob
from actors.warehouse.warehouse import Warehouse
from inference.health import CircuitState
from inference.seat import EngineStatistics

SAMPLE_SECONDS = 5.0


async def run_samples(fleet: Fleet, warehouse: Warehouse, every_seconds: float = SAMPLE_SECONDS) -> None:
    """Sample until cancelled. A row stands for the time since the one before."""
    samples = Samples()
    last = trio.current_time()
    while True:
        await trio.sleep(every_seconds)
        now = trio.current_time()
        for job in fleet.jobs:
            warehouse.row("phone_health", **samples.phone(job, now - last))
        known = {engine.id: engine for engine in fleet.pool.statistics().engines}
        for config in fleet.scenario.engines:
            warehouse.row("engine_health", **engine_columns(config.id, known.get(config.id), now - last))
        last = now


@attrs.define
class Samples:
    """What was told of each phone already, as counts grow and rows hold what is new."""

    _told: dict[str, tuple[int, int, int, int]] = attrs.field(factory=dict, alias="_told")

    def phone(self, job: PhoneJob, seconds: float) -> dict[str, Any]:
        """One phone's columns."""
        session = job.session
        statistics = session.statistics if session is not None else None
        failed = statistics.captures_failed if statistics is not None else 0
        bad = sum(statistics.bad_frames.values()) if statistics is not None else 0
        episode, told_failed, told_bad, told_lost = self._told.get(job.phone, (job.current, 0, 0, 0))
        if episode != job.current:
            told_failed = told_bad = 0
        self._told[job.phone] = (job.current, failed, bad, job.lost)
        is_online = not is_offline(job)
        return {
            "phone": job.phone,
            "app": job.app_name,
            "state": job.shown_state,
            "is_online": int(is_online),
            "interval_seconds": round(seconds, 3),
            "offline_seconds": 0.0 if is_online else round(seconds, 3),
            "needs_human_seconds": round(seconds, 3) if job.needs_human is not None else 0.0,
            "capture_ms": None
            if statistics is None or statistics.capture_seconds is None
            else round(statistics.capture_seconds * 1000, 3),
            "failed_captures": failed - told_failed,
            "bad_frames": bad - told_bad,
            "losses": job.lost - told_lost,
        }


def is_offline(job: PhoneJob) -> bool:
    """It should play, and cannot be reached. One that waits for its turn, or is done, is not."""
    if job.state == "quarantined":
        return True
    return job.session is not None and job.device is None and (job.lost > 0 or job.state == UNAUTHORIZED)


def engine_columns(engine: str, known: EngineStatistics | None, seconds: float) -> dict[str, Any]:
    """One engine's columns; one that the pool does not know is down."""
    state = engine_state(known)
    is_up = state in ("ready", "draining")
    columns: dict[str, Any] = {
        "engine": engine,
        "state": state,
        "is_up": int(is_up),
        "interval_seconds": round(seconds, 3),
        "down_seconds": 0.0 if is_up else round(seconds, 3),
    }
    if known is not None:
        columns |= {
            "in_flight": known.in_flight,
            "waiting": known.waiting,
            "request_limit": known.limit,
            "episodes": known.homed,
            "kv_usage": known.load.token_usage,
            "token_ms": None if known.tpot_seconds is None else round(known.tpot_seconds * 1000, 3),
        }
    return columns


def engine_state(known: EngineStatistics | None) -> str:
    """In a word: ready, draining, unfit, open, half_open, down."""
    if known is None:
        return "down"
    if known.unfit is not None:
        return "unfit"
    if known.circuit is not CircuitState.CLOSED:
        return known.circuit.value
    return "draining" if known.draining else "ready"
