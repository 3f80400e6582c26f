"""The wall's files: a page without data, open to whoever can connect. What it shows comes from the API."""

import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files

import attrs
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from actors.farm.access import refusal

MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
EMBED = "embed.html"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors "
)
_HEADERS = {
    "cache-control": "no-cache",  # asked for again each time, and answered with 304: a new release is seen at once
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@attrs.frozen
class _File:
    content: bytes
    media: str
    tag: str


def wall_routes(origins: Sequence[str] = ()) -> tuple[BaseRoute, ...]:
    """`/`, `/wall/` and every file of it; nothing else can be named.

    Args:
        origins: Pages that may embed the Ask tab.
    """
    known = dict(_found())

    async def to_wall(_request: Request) -> Response:
        return _guarded(RedirectResponse("/wall/", 307), "")

    async def page(request: Request) -> Response:
        return _answer(request, known["index.html"], "index.html")

    async def file(request: Request) -> Response:
        name = request.path_params["file"]
        found = known.get(name)
        return _guarded(refusal(404, "there is no such page"), "") if found is None else _answer(request, found, name)

    def _answer(request: Request, found: _File, name: str) -> Response:
        if request.headers.get("if-none-match") == found.tag:
            response = Response(status_code=304)
        else:
            response = Response(found.content, media_type=found.media)
        response.headers["etag"] = found.tag
        return _guarded(response, " ".join(origins) if name == EMBED else "")

    return (
        Route("/", to_wall, name="GET /"),
        Route("/wall", to_wall, name="GET /wall"),
        Route("/wall/", page, name="GET /wall/"),
        Route("/wall/{file}", file, name="GET /wall/{file}"),
    )


def _guarded(response: Response, ancestors: str) -> Response:
    for name, value in _HEADERS.items():
        response.headers[name] = value
    response.headers["content-security-policy"] = _POLICY + (ancestors or "'none'")
    return response


def _found() -> Iterator[tuple[str, _File]]:
    for one in (files("actors.farm") / "wall").iterdir():
        media = next((media for ending, media in MEDIA.items() if one.name.endswith(ending)), None)
        if media is not None and one.is_file():
            content = one.read_bytes()
            yield one.name, _File(content, media, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
