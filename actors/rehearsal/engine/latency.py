"""How long an answer takes: a published curve, or what the operator sets.

Source of the curve: the design document's measurement of Qwen2.5-VL-7B on one A100. Time to the first token is 58 ms;
time per further token is 13.69 ms at 10 running requests and 16.36 ms at 50. Between and beyond the two points the
time per token is taken to be linear in the number of running requests. (It then gives 582 ms for 32 tokens and
1105 ms for 64 at 50 running, as the document's table does.) Cached prompt tokens are counted but do not shorten the
time to the first token: the measurement does not say by how much they would.
"""

import attrs

CURVE_TTFT_SECONDS = 0.058
LOW_RUNNING, LOW_TPOT_SECONDS = 10, 0.01369
HIGH_RUNNING, HIGH_TPOT_SECONDS = 50, 0.01636


@attrs.frozen
class LatencyModel:
    """Times of one engine; each None means the curve."""

    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    total_seconds: float | None = None
    """Set: every answer takes exactly this, whatever its length, and comes all at once."""
    curve: tuple[tuple[int, float], ...] | None = None
    """Another curve: (running requests, seconds per token) in rising order, straight between and beyond the points."""
    prefill_tokens_per_second: float | None = None
    """Set: prompts are computed a chunk at a time, in turns, before the time to the first token begins."""
    chunk_tokens: int = 8192

    def first_token_after(self) -> float:
        """Seconds from admission to the first token."""
        if self.total_seconds is not None:
            return self.total_seconds
        return CURVE_TTFT_SECONDS if self.ttft_seconds is None else self.ttft_seconds

    def per_token(self, running: int) -> float:
        """Seconds between two tokens while `running` requests (this one too) share the engine."""
        if self.total_seconds is not None:
            return 0.0
        if self.tpot_seconds is not None:
            return self.tpot_seconds
        if self.curve is not None:
            return _on(self.curve, max(1, running))
        slope = (HIGH_TPOT_SECONDS - LOW_TPOT_SECONDS) / (HIGH_RUNNING - LOW_RUNNING)
        return LOW_TPOT_SECONDS + (max(1, running) - LOW_RUNNING) * slope

    def chunks_of(self, tokens: int) -> tuple[float, ...]:
        """Seconds of each chunk of a prompt of which no cache has so many tokens."""
        rate = self.prefill_tokens_per_second
        if rate is None:
            return ()
        whole, rest = divmod(tokens, self.chunk_tokens)
        return (*([self.chunk_tokens / rate] * whole), *([rest / rate] if rest else []))

    def token_at(self, number: int, running: int) -> float:
        """Seconds from admission until `number` tokens (from 1) are out."""
        if self.total_seconds is not None:
            return self.total_seconds
        # The document's own sum: 58 ms + 16.36 ms for each token, the first one too.
        return self.first_token_after() + number * self.per_token(running)


def _on(curve: tuple[tuple[int, float], ...], running: int) -> float:
    if len(curve) == 1:
        return curve[0][1]
    after = next((at for at in range(1, len(curve)) if curve[at][0] >= running), len(curve) - 1)
    (left, low), (right, high) = curve[after - 1], curve[after]
    return max(0.0, low + (running - left) * (high - low) / (right - left))
