"""How a rehearsal engine behaves: what the command line sets, checked."""

from itertools import pairwise

import attrs

from actors.rehearsal.engine.latency import LatencyModel

MODEL_PREFIX = "rehearsal-"


@attrs.frozen
class RehearsalOptions:
    """Everything that can be set on a rehearsal engine."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: the system chooses."""
    model: str = "rehearsal-7b"
    """Always starts with `rehearsal-`, so that no report can pass it off as a real model."""
    latency: LatencyModel = attrs.field(factory=LatencyModel)
    changed: LatencyModel | None = None
    """Another latency, from `change_after_seconds` after the first request on."""
    change_after_seconds: float = 0.0
    slots: int = 64
    """Requests that run at once; others queue."""
    max_queued: int = 1024
    """Requests that may queue; one more is answered 503, as SGLang's --max-queued-requests does."""
    context_length: int = 32768
    """Longest prompt in tokens."""
    vision_cache: int | None = None
    """Pictures of a vision cache, counted under vLLM's names. None: there is none to be told, as with SGLang."""
    fail_rate: float = 0.0
    """Share of completions answered with a 500."""
    garbage_rate: float = 0.0
    """Share of completions answered with words instead of a plan."""
    kill_after: int | None = None
    """The process kills itself in the middle of its n-th completion."""
    blind: bool = False
    """Answer a valid random plan without looking at the picture."""
    fill: bool = False
    """Blind answers are as long as they may be, the last action cut short: for load tests."""
    seed: int = 0
    """Of failures, garbage and blind plans."""
    api_key_env: str | None = None
    """Name of the environment variable with the key that clients must send."""


def problems_in(options: RehearsalOptions) -> tuple[str, ...]:
    """What is wrong with the options, each as one sentence that names the option; empty when nothing is."""
    latency = options.latency
    checks = (
        (options.model.startswith(MODEL_PREFIX), f"--model must start with `{MODEL_PREFIX}`, not {options.model!r}"),
        (0 <= options.port <= 65535, f"--port must be 0 to 65535, not {options.port}"),
        (options.slots >= 1, f"--slots must be at least 1, not {options.slots}"),
        (options.max_queued >= 0, f"--max-queued must not be negative, not {options.max_queued}"),
        (options.context_length >= 1, f"--context-length must be at least 1, not {options.context_length}"),
        (
            options.vision_cache is None or options.vision_cache >= 1,
            f"--vision-cache must be at least 1, not {options.vision_cache}",
        ),
        (0.0 <= options.fail_rate <= 1.0, f"--fail-rate must be 0 to 1, not {options.fail_rate:g}"),
        (0.0 <= options.garbage_rate <= 1.0, f"--garbage-rate must be 0 to 1, not {options.garbage_rate:g}"),
        (
            options.kill_after is None or options.kill_after >= 1,
            f"--kill-after must be at least 1, not {options.kill_after}",
        ),
        (
            latency.total_seconds is None or (latency.ttft_seconds is None and latency.tpot_seconds is None),
            "--latency-ms fixes the total and cannot be joined with --ttft-ms or --tpot-ms",
        ),
        (
            latency.curve is None or (latency.tpot_seconds is None and latency.total_seconds is None),
            "--curve cannot be joined with --tpot-ms or --latency-ms",
        ),
        (
            latency.curve is None or _rises(latency.curve),
            "--curve must be RUNNING:MS,RUNNING:MS,... with rising numbers of running requests",
        ),
        (
            options.changed is None or options.changed.curve is None or _rises(options.changed.curve),
            "--change-curve must be RUNNING:MS,RUNNING:MS,... with rising numbers of running requests",
        ),
        (
            options.change_after_seconds >= 0,
            f"--change-after must not be negative, not {options.change_after_seconds:g}",
        ),
        (
            latency.prefill_tokens_per_second is None or latency.prefill_tokens_per_second > 0,
            "--prefill-tokens-per-second must be more than 0",
        ),
        (latency.chunk_tokens >= 1, f"--chunk-tokens must be at least 1, not {latency.chunk_tokens}"),
        (
            all(
                value is None or 0.0 <= value <= 3600.0
                for value in (latency.ttft_seconds, latency.tpot_seconds, latency.total_seconds)
            ),
            "--ttft-ms, --tpot-ms and --latency-ms must be 0 ms to an hour",
        ),
    )
    return tuple(problem for fine, problem in checks if not fine)


def _rises(curve: tuple[tuple[int, float], ...]) -> bool:
    return (
        len(curve) > 0
        and all(running >= 1 and 0.0 <= tpot <= 3600.0 for running, tpot in curve)
        and all(one[0] < other[0] for one, other in pairwise(curve))
    )
