"""What a running engine says of itself, held against what it should be."""

from collections.abc import Mapping
from typing import Any

import attrs

LEAST_TOKENS_PER_REQUEST = 1024  # a prompt with two small frames; less, and admission would fill the KV cache


@attrs.frozen
class Expected:
    """What an engine should say. None: anything."""

    max_in_flight: int
    kv_cache_dtype: str | None = None
    context_length: int | None = None
    cards: int | None = None


@attrs.frozen
class Findings:
    """What was read."""

    mismatches: tuple[str, ...]
    version: str | None = None
    kv_tokens: int | None = None


def inspect_engine(info: Mapping[str, Any], expected: Expected) -> Findings:
    """Read `/server_info` of SGLang; a key that is not there is not judged."""
    found: list[str] = []
    if info.get("disable_radix_cache") is True:
        found.append("its radix cache is off: every step of an episode is computed anew")
    chunk = info.get("chunked_prefill_size")
    if isinstance(chunk, int) and not isinstance(chunk, bool) and chunk <= 0:
        found.append("chunked prefill is off: one long prompt stalls all other requests")
    dtype = info.get("kv_cache_dtype")
    if expected.kv_cache_dtype is not None and isinstance(dtype, str) and dtype != expected.kv_cache_dtype:
        found.append(f"its KV cache is {dtype!r}, and {expected.kv_cache_dtype!r} was asked for")
    mode = info.get("disaggregation_mode")
    if isinstance(mode, str) and mode not in {"null", "none", ""}:
        found.append(f"it runs prefill and decode apart ({mode})")
    cards = info.get("tp_size")
    if expected.cards is not None and isinstance(cards, int) and cards != expected.cards:
        found.append(f"it runs on {cards} cards, not on {expected.cards}")
    at_once = info.get("max_running_requests")
    if isinstance(at_once, int) and not isinstance(at_once, bool) and 0 < at_once < expected.max_in_flight:
        found.append(
            f"it runs {at_once} requests at a time, and up to {expected.max_in_flight} are sent: the rest waits in it, "
            "where it cannot be moved; lower max_in_flight"
        )
    tokens = _tokens(info)
    if tokens is not None:
        each = tokens // max(1, expected.max_in_flight)
        if each < LEAST_TOKENS_PER_REQUEST:
            found.append(
                f"its KV cache has {tokens} tokens, {each} for each of {expected.max_in_flight} requests in flight: it "
                "will preempt; lower max_in_flight"
            )
        if expected.context_length is not None and tokens < expected.context_length:
            found.append(f"its KV cache has {tokens} tokens, fewer than one context of {expected.context_length}")
    version = info.get("version")
    return Findings(tuple(found), version if isinstance(version, str) else None, tokens)


def _tokens(info: Mapping[str, Any]) -> int | None:
    value = info.get("max_total_num_tokens")
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
