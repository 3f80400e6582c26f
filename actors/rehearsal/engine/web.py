"""The engine's HTTP interface: SGLang's paths, answered by a rehearsal engine."""

import hmac
import json
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from actors.rehearsal.engine.chat import BadRequest, parse_chat
from actors.rehearsal.engine.completion import CompletionResponse, error_response
from actors.rehearsal.engine.work import RehearsalEngine
from runtime.secret import Secret

VERSION = "rehearsal-0.5.23"  # the SGLang release whose interface is answered
MAX_BODY_BYTES = 64 << 20  # beyond any prompt of ours: a dozen 1080p PNGs as base64
OPEN_PATHS = frozenset({"/ping", "/ready", "/health", "/health_generate", "/metrics"})
"""Answered without the key, as SGLang does."""


class RequireKey:
    """Refuses requests without the right bearer token."""

    def __init__(self, app: ASGIApp, key: Secret) -> None:
        self._app = app
        self._expected = f"Bearer {key.reveal()}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer 401."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                await JSONResponse({"error": "Unauthorized"}, status_code=401)(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _body_of(request: Request) -> bytes:
    """The request's body, or `BadRequest` when it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise BadRequest(f"The body is larger than {MAX_BODY_BYTES} bytes", status=413)
    return bytes(body)


async def _object_of(request: Request) -> dict[str, Any]:
    body = await _body_of(request)
    try:
        fields = json.loads(body or b"{}")
    except ValueError as error:
        raise BadRequest(f"Invalid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadRequest("The body must be a JSON object")
    return fields


class _Endpoints:
    """One method a path."""

    def __init__(self, engine: RehearsalEngine) -> None:
        self._engine = engine

    async def complete(self, request: Request) -> CompletionResponse:
        """`/v1/chat/completions`."""
        chat = parse_chat(await _body_of(request), context_length=self._engine.options.context_length)
        return CompletionResponse(self._engine, self._engine.take(chat))

    async def models(self, _request: Request) -> Response:
        """`/v1/models`."""
        model = {
            "id": self._engine.options.model,
            "object": "model",
            "created": 0,
            "owned_by": "corral",
            "root": self._engine.options.model,
            "max_model_len": self._engine.options.context_length,
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def loads(self, _request: Request) -> Response:
        """`/v1/loads`: the cheap probe of routers."""
        return JSONResponse({"version": VERSION, "dp_rank_count": 1, "loads": [self._engine.loads()]})

    async def alive(self, _request: Request) -> Response:
        """`/ping`, `/ready`, `/health`, `/health_generate`: 503 while the engine drains."""
        return Response(status_code=503 if self._engine.draining else 200)

    async def model_info(self, _request: Request) -> Response:
        """`/model_info`."""
        return JSONResponse({"model_path": self._engine.options.model, "is_generation": True, "rehearsal": True})

    async def server_info(self, _request: Request) -> Response:
        """`/server_info`."""
        options = self._engine.options
        return JSONResponse(
            {
                "version": VERSION,
                "rehearsal": True,
                "model_path": options.model,
                "served_model_name": options.model,
                "context_length": options.context_length,
                "internal_states": [self._engine.loads()],
                **{key: value for key, value in self._engine.loads().items() if key.startswith("max_")},
            }
        )

    async def metrics(self, _request: Request) -> Response:
        """`/metrics`."""
        return PlainTextResponse(self._engine.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def abort(self, request: Request) -> Response:
        """`/abort_request`: 200 whether or not the request was here, as SGLang does."""
        fields = await _object_of(request)
        everything = fields.get("abort_all") is True
        rid = fields.get("rid")
        if not everything and not isinstance(rid, str):
            raise BadRequest("rid must be a string, or abort_all true")
        self._engine.abort(None if everything else rid)
        return Response(status_code=200)

    async def open_session(self, request: Request) -> Response:
        """`/open_session`: answers the id as a JSON string."""
        name = (await _object_of(request)).get("session_id")
        if name is not None and not isinstance(name, str):
            raise BadRequest("session_id must be a string")
        return JSONResponse(self._engine.open_session(name))

    async def close_session(self, request: Request) -> Response:
        """`/close_session`."""
        name = (await _object_of(request)).get("session_id")
        if not isinstance(name, str):
            raise BadRequest("session_id must be a string")
        self._engine.close_session(name)
        return Response(status_code=200)

    async def flush(self, _request: Request) -> Response:
        """`/flush_cache`."""
        self._engine.flush()
        return PlainTextResponse("Cache flushed.\n")


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest)
    return error_response(str(error), error.status)


def app_for(engine: RehearsalEngine, key: Secret | None = None) -> ASGIApp:
    """The ASGI application of an engine; with a key, requests must carry it as bearer token."""
    endpoints = _Endpoints(engine)
    app: ASGIApp = Starlette(
        routes=[
            Route("/v1/chat/completions", endpoints.complete, methods=["POST"]),
            Route("/v1/models", endpoints.models),
            Route("/v1/loads", endpoints.loads),
            *(Route(path, endpoints.alive) for path in ("/ping", "/ready", "/health", "/health_generate")),
            *(Route(path, endpoints.model_info) for path in ("/model_info", "/get_model_info")),
            *(Route(path, endpoints.server_info) for path in ("/server_info", "/get_server_info")),
            Route("/metrics", endpoints.metrics),
            Route("/abort_request", endpoints.abort, methods=["POST"]),
            Route("/open_session", endpoints.open_session, methods=["POST"]),
            Route("/close_session", endpoints.close_session, methods=["POST"]),
            Route("/flush_cache", endpoints.flush, methods=["GET", "POST"]),
        ],
        exception_handlers={BadRequest: _refused},
    )
    return app if key is None else RequireKey(app, key)
