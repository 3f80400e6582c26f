"""Two engines, models or settings on the same frames: latency side by side, and whether they say the same."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs
import trio

from actors.bench.engine import EngineBench, EngineTarget, cached_share, episodes_for, require_alive
from actors.bench.engines import BenchUnavailable
from actors.bench.load import Sample, ask
from actors.bench.result import BenchResult, Tell, tell_nobody
from actors.results.intervals import Interval, bootstrap, median_interval, wilson
from inference.errors import EngineError
from inference.messages import Prompt
from inference.profile import ModelProfile
from policies.action import Finish, PlanStep, points_of
from policies.grammar import ReplyFailure
from policies.reply import parse_reply

NEAR_SHARE = 0.05  # of the model's range: half a usual button; nearer points hit the same thing
STEPS = 6


@attrs.frozen
class Pair:
    """The answers of both to one prompt."""

    request_id: str
    first: Sample
    other: Sample
    same_text: bool
    same_actions: bool | None
    """None: one of them held no action, and the other neither or not."""


@attrs.define
class AbResult:
    """All pairs."""

    pairs: list[Pair] = attrs.field(factory=list)
    errors: dict[str, int] = attrs.field(factory=lambda: {"A": 0, "B": 0})
    first_error: str = ""


def agree(
    first: str,
    other: str,
    one: ModelProfile,
    two: ModelProfile,
    *,
    across: tuple[float, float],
    cut: tuple[bool, bool] = (False, False),
) -> bool | None:
    """True when both replies do the same things at nearly the same places; None where neither holds an action.

    Args:
        first: reply of A.
        other: reply of B.
        one: profile of A, which tells how its reply is read.
        two: profile of B.
        across: the range of each model's coordinates: 1000 for per mille, else the picture's long side.
        cut: whether the token limit ended A's reply, and B's.
    """
    mine, theirs = parse_reply(first, one, cut=cut[0]), parse_reply(other, two, cut=cut[1])
    if isinstance(mine, ReplyFailure) or isinstance(theirs, ReplyFailure):
        return None if isinstance(mine, ReplyFailure) and isinstance(theirs, ReplyFailure) else False
    if len(mine.steps) != len(theirs.steps):
        return False
    return all(_near(a, b, across) for a, b in zip(mine.steps, theirs.steps, strict=True))


def _near(a: PlanStep, b: PlanStep, across: tuple[float, float]) -> bool:
    if type(a) is not type(b):
        return False
    mine, theirs = _points(a), _points(b)
    if not mine or len(mine) != len(theirs):
        return a == b
    return all(
        abs(x / across[0] - u / across[1]) <= NEAR_SHARE and abs(y / across[0] - v / across[1]) <= NEAR_SHARE
        for (x, y), (u, v) in zip(mine, theirs, strict=True)
    )


def _points(step: PlanStep) -> tuple[tuple[int, int], ...]:
    return () if isinstance(step, Finish) else points_of(step)


def _range_of(profile: ModelProfile) -> float:
    return 1000.0 if profile.coordinates == "per_mille" else float(profile.max_side)


async def ask_both(
    first: EngineTarget, other: EngineTarget, plan: EngineBench, episodes: int, *, tell: Tell = tell_nobody
) -> AbResult:
    """Every prompt to both, one after the other; which comes first alternates.

    Raises:
        BenchUnavailable: one of them does not answer, or there are no frames.
    """
    result = AbResult()
    clients = (first.client(), other.client())
    across = (_range_of(first.profile), _range_of(other.profile))
    try:
        for client in clients:
            await require_alive(client)
        make = partial(episodes_for, plan, first, "ab", episodes, STEPS, seed=plan.seed)
        mine: list[Prompt] = [prompt for one in await trio.to_thread.run_sync(make) for prompt in one]
        make = partial(episodes_for, plan, other, "ab", episodes, STEPS, seed=plan.seed)
        theirs: list[Prompt] = [prompt for one in await trio.to_thread.run_sync(make) for prompt in one]
        for number, prompts in enumerate(zip(mine, theirs, strict=True)):
            tell(f"prompt {number + 1}", number / len(mine))
            answers: dict[int, Sample] = {}
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                try:
                    answers[side] = await ask(clients[side], prompts[side])
                except EngineError as error:
                    result.errors["AB"[side]] += 1
                    result.first_error = result.first_error or str(error)
            if len(answers) == 2:
                result.pairs.append(_pair(answers[0], answers[1], first.profile, other.profile, across, prompts[0]))
    finally:
        with trio.CancelScope(shield=True):
            for client in clients:
                await client.aclose()
    if not result.pairs:
        raise BenchUnavailable(f"there is no prompt that both answered: {result.first_error}")
    return result


def _pair(
    first: Sample, other: Sample, one: ModelProfile, two: ModelProfile, across: tuple[float, float], prompt: Prompt
) -> Pair:
    mine, theirs = first.completion.text, other.completion.text
    cut = (first.completion.finish_reason == "length", other.completion.finish_reason == "length")
    same = agree(mine, theirs, one, two, across=across, cut=cut)
    return Pair(prompt.request_id, first, other, mine == theirs, same)


def bench_ab(
    first: EngineTarget,
    other: EngineTarget,
    plan: EngineBench,
    command: str,
    *,
    episodes: int = 8,
    tell: Tell = tell_nobody,
) -> BenchResult:
    """The comparison, with intervals.

    Raises:
        BenchUnavailable: see `ask_both`.
    """
    result = trio.run(partial(ask_both, first, other, plan, episodes, tell=tell))
    pairs = result.pairs
    judged = [pair for pair in pairs if pair.same_actions is not None]
    texts = wilson(sum(pair.same_text for pair in pairs), len(pairs))
    actions = wilson(sum(bool(pair.same_actions) for pair in judged), len(judged))
    summary: dict[str, Any] = {
        "A": _side(first, [pair.first for pair in pairs], result.errors["A"]),
        "B": _side(other, [pair.other for pair in pairs], result.errors["B"]),
        "prompts that both answered": len(pairs),
        "replies equal": _told(texts),
        "replies that do the same": _told(actions) if judged else None,
    }
    times = {
        "ttft": [(pair.first.ttft_seconds, pair.other.ttft_seconds) for pair in pairs],
        "step": [(pair.first.total_seconds, pair.other.total_seconds) for pair in pairs],
    }
    for name, both in times.items():
        gaps = [1000 * (theirs - mine) for mine, theirs in both]
        summary[f"B - A, {name}, mean ms"] = _told(bootstrap(gaps, seed=plan.seed))
        ratios = [theirs / max(1e-9, mine) for mine, theirs in both]
        summary[f"B / A, {name}, median"] = _told(median_interval(ratios))
    rows = [
        {
            "request": pair.request_id,
            "same_text": pair.same_text,
            "same_actions": pair.same_actions,
            "A": _answer(pair.first),
            "B": _answer(pair.other),
        }
        for pair in pairs
    ]
    notes = (
        "value [95 % interval]: Wilson's for shares, bootstrap for the rest; a mean difference whose interval holds 0, "
        "or a ratio whose interval holds 1, may be chance",
        f"two replies do the same if their actions are of the same kinds, each within {NEAR_SHARE:.0%} of the screen",
    )
    return BenchResult("engine-ab", command, summary, rows, notes)


def _side(target: EngineTarget, samples: Sequence[Sample], errors: int) -> dict[str, Any]:
    count = len(samples)
    return {
        "url": target.url,
        "model": target.model,
        "ttft_ms_mean": round(sum(one.ttft_seconds for one in samples) * 1000 / count, 2),
        "step_ms_mean": round(sum(one.total_seconds for one in samples) * 1000 / count, 2),
        "output_tokens_mean": round(sum(one.completion.usage.output_tokens for one in samples) / count, 2),
        "cached_share": cached_share(samples),
        "errors": errors,
    }


def _answer(one: Sample) -> dict[str, Any]:
    return {
        "text": one.completion.text[:400],
        "ttft_ms": round(one.ttft_seconds * 1000, 2),
        "step_ms": round(one.total_seconds * 1000, 2),
        "output_tokens": one.completion.usage.output_tokens,
        "cached_tokens": one.completion.usage.cached_tokens,
    }


def _told(interval: Interval, digits: int = 4) -> str:
    return f"{interval.value:.{digits}g} [{interval.low:.{digits}g}, {interval.high:.{digits}g}]"
