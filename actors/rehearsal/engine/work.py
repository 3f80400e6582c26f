"""The engine itself: admits requests to its slots, has them answered, and lets the answer take its time."""

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import attrs
import trio

from actors.rehearsal.engine.blind import blind_reply, filled_reply, garbage_reply
from actors.rehearsal.engine.chat import BadRequest, ChatRequest
from actors.rehearsal.engine.latency import LatencyModel
from actors.rehearsal.engine.metrics import EngineMetrics
from actors.rehearsal.engine.options import RehearsalOptions
from actors.rehearsal.engine.player.picture import UndecodableImage
from actors.rehearsal.engine.player.play import reply_to
from actors.rehearsal.engine.prefix import PrefixCache, VisionCache
from runtime.telemetry import emit

MAX_TOTAL_TOKENS = 1 << 19  # what an 8B model leaves of a 32 GB card with FP8 KV, in order of magnitude
MAX_SESSIONS = 4096
STREAM_EVERY_TOKENS = 8  # an event a token would make the rehearsal, not the bot, the load of a small machine
NO_PICTURE_REPLY = "W05"
LOOK_THREADS = 4


class InjectedFailure(Exception):
    """A failure that `--fail-rate` asked for."""


@attrs.define(eq=False)
class Work:
    """One request while it is here."""

    request: ChatRequest
    rid: str
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """Cancelled to abort it."""
    cached_tokens: int = 0
    output_tokens: int = 0


class RehearsalEngine:
    """Answers completions. One per process; all methods belong to its trio thread."""

    def __init__(self, options: RehearsalOptions) -> None:
        self.options = options
        self.metrics = EngineMetrics(options.model)
        self.metrics.max_tokens.set(MAX_TOTAL_TOKENS)
        self.cache = PrefixCache(MAX_TOTAL_TOKENS)
        self.vision = None if options.vision_cache is None else VisionCache(options.vision_cache)
        if self.vision is not None:
            self.metrics.count_pictures(0, 0)  # told from the start on
        self.draining = False
        self._dice = Random(options.seed)
        self._slots = trio.CapacityLimiter(options.slots)
        self._prefill = trio.StrictFIFOLock()  # one chunk at a time; a long prompt queues anew for each of its own
        self._looking = trio.CapacityLimiter(LOOK_THREADS)
        self._works: dict[str, Work] = {}  # {rid: work}, queued and running
        self._running = 0
        self._used_tokens = 0
        self._taken = 0
        self._numbered = 0
        self._first_at: float | None = None
        self._sessions: set[str] = set()

    def take(self, request: ChatRequest) -> Work:
        """Accept a request into the queue; follow with `run`, without an await between.

        Raises:
            BadRequest: its session is unknown, its rid is in use, or the queue is full (status 503).
        """
        if request.session is not None and request.session not in self._sessions:
            raise BadRequest(f"Invalid request: session id {request.session} does not exist")
        if request.rid is not None and request.rid in self._works:
            raise BadRequest(f"Duplicate request ID: {request.rid}")
        if len(self._works) >= self.options.slots + self.options.max_queued:
            raise BadRequest("The request queue is full.", status=503)
        self._numbered += 1
        work = Work(request, request.rid or f"rehearsal-{self._numbered}")
        self._works[work.rid] = work
        self._show_counts()
        return work

    async def run(self, work: Work, on_piece: Callable[[str], Awaitable[None]]) -> str:
        """Answer an accepted request: `on_piece` gets each part of the text when it is out. Returns why it ended.

        That is `stop`, `length`, or `abort` if the request was aborted, which takes effect at once. When the caller
        is cancelled, because its client has gone, the request counts as aborted too.

        Raises:
            BadRequest: the picture cannot be decoded.
            InjectedFailure: as the options ask.
        """
        asked_at = trio.current_time()
        finish = "abort"
        try:
            with work.scope:
                async with self._slots:
                    self.metrics.queue_seconds.observe(trio.current_time() - asked_at)
                    with self._running_with(work):
                        finish = await self._produce(work, asked_at, on_piece)
        finally:
            del self._works[work.rid]
            self._settle(work, trio.current_time() - asked_at, aborted=finish == "abort")
        return finish

    def abort(self, rid: str | None) -> int:
        """End one request (None: all) at once; returns how many there were."""
        victims = [work for work in self._works.values() if rid is None or work.rid == rid]
        for work in victims:
            work.scope.cancel()
        return len(victims)

    def open_session(self, name: str | None) -> str:
        """Open a session.

        Raises:
            BadRequest: the name is taken, or too many sessions are open.
        """
        self._numbered += 1
        session = name or f"session-{self._numbered}"
        if session in self._sessions:
            raise BadRequest(f"Session {session} already exists")
        if len(self._sessions) >= MAX_SESSIONS:
            raise BadRequest(f"{MAX_SESSIONS} sessions are open: close some", status=503)
        self._sessions.add(session)
        return session

    def close_session(self, name: str) -> None:
        """Close a session; one that is not open is left alone, as SGLang does."""
        self._sessions.discard(name)

    def flush(self) -> None:
        """Forget every prompt and picture."""
        self.cache.flush()
        if self.vision is not None:
            self.vision.flush()

    def loads(self) -> dict[str, Any]:
        """What `/v1/loads` says of this engine."""
        queued = len(self._works) - self._running
        return {
            "dp_rank": 0,
            "num_running_reqs": self._running,
            "num_waiting_reqs": queued,
            "num_total_reqs": len(self._works),
            "num_used_tokens": self._used_tokens,
            "max_total_num_tokens": MAX_TOTAL_TOKENS,
            "max_running_requests": self.options.slots,
            "token_usage": round(min(1.0, self._used_tokens / MAX_TOTAL_TOKENS), 4),
            "utilization": round(self._running / self.options.slots, 4),
        }

    @property
    def is_idle(self) -> bool:
        """True when no request is here."""
        return not self._works

    async def _produce(self, work: Work, asked_at: float, on_piece: Callable[[str], Awaitable[None]]) -> str:
        options, latency = self.options, self._latency(asked_at)
        work.cached_tokens = self.cache.enter(work.request.blocks, work.request.salt)
        if self.vision is not None:
            pictures = sum(block.is_image for block in work.request.blocks)
            self.metrics.count_pictures(pictures, self.vision.enter(work.request.blocks))
        for seconds in latency.chunks_of(work.request.prompt_tokens - work.cached_tokens):
            async with self._prefill:
                await trio.sleep(seconds)
        admitted_at, running = trio.current_time(), self._running
        self._taken += 1
        if options.kill_after is not None and self._taken >= options.kill_after:
            await trio.sleep(latency.token_at(1, running) / 2)
            emit("actors.rehearsal_engine.killed", level="warning", completion=self._taken)
            os.kill(os.getpid(), signal.SIGKILL)
        if self._dice.random() < options.fail_rate:
            await trio.sleep_until(admitted_at + latency.first_token_after())
            raise InjectedFailure("rehearsal: this failure was asked for by --fail-rate")
        text, finish = _cut(await self._reply(work.request), work.request)
        step = len(text) if latency.total_seconds is not None else STREAM_EVERY_TOKENS
        ends = [1, *range(1 + step, len(text), step), len(text)] if len(text) > 1 else [len(text)]
        for end in ends:
            await trio.sleep_until(admitted_at + latency.token_at(max(1, end), running))
            if work.output_tokens == 0:
                self.metrics.first_token_seconds.observe(trio.current_time() - asked_at)
            piece, work.output_tokens = text[work.output_tokens : end], end
            await on_piece(piece)
        return finish

    def _latency(self, now: float) -> LatencyModel:
        """What holds for a request that came at `now`."""
        if self._first_at is None:
            self._first_at = now
        changed = self.options.changed
        if changed is None or now - self._first_at < self.options.change_after_seconds:
            return self.options.latency
        return changed

    async def _reply(self, request: ChatRequest) -> str:
        options = self.options
        if self._dice.random() < options.garbage_rate:
            return garbage_reply(self._dice)
        if options.blind:
            return (filled_reply if options.fill else blind_reply)(self._dice, request.max_tokens)
        image = request.image
        if image is None:
            return NO_PICTURE_REPLY

        def look() -> str:
            return reply_to(image, request.text, max_tokens=request.max_tokens)

        try:
            # An abandoned look changes nothing and ends by itself within some tens of milliseconds.
            return await trio.to_thread.run_sync(look, abandon_on_cancel=True, limiter=self._looking)
        except UndecodableImage as error:
            raise BadRequest(f"Failed to load image: {error}") from error

    @contextmanager
    def _running_with(self, work: Work) -> Iterator[None]:
        self._running += 1
        self._used_tokens += work.request.prompt_tokens
        self._show_counts()
        try:
            yield
        finally:
            self._running -= 1
            self._used_tokens -= work.request.prompt_tokens

    def _settle(self, work: Work, seconds: float, *, aborted: bool) -> None:
        metrics, request = self.metrics, work.request
        metrics.requests.inc()
        if aborted:
            metrics.aborted.inc()
        metrics.prompt_tokens.inc(request.prompt_tokens)
        metrics.cached_tokens.inc(work.cached_tokens)
        metrics.generation_tokens.inc(work.output_tokens)
        metrics.cache_hit_rate.set(work.cached_tokens / max(1, request.prompt_tokens))
        metrics.end_to_end_seconds.observe(seconds)
        self._show_counts()

    def _show_counts(self) -> None:
        loads = self.loads()
        self.metrics.running.set(loads["num_running_reqs"])
        self.metrics.queued.set(loads["num_waiting_reqs"])
        self.metrics.used_tokens.set(loads["num_used_tokens"])
        self.metrics.token_usage.set(loads["token_usage"])
        per_token = self.options.latency.per_token(self._running)
        self.metrics.throughput.set(self._running / per_token if self._running and per_token else 0.0)


def _cut(text: str, request: ChatRequest) -> tuple[str, str]:
    """The text up to its limits, and the finish reason. A character counts as a token."""
    found = [at for at in (text.find(stop) for stop in request.stop) if at >= 0]
    if found and min(found) <= request.max_tokens:
        return text[: min(found)], "stop"
    if len(text) > request.max_tokens:
        return text[: request.max_tokens], "length"
    return text, "stop"
