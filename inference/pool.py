"""The engine door: admit, home, call, observe.

`EnginePool` is the `Complete` that upper rooms are handed. A request is sent to one engine at a time, and to a second
one only when the first has surely stopped working on it.
"""

import functools
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

import attrs
import httpcore
import trio
from prometheus_client import Counter

from inference.client import EngineClient
from inference.config import EngineConfig, TenantConfig
from inference.errors import (
    EngineError,
    EngineLost,
    EngineNotReady,
    EngineRefused,
    EngineTooSlow,
    LoadUnbelievable,
    Overloaded,
    TenantLimited,
)
from inference.health import CircuitState, Outcome, label_for, outcome_for
from inference.homing import Homing, Placement, Why
from inference.ledger import MAX_LABELS, count_completion, count_limited
from inference.messages import Completion, Delta, OnDelta, Prompt, Usage
from inference.metering import Metering, TenantUsage, cost_of
from inference.seat import EngineStatistics, Seat, Visit
from inference.sessions import EngineSessions
from inference.slots import SlotsClosed
from inference.wire import ImageUrls
from runtime.ids import EngineId, TenantId
from runtime.nursery import open_bare_nursery
from runtime.telemetry import Secret, bind, counter, emit, secret_from_environment

MIN_RETRY_SECONDS = 0.05  # with less until the deadline no engine answers, and a late plan is worth nothing

_REQUESTS = counter("inference_requests_total", "Requests by how they ended.", ["engine", "outcome"])
_PLACED = counter("inference_placed_requests_total", "Choices of an engine, and why.", ["engine", "why", "cause"])
_RETRIES = counter("inference_retries_total", "Requests sent to a second engine.", ["engine"])
_UNBELIEVABLE = counter("inference_unbelievable_probes_total", "Probes whose load could not be true.", ["engine"])


@functools.lru_cache(maxsize=MAX_LABELS)
def _requests_of(engine: str, outcome: str) -> Counter:
    return _REQUESTS.labels(engine, outcome)


@functools.lru_cache(maxsize=MAX_LABELS)
def _placed_of(engine: str, why: str, cause: str) -> Counter:
    return _PLACED.labels(engine, why, cause)


ObserveAttempt = Callable[[Prompt, Completion | EngineError], None]
"""Is told how every request to an engine ended, those included that a second engine made good. Must not wait."""


def _unobserved(_prompt: Prompt, _end: Completion | EngineError) -> None:
    """Nobody wants to know."""


@attrs.frozen
class PoolStatistics:
    """Counts since the pool was opened."""

    completed: int
    failed: int
    """Ended with an `EngineError`."""
    overloaded: int
    """Refused because a queue was full; among `failed`."""
    retried: int
    homes: int
    homes_forgotten: int
    tenants: tuple[TenantUsage, ...]
    engines: tuple[EngineStatistics, ...]


class EnginePool:
    """Made by `open_pool` alone. An instance is a `Complete`."""

    def __init__(
        self,
        nursery: trio.Nursery,
        network: Callable[[], httpcore.AsyncNetworkBackend | None],
        tenants: Mapping[TenantId, TenantConfig],
        observe: ObserveAttempt,
    ) -> None:
        self._nursery = nursery
        self._network = network
        self._observe_attempt = observe
        self._seats: dict[EngineId, Seat] = {}
        self._unfit: dict[EngineId, str] = {}  # kept over an engine's restarts: it is on the same card
        self._homing = Homing()
        self._sessions = EngineSessions()
        self._metering = Metering(dict(tenants))
        self._weights = {tenant: config.weight for tenant, config in tenants.items()}
        self._image_urls = ImageUrls()
        self._completed = self._failed = self._overloaded = self._retried = 0

    # Engines

    def add_engine(self, config: EngineConfig, url: str | None = None, *, api_key: Secret | None = None) -> None:
        """Register an engine; one of the same id is replaced, and its homed episodes stay homed.

        Args:
            config: of the engine.
            url: where a launched engine answers; by default `config.url`.
            api_key: of a launched engine; by default what `config.api_key_env` names.

        Raises:
            EngineRefused: its `ca_file` cannot be used.
            SecretMissing: `api_key_env` names a variable that is not set.
            ValueError: there is no URL.
        """
        url = url or config.url
        if url is None:
            raise ValueError(f"engine {config.id} has no url, and none was given")
        if api_key is None and config.api_key_env is not None:
            api_key = secret_from_environment(config.api_key_env)
        client = EngineClient(
            config,
            url,
            api_key=api_key,
            image_urls=self._image_urls,
            network=self._network(),
        )
        before = self._seats.get(config.id)
        seat = self._seats[config.id] = Seat(config, client, self._weights)
        seat.unfit = self._unfit.get(config.id)
        if before is not None:
            before.draining = True
            self._nursery.start_soon(self._retire, before, 0.0)
        self._nursery.start_soon(self._probe_for_ever, seat)
        emit("inference.engine.registered", engine=config.id, url=url, replaced=before is not None)

    async def wait_engine_answers(self, engine: EngineId) -> None:
        """Wait until a probe of the engine was answered. Raises `EngineNotReady` if it is not registered."""
        await self._seat(engine).answered.wait()

    def last_probe_error(self, engine: EngineId) -> str | None:
        """What the last health probe came to; None where it was answered, or none has ended yet."""
        return self._seat(engine).probe_error

    def set_engine_fit(self, engine: EngineId, fit: bool, why: str = "") -> None:
        """Take an engine out of homing while its card throttles or reports errors, and put it back.

        Its requests that are out may end; its episodes move at their next one. It holds over the engine's restarts,
        and for one that is not registered yet.

        Args:
            engine: id.
            fit: False takes it out.
            why: for people; it stands in statistics and in errors.
        """
        if fit:
            self._unfit.pop(engine, None)
        else:
            self._unfit[engine] = why or "its card is not fit"
        seat = self._seats.get(engine)
        if seat is None or seat.unfit == self._unfit.get(engine):
            return
        seat.unfit = self._unfit.get(engine)
        level = "info" if fit else "warning"
        emit("inference.engine.fitness_changed", level=level, engine=engine, fit=fit, why=why)
        if not fit:
            seat.evict()

    async def drain_engine(self, engine: EngineId, *, grace_seconds: float) -> None:
        """Take an engine out: nothing new is sent to it, and its episodes move at their next request.

        Requests that are out may end within the grace; then they are aborted and end with `EngineLost`. Nothing
        happens if the engine is not registered.
        """
        seat = self._seats.get(engine)
        if seat is None:
            return
        seat.draining = True
        emit("inference.engine.drained", engine=engine, in_flight=seat.slots.in_flight)
        try:
            await self._retire(seat, grace_seconds)
        finally:
            if self._seats.get(engine) is seat:
                del self._seats[engine]

    async def _retire(self, seat: Seat, grace_seconds: float) -> None:
        seat.evict()
        try:
            with trio.move_on_after(grace_seconds):
                await seat.slots.wait_empty()
            for call in seat.calls:
                call.cancel()
            await seat.slots.wait_empty()
        finally:
            seat.probing.cancel()
            with trio.CancelScope(shield=True):  # closing a socket does not wait for the other side
                await seat.client.aclose()

    async def _probe_for_ever(self, seat: Seat) -> None:
        with bind(engine=seat.config.id), seat.probing:
            while True:
                try:
                    seat.observe_load(await seat.client.probe())
                except LoadUnbelievable as error:
                    # It answers, so it lives; what it says of its load is not used, and our own counts are.
                    seat.probe_error = str(error)
                    seat.answered.set()
                    _UNBELIEVABLE.labels(engine=seat.config.id).inc()
                    emit("inference.load.disbelieved", level="warning", error=str(error))
                    self._observe(seat, lambda now: seat.breaker.observe_probe(Outcome.OK, now))
                except EngineError as error:
                    seat.probe_error = str(error)
                    emit("inference.probe.failed", level="debug", error=str(error))
                    self._observe(seat, lambda now: seat.breaker.observe_probe(Outcome.FAILED, now))
                else:
                    seat.probe_error = None
                    seat.answered.set()
                    self._observe(seat, lambda now: seat.breaker.observe_probe(Outcome.OK, now))
                await trio.sleep(seat.config.probe_every_seconds)

    def _observe(self, seat: Seat, observe: Callable[[float], None]) -> None:
        now = trio.current_time()
        before = seat.breaker.state(now)
        observe(now)
        after = seat.breaker.state(now)
        if after is CircuitState.OPEN:
            seat.evict()
        if before is not after and CircuitState.HALF_OPEN is not after:
            level = "warning" if after is CircuitState.OPEN else "info"
            emit("inference.circuit.changed", level=level, engine=seat.config.id, circuit=after)

    # Requests

    async def __call__(self, prompt: Prompt, *, deadline: float, on_delta: OnDelta | None = None) -> Completion:
        """Complete one prompt; see `inference.messages.CompleteStreaming`.

        Raises:
            EngineNotReady: no engine can take it now.
            TenantLimited: the tenant has used up its tokens per minute; it says when to ask again.
            Overloaded: the engine that it belongs to has a full queue.
            EngineTooSlow: the deadline passed, or could not be met any more, in the queue or at the engine.
            EngineLost: the engine broke off, and no second one could take over in time.
            EngineRefused, EngineGarbled: see `inference.errors`.
        """
        called_at = trio.current_time()
        try:
            self._check_limits(prompt, called_at)
            try:
                completion = await self._attempt(prompt, deadline, called_at, on_delta, avoid=())
            except (EngineLost, EngineNotReady) as error:
                lost = EngineId(error.engine)
                if not (error.over and self._may_retry(lost, deadline)):
                    raise
                self._retried += 1
                _RETRIES.labels(engine=lost).inc()
                emit("inference.request.retried", level="info", lost=lost, error=str(error))
                if on_delta is not None:
                    on_delta(Delta("", "restart"))
                completion = await self._attempt(prompt, deadline, called_at, on_delta, avoid=(lost,))
        except EngineError as error:
            self._failed += 1
            self._overloaded += isinstance(error, Overloaded)
            raise
        self._completed += 1
        return completion

    async def complete(self, prompt: Prompt, *, deadline: float, on_delta: OnDelta | None = None) -> Completion:
        """The same as calling the pool."""
        return await self(prompt, deadline=deadline, on_delta=on_delta)

    def release(self, routing_key: str) -> None:
        """Forget where a key is homed, at the end of its episode or session; engines that keep sessions are told."""
        self._homing.release(routing_key)
        for engine in self._sessions.take(routing_key):
            self._close_session(engine, routing_key)

    def set_tenant(self, tenant: TenantId, config: TenantConfig) -> None:
        """Set what a tenant may use; a changed weight holds at engines that are registered afterwards."""
        self._metering.configure(tenant, config)
        self._weights[tenant] = config.weight

    def _check_limits(self, prompt: Prompt, now: float) -> None:
        wait = self._metering.retry_after(prompt, now)
        if wait > 0:
            count_limited(prompt)
            raise TenantLimited(
                f"tenant {prompt.tenant} has used up its tokens per minute: ask again in {wait:.1f} s",
                retry_after_seconds=wait,
            )

    async def _attempt(
        self,
        prompt: Prompt,
        deadline: float,
        called_at: float,
        on_delta: OnDelta | None,
        *,
        avoid: tuple[EngineId, ...],
    ) -> Completion:
        visit, placement = await self._admit(prompt, deadline, avoid)
        seat, estimate, expected = visit.seat, visit.estimate, self._metering.expected_output(prompt)
        trial = seat.breaker.begin(visit.sent_at)
        outcome, label = Outcome.NEUTRAL, "cancelled"
        usage: Usage | None = Usage(round(estimate.input_tokens), 0, 0)  # what an answer that never came has cost
        self._metering.charge(prompt, estimate, visit.sent_at)
        decode = seat.timing.decode_seconds(expected, visit.sent_at)
        config = self._metering.tenants.get(prompt.tenant)
        call = trio.CancelScope()
        seat.calls.add(call)
        try:
            with call:
                completion = await seat.client.complete(
                    prompt,
                    deadline=deadline,
                    why=placement.why,
                    called_at=called_at,
                    first_token_by=math.inf if decode is None else deadline - decode,
                    on_first_token=visit.on_first_token,
                    on_abort=visit.on_abort,
                    on_delta=on_delta,
                    adapter=None if config is None else config.adapter,
                )
                outcome, label, usage = Outcome.OK, "completed", completion.usage
                if usage.prompt_tokens == 0:  # the engine does not count
                    usage = attrs.evolve(usage, prompt_tokens=round(estimate.input_tokens))
                self._take_in(prompt, visit, completion, trio.current_time() - called_at)
                self._observe_attempt(prompt, completion)
                return completion
            raise EngineLost("it was drained, and the request with it", engine=seat.config.id, over=visit.over)
        except EngineError as error:
            outcome = outcome_for(error, trio.current_time() - visit.sent_at, seat.config.silent_seconds)
            label = label_for(error)
            if isinstance(error, EngineRefused | Overloaded | EngineNotReady):
                usage = None  # nothing was computed
            self._observe_attempt(prompt, error)
            raise
        finally:
            seat.calls.discard(call)
            _requests_of(seat.config.id, label).inc()
            ended = outcome  # bound now: the lambda must not see a later value
            self._observe(seat, lambda now: seat.breaker.observe(ended, now, trial=trial))
            self._metering.settle(prompt, estimate, usage, trio.current_time())
            self._homing.ended(prompt.routing_key, seat.config.id)
            visit.leave(0.0 if usage is None else cost_of(usage))

    async def _admit(self, prompt: Prompt, deadline: float, avoid: tuple[EngineId, ...]) -> tuple[Visit, Placement]:
        """A seat at the engine where the prompt belongs; `homing.ended` must follow."""
        key = prompt.routing_key
        while True:
            now = trio.current_time()
            home = self._homing.home_of(key)
            candidates = [seat.candidate(now) for seat in self._seats.values()]
            placement = self._homing.place(key, candidates, now, avoid=avoid)
            if placement is None:
                raise EngineNotReady(self._why_none(now))
            engine, entered = placement.engine, False
            _placed_of(engine, placement.why, placement.cause).inc()
            if placement.why is Why.REHOMED and home is not None and self._sessions.forget(key, home):
                self._close_session(home, key)
            seat = self._seats[engine]
            self._homing.began(key, engine)
            try:
                visit = await self._enter(seat, prompt, deadline, placement)
                entered = seat.is_available(trio.current_time())
                if not entered:
                    visit.leave(0.0)
            except SlotsClosed:
                continue  # it drains or its circuit opened: choose again
            except EngineError as error:
                _requests_of(engine, label_for(error)).inc()
                raise
            finally:
                if not entered:
                    self._homing.ended(key, engine)
            if entered:
                if seat.config.session_cache:
                    self._sessions.use(key, engine)
                return (visit, placement)

    async def _enter(self, seat: Seat, prompt: Prompt, deadline: float, placement: Placement) -> Visit:
        """Wait for a seat, no longer than the answer can still be whole by the deadline."""
        now, cold = trio.current_time(), placement.is_cold
        expected = self._metering.expected_output(prompt)
        needed = seat.timing.needed_seconds(expected, now, cold=cold)
        latest = deadline if needed is None else deadline - needed
        if latest <= now < deadline:
            raise EngineTooSlow(
                f"an answer takes {needed:.2f} s there, and {deadline - now:.2f} s are left; nothing was sent",
                engine=seat.config.id,
            )
        estimate = self._metering.estimate(prompt, cold=cold)
        return await seat.enter(latest, (prompt.workload, prompt.tenant), estimate, cold=cold)

    def _close_session(self, engine: EngineId, routing_key: str) -> None:
        seat = self._seats.get(engine)
        if seat is not None:
            self._nursery.start_soon(seat.client.close_session, routing_key)

    def _may_retry(self, lost: EngineId, deadline: float) -> bool:
        now = trio.current_time()
        others = any(seat.is_available(now) for engine, seat in self._seats.items() if engine != lost)
        return bool(lost) and others and now + MIN_RETRY_SECONDS < deadline

    def _take_in(self, prompt: Prompt, visit: Visit, completion: Completion, seconds: float) -> None:
        count_completion(prompt, completion, seconds)
        self._metering.learn(prompt, completion.usage, cold=visit.cold)
        visit.seat.observe_completion(visit, completion, trio.current_time())

    def _why_none(self, now: float) -> str:
        if not self._seats:
            return "no engine is registered"
        states = ", ".join(
            f"{seat.config.id} {'drains' if seat.draining else seat.unfit or seat.breaker.state(now)}"
            for seat in self._seats.values()
        )
        return f"no engine can take the request: {states}"

    def _seat(self, engine: EngineId) -> Seat:
        try:
            return self._seats[engine]
        except KeyError:
            raise EngineNotReady("it is not registered", engine=engine) from None

    def statistics(self) -> PoolStatistics:
        """Counts so far, and every engine as it is now."""
        now = trio.current_time()
        return PoolStatistics(
            completed=self._completed,
            failed=self._failed,
            overloaded=self._overloaded,
            retried=self._retried,
            homes=len(self._homing),
            homes_forgotten=self._homing.forgotten,
            tenants=self._metering.usage(),
            engines=tuple(seat.statistics(self._homing.homed(engine), now) for engine, seat in self._seats.items()),
        )


@asynccontextmanager
async def open_pool(
    configs: Iterable[EngineConfig] = (),
    *,
    network: Callable[[], httpcore.AsyncNetworkBackend | None] = lambda: None,
    tenants: Mapping[TenantId, TenantConfig] | None = None,
    observe: ObserveAttempt = _unobserved,
) -> AsyncIterator[EnginePool]:
    """A pool for the time of the block; `configs` are engines that somebody else runs.

    A tenant that `tenants` does not name has weight 1, no limits and the base model.

    When the block ends, requests that are out are aborted, probes end and connections are closed.
    """
    async with open_bare_nursery() as nursery:
        pool = EnginePool(nursery, network, tenants or {}, observe)
        try:
            for config in configs:
                pool.add_engine(config)
            yield pool
        finally:
            with trio.CancelScope(shield=True):  # bounded: aborts are, and closing a connection does not wait
                for engine in list(pool._seats):  # noqa: SLF001  # this function is the pool's other half
                    await pool.drain_engine(engine, grace_seconds=0.0)
        nursery.cancel_scope.cancel()
