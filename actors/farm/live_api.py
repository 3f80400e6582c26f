"""Endpoints of phones while they play: looking on, taking over, and input (docs/farm-events.md)."""

from collections.abc import Mapping
from typing import Any

import attrs
import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from actors.farm.access import Caller, Endpoint, Need, RequestError
from actors.farm.api import Api
from actors.farm.live import Live, user_of
from actors.farm.store import Missing
from actors.farm.views import moment
from actors.live_log import MAX_SIDE, MIN_SIDE
from actors.person_input import KEYS, KINDS, MAX_MS, MAX_TEXT, MIN_MS, InputWrong, check_input

SIDE = 720  # pixels of the long side of a picture, where nobody says
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
LIVE_SCHEMAS: Mapping[str, Any] = {
    "Pause": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"hold": {"type": "boolean", "description": "Stand still where it is; phones stay reserved."}},
    },
    "Input": {
        "type": "object",
        "additionalProperties": False,
        "required": ["kind"],
        "properties": {
            "kind": {"enum": list(KINDS)},
            **dict.fromkeys(("x", "y", "x2", "y2"), _SHARE),
            "ms": {"type": "number", "minimum": MIN_MS, "maximum": MAX_MS},
            "key": {"enum": list(KEYS)},
            "text": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
        },
    },
}


@attrs.define(eq=False)
class LiveApi:
    """What each endpoint does. Of phones that another tenant's run plays on, nothing but that they are busy."""

    api: Api
    live: Live

    async def list_phones(self, _request: Request, caller: Caller) -> Response:
        """How each is."""
        rows = self.live.rows(await self.live.look(), caller)
        return JSONResponse({"phones": list(rows.values())})

    async def show_phone(self, request: Request, caller: Caller) -> Response:
        """All of one."""
        return JSONResponse(await self.live.detail(request.path_params["phone"], caller))

    async def screen(self, request: Request, caller: Caller) -> Response:
        """The newest picture."""
        side = _side(request.query_params.get("side"))
        seat = await self.live.seat(request.path_params["phone"], caller)
        picture = (await self.live.pictures([seat], side, max_age=0.1)).get(seat.phone)
        if picture is None:
            raise Missing("there is no picture of this phone: it shows none, or is being set up")
        header = picture.header(trio.current_time())
        headers = {"x-captured-ms-ago": str(header["captured_ms_ago"]), "x-seq": str(picture.seq)}
        return Response(picture.jpeg, media_type="image/jpeg", headers=headers)

    async def take_over(self, request: Request, caller: Caller) -> Response:
        """The bot has yielded when this is answered."""
        seat = await self.live.seat(request.path_params["phone"], caller)
        await self.api.note(caller, "take over phone", seat.phone, seat.attempt.run)
        told = await self.live.do(seat, caller, "take_over")
        by = user_of(caller, seat.attempt.tenant)
        return JSONResponse({"phone": seat.phone, "by": by, "since": moment(told["since_ms"] / 1000)})

    async def hand_back(self, request: Request, caller: Caller) -> Response:
        """The bot goes on; an admin may also end what somebody else took."""
        seat = await self.live.seat(request.path_params["phone"], caller)
        await self.api.note(caller, "hand back phone", seat.phone, seat.attempt.run)
        told = await self.live.do(seat, caller, "hand_back", force=caller.is_admin)
        return JSONResponse({"phone": seat.phone, "by": None, "was_taken_over": told["had"]})

    async def input(self, request: Request, caller: Caller) -> Response:
        """Done on the phone when this is answered."""
        given = dict(await self.api.object_of(request))
        try:
            check_input(given)
        except InputWrong as error:
            raise RequestError(str(error)) from error
        seat = await self.live.seat(request.path_params["phone"], caller)
        # what was typed may be a password, and stands nowhere
        await self.api.note(caller, "use phone", seat.phone, f"{seat.attempt.run} {given['kind']}")
        told = await self.live.do(seat, caller, "input", input=given)
        return JSONResponse({"done": True, "ms": told["ms"]})


def live_endpoints(api: Api) -> tuple[Endpoint, ...]:
    """All of them."""
    does = LiveApi(api, api.live)
    phone = "/api/v1/phones/{phone}"
    side = {"side": {"type": "integer", "minimum": MIN_SIDE, "maximum": MAX_SIDE, "default": SIDE}}
    return (
        Endpoint(
            "GET", "/api/v1/phones", Need.VIEWER, does.list_phones, "Phones that the tenant may use.", schema="Phones"
        ),
        Endpoint("GET", phone, Need.VIEWER, does.show_phone, "One phone, and what it does while it plays."),
        Endpoint(
            "GET",
            f"{phone}/screen",
            Need.VIEWER,
            does.screen,
            "What it shows; the header x-captured-ms-ago says when.",
            query=side,
            answer="image/jpeg",
        ),
        Endpoint("POST", f"{phone}/take-over", Need.OPERATOR, does.take_over, "Have the bot yield to you."),
        Endpoint("DELETE", f"{phone}/take-over", Need.OPERATOR, does.hand_back, "Have the bot go on."),
        Endpoint("POST", f"{phone}/input", Need.OPERATOR, does.input, "Touch it, after a take-over.", body="Input"),
    )


def _side(text: str | None) -> int:
    if text is None:
        return SIDE
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and MIN_SIDE <= int(text) <= MAX_SIDE):
        raise RequestError(f"'side' must be a number from {MIN_SIDE} to {MAX_SIDE}: {text[:20]!r}")
    return int(text)
