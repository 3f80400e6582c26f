"""Who may call what: every route names the role that it needs, and none is reached in another way than through here."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any

import attrs
import trio
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from actors.configuration import ScenarioError
from actors.farm.database import StoreError
from actors.farm.records import Action
from actors.farm.store import Missing, Refused
from actors.login_limits import FailedLogins
from actors.token_store import Role, TokenRecord, TokenStore
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
    """Whose token was shown."""

    token: TokenRecord

    @property
    def tenant(self) -> TenantId:
        """Whose runs these are."""
        return self.token.tenant

    @property
    def is_admin(self) -> bool:
        """Sees every tenant, and may do everything."""
        return Role.ADMIN in self.token.roles

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


@attrs.define(eq=False)
class Gate:
    """Lets requests through to endpoints, and makes an answer of whatever they raise."""

    _tokens: TokenStore = attrs.field(alias="tokens")
    _logins: FailedLogins = attrs.field(alias="logins")

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
            caller = await self.caller_of(request)
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

    async def still_good(self, caller: Caller) -> bool:
        """The token of a caller who was let in has not been revoked, changed or expired since."""
        return await trio.to_thread.run_sync(self._tokens.is_valid, caller.token)

    async def caller_of(self, connection: HTTPConnection) -> Caller | Response:
        """Who calls, of a request or a websocket alike; or the answer to somebody who may not."""
        peer = "unknown" if connection.client is None else connection.client.host
        now = trio.current_time()
        wait = self._logins.retry_after(peer, now)
        if wait > 0:
            _REFUSED.labels("failed_logins").inc()
            response = refusal(429, "too many failed logins from this address")
            response.headers["retry-after"] = str(int(wait) + 1)
            return response
        kind, _, token = connection.headers.get("authorization", "").partition(" ")
        record = await trio.to_thread.run_sync(self._tokens.record_for, token) if kind.lower() == "bearer" else None
        if record is None:
            if token:
                self._logins.failed(peer, now)
            _REFUSED.labels("token").inc()
            response = refusal(401, "a valid token is needed: authorization: Bearer TOKEN")
            response.headers["www-authenticate"] = "Bearer"
            return response
        return Caller(record)


def refusal(status: int, message: str) -> Response:
    """An answer that says why not."""
    return JSONResponse({"error": message}, status_code=status)
