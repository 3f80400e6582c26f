"""Whether an engine should be asked at all: a circuit breaker fed by requests and by health probes.

Requests and probes are counted apart: an engine may answer probes while its generation hangs. Three failures in a
row of either kind open the circuit. After a cool-down one request is let through (half open); its outcome closes the
circuit or opens it again, for twice as long.
"""

from enum import StrEnum

import attrs

from inference.errors import (
    EngineError,
    EngineGarbled,
    EngineLost,
    EngineNotReady,
    EngineRefused,
    EngineTooSlow,
    Overloaded,
    TenantLimited,
)

FAILURES_TO_OPEN = 3  # one failure may be a race with a closing connection, two a restart
COOLDOWN_SECONDS = 5.0
MAX_COOLDOWN_SECONDS = 60.0  # a repaired engine is found again within a minute


class Outcome(StrEnum):
    """What a request or a probe says about the engine's health."""

    OK = "ok"
    FAILED = "failed"
    NEUTRAL = "neutral"
    """Nothing: it was cancelled, or was never sent."""


class CircuitState(StrEnum):
    """Where the circuit stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    """The cool-down is over; one request at a time may try."""


@attrs.define
class CircuitBreaker:
    """The health of one engine. Times are seconds of the run's clock."""

    failures_to_open: int = FAILURES_TO_OPEN
    cooldown_seconds: float = COOLDOWN_SECONDS
    max_cooldown_seconds: float = MAX_COOLDOWN_SECONDS
    request_failures: int = attrs.field(default=0, init=False)
    """In a row."""
    probe_failures: int = attrs.field(default=0, init=False)
    """In a row."""
    openings: int = attrs.field(default=0, init=False)
    """Since the circuit was last closed."""
    opened_at: float | None = attrs.field(default=None, init=False)
    trying: bool = attrs.field(default=False, init=False)
    """True while the one request of the half-open circuit is out."""

    def state(self, now: float) -> CircuitState:
        """Where the circuit stands."""
        if self.opened_at is None:
            return CircuitState.CLOSED
        return CircuitState.HALF_OPEN if now >= self.opened_at + self._cooldown() else CircuitState.OPEN

    def is_open(self, now: float) -> bool:
        """True when no request should be sent now."""
        state = self.state(now)
        return state is CircuitState.OPEN or (state is CircuitState.HALF_OPEN and self.trying)

    def begin(self, now: float) -> bool:
        """A request is about to be sent; `observe` must follow. True when it is the one that tries the engine."""
        if self.state(now) is CircuitState.HALF_OPEN and not self.trying:
            self.trying = True
            return True
        return False

    def observe(self, outcome: Outcome, now: float, *, trial: bool = False) -> None:
        """Take in how a request ended; `trial` is what `begin` returned for it.

        While the circuit is not closed, only the trial counts: late failures of requests that were out before it
        opened say nothing new, and neither do late successes.
        """
        if self.opened_at is not None:
            if trial:
                self.trying = False
                if outcome is Outcome.OK:
                    self._close()
                elif outcome is Outcome.FAILED:
                    self._open(now)
            return
        if outcome is Outcome.OK:
            self.request_failures = 0
        elif outcome is Outcome.FAILED:
            self.request_failures += 1
            if self.request_failures >= self.failures_to_open:
                self._open(now)

    def observe_probe(self, outcome: Outcome, now: float) -> None:
        """Take in how a health probe ended. A good one closes nothing: only a request shows that requests work."""
        if outcome is Outcome.OK:
            self.probe_failures = 0
        elif outcome is Outcome.FAILED:
            self.probe_failures += 1
            if self.probe_failures >= self.failures_to_open and self.state(now) is not CircuitState.OPEN:
                self._open(now)

    def _cooldown(self) -> float:
        return float(min(self.max_cooldown_seconds, self.cooldown_seconds * 2 ** min(max(self.openings - 1, 0), 30)))

    def _open(self, now: float) -> None:
        self.opened_at = now
        self.openings += 1
        self.trying = False

    def _close(self) -> None:
        self.opened_at = None
        self.openings = self.request_failures = self.probe_failures = 0


def outcome_for(error: EngineError, seconds: float, silent_seconds: float) -> Outcome:
    """What a failed request says about the engine's health.

    Args:
        error: how it failed.
        seconds: how long the request was at the engine.
        silent_seconds: a deadline that passed sooner says nothing: it may just have been tight.
    """
    match error:
        case EngineRefused():
            return Outcome.OK  # it read the request, and answered
        case Overloaded():
            return Outcome.NEUTRAL
        case EngineTooSlow():
            return Outcome.FAILED if seconds >= silent_seconds else Outcome.NEUTRAL
        case EngineLost() | EngineNotReady() | EngineGarbled():
            return Outcome.FAILED
    return Outcome.NEUTRAL


def label_for(error: EngineError) -> str:
    """The word for how a request failed, as a metric's label."""
    match error:
        case EngineNotReady():
            return "not_ready"
        case EngineLost():
            return "lost"
        case EngineTooSlow():
            return "too_slow"
        case EngineRefused():
            return "refused"
        case EngineGarbled():
            return "garbled"
        case TenantLimited():
            return "tenant_limited"
        case Overloaded():
            return "overloaded"
    return "failed"
