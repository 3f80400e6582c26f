"""An assistant behind a websocket, asked over as many connections as it takes: a question survives a lost one."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.analyst_line import CLOSE_SECONDS, NORMAL, LineClosed
from actors.ask_socket import AssistantAddress, AssistantUnreachable, open_assistant_socket
from actors.asking import AskError
from actors.socket_line import SocketLine
from runtime.nursery import open_bare_nursery
from runtime.secret import Secret
from sqlassist.messages import Emit, Event, Question, Refusal, Stage
from sqlassist.protocol import (
    VERSION,
    Ask,
    Cancel,
    Hello,
    HistoryRequest,
    Leave,
    Malformed,
    Ping,
    Request,
    Review,
    encode_request,
)
from sqlassist.protocol_replies import (
    Bye,
    ErrorMessage,
    EventMessage,
    HistoryMessage,
    Pong,
    Reply,
    Reviewed,
    Welcome,
    decode_reply,
)

WELCOME_SECONDS = 10.0
REPLY_SECONDS = 30.0  # of a history or a review
CANCEL_SECONDS = 2.0  # for a cancelled question to say so
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 5.0  # between attempts to reconnect
EVENTS_AHEAD = 100  # that whoever watches may be behind, before the server notices that we read slowly
_FINAL = frozenset({"unauthenticated", "revoked", "replaced", "version", "hello_first"})
"""Byes after which another connection would end the same way."""


@attrs.define(eq=False)
class _Waiting:
    """Somebody who waits for replies with one id."""

    send: "trio.MemorySendChannel[Reply]"
    receive: "trio.MemoryReceiveChannel[Reply]"


class RemoteAsking:
    """See `Asking`; made by `open_remote`."""

    def __init__(self, address: AssistantAddress, token: Secret, ca_file: Path | None) -> None:
        self.welcome: Welcome | None = None
        """The newest one."""
        self._address = address
        self._token = token
        self._ca_file = ca_file
        self._line: SocketLine | None = None
        self._back = trio.Event()
        self._waiting: dict[str, _Waiting] = {}
        self._seen = 0
        self._failure: AskError | None = None

    @property
    def whose(self) -> str:
        """See `Asking`."""
        assert self.welcome is not None
        return f"{self.welcome.user} of {self.welcome.tenant} at {self._address}"

    async def ask(self, question: Question, emit: Emit) -> Event:
        """See `Asking`."""
        waiting = self._wait_for(question.id)
        try:
            await self._send(Ask(question))
            return await self._events(waiting, emit)
        except trio.Cancelled:
            with trio.move_on_after(CANCEL_SECONDS) as scope:
                scope.shield = True
                await self._send(Cancel(question.id))
                await self._events(waiting, _nobody)
            raise
        finally:
            self._stop_waiting(question.id)

    async def review(self, of: str, comment: str, correction_sql: str) -> str | Refusal:
        """See `Asking`."""
        reply = await self._reply_to(
            f"review-of-{of}"[:64], Review(f"review-of-{of}"[:64], of, comment, correction_sql)
        )
        if isinstance(reply, ErrorMessage):
            return Refusal(reply.code, "", reply.message)
        assert isinstance(reply, Reviewed)
        return reply.review

    async def history(self, limit: int) -> tuple[Mapping[str, Any], ...]:
        """See `Asking`."""
        reply = await self._reply_to("", HistoryRequest(limit))
        if isinstance(reply, HistoryMessage):
            return reply.entries
        raise AskError(f"{self._address}: no history: {reply}")

    async def leave(self) -> None:
        """End the session; nothing can be asked any more."""
        self._fail("the session was ended")
        line = self._line
        if line is not None:
            with trio.move_on_after(CLOSE_SECONDS), suppress(LineClosed):
                await line.send(encode_request(Leave()))
                await line.close(NORMAL, "")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep connected until cancelled. Started: the first welcome is there.

        Raises:
            AskError: there was no first welcome.
        """
        try:
            await self._connect_once(task_status)
        except AssistantUnreachable as error:
            if self.welcome is None:
                raise AskError(str(error)) from error
        while self._failure is None:
            assert self.welcome is not None
            pause, gone_at = FIRST_PAUSE_SECONDS, trio.current_time()
            while self._failure is None:
                if trio.current_time() - gone_at > self.welcome.limits.get("resume_seconds", 0.0):
                    self._fail(f"{self._address}: the connection was lost, and there was no other in time")
                    break
                await trio.sleep(pause)
                try:
                    await self._connect_once(trio.TASK_STATUS_IGNORED)
                    pause, gone_at = FIRST_PAUSE_SECONDS, trio.current_time()
                except AssistantUnreachable:
                    pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)

    async def _connect_once(self, task_status: trio.TaskStatus[None]) -> None:
        """One connection, until it is lost or a bye came; raises `AssistantUnreachable` where there was none."""
        async with open_assistant_socket(self._address, ca_file=self._ca_file) as line:
            before = self.welcome
            session = "" if before is None else before.session
            try:
                await line.send(encode_request(Hello(VERSION, self._token.reveal(), session, self._seen)))
                with trio.move_on_after(WELCOME_SECONDS):
                    reply = decode_reply(await line.receive())
                    self._welcomed(reply, session)
                    task_status.started()
            except LineClosed:
                raise AssistantUnreachable(f"{self._address}: it hung up before its welcome") from None
            if self.welcome is before:
                raise AssistantUnreachable(f"{self._address}: no welcome within {WELCOME_SECONDS:g} s")
            self._line = line
            self._back.set()
            try:
                async with open_bare_nursery() as nursery:
                    nursery.start_soon(self._ping, line)
                    await self._listen(line)
                    nursery.cancel_scope.cancel()
            except LineClosed:
                return
            finally:
                self._line = None
                self._back = trio.Event()

    def _welcomed(self, reply: Reply | Malformed, session: str) -> None:
        match reply:
            case Welcome():
                self.welcome = reply
                if session and not reply.resumed:
                    self._lose_all()
                    self._seen = 0
            case Bye():
                self._take_bye(reply)
                raise AssistantUnreachable(f"{self._address}: {reply.message}{_later(reply.retry_after)}")
            case _:
                raise AssistantUnreachable(f"{self._address}: it answered a hello with {reply}")

    async def _listen(self, line: SocketLine) -> None:
        while True:
            reply = decode_reply(await line.receive())
            match reply:
                case EventMessage(id_, seq, _):
                    self._seen = max(self._seen, seq)
                    await self._hand(id_, reply)
                case ErrorMessage(_, _, id_, _) | Reviewed(id_, _):
                    await self._hand(id_, reply)
                case HistoryMessage():
                    await self._hand("", reply)
                case Bye():
                    self._take_bye(reply)
                    return
                case Welcome() | Pong():
                    pass
                case Malformed(_, message):
                    self._fail(f"{self._address}: {message}")
                    return

    async def _hand(self, id_: str, reply: Reply) -> None:
        waiting = self._waiting.get(id_)
        if waiting is not None:
            try:
                await waiting.send.send(reply)
            except trio.BrokenResourceError:  # it has just stopped waiting
                return

    async def _ping(self, line: SocketLine) -> None:
        assert self.welcome is not None
        while True:
            await trio.sleep(max(0.1, self.welcome.limits.get("ping_seconds", 30.0)))
            await line.send(encode_request(Ping(self._seen)))

    async def _send(self, request: Request) -> None:
        """Send over whichever connection there is, or will be."""
        while True:
            if self._failure is not None:
                raise self._failure
            line = self._line
            if line is None:
                await self._back.wait()
                continue
            try:
                await line.send(encode_request(request))
                return
            except LineClosed:
                await trio.sleep(0.01)  # until the reader has noticed

    async def _events(self, waiting: _Waiting, emit: Emit) -> Event:
        async for reply in waiting.receive:
            match reply:
                case EventMessage(_, _, event):
                    await emit(event)
                case ErrorMessage(code, message, _, retry_after):
                    more = {} if retry_after is None else {"retry_after": retry_after}
                    event = Event(Stage.FAILED, {"code": code, "text": message, **more})
                    await emit(event)
                case _:
                    continue
            if event.is_last:
                return event
        raise self._failure or AskError(f"{self._address}: the session is gone: ask again")

    async def _reply_to(self, id_: str, request: Request) -> Reply:
        waiting = self._wait_for(id_)
        try:
            with trio.fail_after(REPLY_SECONDS):
                await self._send(request)
                return await waiting.receive.receive()
        except trio.TooSlowError:
            raise AskError(f"{self._address}: no answer within {REPLY_SECONDS:g} s") from None
        except trio.EndOfChannel:
            raise self._failure or AskError(f"{self._address}: the session is gone: ask again") from None
        finally:
            self._stop_waiting(id_)

    def _wait_for(self, id_: str) -> _Waiting:
        if id_ in self._waiting:
            raise ValueError(f"{id_!r} is waited for already")
        send, receive = trio.open_memory_channel[Reply](EVENTS_AHEAD)
        self._waiting[id_] = waiting = _Waiting(send, receive)
        return waiting

    def _stop_waiting(self, id_: str) -> None:
        """Whatever comes for it later is let go; the reader must not wait for somebody who has left."""
        waiting = self._waiting.pop(id_)
        waiting.receive.close()

    def _take_bye(self, bye: Bye) -> None:
        if bye.code in _FINAL:
            self._fail(f"{self._address}: {bye.message}")

    def _fail(self, text: str) -> None:
        self._failure = AskError(text)
        self._back.set()
        self._lose_all()

    def _lose_all(self) -> None:
        """What was waited for will not come."""
        for waiting in self._waiting.values():
            waiting.send.close()


async def _nobody(event: Event) -> None:
    del event


def _later(retry_after: float | None) -> str:
    return "" if retry_after is None else f" (again in {retry_after:.0f} s)"


@asynccontextmanager
async def open_remote(
    address: AssistantAddress, token: Secret, *, ca_file: Path | None = None
) -> AsyncIterator[RemoteAsking]:
    """A session with an assistant; it ends when the block does.

    Raises:
        AskError: nobody is there, or the token is not good.
    """
    async with open_bare_nursery() as nursery:
        remote = RemoteAsking(address, token, ca_file)
        await nursery.start(remote.run)
        yield remote
        await remote.leave()
        nursery.cancel_scope.cancel()
