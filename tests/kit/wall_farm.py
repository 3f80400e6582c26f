"""Stands in for a farm behind the wall, true to its documents: phones that move, engines, findings, an assistant.

What a person does is kept in `done`. Texts of phones and models are hostile: none of them may do anything on the page.
"""

import json
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import attrs
import cv2
import numpy as np
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config, Sockets
from hypercorn.trio.run import worker_serve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from actors.farm.config import FarmListen
from actors.farm.pages import wall_routes
from actors.farm.serve import open_socket
from tests.kit.wall_pins import HOSTILE, ROWS, SPEC, WallPins

TOKEN = "corral_0123456789ab_" + "a" * 64
ME = {"user": "ann", "tenant": "games", "roles": ["admin"], "expires_at": "2030-01-01T00:00:00Z"}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="360" height="160">{}</svg>'
SHA = "ab" * 32


def screen(number: int, step: int, side: int) -> bytes:
    """A JPEG of a game that moves."""
    height, width = side, side * 9 // 16
    hue = np.full((height, width, 3), (number * 23 % 180, 120, 90), np.uint8)
    picture = cv2.cvtColor(hue, cv2.COLOR_HSV2BGR)
    cv2.circle(picture, (width // 2, (step * 17 + number * 40) % height), width // 7, (90, 200, 240), -1)
    cv2.rectangle(picture, (8, height - height // 8), (width - 8, height - 8), (230, 230, 230), -1)
    return bytes(cv2.imencode(".jpg", picture)[1])


def phone(number: int) -> dict[str, Any]:
    """A row; two phones are free, one needs a person, one has hostile text."""
    state = {2: "needs_human", 4: "preparing", 6: "lost"}.get(number, "playing")
    why = {1: HOSTILE, 2: "solve the puzzle on the screen", 6: "unplugged: reconnect its cable"}.get(
        number, "enemy near"
    )
    live = {
        "phone": f"10.0.0.{number}:5555",
        "app": HOSTILE if number == 1 else ("battler", "merge")[number % 2],
        "state": state,
        "step": 40 + number,
        "score": 12.5 * number,
        "action": "tap 0.4,0.6",
        "why": why,
        "capture_ms": 31.0,
        "plan_ms": 420.0,
        "stale": 2,
        "no_effect": 1,
        "stall": 0.1,
        "outcome": "",
        "lost": 0,
        "model": "Pixel 8",
        "android": "14",
        "remedy": "",
    }
    busy = number < 8
    return {
        "phone": f"10.0.0.{number}:5555",
        "pool": ("lab", "cloud")[number % 2],
        "simulated": False,
        "labels": ["pixel"] if number % 3 else [],
        "state": "busy" if busy else "free",
        "attempt": "a1" if busy else None,
        "paused": False,
        "paused_by": None,
        "live": live if busy else None,
        "taken_over_by": None,
        "run": "20270115T080000Z-abcdef" if busy else None,
    }


def detail(row: dict[str, Any]) -> dict[str, Any]:
    """Of one phone."""
    tap = {"kind": "tap", "x": 0.5, "y": 0.4, "x2": None, "y2": None, "text": None}
    swipe = {**tap, "kind": "swipe", "y": 0.8, "x2": 0.8, "y2": 0.3}
    told = {"at_ms": 1000, "why": HOSTILE, "outcome": "done"}
    steps = [
        {
            "at_ms": n,
            "capture_ms": 30 + n,
            "queue_ms": 10 * n % 70,
            "prefill_ms": 80,
            "decode_ms": 150 + 20 * n,
            "act_ms": 40,
            "stale": n == 3,
            "why": "sticky",
        }
        for n in range(6)
    ]
    return {
        **row,
        "actions": [
            {**tap, **told},
            {**swipe, **told, "why": "collect"},
            {**tap, **told, "x": 0.2, "why": "enemy near"},
        ],
        "plan": {
            "request": "r1",
            "asked_ms_ago": 300,
            "thinking": True,
            "actions": [{**tap, "x": 0.7, "y": 0.6, "state": "committed"}, {**swipe, "state": "next"}],
        },
        "ledger": steps,
        "log": [{"at_ms": 1, "level": "E", "tag": "AndroidRuntime", "text": HOSTILE}] * 3,
        "needs_human": "solve the puzzle on the screen"
        if row["live"] and row["live"]["state"] == "needs_human"
        else None,
    }


def run(number: int, state: str, **more: Any) -> dict[str, Any]:
    """A run as the API shows it."""
    names = ("quickstart", "errands-login", HOSTILE, "faults-bad-day")
    return {
        "run": f"20270115T08000{number}Z-abcde{number}",
        "number": number,
        "state": state,
        "held": None,
        "reason": "",
        "flaky": number == 3,
        "pinned": number == 4,
        "tenant": "games",
        "user": "ann",
        "is_text": False,
        "phones": 2,
        "scenario": names[number % 4],
        "labels": ["pixel"],
        "priority": number % 9,
        "daily": None,
        "repeats": 0,
        "on_interrupt": "requeue",
        "origin": None,
        "submitted_at": "2027-01-15T08:00:00Z",
        "ready_at": None,
        "ended_at": None if state in ("queued", "running") else "2027-01-15T08:20:00Z",
        **more,
    }


RUNS = [
    *(run(6, "queued", reason="2 phones with label pixel; 1 is free"), run(5, "running"), run(4, "succeeded")),
    *(run(3, "succeeded"), run(2, "failed", reason=HOSTILE), run(1, "cancelled", reason="cancelled by ann")),
]
ENGINES: dict[str, Any] = {
    "engines": [
        {
            "engine": name,
            "model": "Qwen/Qwen3-VL-8B",
            "state": state,
            "version": "v7",
            "kv_usage": used,
            "running": 11,
            "queued": 3,
            "concurrency": 16,
            "knee": 14.2,
            "tpot_ms": 21.4,
            "ttft_ms": 180,
            "homes": 24,
            "cached_share": 0.83,
            "circuit": "closed",
            "tokens": {
                "input": 0,
                "output": 0,
                "cached": 0,
                "tenants": {"games": dict.fromkeys(("input", "output", "cached"), 12345)},
            },
        }
        for name, state, used in (("sglang-0", "up", 0.62), ("sglang-1", "draining", 0.94))
    ],
    "rollout": {
        "state": "running",
        "engine": "sglang-1",
        "why": HOSTILE,
        "steps": ["engine sglang-0", "engine sglang-1"],
        "done": 1,
    },
    "held": [HOSTILE],
}
COSTS = {
    "currency": "CNY",
    "tokens": {"input": 123456, "output": 2345},
    "gpu_seconds": 321,
    "phone_minutes": 40,
    "money": 14.2,
}
FINDING = {
    "id": "f1",
    "kind": "crash",
    "title": f"NullPointerException at Shop.buy {HOSTILE}",
    "state": "new",
    "count": 7,
    "first_seen": "2027-01-10T08:00:00Z",
    "last_seen": "2027-01-15T08:00:00Z",
    "runs": ["r1", "r2"],
    "flaky": True,
    "example": {},
    "costs": {**COSTS, "phone_minutes": 12.5},
    "note": "",
    "examples": [{"run": RUNS[2]["run"], "phone": "10.0.0.1:5555", "episode": "e1", "why": HOSTILE}],
    "repro": {"scenario": "quickstart", "seed": 7, "episode": "e1", "command": "corral replay f1.zip"},
}
ATTEMPT = {
    "attempt": "a1",
    "number": 1,
    "outcome": "succeeded",
    "reason": HOSTILE,
    "phones": ["10.0.0.1:5555"],
    "exit_code": 0,
    "started_at": "2027-01-15T08:00:00Z",
    "ended_at": "2027-01-15T08:20:00Z",
    "result": {"episodes": 4, "succeeded": 3},
    "size_bytes": 1,
    "removed": False,
    "phone_minutes": 40.0,
    "cost": 12.0,
    "currency": "CNY",
}


@attrs.define(eq=False)
class WallFarm:
    """What the page sees of a farm."""

    url: str = ""
    done: list[tuple[str, str, Any]] = attrs.field(factory=list)
    """Method, path, body of everything that is no GET, log-ins aside."""
    rows: dict[str, dict[str, Any]] = attrs.field(factory=lambda: {row["phone"]: row for row in map(phone, range(10))})
    finding: dict[str, Any] = attrs.field(factory=lambda: dict(FINDING))
    runs: list[dict[str, Any]] = attrs.field(factory=lambda: [dict(one) for one in RUNS])
    pins: WallPins = attrs.field(factory=WallPins)
    without: tuple[str, ...] = ()
    """Beginnings of paths that this farm does not offer."""
    watched: dict[str, Any] = attrs.field(factory=dict)
    pictures: int = 0
    seen: int = 0

    async def answer(self, request: Request) -> Response:
        """Every address under /api/v1."""
        path, method = request.url.path.removeprefix("/api/v1/"), request.method
        body: Any = json.loads(await request.body() or b"{}") if method != "GET" else None
        if any(path.startswith(one) for one in self.without):
            return JSONResponse({"error": "Not Found"}, 404)
        if path == "session" and method == "POST":
            if body["token"] != TOKEN:
                return JSONResponse({"error": "this token is not known here"}, 401)
            response = JSONResponse(ME)
            response.set_cookie("corral_session", "here", httponly=True, samesite="strict")
            return response
        if request.cookies.get("corral_session") != "here":
            return JSONResponse({"error": "a valid token is needed"}, 401)
        if method != "GET" and path != "tickets":
            self.done.append((method, path, body))
        parts = path.split("/")
        return self.pins.answer(parts[1:], method, body) if parts[0] == "pins" else self._found(parts, method, body)

    def _found(self, parts: list[str], method: str, body: Any) -> Response:
        match parts:
            case ["session"]:
                response = JSONResponse(ME)
                if method == "DELETE":
                    response.delete_cookie("corral_session")
                return response
            case ["tickets"]:
                return JSONResponse({"ticket": "ticket_here", "expires_at": "2030-01-01T00:00:00Z"})
            case ["phones", name, "take-over"]:
                self.rows[name]["taken_over_by"] = "ann" if method == "POST" else None
            case ["runs"] if method == "GET":
                return JSONResponse({"runs": self.runs, "before": None})
            case ["runs", name] | ["runs", name, "cancel" | "pause" | "resume" | "pin"]:
                return JSONResponse(self._run(name, is_cancelled=parts[-1] == "cancel"))
            case ["runs", _, "logs"]:
                return Response(HOSTILE + "\nplaying\n", media_type="text/plain", headers={"x-next-offset": "100"})
            case ["runs", _, "filmstrip"]:
                action = {"kind": "tap", "x": 0.5, "y": 0.5}
                frames = [
                    {"sha": SHA, "step": n, "at_seconds": n * 1.5, "action": action if n else None} for n in range(9)
                ]
                one = {"episode": "e1", "phone": "10.0.0.1:5555", "outcome": "failed", "reason": HOSTILE, "score": 12.5}
                return JSONResponse({"episodes": [{**one, "frames": frames}]})
            case ["runs", _, "frames", _] | ["findings", _, "picture"]:
                return Response(screen(3, 5, 480), media_type="image/jpeg")
            case ["findings", _, "repro"]:
                return Response(b"PK", media_type="application/zip")
            case ["findings", _]:
                self.finding |= body or {}
                return JSONResponse(self.finding)
            case ["charts"]:
                bars = "".join(
                    f'<rect x="{20 + 50 * n}" y="{120 - 12 * n}" width="36" height="{30 + 12 * n}" fill="#0f6b78"/>'
                    for n in range(6)
                )
                return Response(SVG.format(bars), media_type="image/svg+xml")
            case ["tables"]:
                return Response(b"a,b", media_type="text/csv")
            case _:
                pass
        figure = {"a": 0.7, "b": 0.9, "a_interval": [0.6, 0.8], "b_interval": [0.85, 0.94], "differs": True}
        known = {
            "farm": {
                "alive": True,
                "phones": 10,
                "busy_phones": 8,
                "paused_phones": 0,
                "playing": 1,
                "queued": 1,
                "drained": False,
            },
            "phones": {"phones": list(self.rows.values())},
            "scenarios": {"scenarios": ["errands-login", "quickstart"]},
            "engines": ENGINES,
            "findings": {
                "findings": [self.finding],
                "screens": {"kept": 4096, "most": 4096, "forgotten": 12},
            },
            "compare": {"success": figure, "score": {"a": 10.5, "b": 11.0, "differs": False}},
        }
        return JSONResponse(known.get(parts[0], {"done": True}))

    def _run(self, name: str, *, is_cancelled: bool) -> dict[str, Any]:
        found = next(one for one in self.runs if one["run"] == name)
        if is_cancelled:
            found["state"] = "cancelled"
        return {**found, "attempts": [ATTEMPT], "progress": [phone(1)["live"]], "costs": COSTS}

    async def events(self, socket: WebSocket) -> None:
        """The websocket of docs/farm-events.md."""
        await socket.accept()
        await socket.send_json({"type": "hello", "version": 1, **ME})
        await socket.send_json({"type": "farm", **json.loads(bytes(self._found(["farm"], "GET", None).body))})
        await socket.send_json({"type": "runs", "whole": True, "runs": self.runs})
        await socket.send_json({"type": "engines", **ENGINES})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pictures, socket)
            try:
                while True:
                    message = await socket.receive_json()
                    if message["type"] == "seen":
                        self.seen += message["count"]
                        continue
                    self.watched = message
                    mine = [
                        row for name, row in self.rows.items() if name in message["phones"] or "*" in message["phones"]
                    ]
                    await socket.send_json({"type": "phones", "whole": True, "phones": mine})
            except WebSocketDisconnect:
                nursery.cancel_scope.cancel()

    async def _pictures(self, socket: WebSocket) -> None:
        step = 0
        while True:
            await trio.sleep(0.1)
            step += 1
            watched = self.watched
            for number, (name, row) in enumerate(self.rows.items()):
                screens = watched.get("screens")
                if not screens or not row["live"] or not {"*", name} & set(watched["phones"]):
                    continue
                jpeg = screen(number, step, screens["side"])
                header = json.dumps(
                    {"phone": name, "seq": step, "captured_ms_ago": 40, "width": 1, "height": 1}
                ).encode()
                self.pictures += 1
                await socket.send_bytes(struct.pack(">I", len(header)) + header + jpeg)
            if watched.get("detail") in self.rows:
                row = self.rows[watched["detail"]]
                await socket.send_json({"type": "detail", **detail(row)})
                await socket.send_json({"type": "phones", "whole": False, "phones": [row], "gone": []})
            if step % 3 == 0:
                await socket.send_json({"type": "runs", "whole": False, "runs": self.runs})

    async def assistant(self, socket: WebSocket) -> None:
        """The websocket of docs/assistant-protocol.md: a question gets rows, one with `which` gets choices."""
        await socket.accept()
        hello = await socket.receive_json()
        assert hello == {"type": "hello", "v": 1, "token": "ticket_here"}
        about = {
            "limits": {"ping_seconds": 30},
            "versions": {},
            "resumed": False,
            "missed": 0,
            "dropped": "",
            "running": [],
        }
        await socket.send_json({"type": "welcome", "v": 1, "session": "s1", **ME, **about})
        count = 0
        try:
            while True:
                message = await socket.receive_json()
                if message["type"] not in ("ask", "choose", "fix", "explain", "history", "review"):
                    continue
                self.done.append(("ASSISTANT", message["type"], message))
                if message["type"] == "history":
                    entry = {
                        "at": "2027-01-15T08:00:00Z",
                        "id": "o1",
                        "verb": "ask",
                        "text": HOSTILE,
                        "stage": "answer",
                    }
                    await socket.send_json({"type": "history", "entries": [entry]})
                    continue
                if message["type"] == "review":
                    await socket.send_json({"type": "reviewed", "id": message["id"], "review": "r1"})
                    continue
                for stage, data in script(message):
                    count += 1
                    last = stage in ("answer", "clarification")
                    event = {
                        "type": "event",
                        "id": message["id"],
                        "seq": count,
                        "stage": stage,
                        "data": data,
                        "last": last,
                    }
                    await socket.send_json(event)
        except WebSocketDisconnect:
            return


def script(message: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The events of one answer."""
    if "which" in message.get("text", ""):
        choices = [{"id": "c1", "label": "by day"}, {"id": "c2", "label": HOSTILE}]
        return [("clarification", {"text": f"which one? {HOSTILE}", "choices": choices})]
    return [
        ("resolved", {"text": "success rate by day 2027-01-10..15"}),
        ("intent", {"route": "metric", "why": HOSTILE}),
        ("scope", {"source": "warehouse", "tables": [{"name": "episodes"}]}),
        ("delta", {"text": "SELECT"}),
        ("sql", {"sql": f"SELECT day, episodes FROM t -- {HOSTILE}"}),
        ("check", {"verdict": "pass"}),
        ("rows", {"columns": ["day", "episodes", "note"], "rows": ROWS, "more": False}),
        ("summary", {"text": f"Episodes rose from 120 to 155. 局数从 120 升到 155。{HOSTILE}"}),
        ("chart", {"spec": SPEC}),
        ("answer", {"route": "metric", "text": "", "rows": 6, "ms": 12}),
    ]


@asynccontextmanager
async def open_wall_farm(**more: Any) -> AsyncIterator[WallFarm]:
    """Serve one on a port of its own."""
    farm = WallFarm(**more)
    methods = ["GET", "POST", "DELETE"]
    routes = [
        *wall_routes(),
        *([] if "events" in farm.without else [WebSocketRoute("/api/v1/events", farm.events)]),
        *([] if "assistant" in farm.without else [WebSocketRoute("/assistant", farm.assistant)]),
        Route("/api/v1/{path:path}", farm.answer, methods=methods),
    ]
    config = Config()
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 0.5
    stop = trio.Event()
    with open_socket(FarmListen(port=0)) as sock:
        farm.url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with trio.open_nursery() as nursery:
            app = ASGIWrapper(cast("Any", Starlette(routes=routes)))
            sockets = Sockets([], [sock], [])
            shutdown: Callable[[], Any] = stop.wait
            await nursery.start(partial(worker_serve, app, config, sockets=sockets, shutdown_trigger=shutdown))
            yield farm
            stop.set()
            nursery.cancel_scope.cancel()
