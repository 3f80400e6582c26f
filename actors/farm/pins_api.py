"""Endpoints of pins: questions that the farm's assistant is asked again by itself. Each has an owner."""

import secrets
from collections.abc import Mapping
from typing import Any

import attrs
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from actors.farm.access import Caller, Endpoint, Need, RequestError
from actors.farm.bodies import json_object
from actors.farm.daemon import Farm
from actors.farm.openapi import DAILY
from actors.farm.pin_desk import PinDesk
from actors.farm.pin_store import TooManyPins
from actors.farm.pins import (
    LEAST_MINUTES,
    MAX_QUESTION,
    MAX_SQL,
    MAX_TITLE,
    MOST_MINUTES,
    Pin,
    PinWrong,
    draft_as_json,
    parse_pin,
)
from actors.farm.store import MAX_LISTED, Missing, Refused
from actors.farm.views import moment

TENANT_PINS, USER_PINS = 200, 50
NO_ASSISTANT = "this farm has no assistant, so nothing can be pinned: [assistant] in its file says which one to ask"
_COLUMN = {"type": "string", "minLength": 1, "maxLength": MAX_TITLE}
_BOUND = {"type": "number"}

PIN_SCHEMAS: Mapping[str, Any] = {
    "Pin": {
        "type": "object",
        "additionalProperties": False,
        "required": ["question"],
        "properties": {
            "question": {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION},
            "title": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_TITLE},
            "sql": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_SQL},
            "schedule": {
                "oneOf": [
                    {"type": "null"},
                    DAILY,
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["every_minutes"],
                        "properties": {
                            "every_minutes": {"type": "integer", "minimum": LEAST_MINUTES, "maximum": MOST_MINUTES}
                        },
                    },
                ]
            },
            "threshold": {
                "oneOf": [
                    {"type": "null"},
                    *(
                        {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["column", side],
                            "properties": {"column": _COLUMN, side: _BOUND},
                        }
                        for side in ("above", "below")
                    ),
                ]
            },
        },
    },
}


@attrs.define(eq=False)
class PinsApi:
    """What they do. Another owner's pin is answered as if it were not there."""

    farm: Farm
    desk: PinDesk | None

    async def list_pins(self, _request: Request, caller: Caller) -> Response:
        """Without their rows."""
        self._desk()
        if caller.is_admin:
            pins = await self.farm.store.do(lambda store: store.pins.all(MAX_LISTED))
        else:
            pins = await self.farm.store.do(lambda store: store.pins.of(caller.tenant, caller.token.user))
        return JSONResponse({"pins": [pin_view(pin) for pin in pins]})

    async def add(self, request: Request, caller: Caller) -> Response:
        """201 with the pin, which is asked at once."""
        desk = self._desk()
        try:
            draft = parse_pin(await json_object(request, self.farm.config.limits.body_bytes))
        except PinWrong as error:
            raise RequestError(str(error), status=422) from error
        now = self.farm.clock()
        pin = Pin(secrets.token_hex(8), caller.tenant, caller.token.user, caller.token.id, draft, now, due_at=now)
        await self.farm.note(caller.action("pin question", pin.id, draft.title))
        try:
            await self.farm.store.do(lambda store: store.pins.add(pin, tenant_limit=TENANT_PINS, user_limit=USER_PINS))
        except TooManyPins as error:
            raise Refused(str(error)) from error
        desk.look_again()
        return JSONResponse(pin_view(pin), status_code=201)

    async def show(self, request: Request, caller: Caller) -> Response:
        """With its last answer."""
        self._desk()
        return JSONResponse(pin_view(await self._pin(request, caller)))

    async def remove(self, request: Request, caller: Caller) -> Response:
        """With its answer; if it is being asked, that ends."""
        desk = self._desk()
        pin = await self._pin(request, caller)
        await self.farm.note(caller.action("unpin question", pin.id, pin.draft.title))
        removed = await self.farm.store.do(lambda store: store.pins.remove(pin.id))
        desk.forget(pin.id)
        return JSONResponse({"id": pin.id, "removed": removed})

    async def ask_now(self, request: Request, caller: Caller) -> Response:
        """The pin as it is now; its answer comes later. Its owner's token is the one that it asks with from now on."""
        desk = self._desk()
        pin = await self._pin(request, caller)
        token = caller.token.id if _is_owners(pin, caller) else None
        await self.farm.note(caller.action("ask pinned question", pin.id))
        now = self.farm.clock()
        if not await self.farm.store.do(lambda store: store.pins.ask_now(pin.id, now, token)):
            raise Refused(f"pin {pin.id} is being asked already, or is paused until its owner runs it")
        desk.look_again()
        return JSONResponse(pin_view(await self._pin(request, caller)))

    def _desk(self) -> PinDesk:
        if self.desk is None:
            raise Missing(NO_ASSISTANT)
        return self.desk

    async def _pin(self, request: Request, caller: Caller) -> Pin:
        name = request.path_params["pin"]
        pin = await self.farm.store.do(lambda store: store.pins.find(name))
        if pin is None or not (caller.is_admin or _is_owners(pin, caller)):
            raise Missing("there is no such pin")
        return pin


def _is_owners(pin: Pin, caller: Caller) -> bool:
    return (pin.tenant, pin.user) == (caller.tenant, caller.token.user)


def pin_endpoints(farm: Farm, desk: PinDesk | None) -> tuple[Endpoint, ...]:
    """All of them.

    Args:
        farm: Keeps them.
        desk: Asks them; None: the farm has no assistant.
    """
    api, pin = PinsApi(farm, desk), "/api/v1/pins/{pin}"
    return (
        Endpoint("GET", "/api/v1/pins", Need.VIEWER, api.list_pins, "The caller's pinned questions; an admin's: all."),
        Endpoint("POST", "/api/v1/pins", Need.VIEWER, api.add, "Pin a question.", body="Pin", status=201),
        Endpoint("GET", pin, Need.VIEWER, api.show, "One, with its last answer."),
        Endpoint("DELETE", pin, Need.VIEWER, api.remove, "Ask it no more."),
        Endpoint("POST", f"{pin}/run", Need.VIEWER, api.ask_now, "Ask it now."),
    )


def pin_view(pin: Pin) -> dict[str, Any]:
    """What the API shows of one, with as much of its last answer as was read of the state."""
    last = None if pin.last is None else {**pin.last, "at": moment(pin.last["at"])}
    if last is not None:
        last["failed_at"] = moment(last.get("failed_at"))
    return {
        "id": pin.id,
        **draft_as_json(pin.draft),
        "tenant": pin.tenant,
        "user": pin.user,
        "created_at": moment(pin.created_at),
        "state": "paused" if pin.paused is not None else "waiting" if pin.began_at is None else "asking",
        "paused": pin.paused,
        "due_at": None if pin.paused is not None else moment(pin.due_at),
        "beyond": pin.beyond,
        "last": last,
    }
