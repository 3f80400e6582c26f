"""Bodies of requests: bounded in size and time, and JSON objects."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import trio
from starlette.requests import Request

from actors.farm.access import RequestError

BODY_SECONDS = 30.0  # for a body to arrive


async def json_object(request: Request, most: int) -> Mapping[str, Any]:
    """The body as an object; an empty one is an empty object.

    Raises:
        RequestError: it has more than `most` bytes, does not arrive, or is no JSON object.
    """
    body = bytearray()
    try:
        with trio.fail_after(BODY_SECONDS):
            async with aclosing(request.stream()) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) > most:
                        raise RequestError(f"the body has more than {most} bytes", status=413)
    except trio.TooSlowError as error:
        raise RequestError(f"the body did not arrive within {BODY_SECONDS:g} s", status=408) from error
    try:
        found = json.loads(bytes(body) or b"{}")
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RequestError("the body must be a JSON object")
    return found
