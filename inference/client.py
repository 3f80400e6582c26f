"""One engine over HTTP. Errors of httpcore and of the protocol become ours here, and nowhere else."""

import itertools
import math
import operator
from collections.abc import Callable
from functools import partial

import attrs
import httpcore
import trio

from inference.config import Dialect, EngineConfig
from inference.connections import Connections, ssl_context_for
from inference.errors import EngineError, EngineGarbled, EngineLost, EngineRefused, EngineTooSlow
from inference.loads import EngineLoad, read_loads, read_metrics
from inference.messages import Completion, OnDelta, Prompt
from inference.reply import ReplyReader, error_for_status
from inference.wire import ImageUrls, WireRequest, encode_abort, encode_close_session, encode_completion
from runtime.telemetry import Secret, counter

MAX_IDLE_CONTROL = 2  # for probes; a burst of aborts opens more, and drops them afterwards
MAX_BODY_READ = 64 << 10  # of answers that are not completions; only their first words are of use
MAX_METRICS_READ = 2 << 20  # SGLang's histograms are some 200 KB
METRICS_EVERY = 5  # probes: preemptions are counted nowhere else, and reading that much each time would cost
FIRST_PAUSE_SECONDS = 0.01  # before the third try to learn whether an engine is gone; it doubles
TAIL_SECONDS = 0.1  # from the end mark until the response itself must end; the connection is dropped otherwise

_USAGE_MISSING = counter("inference_usage_missing_replies_total", "Answers without token counts.", ["engine"])


@attrs.frozen
class ClientStatistics:
    """Counts since the client was made."""

    completed: int
    failed: int
    aborts_sent: int
    aborts_confirmed: int
    probes: int
    probes_failed: int
    connections: int
    """Open to the engine now."""


@attrs.define
class _Times:
    """Run clock; None until it happened."""

    first_token: float | None = None
    last_token: float | None = None
    patience: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    whole_by: float = math.inf
    on_first_token: Callable[[], None] | None = None
    on_pieces: Callable[[int], None] | None = None


class EngineClient:
    """One engine's HTTP client. Calls may be concurrent; admission is the pool's business.

    Args:
        config: of the engine.
        url: where it answers, without a path; for a launched engine this is not in `config`.
        api_key: sent as bearer token.
        image_urls: shared between clients, so that an image is encoded once whatever engine gets it.
        network: stands in for TCP in tests.
    """

    def __init__(
        self,
        config: EngineConfig,
        url: str,
        *,
        api_key: Secret | None = None,
        image_urls: ImageUrls | None = None,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self.config = config
        self.url = url.rstrip("/")
        self._api_key = api_key
        self._image_urls = image_urls or ImageUrls()
        self._connections = Connections(
            self.url,
            network=network,
            connect_seconds=config.connect_seconds,
            max_idle=config.max_in_flight,
            ssl_context=ssl_context_for(config),
        )
        self._control = Connections(
            self.url,
            network=network,
            connect_seconds=config.connect_seconds,
            max_idle=MAX_IDLE_CONTROL,
            ssl_context=ssl_context_for(config),
        )
        self._absent: set[str] = set()  # probe paths that this engine answered with 404
        self._completed = self._failed = 0
        self._aborts_sent = self._aborts_confirmed = 0
        self._probes = self._probes_failed = 0

    async def complete(
        self,
        prompt: Prompt,
        *,
        deadline: float,
        why: str,
        called_at: float,
        first_token_by: float = math.inf,
        on_first_token: Callable[[], None] | None = None,
        on_pieces: Callable[[int], None] | None = None,
        on_abort: Callable[[bool], None] | None = None,
        on_delta: OnDelta | None = None,
        adapter: str | None = None,
    ) -> Completion:
        """Complete one prompt.

        When the caller is cancelled, the deadline passes or the answer breaks off, the request is aborted on the
        engine before this ends; that takes `abort_seconds` at most.

        Args:
            prompt: what is asked.
            deadline: on the run's clock; `total_seconds` limits it further.
            why: why this engine was chosen, for the completion's ledger.
            called_at: run clock of the call that led here; the queue time counts from it.
            first_token_by: without a token by then, the answer cannot be whole by the deadline any more.
            on_first_token: called when the prompt is computed.
            on_pieces: called whenever some of the answer came, with the number of its pieces.
            on_abort: called when the caller is cancelled: True when the engine has surely stopped working on it.
            on_delta: sees every piece of the answer as it comes.
            adapter: LoRA adapter that shall answer.

        Raises:
            EngineError: any; its `over` tells whether the engine has surely stopped working on the request.
        """
        request = encode_completion(
            prompt,
            dialect=self.config.dialect,
            model=self.config.model,
            api_key=None if self._api_key is None else self._api_key.reveal(),
            url_for=partial(self._image_urls.url_for, now=trio.current_time()),
            engine=self.config.id,
            session=self.config.session_cache,
            adapter=adapter,
        )
        sent_at = trio.current_time()
        whole_by = min(deadline, sent_at + self.config.total_seconds)
        reader, times = (
            ReplyReader(self.config.id, on_delta),
            _Times(whole_by=whole_by, on_first_token=on_first_token, on_pieces=on_pieces),
        )
        try:
            with trio.move_on_at(min(whole_by, first_token_by)) as times.patience:
                await self._exchange(request, reader, times)
            if times.patience.cancelled_caught and not reader.done:
                seconds = trio.current_time() - sent_at
                progress = "nothing came" if times.first_token is None else "the answer was not whole"
                if times.first_token is None and first_token_by < whole_by:
                    progress = "the deadline could not be met any more: nothing came"
                raise EngineTooSlow(  # noqa: TRY301  # the handler below makes sure of every failure alike
                    f"{progress} within {seconds:.3f} s", engine=self.config.id, over=False
                )
            reply = reader.result()
        except EngineError as error:
            self._failed += 1
            if not error.over:
                error.over = await self._make_sure_it_is_over(prompt.request_id)
            raise
        except BaseException:  # mostly the caller's cancellation
            self._failed += 1
            over = await self._make_sure_it_is_over(prompt.request_id)
            if on_abort is not None:
                on_abort(over)
            raise
        self._completed += 1
        if not reply.usage_counted:
            _USAGE_MISSING.labels(engine=self.config.id).inc()
        ended_at = trio.current_time()
        first_at = ended_at if times.first_token is None else times.first_token
        last_at = first_at if times.last_token is None else times.last_token
        return Completion(
            text=reply.text,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            engine=self.config.id,
            model=self.config.model,
            why=why,
            queue_seconds=sent_at - called_at,
            prefill_seconds=first_at - sent_at,
            decode_seconds=last_at - first_at,
        )

    async def probe(self) -> EngineLoad:
        """Ask the engine whether it lives, by the cheapest path that it has.

        Raises:
            EngineError: it does not, or answers nonsense.
        """
        self._probes += 1
        try:
            with trio.fail_after(self.config.probe_seconds):
                return await self._probe()
        except trio.TooSlowError as error:
            self._probes_failed += 1
            raise EngineTooSlow(
                f"no answer to a probe within {self.config.probe_seconds} s", engine=self.config.id
            ) from error
        except EngineError:
            self._probes_failed += 1
            raise

    async def ask(self, path: str) -> bytes | None:
        """What the engine says at a path beside completions, at most 2 MiB of it; None where it has no such path.

        Raises:
            EngineError: it does not answer within `probe_seconds`, or refuses.
        """
        try:
            with trio.fail_after(self.config.probe_seconds):
                return await self._probe_path(path, MAX_METRICS_READ)
        except trio.TooSlowError as error:
            raise EngineTooSlow(
                f"no answer to {path} within {self.config.probe_seconds} s", engine=self.config.id
            ) from error

    async def close_session(self, routing_key: str) -> bool:
        """Tell the engine that an episode is over, so that it may drop what it kept of it; False if it did not hear.

        Bounded by `abort_seconds`. Nothing is lost with it but memory that the engine reclaims later.
        """
        with trio.move_on_after(self.config.abort_seconds):
            try:
                status, _ = await self._control_call("POST", "/close_session", encode_close_session(routing_key))
            except EngineError:  # it is told by probes that the engine is gone
                return False
            return 200 <= status < 300
        return False

    async def aclose(self) -> None:
        """Close all connections; calls that are out end with `EngineLost`."""
        await self._connections.aclose()
        await self._control.aclose()

    def statistics(self) -> ClientStatistics:
        """Counts so far."""
        return ClientStatistics(
            completed=self._completed,
            failed=self._failed,
            aborts_sent=self._aborts_sent,
            aborts_confirmed=self._aborts_confirmed,
            probes=self._probes,
            probes_failed=self._probes_failed,
            connections=len(self._connections) + len(self._control),
        )

    async def _exchange(self, request: WireRequest, reader: ReplyReader, times: _Times) -> None:
        """Send the request and feed the reader to the end."""
        error_body = bytearray()
        try:
            async with self._connections.open_response("POST", request.path, request.headers, request.body) as response:
                if response.status == 200:
                    self._check_type(response.headers)
                    while chunk := await response.receive():
                        self._feed(reader, chunk, times)
                        if reader.done:
                            times.patience.deadline = min(times.patience.deadline, trio.current_time() + TAIL_SECONDS)
                    return
                while len(error_body) <= MAX_BODY_READ and (chunk := await response.receive()):
                    error_body += chunk
        except Exception as error:
            raise self._ours(error) from error
        raise error_for_status(response.status, bytes(error_body[:MAX_BODY_READ]), self.config.id)

    def _feed(self, reader: ReplyReader, chunk: bytes, times: _Times) -> None:
        tokens_before = reader.pieces
        reader.feed(chunk)
        if reader.pieces > tokens_before:
            times.last_token = trio.current_time()
            if times.on_pieces is not None:
                times.on_pieces(reader.pieces - tokens_before)
            if times.first_token is None:
                times.first_token = times.last_token
                times.patience.deadline = times.whole_by
                if times.on_first_token is not None:
                    times.on_first_token()

    def _check_type(self, headers: list[tuple[bytes, bytes]]) -> None:
        kinds = [value for name, value in headers if name == b"content-type"]
        if not kinds or not kinds[0].lower().startswith(b"text/event-stream"):
            said = kinds[0].decode("latin-1")[:80] if kinds else "nothing"
            raise EngineGarbled(f"it answered {said!r} instead of an event stream", engine=self.config.id, over=False)

    async def _make_sure_it_is_over(self, request_id: str) -> bool:
        """Abort a request; True when it is sure that the engine does not work on it any more.

        Shielded, as its caller is mostly being cancelled; bounded by `abort_seconds`.
        """
        with trio.move_on_after(self.config.abort_seconds, shield=True):
            # A kept connection may have been cut with the engine, and a process that is being killed loses its
            # connections before its listening socket: a later, fresh one tells.
            growing = itertools.accumulate(itertools.repeat(2), operator.mul, initial=FIRST_PAUSE_SECONDS)
            for pause in itertools.chain([0.0], growing):
                try:
                    return await self._ask_whether_it_is_over(request_id)
                except EngineLost as error:
                    if isinstance(error.__cause__, httpcore.ConnectError):
                        return True  # nobody listens: the process is gone
                except EngineError:
                    return False
                await trio.sleep(pause)
        return False

    async def _ask_whether_it_is_over(self, request_id: str) -> bool:
        if self.config.dialect is not Dialect.SGLANG:
            await self._control_call("GET", "/v1/models")
            return False  # it lives: the closed connection may have aborted the request there, but nobody says so
        self._aborts_sent += 1
        status, _ = await self._control_call("POST", "/abort_request", encode_abort(request_id))
        confirmed = 200 <= status < 300
        self._aborts_confirmed += confirmed
        return confirmed

    async def _probe(self) -> EngineLoad:
        paths = ["/ping", "/v1/models"] if self.config.dialect is Dialect.SGLANG else ["/v1/models"]
        for path in paths:
            if path in self._absent:
                continue
            status, body = await self._control_call("GET", path)
            if status == 404 and path != paths[-1]:
                self._absent.add(path)
                continue
            if status != 200:
                raise error_for_status(status, body, self.config.id)
            break
        load = EngineLoad()
        if self.config.dialect is Dialect.SGLANG:
            said = await self._probe_path("/v1/loads", MAX_BODY_READ)
            load = load if said is None else read_loads(said, self.config.id)
        if self.config.dialect in {Dialect.SGLANG, Dialect.VLLM} and self._probes % METRICS_EVERY == 2:
            said = await self._probe_path("/metrics", MAX_METRICS_READ)
            counted = EngineLoad() if said is None else read_metrics(said, self.config.id)
            usage = counted.token_usage if load.token_usage is None else load.token_usage
            load = attrs.evolve(load, preempted=counted.preempted, token_usage=usage)
        return load

    async def _probe_path(self, path: str, max_bytes: int) -> bytes | None:
        """What the engine says there; None if it has no such path."""
        if path in self._absent:
            return None
        status, body = await self._control_call("GET", path, max_bytes=max_bytes)
        if status == 404:
            self._absent.add(path)
            return None
        if status != 200:
            raise error_for_status(status, body, self.config.id)
        return body

    async def _control_call(
        self, method: str, path: str, body: bytes | None = None, *, max_bytes: int = MAX_BODY_READ
    ) -> tuple[int, bytes]:
        headers = [("Accept", "application/json")]
        if body is not None:
            headers.append(("Content-Type", "application/json"))
        if self._api_key is not None:
            headers.append(("Authorization", f"Bearer {self._api_key.reveal()}"))
        received = bytearray()
        try:
            async with self._control.open_response(method, path, tuple(headers), body) as response:
                while len(received) <= max_bytes and (chunk := await response.receive()):
                    received += chunk
        except Exception as error:
            raise self._ours(error) from error
        return (response.status, bytes(received[:max_bytes]))

    def _ours(self, error: Exception) -> EngineError:
        """The `EngineError` for what httpcore raised; anything else is a bug, and raised as it is."""
        engine = self.config.id
        match error:
            case EngineError():
                return error
            case httpcore.ConnectError() | httpcore.ConnectTimeout():
                return EngineLost(f"cannot connect to {self.url}: {error}", engine=engine)
            case httpcore.UnsupportedProtocol() | httpcore.LocalProtocolError():
                return EngineRefused(f"the request is not valid HTTP: {error}", engine=engine)
            case httpcore.NetworkError() | httpcore.RemoteProtocolError() | httpcore.TimeoutException():
                what = f"the connection broke: {type(error).__name__} {error}".rstrip()
                return EngineLost(what, engine=engine, over=False)
        raise error
