"""Who calls: one answer for requests and websockets, from a token, a browser's session, or a ticket."""

import time
from collections.abc import Callable

import attrs
import trio
from starlette.requests import HTTPConnection

from actors.farm.sessions import COOKIE, Sessions
from actors.farm.ticketing import Ticketing
from actors.login_limits import FailedLogins
from actors.origins import is_own_origin
from actors.token_store import TokenRecord, TokenStore

MAX_CREDENTIAL = 256  # longer than any token, ticket and session id
_READING = frozenset({"GET", "HEAD"})


@attrs.frozen
class Known:
    """Somebody who may come in."""

    record: TokenRecord
    session: str | None = attrs.field(default=None, repr=False)
    """The id of the browser's session that was shown, if one was."""


@attrs.frozen
class Turned:
    """Somebody who may not."""

    status: int
    message: str
    why: str
    """For the metrics."""
    retry_seconds: float | None = None


@attrs.define(eq=False)
class Callers:
    """Knows them."""

    tickets: Ticketing
    logins: FailedLogins
    sessions: Sessions = attrs.field(factory=Sessions)
    now: Callable[[], float] = time.time

    async def who(self, connection: HTTPConnection, *, ticket: bool = False) -> Known | Turned:
        """Who opened this request or websocket.

        A browser sends its cookie whatever page asks it to: with a cookie everything but reading, and every websocket,
        must come from a page of this host.

        Args:
            connection: A request, or a websocket that was not accepted yet.
            ticket: It may show a ticket: as its token, or a websocket as `?ticket=`.
        """
        peer = peer_of(connection)
        turned = self.too_many(peer)
        if turned is not None:
            return turned
        shown = _shown(connection, ticket=ticket)
        if shown is not None:
            record = await self.record_for(shown, ticket=ticket)
            if record is not None:
                return Known(record)
            if shown:
                self.failed(peer)
            return _NOBODY
        name = connection.cookies.get(COOKIE, "")
        return await self._of_session(connection, name) if name else _NOBODY

    async def record_for(self, text: str, *, ticket: bool = False) -> TokenRecord | None:
        """Whose token, or ticket, this is."""
        if len(text) > MAX_CREDENTIAL:
            return None
        find = self.tickets.record_for if ticket else self.tickets.tokens.record_for
        return await trio.to_thread.run_sync(find, text)

    async def is_still(self, known: Known) -> bool:
        """Whether somebody who came in may stay: for connections that last."""
        if known.session is not None and self.sessions.find(known.session, self.now(), use=False) is None:
            return False
        return await trio.to_thread.run_sync(self.tickets.is_valid, known.record)

    def too_many(self, peer: str) -> Turned | None:
        """Why this address must wait, if it must."""
        wait = self.logins.retry_after(peer, trio.current_time())
        if wait <= 0:
            return None
        return Turned(429, "too many failed logins from this address", "failed_logins", wait)

    def failed(self, peer: str) -> None:
        """This address showed what is no token."""
        self.logins.failed(peer, trio.current_time())

    async def _of_session(self, connection: HTTPConnection, name: str) -> Known | Turned:
        reading = connection.scope["type"] == "http" and connection.scope["method"] in _READING
        if not reading and not is_own_origin(connection.headers.get("origin"), connection.headers.get("host")):
            return Turned(403, "with a session, this is only done for a page of this farm", "origin")
        session = self.sessions.find(name, self.now())
        if session is None:
            return _ENDED
        if not await trio.to_thread.run_sync(self.tickets.is_valid, session.record):
            self.sessions.close(name)
            return _ENDED
        return Known(session.record, name)


def callers_for(tokens: TokenStore, logins: FailedLogins, key: bytes, now: Callable[[], float] = time.time) -> Callers:
    """Those who hold these tokens."""
    return Callers(Ticketing(tokens, key, now), logins, now=now)


def peer_of(connection: HTTPConnection) -> str:
    """The address it comes from."""
    return "unknown" if connection.client is None else connection.client.host


def _shown(connection: HTTPConnection, *, ticket: bool) -> str | None:
    """The token or ticket in the open; None: there is none, and a cookie may do."""
    if ticket and connection.scope["type"] == "websocket" and "ticket" in connection.query_params:
        return connection.query_params["ticket"]
    header = connection.headers.get("authorization")
    if header is None:
        return None
    kind, _, text = header.partition(" ")
    return text if kind.lower() == "bearer" else ""


_NOBODY = Turned(401, "a valid token is needed: authorization: Bearer TOKEN", "token")
_ENDED = Turned(401, "the session is over: log in again", "session")
