"""Sends notices to webhooks: in the background, a few tries each, and never in the way of whoever has one to tell."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import httpcore
import trio

from actors.notices import Notice, Severity, Told, WebhookForm, request_for, was_taken
from runtime.mailbox import Mailbox, MailboxClosed, MailboxFull, Overflow
from runtime.nursery import open_bare_nursery
from runtime.secret import Secret
from runtime.telemetry import counter, emit

CAPACITY = 1000  # a farm that has more to tell at once has another problem; what does not fit is counted
TRIES = 4
FIRST_PAUSE_SECONDS = 1.0
TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 16 << 10
_RANKS = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}

_SENT = counter("actors_notice_sent_requests_total", "Notices that a webhook took, or did not.", ["form", "outcome"])
_FAILED = counter(
    "actors_notice_failed_requests_total", "Notices that a webhook did not take in any of its tries.", ["form"]
)
_LOST = counter("actors_notice_lost_requests_total", "Notices that did not fit into the queue.", ["form"])


@attrs.frozen
class Webhook:
    """One receiver."""

    name: str
    form: WebhookForm
    url: Secret
    secret: Secret | None = None
    least: Severity = Severity.WARNING
    """What is less severe is not told."""
    again_seconds: float = 3600.0


@attrs.define(eq=False)
class _Line:
    webhook: Webhook
    queue: Mailbox[Notice]
    told: Told


class NoticeSender:
    """Made by `open_notice_sender`."""

    def __init__(self, webhooks: Sequence[Webhook], clock: Callable[[], float], pause_seconds: float) -> None:
        self._lines = [
            _Line(one, Mailbox[Notice](CAPACITY, Overflow.REJECT), Told(one.again_seconds)) for one in webhooks
        ]
        for one in webhooks:  # there from the start: what grows from nothing is no increase to Prometheus
            _FAILED.labels(form=one.form)
            _LOST.labels(form=one.form)
        self._clock = clock
        self._pause_seconds = pause_seconds

    def tell(self, notice: Notice) -> None:
        """Queue a notice for every webhook that wants it; never waits."""
        for line in self._lines:
            webhook = line.webhook
            if _RANKS[notice.severity] < _RANKS[webhook.least] or not line.told.is_news(notice, self._clock()):
                continue
            try:
                line.queue.put_nowait(notice)
            except (MailboxFull, MailboxClosed):
                _LOST.labels(form=webhook.form).inc()
                line.told.forget(notice.key)

    def over(self, key: str) -> None:
        """It is over: when it comes again, it is told again."""
        for line in self._lines:
            line.told.forget(key)

    async def run(self) -> None:
        """Send until cancelled."""
        async with (
            httpcore.AsyncConnectionPool(keepalive_expiry=30) as pool,
            open_bare_nursery() as nursery,
        ):
            for line in self._lines:
                nursery.start_soon(self._serve, pool, line)

    async def _serve(self, pool: httpcore.AsyncConnectionPool, line: _Line) -> None:
        while True:
            notice = await line.queue.get()
            outcome = await self._send(pool, line.webhook, notice)
            _SENT.labels(form=line.webhook.form, outcome=outcome).inc()
            if outcome != "taken":
                _FAILED.labels(form=line.webhook.form).inc()
                emit("actors.notice.lost", level="error", webhook=line.webhook.name, notice=notice.key, why=outcome)

    async def _send(self, pool: httpcore.AsyncConnectionPool, webhook: Webhook, notice: Notice) -> str:
        """`taken`, or why it was not in the end."""
        pause, outcome = self._pause_seconds, ""
        for number in range(TRIES):
            if number:
                await trio.sleep(pause)
                pause *= 4
            outcome = await self._try(pool, webhook, notice)
            if outcome == "taken":
                break
        return outcome

    async def _try(self, pool: httpcore.AsyncConnectionPool, webhook: Webhook, notice: Notice) -> str:
        secret = "" if webhook.secret is None else webhook.secret.reveal()
        request = request_for(notice, webhook.form, webhook.url.reveal(), secret, self._clock())
        try:
            with trio.fail_after(TIMEOUT_SECONDS):
                async with pool.stream(
                    "POST", request.url, headers=list(request.headers), content=request.body
                ) as response:
                    body = bytearray()
                    async for chunk in response.aiter_stream():
                        body += chunk
                        if len(body) > MAX_ANSWER_BYTES:
                            break
        except trio.TooSlowError:
            return "no answer in time"
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            return type(error).__name__
        except (httpcore.UnsupportedProtocol, ValueError):
            return "the address is none"
        return "taken" if was_taken(webhook.form, response.status, bytes(body)) else f"HTTP {response.status}, refused"


@asynccontextmanager
async def open_notice_sender(
    webhooks: Sequence[Webhook],
    *,
    clock: Callable[[], float] = time.time,
    pause_seconds: float = FIRST_PAUSE_SECONDS,
) -> AsyncIterator[NoticeSender]:
    """A sender for the time of the block; what has not been sent by its end is given up.

    Args:
        webhooks: Who is told.
        clock: Epoch seconds.
        pause_seconds: Before the second try; four times as long before each further one.
    """
    sender = NoticeSender(webhooks, clock, pause_seconds)
    async with open_bare_nursery() as nursery:
        nursery.start_soon(sender.run)
        yield sender
        nursery.cancel_scope.cancel()
