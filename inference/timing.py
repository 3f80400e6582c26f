"""How long an engine takes, as its latest answers tell: what a request will need, and whether that is too long."""

import math

import attrs

LEARN_SHARE = 0.1  # of a new answer in an average: about the last twenty count
STALE_SECONDS = 5.0  # older than this, nothing is refused on its account: the next request finds out
MARGIN = 0.9  # of the predicted time: refusing what might just have made it is as bad as sending what just will not
COLD_SECONDS = 0.25  # what a cold prefill costs more, until it was measured: some 2,400 vision tokens of an 8B model


@attrs.define
class EngineTiming:
    """The averages of one engine. Times are seconds of the run's clock."""

    warm_prefill_seconds: float | None = None
    cold_prefill_seconds: float | None = None
    tpot_seconds: float | None = None
    service_seconds: float | None = None
    """A whole request, from sending to its last token."""
    _at: float = -math.inf

    def observe(
        self, *, prefill_seconds: float, tpot_seconds: float | None, service_seconds: float, cold: bool, now: float
    ) -> None:
        """Take in an answer."""
        if cold:
            self.cold_prefill_seconds = _learnt(self.cold_prefill_seconds, prefill_seconds)
        else:
            self.warm_prefill_seconds = _learnt(self.warm_prefill_seconds, prefill_seconds)
        if tpot_seconds is not None:
            self.tpot_seconds = _learnt(self.tpot_seconds, tpot_seconds)
        self.service_seconds = _learnt(self.service_seconds, service_seconds)
        self._at = now

    @property
    def cold_extra_seconds(self) -> float:
        """How much longer a prompt takes that the engine knows nothing of."""
        if self.cold_prefill_seconds is None or self.warm_prefill_seconds is None:
            return COLD_SECONDS
        return max(0.0, self.cold_prefill_seconds - self.warm_prefill_seconds)

    def decode_seconds(self, output_tokens: float | None, now: float) -> float | None:
        """From the first token to the last, at least; None where nothing recent tells."""
        if output_tokens is None or self.tpot_seconds is None or now - self._at > STALE_SECONDS:
            return None
        return MARGIN * self.tpot_seconds * max(0.0, output_tokens - 1.0)

    def needed_seconds(self, output_tokens: float | None, now: float, *, cold: bool) -> float | None:
        """From sending to the last token, at least; None where nothing recent tells."""
        decode = self.decode_seconds(output_tokens, now)
        prefill = self.warm_prefill_seconds if self.warm_prefill_seconds is not None else self.cold_prefill_seconds
        if cold and self.cold_prefill_seconds is not None:
            prefill = self.cold_prefill_seconds
        return None if decode is None or prefill is None else MARGIN * prefill + decode


def _learnt(before: float | None, seconds: float) -> float:
    return seconds if before is None else before + LEARN_SHARE * (seconds - before)
