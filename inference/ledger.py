"""The metrics of requests: where their time went, and who used how many tokens."""

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


def count_completion(prompt: Prompt, completion: Completion, seconds: float) -> None:
    """Count an answer; `seconds` is from the call to the end."""
    engine, usage = completion.engine, completion.usage
    _COMPLETE.labels(engine, completion.why).observe(seconds)
    _QUEUE.labels(engine).observe(completion.queue_seconds)
    _PREFILL.labels(engine).observe(completion.prefill_seconds)
    _DECODE.labels(engine).observe(completion.decode_seconds)
    _PROMPT_TOKENS.labels(engine).inc(usage.prompt_tokens)
    _CACHED_TOKENS.labels(engine).inc(usage.cached_tokens)
    _OUTPUT_TOKENS.labels(engine).inc(usage.output_tokens)
    who = (prompt.workload, prompt.tenant)
    _TENANT_INPUT.labels(*who).inc(max(0, usage.prompt_tokens - usage.cached_tokens))
    _TENANT_CACHED.labels(*who).inc(usage.cached_tokens)
    _TENANT_OUTPUT.labels(*who).inc(usage.output_tokens)


def count_limited(prompt: Prompt) -> None:
    """Count a request that was refused, as its tenant's tokens per minute were used up."""
    _TENANT_LIMITED.labels(prompt.workload, prompt.tenant).inc()
