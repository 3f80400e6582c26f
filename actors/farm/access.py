"""Who may call what: every route names the role that it needs, and none is reached in another way than through here."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any

import attrs
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from actors.configuration import ScenarioError
from actors.farm.callers import Callers, Known, Turned
from actors.farm.database import StoreError
from actors.farm.records import Action
from actors.farm.store import Missing, Refused
from actors.token_store import Role, TokenRecord
from runtime.ids import TenantId
from runtime.telemetry import counter, emit

_REFUSED = counter("actors_farm_refused_requests_total", "Requests that were not let through.", ["why"])
HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Need(StrEnum):
    """What a caller must be."""

    NOBODY = "nobody"
    """Anybody who can connect: probes, and what says nothing about the farm."""
    VIEWER = "viewer"
    """Any token."""
    OPERATOR = "operator"
    """Of the tenant whose run it is."""
    ADMIN = "admin"
    """Of the farm: sees every tenant."""


class RequestError(Exception):
    """The request is wrong; the text says what."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@attrs.frozen
class Caller:
    """Whose token was shown, or stood behind what was shown."""

    token: TokenRecord
    session: str | None = attrs.field(default=None, repr=False)
    """The browser's session, if it was shown."""

    @property
    def tenant(self) -> TenantId:
        """Whose runs these are."""
        return self.token.tenant

    @property
    def is_admin(self) -> bool:
        """Sees every tenant, and may do everything."""
        return Role.ADMIN in self.token.roles

    @property
    def only_tenant(self) -> TenantId | None:
        """Whose things are shown; None: those of all."""
        return None if self.is_admin else self.tenant

    def may(self, need: Need) -> bool:
        """Has such a role. What is not known is not allowed."""
        match need:
            case Need.VIEWER:
                return self.is_admin or bool(self.token.roles)
            case Need.OPERATOR:
                return self.is_admin or Role.OPERATOR in self.token.roles
            case Need.ADMIN:
                return self.is_admin
            case _:
                return False

    def sees(self, tenant: str) -> bool:
        """May know of that tenant's runs."""
        return self.is_admin or tenant == self.tenant

    def action(self, action: str, target: str, detail: str = "") -> Action:
        """For the audit."""
        return Action(self.token.user, self.tenant, self.token.id, action, target, detail)


Handler = Callable[[Request, Caller], Awaitable[Response]]
OpenHandler = Callable[[Request], Awaitable[Response]]


@attrs.frozen
class Endpoint:
    """One method of one path."""

    method: str
    path: str
    need: Need
    handler: Handler | OpenHandler
    summary: str
    query: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """Name → schema, for the document."""
    body: str | None = None
    """Name of the schema of its body."""
    answer: str = "application/json"
    """Media type."""
    schema: str | None = None
    """Name of the schema of its answer."""
    status: int = 200
    """Of its answer."""
    ticket: bool = False
    """It also takes a ticket as its token: what an embedded page needs, which has nothing else."""


@attrs.define(eq=False)
class Gate:
    """Lets requests through to endpoints, and makes an answer of whatever they raise."""

    callers: Callers

    def route_for(self, endpoint: Endpoint) -> Route:
        """The only way in which an endpoint becomes a route."""

        async def serve(request: Request) -> Response:
            response = await self._answer(endpoint, request)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return Route(endpoint.path, serve, methods=[endpoint.method], name=f"{endpoint.method} {endpoint.path}")

    async def _answer(self, endpoint: Endpoint, request: Request) -> Response:
        try:
            if endpoint.need is Need.NOBODY:
                return await endpoint.handler(request)  # type: ignore[call-arg]  # an OpenHandler, by its need
            caller = await self.caller_of(request, ticket=endpoint.ticket)
            if isinstance(caller, Response):
                return caller
            if not caller.may(endpoint.need):
                _REFUSED.labels("role").inc()
                return refusal(403, f"this needs the role {endpoint.need.value}")
            return await endpoint.handler(request, caller)  # type: ignore[call-arg]
        except RequestError as error:
            return refusal(error.status, str(error))
        except ScenarioError as error:
            problems = [str(problem) for problem in error.problems]
            return JSONResponse({"error": problems[0], "problems": problems}, status_code=422)
        except ClientDisconnect:
            return refusal(400, "the client hung up")  # nobody reads it
        except Missing as error:
            return refusal(404, str(error))
        except Refused as error:
            return refusal(409, str(error))
        except StoreError as error:
            emit("actors.farm.state_failed", level="error", error=str(error))
            return refusal(503, "the farm's state cannot be used at the moment: see the daemon's log")
        except Exception:  # noqa: BLE001  # a mistake of ours must neither end the daemon nor show itself to a client
            emit("actors.farm.request_failed", level="error", path=request.url.path, exc_info=True)
            return refusal(500, "an internal error: see the daemon's log")

    async def caller_of(self, connection: HTTPConnection, *, ticket: bool = False) -> Caller | Response:
        """Who calls, of a request or a websocket alike; or the answer to somebody who may not.

        Args:
            connection: What was opened.
            ticket: It may also show a ticket; a websocket always may.
        """
        known = await self.callers.who(connection, ticket=ticket or connection.scope["type"] == "websocket")
        return turned_away(known) if isinstance(known, Turned) else Caller(known.record, known.session)

    async def still_good(self, caller: Caller) -> bool:
        """The token of a caller who was let in is as it was, and the session that was shown has not ended."""
        return await self.callers.is_still(Known(caller.token, caller.session))


def turned_away(turned: Turned) -> Response:
    """The answer to somebody who may not come in."""
    _REFUSED.labels(turned.why).inc()
    response = refusal(turned.status, turned.message)
    if turned.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    if turned.retry_seconds is not None:
        response.headers["retry-after"] = str(int(turned.retry_seconds) + 1)
    return response


def refusal(status: int, message: str) -> Response:
    """An answer that says why not."""
    return JSONResponse({"error": message}, status_code=status)
