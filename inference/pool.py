"""The engine door: admit, home, call, observe.

`EnginePool` is the `Complete` that upper rooms are handed. A request is sent to one engine at a time, and to a second
one only when the first has surely stopped working on it.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import attrs
import httpcore
import trio

from inference.client import EngineClient
from inference.config import EngineConfig
from inference.errors import (
    EngineError,
    EngineLost,
    EngineNotReady,
    Overloaded,
)
from inference.health import CircuitState, Outcome, label_for, outcome_for
from inference.homing import Candidate, Homing, Placement
from inference.messages import Completion, Prompt
from inference.seat import EngineStatistics, Seat
from inference.slots import SlotsClosed
from inference.wire import ImageUrls
from runtime.ids import EngineId
from runtime.nursery import open_bare_nursery
from runtime.telemetry import Secret, bind, counter, emit, histogram, secret_from_environment

MIN_RETRY_SECONDS = 0.05  # with less until the deadline no engine answers, and a late plan is worth nothing

_COMPLETE = histogram("inference_complete_seconds", "From the call to the whole answer.", ["engine", "why"])
_QUEUE = histogram("inference_queue_seconds", "From the call until the request was sent.", ["engine"])
_PREFILL = histogram("inference_prefill_seconds", "From sending to the first token.", ["engine"])
_DECODE = histogram("inference_decode_seconds", "From the first token to the last.", ["engine"])
_REQUESTS = counter("inference_requests_total", "Requests by how they ended.", ["engine", "outcome"])
_RETRIES = counter("inference_retries_total", "Requests sent to a second engine.", ["engine"])
_PROMPT_TOKENS = counter("inference_prompt_tokens_total", "Tokens of prompts, cached ones too.", ["engine"])
_CACHED_TOKENS = counter("inference_cached_tokens_total", "Tokens of prompts found in a cache.", ["engine"])
_OUTPUT_TOKENS = counter("inference_output_tokens_total", "Tokens of answers.", ["engine"])


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
    engines: tuple[EngineStatistics, ...]


class EnginePool:
    """Made by `open_pool` alone. An instance is a `Complete`."""

    def __init__(self, nursery: trio.Nursery, network: Callable[[], httpcore.AsyncNetworkBackend | None]) -> None:
        self._nursery = nursery
        self._network = network
        self._seats: dict[EngineId, Seat] = {}
        self._homing = Homing()
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
        seat = self._seats[config.id] = Seat(config, client)
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
        seat.slots.evict()
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
                    seat.load = await seat.client.probe()
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
            seat.slots.evict()
        if before is not after and CircuitState.HALF_OPEN is not after:
            level = "warning" if after is CircuitState.OPEN else "info"
            emit("inference.circuit.changed", level=level, engine=seat.config.id, circuit=after)

    # Requests

    async def __call__(self, prompt: Prompt, *, deadline: float) -> Completion:
        """Complete one prompt; see `inference.messages.Complete`.

        Raises:
            EngineNotReady: no engine can take it now.
            Overloaded: the engine that it belongs to has a full queue.
            EngineTooSlow: the deadline passed, in the queue or at the engine.
            EngineLost: the engine broke off, and no second one could take over in time.
            EngineRefused, EngineGarbled: see `inference.errors`.
        """
        called_at = trio.current_time()
        try:
            try:
                completion = await self._attempt(prompt, deadline, called_at, avoid=())
            except (EngineLost, EngineNotReady) as error:
                lost = EngineId(error.engine)
                if not (error.over and self._may_retry(lost, deadline)):
                    raise
                self._retried += 1
                _RETRIES.labels(engine=lost).inc()
                emit("inference.request.retried", level="info", lost=lost, error=str(error))
                completion = await self._attempt(prompt, deadline, called_at, avoid=(lost,))
        except EngineError as error:
            self._failed += 1
            self._overloaded += isinstance(error, Overloaded)
            raise
        self._completed += 1
        return completion

    async def complete(self, prompt: Prompt, *, deadline: float) -> Completion:
        """The same as calling the pool."""
        return await self(prompt, deadline=deadline)

    def release(self, routing_key: str) -> None:
        """Forget where a key is homed, at the end of its episode or session."""
        self._homing.release(routing_key)

    async def _attempt(
        self, prompt: Prompt, deadline: float, called_at: float, *, avoid: tuple[EngineId, ...]
    ) -> Completion:
        seat, placement = await self._admit(prompt.routing_key, deadline, avoid)
        trial = seat.breaker.begin(trio.current_time())
        sent_at, outcome, label = trio.current_time(), Outcome.NEUTRAL, "cancelled"
        call = trio.CancelScope()
        seat.calls.add(call)
        try:
            with call:
                completion = await seat.client.complete(
                    prompt, deadline=deadline, why=placement.why, called_at=called_at
                )
                outcome, label = Outcome.OK, "completed"
                self._measure(completion, trio.current_time() - called_at)
                return completion
            raise EngineLost("it was drained, and the request with it", engine=seat.config.id, over=False)
        except EngineError as error:
            outcome = outcome_for(error, trio.current_time() - sent_at, seat.config.silent_seconds)
            label = label_for(error)
            raise
        finally:
            seat.calls.discard(call)
            _REQUESTS.labels(engine=seat.config.id, outcome=label).inc()
            ended = outcome  # bound now: the lambda must not see a later value
            self._observe(seat, lambda now: seat.breaker.observe(ended, now, trial=trial))
            seat.slots.release()

    async def _admit(self, key: str, deadline: float, avoid: tuple[EngineId, ...]) -> tuple[Seat, Placement]:
        while True:
            now = trio.current_time()
            candidates = [Candidate(one.config.id, one.is_available(now)) for one in self._seats.values()]
            placement = self._homing.place(key, candidates, avoid=avoid)
            if placement is None:
                raise EngineNotReady(self._why_none(now))
            seat = self._seats[placement.engine]
            try:
                await seat.slots.acquire(deadline)
            except SlotsClosed:
                continue  # it drains or its circuit opened: choose again
            if seat.is_available(trio.current_time()):
                return (seat, placement)
            seat.slots.release()

    def _may_retry(self, lost: EngineId, deadline: float) -> bool:
        now = trio.current_time()
        others = any(seat.is_available(now) for engine, seat in self._seats.items() if engine != lost)
        return bool(lost) and others and now + MIN_RETRY_SECONDS < deadline

    def _measure(self, completion: Completion, seconds: float) -> None:
        engine, usage = completion.engine, completion.usage
        _COMPLETE.labels(engine=engine, why=completion.why).observe(seconds)
        _QUEUE.labels(engine=engine).observe(completion.queue_seconds)
        _PREFILL.labels(engine=engine).observe(completion.prefill_seconds)
        _DECODE.labels(engine=engine).observe(completion.decode_seconds)
        _PROMPT_TOKENS.labels(engine=engine).inc(usage.prompt_tokens)
        _CACHED_TOKENS.labels(engine=engine).inc(usage.cached_tokens)
        _OUTPUT_TOKENS.labels(engine=engine).inc(usage.output_tokens)

    def _why_none(self, now: float) -> str:
        if not self._seats:
            return "no engine is registered"
        states = ", ".join(
            f"{seat.config.id} {'drains' if seat.draining else seat.breaker.state(now)}"
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
            engines=tuple(
                EngineStatistics(
                    id=engine,
                    url=seat.client.url,
                    circuit=seat.breaker.state(now),
                    draining=seat.draining,
                    in_flight=seat.slots.in_flight,
                    waiting=seat.slots.waiting,
                    homed=self._homing.homed(engine),
                    load=seat.load,
                    client=seat.client.statistics(),
                )
                for engine, seat in self._seats.items()
            ),
        )


@asynccontextmanager
async def open_pool(
    configs: Iterable[EngineConfig] = (),
    *,
    network: Callable[[], httpcore.AsyncNetworkBackend | None] = lambda: None,
) -> AsyncIterator[EnginePool]:
    """A pool for the time of the block; `configs` are engines that somebody else runs.

    When the block ends, requests that are out are aborted, probes end and connections are closed.
    """
    async with open_bare_nursery() as nursery:
        pool = EnginePool(nursery, network)
        try:
            for config in configs:
                pool.add_engine(config)
            yield pool
        finally:
            with trio.CancelScope(shield=True):  # bounded: aborts are, and closing a connection does not wait
                for engine in list(pool._seats):  # noqa: SLF001  # this function is the pool's other half
                    await pool.drain_engine(engine, grace_seconds=0.0)
        nursery.cancel_scope.cancel()
