"""The metrics of requests: where their time went, and who used how many tokens."""

import functools

from prometheus_client import Counter, Histogram

from inference.messages import Completion, Prompt
from runtime.telemetry import counter, histogram

_TENANT = ["workload", "tenant"]

_COMPLETE = histogram("inference_complete_seconds", "From the call to the whole answer.", ["engine", "why"])
_QUEUE = histogram("inference_queue_seconds", "From the call until the request was sent.", ["engine"])
_PREFILL = histogram("inference_prefill_seconds", "From sending to the first token.", ["engine"])
_DECODE = histogram("inference_decode_seconds", "From the first token to the last.", ["engine"])
_PROMPT_TOKENS = counter("inference_prompt_tokens_total", "Tokens of prompts, cached ones too.", ["engine"])
_CACHED_TOKENS = counter("inference_cached_tokens_total", "Tokens of prompts found in a cache.", ["engine"])
_OUTPUT_TOKENS = counter("inference_output_tokens_total", "Tokens of answers.", ["engine"])
_TENANT_INPUT = counter("inference_tenant_input_tokens_total", "Tokens of prompts that no cache had.", _TENANT)
_TENANT_CACHED = counter("inference_tenant_cached_tokens_total", "Tokens of prompts found in a cache.", _TENANT)
_TENANT_OUTPUT = counter("inference_tenant_output_tokens_total", "Tokens of answers.", _TENANT)
_TENANT_LIMITED = counter("inference_tenant_limited_requests_total", "Refused: tokens per minute used up.", _TENANT)


MAX_LABELS = 4096  # children that are kept at hand; looking one up by its labels costs as much as counting


@functools.lru_cache(maxsize=MAX_LABELS)
def _of_engine(engine: str) -> tuple[Histogram, Histogram, Histogram, Counter, Counter, Counter]:
    return (
        _QUEUE.labels(engine),
        _PREFILL.labels(engine),
        _DECODE.labels(engine),
        _PROMPT_TOKENS.labels(engine),
        _CACHED_TOKENS.labels(engine),
        _OUTPUT_TOKENS.labels(engine),
    )


@functools.lru_cache(maxsize=MAX_LABELS)
def _complete_of(engine: str, why: str) -> Histogram:
    return _COMPLETE.labels(engine, why)


@functools.lru_cache(maxsize=MAX_LABELS)
def _of_tenant(workload: str, tenant: str) -> tuple[Counter, Counter, Counter]:
    who = (workload, tenant)
    return (_TENANT_INPUT.labels(*who), _TENANT_CACHED.labels(*who), _TENANT_OUTPUT.labels(*who))


def count_completion(prompt: Prompt, completion: Completion, seconds: float) -> None:
    """Count an answer; `seconds` is from the call to the end."""
    usage = completion.usage
    _complete_of(completion.engine, completion.why).observe(seconds)
    queue, prefill, decode, prompts, cached, output = _of_engine(completion.engine)
    queue.observe(completion.queue_seconds)
    prefill.observe(completion.prefill_seconds)
    decode.observe(completion.decode_seconds)
    prompts.inc(usage.prompt_tokens)
    cached.inc(usage.cached_tokens)
    output.inc(usage.output_tokens)
    uncached_of, cached_of, output_of = _of_tenant(prompt.workload, prompt.tenant)
    uncached_of.inc(max(0, usage.prompt_tokens - usage.cached_tokens))
    cached_of.inc(usage.cached_tokens)
    output_of.inc(usage.output_tokens)


def count_limited(prompt: Prompt) -> None:
    """Count a request that was refused, as its tenant's tokens per minute were used up."""
    _TENANT_LIMITED.labels(prompt.workload, prompt.tenant).inc()
