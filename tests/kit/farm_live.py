"""Doors of runs whose answers are scripted, where runs are `tests.kit.farm_run`; and a viewer's websocket."""

import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from trio_websocket import WebSocketConnection, wrap_client_stream

from actors.control import open_control
from actors.farm.events import PATH
from runtime.nursery import open_bare_nursery
from tests.kit.farm import PATIENCE_SECONDS, ServedFarm, wait_playing

JPEG = b"\xff\xd8 a picture of %s"


@attrs.define(eq=False)
class ScriptedDoor:
    """Answers as a run with those phones; each asking for pictures finds a new one."""

    addresses: Sequence[str]
    asked: list[Mapping[str, Any]] = attrs.field(factory=list)
    refuse: str | None = None
    step: int = 0
    by: str | None = None

    def names(self) -> dict[str, str]:
        """In the run → address."""
        return {f"SERIAL-{address}": address for address in self.addresses}

    def count(self, command: str) -> int:
        """Times that it was asked for."""
        return sum(one.get("command") == command for one in self.asked)

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """See `actors.control_answers`."""
        self.asked.append(request)
        if self.refuse is not None and request["command"] != "status":
            return {"ok": False, "error": self.refuse}
        match request["command"]:
            case "status":
                rows = [
                    {"phone": name, "address": address, "state": "playing", "step": self.step, "taken_over_by": self.by}
                    for name, address in self.names().items()
                ]
                return {"ok": True, "run": "r", "scenario": "s", "phones": rows}
            case "phone":
                return {"ok": True, "actions": [{"kind": "tap"}], "needs_human": None, "plan": None, "log": []}
            case "screens":
                self.step += 1
                shown = [
                    {"phone": name, "seq": self.step, "captured_ms_ago": 5.0, "width": 1, "height": 1,
                     "jpeg": base64.b64encode(JPEG % name.encode()).decode()}
                    for name in request["phones"]
                ]  # fmt: skip
                return {"ok": True, "screens": shown, "more": False}
            case "take_over":
                self.by = request["by"]
                return {"ok": True, "since_ms": 1_800_000_000_000}
            case "hand_back":
                had, self.by = self.by is not None, None
                return {"ok": True, "had": had}
            case "input":
                return {"ok": True, "ms": 12.5}
        return {"ok": True, "resumed": [], "phones": []}


@asynccontextmanager
async def open_door(served: ServedFarm, run: str) -> AsyncIterator[ScriptedDoor]:
    """The door of a run that plays; the farm sees it when the block begins."""
    await wait_playing(served.farm, run)
    attempt = (await served.farm.store.do(lambda store: store.attempts(run)))[-1]
    door = ScriptedDoor(attempt.phones)
    async with open_control(served.farm.files(attempt.attempt).folder, door.answer):
        yield door


@attrs.define(eq=False)
class Viewer:
    """One connection."""

    socket: WebSocketConnection
    messages: list[dict[str, Any]] = attrs.field(factory=list)
    pictures: list[tuple[dict[str, Any], bytes]] = attrs.field(factory=list)

    async def watch(self, *phones: str, screens: Any = None, detail: str | None = None) -> None:
        """Replace the subscription."""
        await self.say({"type": "watch", "phones": phones, "screens": screens, "detail": detail})

    async def say(self, message: Any) -> None:
        """Send one message."""
        await self.socket.send_message(message if isinstance(message, str | bytes) else json.dumps(message))

    async def take(self) -> Any:
        """The next message, or picture."""
        with trio.fail_after(PATIENCE_SECONDS):
            found = await self.socket.get_message()
        if isinstance(found, bytes):
            length = int.from_bytes(found[:4], "big")
            self.pictures.append((json.loads(found[4 : 4 + length]), found[4 + length :]))
            return self.pictures[-1]
        self.messages.append(json.loads(found))
        return self.messages[-1]

    async def until(self, kind: str) -> dict[str, Any]:
        """The next message of a type."""
        while True:
            found = await self.take()
            if isinstance(found, dict) and found["type"] == kind:
                return found

    async def during(self, seconds: float) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], bytes]]]:
        """All messages and pictures that come meanwhile."""
        messages, pictures = len(self.messages), len(self.pictures)
        with trio.move_on_after(seconds):
            while True:
                await self.take()
        return self.messages[messages:], self.pictures[pictures:]


@asynccontextmanager
async def open_viewer(served: ServedFarm, who: str) -> AsyncIterator[Viewer]:
    """Let in; raises ConnectionRejected otherwise."""
    host, _, port = served.url.removeprefix("http://").partition(":")
    headers = [(b"authorization", f"Bearer {served.tokens[who].reveal()}".encode())]
    stream = await trio.open_tcp_stream(host, int(port))
    try:
        async with open_bare_nursery() as nursery:
            socket = await wrap_client_stream(nursery, stream, served.url, PATH, extra_headers=headers)
            yield Viewer(socket)
            with trio.move_on_after(2):
                await socket.aclose()
            nursery.cancel_scope.cancel()
    finally:
        await trio.aclose_forcefully(stream)
