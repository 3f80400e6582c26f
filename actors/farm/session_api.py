"""Logging in with a browser, and tickets: the endpoints, and the schemas of their bodies."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from actors.farm.access import Caller, Endpoint, Need, RequestError, turned_away
from actors.farm.bodies import json_object
from actors.farm.callers import MAX_CREDENTIAL, Callers, Turned, peer_of
from actors.farm.daemon import Farm
from actors.farm.sessions import COOKIE, LIFE_SECONDS, TooManySessions
from actors.farm.views import moment
from actors.origins import is_own_origin
from actors.tickets import MAX_SECONDS
from actors.token_store import TokenRecord

SESSION_SCHEMAS: Mapping[str, Any] = {
    "LogIn": {
        "type": "object",
        "additionalProperties": False,
        "required": ["token"],
        "properties": {"token": {"type": "string", "maxLength": MAX_CREDENTIAL}},
    },
    "TicketRequest": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"seconds": {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS, "default": MAX_SECONDS}},
    },
}


@attrs.define(eq=False)
class SessionApi:
    """What they do."""

    farm: Farm
    callers: Callers

    async def log_in(self, request: Request) -> Response:
        """Who the caller is, with a cookie for its browser."""
        origin = request.headers.get("origin")
        if origin is not None and not is_own_origin(origin, request.headers.get("host")):
            return turned_away(Turned(403, "only a page of this farm logs in", "origin"))
        peer = peer_of(request)
        turned = self.callers.too_many(peer)
        if turned is not None:
            return turned_away(turned)
        body = await json_object(request, self.farm.config.limits.body_bytes)
        token = _only(body, "token")
        if not isinstance(token, str):
            raise RequestError("'token' must be a text")
        record = await self.callers.record_for(token)
        if record is None:
            self.callers.failed(peer)
            return turned_away(Turned(401, "this token is not known here, or has expired", "token"))
        try:
            name, session = self.callers.sessions.open(record, self.callers.now())
        except TooManySessions:
            return turned_away(Turned(429, "too many people are logged in", "sessions", 60.0))
        caller = Caller(record, name)
        await self.farm.note(caller.action("log in", "farm"))
        response = JSONResponse(_view(record, session.expires_at))
        secure = request.url.scheme == "https" or (origin or "").startswith("https:")
        response.set_cookie(
            COOKIE, name, max_age=int(LIFE_SECONDS), path="/", secure=secure, httponly=True, samesite="strict"
        )
        return response

    async def show(self, _request: Request, caller: Caller) -> Response:
        """Who the caller is."""
        session = None if caller.session is None else self.callers.sessions.find(caller.session, self.callers.now())
        return JSONResponse(_view(caller.token, None if session is None else session.expires_at))

    async def log_out(self, _request: Request, caller: Caller) -> Response:
        """The session that was shown is over; a token is not touched."""
        ended = caller.session is not None and self.callers.sessions.close(caller.session)
        response = JSONResponse({"ended": ended})
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response

    async def make_ticket(self, request: Request, caller: Caller) -> Response:
        """A ticket for the caller, never for more than it may."""
        seconds = _only(await json_object(request, self.farm.config.limits.body_bytes), "seconds", MAX_SECONDS)
        if type(seconds) is not int or not 1 <= seconds <= MAX_SECONDS:
            raise RequestError(f"'seconds' must be a whole number from 1 to {MAX_SECONDS}")
        ticket, expires_at = self.callers.tickets.ticket(caller.token, seconds)
        return JSONResponse({"ticket": ticket.reveal(), "expires_at": moment(expires_at)})


def session_endpoints(farm: Farm, callers: Callers) -> tuple[Endpoint, ...]:
    """All of them."""
    api, session = SessionApi(farm, callers), "/api/v1/session"
    return (
        Endpoint("POST", session, Need.NOBODY, api.log_in, "Log in with a browser: a cookie.", body="LogIn"),
        Endpoint("GET", session, Need.VIEWER, api.show, "Who the caller is."),
        Endpoint("DELETE", session, Need.VIEWER, api.log_out, "Log out."),
        Endpoint(
            "POST",
            "/api/v1/tickets",
            Need.VIEWER,
            api.make_ticket,
            "A short-lived stand-in for the caller's token.",
            body="TicketRequest",
        ),
    )


def _only(body: Mapping[str, Any], key: str, default: Any = None) -> Any:
    unknown = [name for name in body if name != key]
    if unknown:
        raise RequestError(f"there is no {unknown[0][:40]!r} in this body, but {key!r}")
    return body.get(key, default)


def _view(record: TokenRecord, expires_at: float | None) -> dict[str, Any]:
    until = None if record.expires_at is None else datetime.fromisoformat(record.expires_at).timestamp()
    ends = [one for one in (expires_at, until) if one is not None]
    return {
        "user": record.user,
        "tenant": record.tenant,
        "roles": [role.value for role in record.roles],
        "expires_at": moment(min(ends)) if ends else None,
    }
