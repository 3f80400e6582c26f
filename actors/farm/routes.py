"""The farm's HTTP API as one table of endpoints, from which routes and the OpenAPI document are made (docs/farm.md)."""

from collections.abc import Mapping
from importlib import metadata
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from actors.farm.access import HEADERS, Endpoint, Gate, Need, refusal
from actors.farm.answer_schemas import ANSWERS
from actors.farm.answers_api import ANSWER_SCHEMAS, AnswersApi, answer_endpoints
from actors.farm.api import RESULTS, Api
from actors.farm.callers import Callers
from actors.farm.engines_api import EnginesApi, engine_endpoints
from actors.farm.events import EventsDesk
from actors.farm.findings_api import FINDING_SCHEMAS, finding_endpoints
from actors.farm.live_api import LIVE_SCHEMAS, live_endpoints
from actors.farm.openapi import document_for
from actors.farm.pins_api import PIN_SCHEMAS, pin_endpoints
from actors.farm.runs_api import run_endpoints
from actors.farm.session_api import SESSION_SCHEMAS, session_endpoints
from actors.farm.store import MAX_LISTED
from actors.farm.work import RunState

_INTEGER = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string"}
BODIES: Mapping[str, Any] = {
    **ANSWERS,
    **SESSION_SCHEMAS,
    **LIVE_SCHEMAS,
    **ANSWER_SCHEMAS,
    **PIN_SCHEMAS,
    **FINDING_SCHEMAS,
}
"""Schemas of bodies and answers that stand beside their endpoints."""


def endpoints_of(api: Api, callers: Callers) -> tuple[Endpoint, ...]:
    """All of them."""
    run, phone = "/api/v1/runs/{run}", "/api/v1/phones/{phone}"

    async def openapi(_request: Request) -> Response:
        return JSONResponse(document_for(table, metadata.version("corral"), BODIES))

    table = (
        *engine_endpoints(EnginesApi(api.farm)),
        *finding_endpoints(api),
        *run_endpoints(api.farm),
        Endpoint("GET", "/healthz", Need.NOBODY, api.healthz, "Whether the daemon lives.", schema="Alive"),
        Endpoint("GET", "/readyz", Need.NOBODY, api.readyz, "Whether it takes runs.", schema="Ready"),
        Endpoint("GET", "/api/v1/openapi.json", Need.NOBODY, openapi, "This document."),
        Endpoint("GET", "/metrics", Need.VIEWER, api.metrics, "For Prometheus.", answer="text/plain"),
        Endpoint("GET", "/api/v1/farm", Need.VIEWER, api.show_farm, "How the farm is.", schema="Farm"),
        Endpoint(
            "GET",
            "/api/v1/scenarios",
            Need.VIEWER,
            api.list_scenarios,
            "What may be submitted by name.",
            schema="Scenarios",
        ),
        Endpoint(
            "GET",
            "/api/v1/runs",
            Need.VIEWER,
            api.list_runs,
            "Runs, the newest first.",
            query={
                "state": {"enum": [one.value for one in RunState]},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LISTED},
                "before": _INTEGER,
                "tenant": _TEXT,
            },
            schema="Runs",
        ),
        Endpoint(
            "POST",
            "/api/v1/runs",
            Need.OPERATOR,
            api.submit,
            "Submit a run.",
            body="Submission",
            schema="Run",
            status=201,
        ),
        Endpoint(
            "GET",
            run,
            Need.VIEWER,
            api.show_run,
            "One run, its attempts, and its phones while it plays.",
            schema="RunWhole",
        ),
        Endpoint("POST", f"{run}/cancel", Need.OPERATOR, api.cancel, "End it.", schema="Run"),
        Endpoint("POST", f"{run}/pause", Need.OPERATOR, api.pause, "Keep it from playing.", body="Pause", schema="Run"),
        Endpoint("POST", f"{run}/resume", Need.OPERATOR, api.resume, "Let it go on.", body="Resume", schema="Run"),
        Endpoint("POST", f"{run}/pin", Need.OPERATOR, api.pin, "Keep its folders.", schema="Run"),
        Endpoint(
            "DELETE", f"{run}/pin", Need.OPERATOR, api.unpin, "Its folders may go when they are old.", schema="Run"
        ),
        Endpoint(
            "GET",
            f"{run}/logs",
            Need.VIEWER,
            api.logs,
            "What its process says; the header x-next-offset says where to go on.",
            query={"attempt": _INTEGER, "offset": _INTEGER, "limit": _INTEGER},
            answer="text/plain",
        ),
        Endpoint(
            "GET",
            f"{run}/results/{{name}}",
            Need.VIEWER,
            api.results,
            f"A result: {', '.join(RESULTS)}.",
            query={"attempt": _INTEGER},
            answer="*/*",
        ),
        *live_endpoints(api),
        Endpoint("POST", f"{phone}/pause", Need.ADMIN, api.pause_phone, "Start nothing more on it."),
        Endpoint("POST", f"{phone}/resume", Need.ADMIN, api.resume_phone, "Use it again."),
        Endpoint("POST", "/api/v1/drain", Need.ADMIN, api.drain, "Take no more runs; those that play end."),
        Endpoint("DELETE", "/api/v1/drain", Need.ADMIN, api.undrain, "Take runs again."),
        Endpoint(
            "GET",
            "/api/v1/audit",
            Need.ADMIN,
            api.audit,
            "What operators did, the newest first.",
            query={"limit": _INTEGER},
            schema="Audit",
        ),
        *session_endpoints(api.farm, callers),
        *answer_endpoints(AnswersApi()),
        *pin_endpoints(api.farm, api.pins),
    )
    return table


def farm_app(api: Api, gate: Gate, events: EventsDesk, extra: tuple[BaseRoute, ...] = ()) -> Starlette:
    """The application.

    Args:
        api: What endpoints do.
        gate: Lets requests through.
        events: Serves those who watch; the application must not outlive it.
        extra: Routes that guard themselves: the wall's files, the assistant's websocket.
    """
    routes: list[BaseRoute] = [gate.route_for(endpoint) for endpoint in endpoints_of(api, gate.callers)]
    app = Starlette(routes=[*routes, events.route(), *extra], exception_handlers={HTTPException: _not_there})
    app.router.redirect_slashes = False  # what is not there is not there; a redirect would repeat what was asked for
    return app


async def _not_there(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = refusal(error.status_code, str(error.detail))
    for name, value in {**HEADERS, **(error.headers or {})}.items():
        response.headers[name] = value
    return response
