"""What runs cost: tokens, seconds of GPUs and of phones, and money by the farm's prices. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from actors.farm.config import PricesConfig

MILLION = 1e6


@attrs.frozen
class Usage:
    """What was used of engines and phones, as far as the records tell; docs/farm.md says what is counted."""

    plans: int = 0
    """That came; what a request has cost that was aborted or failed is in no record."""
    input_tokens: int = 0
    """Of prompts, those found in a cache included."""
    cached_tokens: int = 0
    output_tokens: int = 0
    gpu_seconds: float = 0.0
    """In which an engine worked for at least one request of these."""
    phone_seconds: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.plans + other.plans,
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.gpu_seconds + other.gpu_seconds,
            self.phone_seconds + other.phone_seconds,
        )

    def money(self, prices: PricesConfig) -> float:
        """In the currency of the prices."""
        fresh = max(0, self.input_tokens - self.cached_tokens)
        return (
            self.phone_seconds / 60.0 * prices.phone_minute
            + self.gpu_seconds / 3600.0 * prices.gpu_hour
            + fresh / MILLION * prices.input_million
            + self.cached_tokens / MILLION * prices.cached_million
            + self.output_tokens / MILLION * prices.output_million
        )


def usage_sum(parts: Iterable[Usage]) -> Usage:
    """All together."""
    return sum(parts, Usage())


def usage_from_json(data: Mapping[str, Any]) -> Usage:
    """What `attrs.asdict` gave.

    Raises:
        TypeError: it is something else.
    """
    return Usage(**data)


def costs_view(usage: Usage, prices: PricesConfig, *, is_complete: bool = True) -> dict[str, Any]:
    """As the API shows costs.

    Args:
        usage: What was used.
        prices: Of the farm.
        is_complete: All of its records have been read; False: what engines did is not counted (yet).
    """
    return {
        "tokens": {"input": usage.input_tokens, "cached": usage.cached_tokens, "output": usage.output_tokens},
        "gpu_seconds": round(usage.gpu_seconds, 3),
        "phone_minutes": round(usage.phone_seconds / 60.0, 3),
        "money": round(usage.money(prices), 4),
        "currency": prices.currency,
        "complete": is_complete,
    }


def busy_seconds(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals (begin, end): what overlaps counts once."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        start = max(begin, reached)
        if end > start:
            total += end - start
            reached = end
    return total
