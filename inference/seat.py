"""One engine as the pool keeps it: its client, its health, its seats, and what its answers teach."""

import attrs
import trio

from inference.client import ClientStatistics, EngineClient
from inference.config import Concurrency, EngineConfig
from inference.fairness import TenantKey
from inference.health import CircuitBreaker, CircuitState
from inference.homing import Candidate
from inference.knee import MIN_TOKENS, KneeLimiter, Phase, TokenTiming
from inference.loads import EngineLoad
from inference.messages import Completion
from inference.metering import Estimate
from inference.pressure import KvBrake
from inference.slots import EngineSlots
from inference.timing import EngineTiming
from runtime.ids import EngineId, TenantId
from runtime.telemetry import gauge

_LIMIT = gauge("inference_limit_requests", "Requests that may be at the engine.", ["engine"])
_KV_USAGE = gauge("inference_kv_usage_ratio", "Share of the engine's KV memory in use.", ["engine"])


@attrs.frozen
class EngineStatistics:
    """One engine as the pool sees it now."""

    id: EngineId
    url: str
    circuit: CircuitState
    draining: bool
    unfit: str | None
    """Why it was taken out of homing by `set_engine_fit`; None: it was not."""
    in_flight: int
    waiting: int
    """For a seat, or for their turn to have a prompt computed."""
    limit: int
    """Requests that may be at it now."""
    knee: Phase | None
    """What its knee limiter does; None: its concurrency is fixed."""
    floor_seconds: float | None
    """Time per output token of a request alone, where the knee limiter has measured it."""
    halvings: int
    """How often its limit was halved, as it threw requests out of its KV memory."""
    tpot_seconds: float | None
    """Time per output token lately."""
    homed: int
    """Routing keys whose home it is."""
    load: EngineLoad
    """What the engine itself said at the last probe."""
    client: ClientStatistics


@attrs.define(eq=False)
class Visit:
    """One request's stay at an engine; made by `Seat.enter`."""

    seat: "Seat"
    tenant: TenantKey
    estimate: Estimate
    cold: bool
    gates: list[EngineSlots]
    """Held until its prompt is computed."""
    sent_at: float
    seat_seconds: float
    """Of the engine's slots, when it was sent."""
    at_start: int
    """Requests at the engine then, itself included."""
    over: bool = False
    """It was cancelled, and the engine has surely stopped working on it."""

    def on_abort(self, over: bool) -> None:
        """It was cancelled."""
        self.over = over

    def on_first_token(self) -> None:
        """Its prompt is computed: the next one may be."""
        while self.gates:
            self.gates.pop().release(self.tenant, self.estimate.cost)

    def leave(self, actual: float) -> None:
        """It is over; `actual` is what it cost, in weighted tokens."""
        self.on_first_token()
        self.seat.slots.release(self.tenant, self.estimate.cost, actual)


class Seat:
    """One registered engine."""

    def __init__(self, config: EngineConfig, client: EngineClient, weights: dict[TenantId, float]) -> None:
        self.config = config
        self.client = client
        self.breaker = CircuitBreaker()
        self.timing = EngineTiming()
        self.brake = KvBrake(config.max_in_flight)
        self.knee = KneeLimiter(config.max_in_flight) if config.concurrency is Concurrency.KNEE else None
        places = config.max_waiting + config.max_in_flight  # a fleet that is born at once is cold as a whole
        self.slots = EngineSlots(config.id, config.max_in_flight, config.max_waiting, weights)
        self.cold = EngineSlots(config.id, config.cold_prefills, places, weights)
        self.long = EngineSlots(config.id, 1, places, weights)
        self.load = EngineLoad()
        self.draining = False
        self.unfit: str | None = None
        self.answered = trio.Event()  # a probe of it was answered
        self.probe_error: str | None = None  # what the last probe came to, if it failed
        self.probing = trio.CancelScope()
        self.calls: set[trio.CancelScope] = set()  # of the requests that are out
        self._wide_limit = config.max_in_flight  # the last limit that was not for measuring the floor
        self.update_limit()

    def is_available(self, now: float) -> bool:
        """True when requests may be sent to it."""
        return not self.draining and self.unfit is None and not self.breaker.is_open(now)

    @property
    def waiting(self) -> int:
        """Requests that wait for it."""
        return self.slots.waiting + self.cold.waiting + self.long.waiting

    def candidate(self, now: float) -> Candidate:
        """It as homing sees it."""
        waiting = self.waiting
        wait_seconds = 0.0
        if waiting or self.slots.in_flight >= self.slots.limit:
            wait_seconds = (waiting + 1) * (self.timing.service_seconds or 0.0) / self._wide_limit
        return Candidate(
            self.config.id,
            self.is_available(now),
            weight=self.config.weight,
            load=self.slots.in_flight + waiting,
            wait_seconds=wait_seconds,
            cold_seconds=self.timing.cold_extra_seconds,
        )

    async def enter(self, latest: float, tenant: TenantKey, estimate: Estimate, *, cold: bool) -> Visit:
        """Wait for a seat; `leave` of what is returned must follow.

        Args:
            latest: run clock by which it must be sent.
            tenant: who asks.
            estimate: what it will cost.
            cold: the engine knows nothing of the episode.

        Raises:
            Overloaded, EngineTooSlow, SlotsClosed: as `EngineSlots.acquire`.
        """
        wanted = [self.cold] if cold else []
        if estimate.input_tokens > self.config.chunk_tokens:
            wanted.append(self.long)
        gates: list[EngineSlots] = []
        try:
            for gate in wanted:
                await gate.acquire(latest, tenant, estimate.cost)
                gates.append(gate)
            await self.slots.acquire(latest, tenant, estimate.cost)
        except BaseException:
            for gate in gates:
                gate.release(tenant, estimate.cost, 0.0)
            raise
        now = trio.current_time()
        return Visit(
            self, tenant, estimate, cold, gates, now, self.slots.seat_seconds(now), at_start=self.slots.in_flight
        )

    def evict(self) -> None:
        """Send everybody who waits to another engine."""
        for queue in (self.slots, self.cold, self.long):
            queue.evict()

    def observe_load(self, load: EngineLoad) -> None:
        """Take in what the engine says of itself."""
        self.load = attrs.evolve(load, preempted=self.load.preempted) if load.preempted is None else load
        if load.token_usage is not None:
            _KV_USAGE.labels(engine=self.config.id).set(load.token_usage)
        self.brake.observe(
            self.slots.in_flight,
            token_usage=load.token_usage,
            running=load.running,
            waiting=load.waiting,
            preempted=load.preempted,
        )
        self.update_limit()

    def observe_completion(self, visit: Visit, completion: Completion, now: float) -> None:
        """Take in an answer, before its seat is given back."""
        tokens = completion.usage.output_tokens
        tpot = completion.decode_seconds / (tokens - 1) if tokens > 1 else None
        seconds = now - visit.sent_at
        self.timing.observe(
            prefill_seconds=completion.prefill_seconds,
            tpot_seconds=tpot,
            service_seconds=seconds,
            cold=visit.cold,
            now=now,
        )
        if self.knee is None or tpot is None or tokens < MIN_TOKENS or seconds <= 0:
            return
        concurrency = (self.slots.seat_seconds(now) - visit.seat_seconds) / seconds
        self.knee.observe(TokenTiming(visit.sent_at, now, concurrency, visit.at_start, tpot))
        self.update_limit()

    def update_limit(self) -> None:
        """The seats that there may be now: the least of what the operator, the knee and the KV memory allow."""
        limit = min(self.config.max_in_flight, self.brake.limit)
        if self.knee is not None:
            limit = min(limit, self.knee.limit)
        if self.knee is None or self.knee.phase is not Phase.FLOOR:
            self._wide_limit = limit
        if limit != self.slots.limit:
            self.slots.set_limit(limit)
        _LIMIT.labels(engine=self.config.id).set(limit)

    def statistics(self, homed: int, now: float) -> EngineStatistics:
        """It as it is now."""
        return EngineStatistics(
            id=self.config.id,
            url=self.client.url,
            circuit=self.breaker.state(now),
            draining=self.draining,
            unfit=self.unfit,
            in_flight=self.slots.in_flight,
            waiting=self.waiting,
            limit=self.slots.limit,
            knee=None if self.knee is None else self.knee.phase,
            floor_seconds=None if self.knee is None else self.knee.floor_seconds,
            halvings=self.brake.halvings,
            tpot_seconds=self.timing.tpot_seconds,
            homed=homed,
            load=self.load,
            client=self.client.statistics(),
        )
