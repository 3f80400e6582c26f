"""All sessions of one assistant: who may come in, who is gone, and how it ends. Servers hand over their connections."""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

import attrs
import trio

from actors.analyst import Analyst, Running
from actors.analyst_limits import Admission, AssistantLimits
from actors.analyst_line import (
    BROKEN,
    CLOSE_SECONDS,
    GOING_AWAY,
    NORMAL,
    POLICY,
    REPLACED,
    SILENT,
    TRY_LATER,
    Farewell,
    Line,
    LineClosed,
    Wire,
)
from actors.answering import Answering
from actors.login_limits import FailedLogins
from actors.question_history import QuestionHistory
from actors.token_store import TokenRecord
from inference.config import TenantConfig
from runtime.ids import TenantId
from runtime.nursery import open_bare_nursery
from runtime.telemetry import counter, emit, gauge
from sqlassist.messages import Event, Stage
from sqlassist.protocol import VERSION, Hello, Malformed, decode
from sqlassist.protocol_replies import Bye, Welcome, encode

SWEEP_SECONDS = 1.0
TOKENS_SECONDS = 5.0  # a revoked token's sessions end within this
LAST_WORDS_SECONDS = 2.0  # for events of questions that are cut when the server ends
RETRY_SECONDS = 5.0  # told to those that come when there is no room

_CONNECTIONS = gauge("assistant_open_connections", "Connections that have logged in.")
_ENDED = counter("assistant_ended_connections_total", "Connections that were ended by the assistant.", ("why",))


class Credentials(Protocol):
    """What a hello may show: a file of tokens, or also what stands for them."""

    def record_for(self, token: str, /) -> TokenRecord | None:
        """Whose this is; None: nobody's, or it is over."""
        ...

    def is_valid(self, record: TokenRecord, /) -> bool:
        """Whether what was good once still is."""
        ...


@attrs.frozen
class DeskStatistics:
    """How much there is to do, and was done so far."""

    newcomers: int
    """Connections that have not logged in."""
    connections: int
    sessions: int
    """With those that wait for a reconnect."""
    running: int
    """Questions."""
    asked: int
    """Questions that were let in."""
    ended: Mapping[str, int]
    """Connections that we ended, by why."""


@attrs.define(eq=False)
class Newcomer:
    """A connection that has not logged in. It counts until `leave`."""

    _desk: "AnalystDesk" = attrs.field(alias="desk")
    _is_here: bool = attrs.field(default=True, init=False)

    def leave(self) -> None:
        """It has logged in, or is gone. Idempotent."""
        if self._is_here:
            self._is_here = False
            self._desk.newcomers -= 1


class AnalystDesk:
    """The sessions of one assistant; made by `open_desk`."""

    def __init__(
        self,
        answering: Answering,
        tokens: Credentials,
        limits: AssistantLimits,
        tenants: Mapping[TenantId, TenantConfig],
        history: QuestionHistory,
        nursery: trio.Nursery,
        draw: Callable[[], str],
    ) -> None:
        self.answering = answering
        self.admission = Admission(limits, tenants)
        self.history = history
        self.limits = limits
        self.is_draining = False
        self.newcomers = 0
        self._tokens = tokens
        self._nursery = nursery
        self._draw = draw
        self._logins = FailedLogins(limits.failed_logins_per_minute)
        self._sessions: dict[str, Analyst] = {}
        self._wires: set[Wire] = set()
        self._changed = trio.lowlevel.ParkingLot()
        self._asked = 0
        self._answering = 0  # tasks; a question's last event comes a little before its task ends
        self._ended: dict[str, int] = {}

    def newcomer(self) -> Newcomer | None:
        """Count a connection that has not logged in; None: there is no room for it."""
        if self.newcomers >= self.limits.newcomers:
            self._count("too_many_newcomers")
            return None
        self.newcomers += 1
        return Newcomer(self)

    async def serve(self, line: Line, newcomer: Newcomer) -> None:
        """Serve a connection until it is over, and close it. Raises nothing but what cancels it."""
        wire = Wire(line, self.limits.slow_seconds)
        self._wires.add(wire)
        try:
            with wire.serving:
                await self._serve(wire, newcomer)
        finally:
            newcomer.leave()
            self._wires.discard(wire)
            with trio.move_on_after(CLOSE_SECONDS) as scope:
                scope.shield = True
                await _say_bye(wire)
            self._changed.unpark_all()
        if wire.farewell is not None:
            self._count(wire.farewell.code)

    def start(self, analyst: Analyst, running: Running) -> None:
        """See `actors.analyst.Ports`."""
        self._asked += 1
        self._answering += 1
        self._nursery.start_soon(self._answer, analyst, running)

    async def drain(self) -> None:
        """Take no more questions, let those that run end for a time, then end every connection."""
        self.is_draining = True
        with trio.move_on_after(self.limits.drain_seconds):
            await self._wait(lambda: not self._answering)
        ended = Event(Stage.FAILED, {"code": "draining", "text": "the server ends", "retry_after": RETRY_SECONDS})
        for analyst in list(self._sessions.values()):
            analyst.end(ended)
        with trio.move_on_after(LAST_WORDS_SECONDS):
            await self._wait(lambda: not self._answering)
        for wire in list(self._wires):
            wire.end(Farewell("draining", "the server ends", GOING_AWAY, RETRY_SECONDS), cut=True)
        with trio.move_on_after(CLOSE_SECONDS + LAST_WORDS_SECONDS):
            await self._wait(lambda: not self._wires)

    async def sweep(self) -> None:
        """End sessions whose time is over, forever."""
        checked_at = trio.current_time()
        while True:
            await trio.sleep(SWEEP_SECONDS)
            now = trio.current_time()
            check_tokens = now - checked_at >= TOKENS_SECONDS
            if check_tokens:
                checked_at = now
            for analyst in list(self._sessions.values()):
                self._sweep_one(analyst, now, check_token=check_tokens)

    def statistics(self) -> DeskStatistics:
        """Counts."""
        connections = sum(analyst.wire is not None for analyst in self._sessions.values())
        return DeskStatistics(
            newcomers=self.newcomers,
            connections=connections,
            sessions=len(self._sessions),
            running=self.admission.running,
            asked=self._asked,
            ended=dict(self._ended),
        )

    async def _serve(self, wire: Wire, newcomer: Newcomer) -> None:
        try:
            greeted = await self._greet(wire)
        except LineClosed:
            return
        newcomer.leave()
        if greeted is None:
            return
        analyst, welcome = greeted
        _CONNECTIONS.inc()
        try:
            await wire.send(encode(welcome))
            await analyst.serve(wire)
        except LineClosed as error:
            if error.code == NORMAL and analyst.wire is wire:  # on purpose: nobody will come back for the session
                self._remove(analyst)
        finally:
            _CONNECTIONS.dec()
            analyst.detach(wire)

    async def _greet(self, wire: Wire) -> tuple[Analyst, Welcome] | None:
        """From the hello to a session; None: the connection is to end, and `wire.farewell` says why."""
        peer, now = wire.line.peer, trio.current_time()
        wait = self._logins.retry_after(peer, now)
        if self.is_draining:
            wire.end(Farewell("draining", "the server is about to end", GOING_AWAY, RETRY_SECONDS))
        elif wait > 0:
            text = "too many failed logins from this address"
            wire.end(Farewell("too_many_logins", text, TRY_LATER, round(wait, 3)))
        else:
            with trio.move_on_after(self.limits.hello_seconds):
                hello = decode(await wire.line.receive(), max_bytes=self.limits.message_bytes)
                return self._welcome(wire, hello)
            wire.end(Farewell("hello_late", f"no hello came within {self.limits.hello_seconds:g} s", POLICY))
        return None

    def _welcome(self, wire: Wire, hello: object) -> tuple[Analyst, Welcome] | None:
        if isinstance(hello, Malformed):
            wire.end(Farewell(hello.code, hello.message, POLICY))
        elif not isinstance(hello, Hello):
            wire.end(Farewell("hello_first", "the first message must be a hello with a token", POLICY))
        elif hello.version != VERSION:
            wire.end(Farewell("version", f"this server speaks version {VERSION}, not {hello.version}", POLICY))
        elif (record := self._tokens.record_for(hello.token)) is None:
            self._logins.failed(wire.line.peer, trio.current_time())
            emit("actors.login.refused", level="warning", peer=wire.line.peer)
            wire.end(Farewell("unauthenticated", "this token is not known here, or has expired", POLICY))
        else:
            return self._session(wire, hello, record)
        return None

    def _session(self, wire: Wire, hello: Hello, record: TokenRecord) -> tuple[Analyst, Welcome] | None:
        try:
            versions = dict(self.answering.versions(record.asker))
        except Exception:  # noqa: BLE001  # a mistake of ours, or a tenant that is configured no more: one connection's end
            emit("actors.session.broken", level="error", tenant=record.tenant, exc_info=True)
            text = f"tenant {record.tenant} cannot be answered here: the server's log says why"
            wire.end(Farewell("internal", text, BROKEN))
            return None
        known = self._sessions.get(hello.session)
        resumed = known is not None and known.asker == record.asker
        if known is not None and resumed:
            analyst = known
            if analyst.wire is not None:
                replaced = Farewell("replaced", "the session goes on over another connection", REPLACED)
                analyst.wire.end(replaced, cut=True)
                analyst.detach(analyst.wire)
            analyst.record = record
        else:
            if not self._make_room(record.tenant):
                text = "there are too many sessions: try again later"
                wire.end(Farewell("too_many_sessions", text, TRY_LATER, RETRY_SECONDS))
                return None
            analyst = Analyst(self._draw(), record, self)
            self._sessions[analyst.id] = analyst
        dropped = analyst.dropped
        missed = analyst.attach(wire, hello.after if resumed else 0)
        asker = analyst.asker
        return analyst, Welcome(
            version=VERSION,
            session=analyst.id,
            user=asker.user,
            tenant=asker.tenant,
            roles=tuple(sorted(asker.roles)),
            limits=self._told_limits(),
            versions=versions,
            resumed=resumed,
            missed=missed,
            dropped=dropped,
            running=tuple(analyst.running),
        )

    def _make_room(self, tenant: TenantId) -> bool:
        """Whether one more session of the tenant fits; of those without a connection, the longest gone gives way."""
        mine = [analyst for analyst in self._sessions.values() if analyst.asker.tenant == tenant]
        for held, most in ((mine, self.limits.tenant_sessions), (self._sessions.values(), self.limits.server_sessions)):
            if len(held) >= most:
                gone = [(one.left_at, one.id) for one in held if one.left_at is not None and not one.running]
                if not gone:
                    return False
                self._remove(self._sessions[min(gone)[1]])
        return True

    def _told_limits(self) -> dict[str, float]:
        limits = self.limits
        return {
            "message_bytes": limits.message_bytes,
            "questions_per_minute": limits.questions_per_minute,
            "session_questions": limits.session_questions,
            "question_seconds": limits.question_seconds,
            "resume_seconds": limits.resume_seconds,
            "ping_seconds": round(limits.silent_seconds / 3, 3),
        }

    def _sweep_one(self, analyst: Analyst, now: float, *, check_token: bool) -> None:
        wire = analyst.wire
        if check_token and not self._tokens.is_valid(analyst.record):
            self._remove(analyst)
            if wire is not None:
                wire.end(Farewell("revoked", "the token is no longer good", POLICY), cut=True)
        elif wire is None:
            if analyst.left_at is not None and now - analyst.left_at >= self.limits.resume_seconds:
                self._remove(analyst)
        elif now - analyst.heard_at >= self.limits.silent_seconds:
            text = f"nothing was heard for {self.limits.silent_seconds:g} s"
            wire.end(Farewell("silent", text, SILENT), cut=True)

    def _remove(self, analyst: Analyst) -> None:
        self._sessions.pop(analyst.id, None)
        analyst.end(Event(Stage.CANCELLED))

    async def _answer(self, analyst: Analyst, running: Running) -> None:
        try:
            await analyst.answer(running)
        finally:
            self._answering -= 1
            self._changed.unpark_all()

    async def _wait(self, done: Callable[[], bool]) -> None:
        while not done():
            await self._changed.park()

    def _count(self, why: str) -> None:
        self._ended[why] = self._ended.get(why, 0) + 1
        _ENDED.labels(why).inc()


async def _say_bye(wire: Wire) -> None:
    """Say why, if there is a reason and somebody may hear it; then close."""
    farewell = wire.farewell
    if farewell is not None and not wire.is_broken:
        with trio.move_on_after(LAST_WORDS_SECONDS):
            try:
                await wire.line.send(encode(Bye(farewell.code, farewell.message, farewell.retry_after)))
            except LineClosed:
                return
    if wire.is_broken:
        await wire.line.abort()
    elif farewell is None:
        await wire.line.close(NORMAL, "")
    else:
        await wire.line.close(farewell.close_code, farewell.code)


@asynccontextmanager
async def open_desk(
    answering: Answering,
    tokens: Credentials,
    *,
    limits: AssistantLimits | None = None,
    tenants: Mapping[TenantId, TenantConfig] | None = None,
    history: QuestionHistory | None = None,
    draw: Callable[[], str] = lambda: secrets.token_hex(16),
) -> AsyncIterator[AnalystDesk]:
    """A desk whose questions run until the block ends; those that run then are cut. Call `drain` before, to be polite.

    Args:
        answering: Answers.
        tokens: Who may come in.
        limits: What is taken on at a time.
        tenants: Tokens a minute, by tenant.
        history: Keeps what was asked; in memory if not given.
        draw: Gives names of sessions that nobody can guess.
    """
    async with open_bare_nursery() as nursery:
        desk = AnalystDesk(
            answering,
            tokens,
            limits or AssistantLimits(),
            tenants or {},
            history or QuestionHistory(None),
            nursery,
            draw,
        )
        nursery.start_soon(desk.sweep)
        yield desk
        nursery.cancel_scope.cancel()
