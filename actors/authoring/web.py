"""The authoring page's HTTP interface. Everything lies under a random token; nothing comes from elsewhere."""

import hmac
import json
from contextlib import aclosing
from importlib.resources import files
from typing import Any

import attrs
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from actors.authoring.desk import Desk
from actors.authoring.draft import AuthoringError, Draft, parse_draft
from actors.configuration import ScenarioError
from policies.geometry import Box
from policies.probes import Reading
from runtime.secret import Secret

MAX_BODY_BYTES = 64 << 10  # a form
STATIC = {
    "icon.svg": "image/svg+xml",
    "author.css": "text/css; charset=utf-8",
    "author.js": "text/javascript; charset=utf-8",
    "api.js": "text/javascript; charset=utf-8",
    "stage.js": "text/javascript; charset=utf-8",
}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


class Guarded:
    """Lets only requests through that know the token and name this host, and adds the security headers."""

    def __init__(self, app: ASGIApp, token: Secret) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer 404."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # a page of another site whose name was made to point here would send its own name
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1").rsplit(":", 1)[0]
        given = scope["path"].split("/")[1].encode()
        known = hmac.compare_digest(given, self._token.reveal().encode()) and host in {"127.0.0.1", "localhost"}

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *added]}
            await send(message)

        if known:
            await self._app(scope, receive, send_with_headers)
        else:
            answer = PlainTextResponse("Not found: use the address that corral author printed.\n", status_code=404)
            await answer(scope, receive, send_with_headers)


class _Endpoints:
    """One method a path."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def page(self, _request: Request) -> Response:
        """The page itself."""
        return Response(_static("index.html"), media_type="text/html; charset=utf-8")

    async def static(self, request: Request) -> Response:
        """Its scripts and style."""
        name = request.path_params["name"]
        if name not in STATIC:
            return PlainTextResponse("Not found\n", status_code=404)
        return Response(_static(name), media_type=STATIC[name])

    async def source(self, _request: Request) -> Response:
        """What there is to look at; a live source is looked at once if it was not yet."""
        source = self._desk.source
        if source.live and not source.labels():
            await source.refresh()
        file = str(self._desk.file) if self._desk.file is not None else None
        return JSONResponse(
            {
                "title": source.title,
                "live": source.live,
                "frames": source.labels(),
                "file": file,
                "probes": self._desk.probes(),
            }
        )

    async def refresh(self, _request: Request) -> Response:
        """Look again."""
        return JSONResponse({"frame": await self._desk.source.refresh()})

    async def picture(self, request: Request) -> Response:
        """One frame."""
        return Response(await self._desk.picture(request.path_params["number"]), media_type="image/png")

    async def pick(self, request: Request) -> Response:
        """Colours of the marked pixels."""
        color = await self._desk.pick(await _draft(request))
        return JSONResponse({"low": list(color.low), "high": list(color.high)})

    async def mask(self, request: Request) -> Response:
        """The pixels in range; where they lie is in the header `x-box`."""
        png, box = await self._desk.mask(await _draft(request))
        return Response(png, media_type="image/png", headers={"x-box": json.dumps(_box(box))})

    async def test(self, request: Request) -> Response:
        """Read the draft's probe."""
        draft = await _draft(request)
        tested = await self._desk.test(draft)
        shown = await self._desk.source.frame(draft.frame)
        return JSONResponse(
            {
                **_reading(tested.reading, shown.width, shown.height),
                "region": _box(tested.region),
                "matched": _box(tested.matched) if tested.matched else None,
                "milliseconds": tested.milliseconds,
            }
        )

    async def toml(self, request: Request) -> Response:
        """The draft as TOML."""
        return JSONResponse({"toml": await self._desk.toml(await _draft(request))})

    async def save(self, request: Request) -> Response:
        """Append it to the rule file."""
        saved = await self._desk.save(await _draft(request))
        return JSONResponse({**attrs.asdict(saved), "probes": self._desk.probes()})


def _static(name: str) -> bytes:
    return (files("actors.authoring") / "static" / name).read_bytes()


async def _draft(request: Request) -> Draft:
    body = bytearray()
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise AuthoringError("the form is too large", status=413)
    try:
        return parse_draft(json.loads(bytes(body)))
    except ValueError as error:
        raise AuthoringError(f"not JSON: {error}") from error


def _box(box: Box) -> list[int]:
    return [box.left, box.top, box.right, box.bottom]


def _reading(reading: Reading, width: int, height: int) -> dict[str, Any]:
    at = None if reading.at is None else [round(reading.at[0] * width, 1), round(reading.at[1] * height, 1)]
    value = None if reading.value != reading.value else reading.value  # nan: no number was seen
    return {"value": value, "hit": reading.hit, "at": at, "text": reading.text}


async def _refused(_request: Request, error: Exception) -> Response:
    if isinstance(error, ScenarioError):  # a file beside the rule file that is not what its name says
        return JSONResponse({"error": str(error), "field": ""}, status_code=409)
    assert isinstance(error, AuthoringError)
    return JSONResponse({"error": str(error), "field": error.field}, status_code=error.status)


def app_for(desk: Desk, token: Secret) -> ASGIApp:
    """The page and its interface, under `/TOKEN/`."""
    endpoints = _Endpoints(desk)
    base = f"/{token.reveal()}"
    routes = [
        Route(f"{base}/", endpoints.page),
        Route(f"{base}/static/{{name}}", endpoints.static),
        Route(f"{base}/api/source", endpoints.source),
        Route(f"{base}/api/refresh", endpoints.refresh, methods=["POST"]),
        Route(f"{base}/api/frames/{{number:int}}.png", endpoints.picture),
        Route(f"{base}/api/pick", endpoints.pick, methods=["POST"]),
        Route(f"{base}/api/mask", endpoints.mask, methods=["POST"]),
        Route(f"{base}/api/test", endpoints.test, methods=["POST"]),
        Route(f"{base}/api/toml", endpoints.toml, methods=["POST"]),
        Route(f"{base}/api/save", endpoints.save, methods=["POST"]),
    ]
    return Guarded(
        Starlette(routes=routes, exception_handlers={AuthoringError: _refused, ScenarioError: _refused}), token
    )
