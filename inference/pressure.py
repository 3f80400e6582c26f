"""How far an engine's KV memory lets it go: a brake on its concurrency, well before it preempts requests.

An engine whose KV memory is full throws requests out and computes them again, which users see as latency spikes. From
what it says of its own memory the brake knows how many requests fill it to 90 %, and allows no more. An engine that has
preempted all the same is halved, and let back by a tenth a probe.
"""

import math

import attrs

HIGH_USAGE = 0.90  # of KV memory; SGLang retracts when an allocation fails, and 8 % of it is the growth of decoding
ALARM_USAGE = 0.95
RELEASE_USAGE = 0.70  # below it, the brake is off
QUEUED_REQUESTS = 4  # fewer wait in any engine for some milliseconds, for the next batch of prefill
QUEUED_PROBES = 2
CALM_PROBES = 3  # without a preemption, before a halved engine is let back
BACK_SHARE = 0.1


@attrs.define
class KvBrake:
    """The brake of one engine; feed it every probe, and read `limit`."""

    max_limit: int
    limit: int = attrs.field(init=False)
    """Requests that may be at the engine."""
    halvings: int = attrs.field(default=0, init=False)
    alarmed: bool = attrs.field(default=False, init=False)
    """KV usage was over `ALARM_USAGE` at the last probe."""
    _preempted: float | None = attrs.field(default=None, init=False)  # the engine's count
    _calm: int = attrs.field(default=0, init=False)
    _queued: int = attrs.field(default=0, init=False)  # probes in a row that found a queue inside the engine
    _by_usage: int = attrs.field(init=False)
    _by_preemption: int = attrs.field(init=False)
    _by_queue: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.limit = self._by_usage = self._by_preemption = self._by_queue = self.max_limit

    def observe(
        self,
        in_flight: int,
        *,
        token_usage: float | None = None,
        running: int | None = None,
        waiting: int | None = None,
        preempted: float | None = None,
    ) -> int:
        """Take in a probe; returns the limit that holds now.

        Args:
            in_flight: our requests at the engine.
            token_usage: share of its KV memory in use, 0 to 1; None where it does not say.
            running: requests that run there.
            waiting: requests that wait there.
            preempted: requests that it has thrown out since it started.
        """
        if token_usage is not None:
            self._observe_usage(token_usage, in_flight)
        if running is not None and waiting is not None:
            self._observe_queue(running, waiting, in_flight)
        self._observe_preempted(preempted, in_flight)
        self.limit = max(1, min(self._by_usage, self._by_preemption, self._by_queue, self.max_limit))
        return self.limit

    def _observe_usage(self, usage: float, in_flight: int) -> None:
        self.alarmed = usage >= ALARM_USAGE
        if usage >= RELEASE_USAGE and in_flight > 0:
            # What one request takes is the usage over those that hold it; so many of them fill it to the mark.
            self._by_usage = max(1, math.floor(in_flight * HIGH_USAGE / usage))
        elif usage < RELEASE_USAGE:
            self._by_usage = self.max_limit

    def _observe_queue(self, running: int, waiting: int, in_flight: int) -> None:
        """A queue inside the engine is of no use: there it has no deadlines and no tenants. Ours is as near."""
        queued = running > 0 and in_flight >= running and waiting >= max(QUEUED_REQUESTS, running // 4)
        self._queued = self._queued + 1 if queued else 0
        if self._queued >= QUEUED_PROBES:
            self._by_queue = max(1, running)
        elif waiting == 0 and self._by_queue < self.max_limit:
            self._by_queue = min(self.max_limit, self._by_queue + max(1, math.ceil(BACK_SHARE * self._by_queue)))

    def _observe_preempted(self, preempted: float | None, in_flight: int) -> None:
        before, self._preempted = self._preempted, preempted if preempted is not None else self._preempted
        if before is not None and preempted is not None and preempted > before:
            self._by_preemption = max(1, max(in_flight, 1) // 2)
            self._calm = 0
            self.halvings += 1
        elif self._by_preemption < self.max_limit:
            self._calm += 1
            if self._calm >= CALM_PROBES:
                more = max(1, math.ceil(BACK_SHARE * self._by_preemption))
                self._by_preemption = min(self.max_limit, self._by_preemption + more)
