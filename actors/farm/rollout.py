"""How a farm comes from the engines that it has to those it shall have: one at a time, each tried first. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import attrs

from actors.farm.engine_tally import Rates
from inference.config import EngineConfig, TenantConfig
from runtime.ids import TenantId

FEW_FAILURES = 3  # so many may be chance, whatever share of the first requests they are
FEW_TIMES = 20  # before so many answers a median says little


@attrs.frozen
class RolloutConfig:
    """`[rollout]`: how a changed engine or adapter is tried before the next one is changed."""

    canary_requests: int = attrs.field(default=100, metadata={"min": 1, "max": 200})
    """It is good after so many requests, unless they went badly."""
    canary_minutes: float = attrs.field(default=5.0, metadata={"above": 0})
    """It is good after so long, even with fewer."""
    start_minutes: float = attrs.field(default=30.0, metadata={"above": 0})
    """It must be ready by then."""
    more_failures: float = attrs.field(default=0.05, metadata={"min": 0, "max": 1})
    """The share of failed requests may be higher than before by that much."""
    slowdown: float = attrs.field(default=1.5, metadata={"min": 1})
    """The median time per output token may be longer than before by that factor."""


class Verdict(StrEnum):
    """What is thought of a canary."""

    WAIT = "wait"
    GOOD = "good"
    BAD = "bad"


@attrs.frozen
class Judgement:
    """A verdict and why, for people."""

    verdict: Verdict
    why: str


def judge(config: RolloutConfig, *, before: Rates, now: Rates, seconds: float, crashed: str | None) -> Judgement:
    """What is to be thought of something that was changed.

    Args:
        config: What is borne.
        before: How its latest requests went before the change.
        now: And since.
        seconds: Since it was changed and ready.
        crashed: Why it has ended by itself since; None: it has not.
    """
    if crashed is not None:
        return Judgement(Verdict.BAD, f"it ended by itself: {crashed}")
    if now.failures > FEW_FAILURES and now.failure_share > before.failure_share + config.more_failures:
        text = f"{now.failures} of {now.requests} requests failed, {before.failures} of {before.requests} before"
        return Judgement(Verdict.BAD, text)
    answered = now.requests - now.failures
    if answered >= FEW_TIMES and now.token_seconds is not None and before.token_seconds:
        factor = now.token_seconds / before.token_seconds
        if factor > config.slowdown:
            text = f"{now.token_seconds * 1000:.1f} ms an output token, {before.token_seconds * 1000:.1f} before"
            return Judgement(Verdict.BAD, text)
    if now.requests >= config.canary_requests:
        return Judgement(Verdict.GOOD, f"{now.requests} requests, {now.failures} failed")
    if seconds >= config.canary_minutes * 60.0:
        if now.requests and now.failures == now.requests:
            return Judgement(Verdict.BAD, f"all of its {now.requests} requests failed")
        return Judgement(
            Verdict.GOOD, f"{now.requests} requests in {config.canary_minutes:g} min, {now.failures} failed"
        )
    return Judgement(Verdict.WAIT, f"{now.requests} of {config.canary_requests} requests, {now.failures} failed")


@attrs.frozen
class AddEngine:
    """One that was not there."""

    new: EngineConfig


@attrs.frozen
class ReplaceEngine:
    """One that is started anew with another configuration, and judged."""

    old: EngineConfig
    new: EngineConfig


@attrs.frozen
class RemoveEngine:
    """One that is not wanted any more."""

    old: EngineConfig


@attrs.frozen
class ChangeAdapter:
    """A tenant that is answered by another adapter, and judged."""

    tenant: TenantId
    old: TenantConfig
    new: TenantConfig


Step = AddEngine | ReplaceEngine | RemoveEngine | ChangeAdapter


@attrs.frozen
class Holdback:
    """A step that was to be done and was not: what it is about runs as before."""

    step: Step
    refused: bool
    """It, or one before it, went badly, or an operator stopped it: it waits until the configuration is read again."""


def without_secrets(step: Step) -> Step | None:
    """The step as it may be kept: values of environment variables are left out. None: nothing of it is left."""
    match step:
        case ReplaceEngine(old=old, new=new):
            return None if _bare(old) == _bare(new) else ReplaceEngine(_bare(old), _bare(new))
        case RemoveEngine(old=old):
            return step if _bare(old) == old else None
        case AddEngine():
            return None
    return step


def _bare(engine: EngineConfig) -> EngineConfig:
    return _dressed(engine, None)


def _dressed(engine: EngineConfig, other: EngineConfig | None) -> EngineConfig:
    """The engine with the other one's environment."""
    if engine.launch is None:
        return engine
    environment = {} if other is None or other.launch is None else other.launch.environment
    return attrs.evolve(engine, launch=attrs.evolve(engine.launch, environment=environment))


def as_before(
    engines: Sequence[EngineConfig], tenants: Mapping[str, TenantConfig], held: Sequence[Holdback]
) -> tuple[tuple[EngineConfig, ...], dict[str, TenantConfig], tuple[Holdback, ...]]:
    """What a farm starts with, if some of what it is configured to have was never found good.

    Args:
        engines: As configured.
        tenants: As configured.
        held: What was not done when it ended. What was under way was never found good, whatever the file says by now;
            what was refused matters as long as the file says the same.

    Returns:
        Engines, tenants, and those of `held` that the configuration still asks for.
    """
    found, known, kept = {engine.id: engine for engine in engines}, dict(tenants), []
    for one in held:
        match one.step:
            case ReplaceEngine(old=old, new=new) if new.id in found and (
                not one.refused or _bare(found[new.id]) == _bare(new)
            ):
                found[new.id] = _dressed(old, found[new.id])
            case RemoveEngine(old=old) if old.id not in found:
                found[old.id] = old
            case ChangeAdapter(tenant=tenant, old=before, new=after) if (
                not one.refused or known.get(tenant, TenantConfig()).adapter == after.adapter
            ):
                known[tenant] = attrs.evolve(known.get(tenant, TenantConfig()), adapter=before.adapter)
            case _:
                continue
        kept.append(one)
    return tuple(found.values()), known, tuple(kept)


def steps_for(
    engines: Sequence[EngineConfig],
    wanted: Sequence[EngineConfig],
    tenants: Mapping[str, TenantConfig],
    wanted_tenants: Mapping[str, TenantConfig],
) -> tuple[Step, ...]:
    """What is to be done, in order: new engines first and old ones last, so that there are never fewer than need be.

    Adapters change after the engines that may have to load them. What else of a tenant changes needs no trial, and is
    no step.
    """
    have = {engine.id: engine for engine in engines}
    shall = {engine.id: engine for engine in wanted}
    nothing = TenantConfig()
    steps: list[Step] = [AddEngine(engine) for engine in wanted if engine.id not in have]
    steps += [ReplaceEngine(have[one.id], one) for one in wanted if one.id in have and have[one.id] != one]
    for name in dict.fromkeys([*tenants, *wanted_tenants]):
        old, new = tenants.get(name, nothing), wanted_tenants.get(name, nothing)
        if old.adapter != new.adapter:
            steps.append(ChangeAdapter(TenantId(name), old, new))
    steps += [RemoveEngine(engine) for engine in engines if engine.id not in shall]
    return tuple(steps)


def shown(step: Step) -> str:
    """What a step changes, for people."""
    match step:
        case AddEngine(new=engine) | ReplaceEngine(new=engine) | RemoveEngine(old=engine):
            return f"engine {engine.id}"
        case ChangeAdapter():
            return f"the adapter of tenant {step.tenant}"
