"""The numbers of a run: one summary an episode, and totals."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from policies.criteria import Outcome
from policies.tally import Tally


@attrs.frozen
class Percentiles:
    """Of a set of latencies, in milliseconds; None where there were none."""

    p50: float | None
    p95: float | None


def percentiles(seconds: Collection[float]) -> Percentiles:
    """Nearest-rank percentiles."""
    if not seconds:
        return Percentiles(None, None)
    ordered = sorted(seconds)

    def rank(share: float) -> float:
        index = min(len(ordered) - 1, max(0, -(-int(share * 100) * len(ordered) // 100) - 1))
        return round(ordered[index] * 1000, 2)

    return Percentiles(rank(0.50), rank(0.95))


@attrs.frozen
class EpisodeSummary:
    """One row of `summary.json`."""

    phone: str
    episode: str
    app: str
    seed: int
    bot: str
    """`planned` or `random`."""
    outcome: Outcome
    reason: str
    score: float | None
    steps: int
    seconds: float
    actions: dict[str, int]
    """reflex, planned, retried, recovery, failed."""
    dropped: dict[str, int]
    """stale_age, stale_target, stale_geometry, voided, late, off_screen."""
    no_effect: int
    plans: dict[str, float | int | None]
    """requested, completed, failed, aborted, output_tokens_mean, cached_share."""
    stall_fraction: float
    latency_ms: dict[str, dict[str, float | None]]
    """capture, plan, act: p50, p95."""
    engines: tuple[str, ...]
    models: tuple[str, ...]
    replayable: bool
    phone_lost: int = 0
    pauses: int = 0
    """Times that a person was needed; the clock stood still meanwhile."""
    paused_seconds: float = 0.0
    bad_frames: Mapping[str, int] = attrs.field(factory=dict)
    """By verdict: frames that were black, all or in part, which no model and no rule was shown."""
    faults: tuple[Mapping[str, str], ...] = ()
    """Crashes, ANRs and times away from the front: kind, process, cause, excerpt of the log, at (the phone's clock)."""


def summary_for(
    tally: Tally,
    *,
    phone: str,
    episode: str,
    app: str,
    seed: int,
    bot: str,
    outcome: Outcome,
    reason: str,
    score: float | None,
    captures: Collection[float],
    plans: Collection[float],
    acts: Collection[float],
    engines: Sequence[str],
    models: Sequence[str],
    replayable: bool,
    phone_lost: int = 0,
    bad_frames: Mapping[str, int] | None = None,
    faults: Sequence[Mapping[str, str]] = (),
) -> EpisodeSummary:
    """Put one episode's numbers together. `captures`, `plans` and `acts` are latencies in seconds."""
    completed = tally.plans_completed
    return EpisodeSummary(
        phone=phone,
        episode=episode,
        app=app,
        seed=seed,
        bot=bot,
        outcome=outcome,
        reason=reason,
        score=score,
        steps=tally.steps,
        seconds=round(tally.active_seconds, 3),
        actions={
            "reflex": tally.reflex,
            "planned": tally.planned,
            "retried": tally.retried,
            "recovery": tally.recovered,
            "failed": tally.act_errors,
        },
        dropped={
            "stale_age": tally.stale_age,
            "stale_target": tally.stale_target,
            "stale_geometry": tally.stale_geometry,
            "voided": tally.voided,
            "late": tally.late,
            "off_screen": tally.off_screen,
        },
        no_effect=tally.no_effect,
        plans={
            "requested": tally.plans_requested,
            "completed": completed,
            "failed": tally.plans_failed,
            "aborted": tally.plans_aborted,
            "output_tokens_mean": round(tally.output_tokens / completed, 2) if completed else None,
            "cached_share": round(tally.cached_tokens / tally.prompt_tokens, 4) if tally.prompt_tokens else None,
        },
        stall_fraction=round(tally.stall_fraction, 4),
        latency_ms={
            name: attrs.asdict(percentiles(values))
            for name, values in (("capture", captures), ("plan", plans), ("act", acts))
        },
        engines=tuple(sorted(set(engines) - {""})),
        models=tuple(sorted(set(models) - {""})),
        replayable=replayable,
        phone_lost=phone_lost,
        pauses=tally.pauses,
        paused_seconds=round(tally.paused_seconds, 3),
        bad_frames=dict(bad_frames or {}),
        faults=tuple(faults),
    )


_NO_ACTIONS: Mapping[str, int] = dict.fromkeys(("reflex", "planned", "retried", "recovery", "failed"), 0)
_NO_DROPS: Mapping[str, int] = dict.fromkeys(
    ("stale_age", "stale_target", "stale_geometry", "voided", "late", "off_screen"), 0
)


def totals_of(episodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums over episode rows (as in `summary.json`); the stall fraction is weighted by time."""
    seconds = sum(e["seconds"] for e in episodes)
    stalled = sum(e["stall_fraction"] * e["seconds"] for e in episodes)
    return {
        "episodes": len(episodes),
        "outcomes": {o.value: sum(e["outcome"] == o.value for e in episodes) for o in Outcome},
        "steps": sum(e["steps"] for e in episodes),
        "seconds": round(seconds, 3),
        "actions": _added([_NO_ACTIONS, *(e["actions"] for e in episodes)]),
        "dropped": _added([_NO_DROPS, *(e["dropped"] for e in episodes)]),
        "no_effect": sum(e["no_effect"] for e in episodes),
        "plans": {
            key: sum(e["plans"][key] or 0 for e in episodes) for key in ("requested", "completed", "failed", "aborted")
        },
        "stall_fraction": round(stalled / seconds, 4) if seconds else 0.0,
        "models": sorted({model for e in episodes for model in e["models"]}),
    }


def _added(rows: Sequence[Mapping[str, int]]) -> dict[str, int]:
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: sum(row.get(key, 0) for row in rows) for key in keys}


def exit_code_for(episodes: Sequence[EpisodeSummary]) -> int:
    """0: all succeeded; 1: some episode did not. A baseline is not asked to succeed."""
    judged = [e for e in episodes if e.bot != "random"] or list(episodes)
    return 0 if judged and all(e.outcome is Outcome.SUCCEEDED for e in judged) else 1


def failed_by_infrastructure(episodes: Sequence[EpisodeSummary]) -> bool:
    """True when no episode could play at all because its phone was never reached."""
    return bool(episodes) and all(e.outcome is Outcome.QUARANTINED and e.steps == 0 for e in episodes)
