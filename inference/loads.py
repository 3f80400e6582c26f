"""What an engine says of its own load, read from `/v1/loads` (SGLang) and `/metrics` (SGLang and vLLM), and doubted."""

import json
import math
import re
from typing import Any

import attrs

from inference.errors import EngineGarbled, LoadUnbelievable

MOST_REQUESTS = 1_000_000  # no engine runs more
_PREEMPTED = re.compile(
    rb"^(?:sglang:num_retracted_requests_total|vllm:num_preemptions_total)(?:\{[^}\n]*\})? (\S+)", re.MULTILINE
)
_USAGE = re.compile(rb"^vllm:kv_cache_usage_perc(?:\{[^}\n]*\})? (\S+)", re.MULTILINE)
_VISION_QUERIES = re.compile(rb"^vllm:mm_cache_queries_total(?:\{[^}\n]*\})? (\S+)", re.MULTILINE)
_VISION_HITS = re.compile(rb"^vllm:mm_cache_hits_total(?:\{[^}\n]*\})? (\S+)", re.MULTILINE)


@attrs.frozen
class VisionCacheCount:
    """Pictures that an engine looked up in its vision cache since it started: a hit spares the encoder.

    Apart from its KV cache, in which a picture is only found behind an equal prefix.
    """

    queries: float
    hits: float

    def share_since(self, before: "VisionCacheCount") -> float | None:
        """Share of the pictures since `before` that were found; None where there were none, or it started anew."""
        queries, hits = self.queries - before.queries, self.hits - before.hits
        return hits / queries if queries > 0 and 0 <= hits <= queries else None


@attrs.frozen
class EngineLoad:
    """What an engine says about its own load; None where it does not say."""

    running: int | None = None
    waiting: int | None = None
    token_usage: float | None = None
    """Share of its KV memory in use, 0 to 1."""
    preempted: float | None = None
    """Requests that it threw out of its KV memory since it started."""


def read_loads(body: bytes, engine: str) -> EngineLoad:
    """The body of `/v1/loads`.

    Raises:
        EngineGarbled: it is no JSON.
        LoadUnbelievable: a number in it cannot be.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:  # nested so deeply that no honest engine would
        raise EngineGarbled("/v1/loads answered no JSON", engine=engine) from error
    rows = answer.get("loads") if isinstance(answer, dict) else answer  # a row for each data-parallel rank
    rows = [row for row in (rows if isinstance(rows, list) else [answer]) if isinstance(row, dict)]
    running = _sum(rows, "num_running_reqs", MOST_REQUESTS, engine)
    waiting = _sum(rows, "num_waiting_reqs", MOST_REQUESTS, engine)
    usage = _sum(rows, "token_usage", 1.001, engine)  # rounded up by some
    return EngineLoad(
        running=None if running is None else int(running),
        waiting=None if waiting is None else int(waiting),
        token_usage=None if usage is None else min(1.0, usage / len(rows)),
    )


def read_metrics(body: bytes, engine: str) -> EngineLoad:
    """The two numbers of `/metrics` that admission needs: preempted requests, and vLLM's KV usage.

    Raises:
        LoadUnbelievable: a number in it cannot be.
    """
    preempted = [
        _number(found.decode("latin-1"), math.inf, "preemptions", engine) for found in _PREEMPTED.findall(body)
    ]
    usages = [_number(found.decode("latin-1"), 1.001, "KV usage", engine) for found in _USAGE.findall(body)]
    return EngineLoad(
        preempted=sum(preempted) if preempted else None,
        token_usage=min(1.0, sum(usages) / len(usages)) if usages else None,
    )


def read_vision_cache(body: bytes, engine: str) -> VisionCacheCount | None:
    """The vision cache's counters in `/metrics`, as vLLM has them; None where there are none, as with SGLang.

    Raises:
        LoadUnbelievable: a number in it cannot be.
    """

    def total(pattern: re.Pattern[bytes], what: str) -> float | None:
        numbers = [_number(found.decode("latin-1"), math.inf, what, engine) for found in pattern.findall(body)]
        return sum(numbers) if numbers else None

    queries, hits = total(_VISION_QUERIES, "vision cache queries"), total(_VISION_HITS, "vision cache hits")
    if queries is None or hits is None:
        return None
    if hits > queries:
        raise LoadUnbelievable(f"it says that {hits:g} of {queries:g} pictures were cached", engine=engine)
    return VisionCacheCount(queries, hits)


def _sum(rows: list[dict[str, Any]], name: str, most: float, engine: str) -> float | None:
    numbers = [_number(row[name], most, name, engine) for row in rows if row.get(name) is not None]
    return sum(numbers) if numbers else None


def _number(value: Any, most: float, name: str, engine: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= most or (math.isinf(number)):
        raise LoadUnbelievable(f"it says that its {name} is {str(value)[:40]!r}", engine=engine)
    return number
