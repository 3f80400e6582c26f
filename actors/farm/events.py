"""The farm's live events over a websocket (docs/farm-events.md): one viewer's connection, and how many there may be.

Each viewer asks for what it wants at its own pace; what is looked up for one serves the others (`actors.farm.live`).
One that wants nothing costs nothing. What is sent is bounded by what the viewer says that it has drawn.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
import trio
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from actors.analyst_asgi import AsgiLine
from actors.analyst_line import GOING_AWAY, NORMAL, POLICY, SLOW_READER, LineClosed
from actors.farm.access import Caller, Gate, Need, refusal
from actors.farm.database import StoreError
from actors.farm.live import Live
from actors.farm.live_views import changed_rows
from actors.farm.store import Missing
from actors.farm.views import drain_view
from actors.farm.watching import VERSION, Pace, Seen, Watch, WatchWrong, parse_message, picture_message
from runtime.telemetry import counter, emit, gauge

PATH = "/api/v1/events"
STATE_SECONDS = 1.0  # between two looks at phones, runs and the farm
DETAIL_SECONDS = 0.5
ENGINES_SECONDS = 2.0
TOKEN_SECONDS = 5.0  # a revoked token's connections end within this
SLOW_SECONDS = 10.0  # for a message to be taken; who reads slower is dropped
CLOSE_SECONDS = 2.0

_VIEWERS = gauge("actors_farm_viewer_connections", "Connections to the live events.")
_DROPPED = counter("actors_farm_dropped_connections_total", "Viewers whose connection was ended by us.", ["why"])

EnginesView = Callable[[Caller], Awaitable[Mapping[str, Any]]]
"""What `GET /api/v1/engines` shows a caller."""


class _Ended(Exception):
    """The connection is to end."""

    def __init__(self, why: str, code: int, label: str) -> None:
        super().__init__(why)
        self.why, self.code, self.label = why, code, label


@attrs.define(eq=False)
class EventsDesk:
    """Lets viewers in, and ends them all when the daemon does."""

    live: Live
    gate: Gate
    engines: EnginesView | None = None
    viewers: int = attrs.field(default=0, init=False)
    """Connected now."""
    _ending: trio.Event = attrs.field(factory=trio.Event, init=False)

    def end(self) -> None:
        """The daemon ends: every viewer is told."""
        self._ending.set()

    def route(self) -> WebSocketRoute:
        """The only way in."""
        return WebSocketRoute(PATH, self._enter, name="events")

    async def _enter(self, websocket: WebSocket) -> None:
        caller = await self.gate.caller_of(websocket)
        if isinstance(caller, Response):
            await websocket.send_denial_response(caller)
            return
        if not caller.may(Need.VIEWER):
            await websocket.send_denial_response(refusal(403, f"this needs the role {Need.VIEWER.value}"))
            return
        most = self.live.farm.config.limits.viewers
        if self.viewers >= most or self._ending.is_set():
            why = f"there are {most} viewers already" if self.viewers >= most else "the farm ends"
            await websocket.send_denial_response(refusal(503, why))
            return
        self.viewers += 1
        _VIEWERS.set(self.viewers)
        try:
            await websocket.accept()
            async with trio.open_nursery() as nursery:
                viewer = _Viewer(self, caller, AsgiLine(websocket, nursery))
                await viewer.serve()
                nursery.cancel_scope.cancel()
        finally:
            self.viewers -= 1
            _VIEWERS.set(self.viewers)

    async def wait_ending(self) -> None:
        """Until `end`."""
        await self._ending.wait()


@attrs.define(eq=False)
class _Viewer:
    """One connection that was let in."""

    _desk: EventsDesk
    _caller: Caller
    _line: AsgiLine
    _watch: Watch = attrs.field(factory=Watch, init=False)
    _watched: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set, and replaced, whenever the viewer wants something else."""
    _pace: Pace = attrs.field(factory=Pace, init=False)
    _told: dict[str, Any] = attrs.field(factory=dict, init=False)
    """By type of message: what the viewer was told last."""
    _sent_seq: dict[str, int] = attrs.field(factory=dict, init=False)
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _end: _Ended | None = attrs.field(default=None, init=False)

    async def serve(self) -> None:
        """Until either side ends it."""
        token = self._caller.token
        try:
            hello = {"version": VERSION, "user": token.user, "tenant": token.tenant, "roles": list(token.roles)}
            await self._send({"type": "hello", **hello})
            async with trio.open_nursery() as nursery:

                async def guarded(task: Callable[[], Awaitable[None]]) -> None:
                    try:
                        await task()
                    except LineClosed:
                        pass
                    except _Ended as ended:
                        self._end = self._end or ended
                    except Exception:  # noqa: BLE001  # a mistake of ours ends one viewer, not the daemon
                        emit("actors.farm.viewer_failed", level="error", exc_info=True)
                        self._end = self._end or _Ended("an internal error: see the daemon's log", NORMAL, "error")
                    nursery.cancel_scope.cancel()

                for task in (self._read, self._states, self._details, self._screens, self._guard, self._until_end):
                    nursery.start_soon(guarded, task)
        except LineClosed:
            return
        except _Ended as ended:
            self._end = ended
        await self._leave()

    async def _leave(self) -> None:
        if self._end is None:
            return
        _DROPPED.labels(self._end.label).inc()
        emit("actors.farm.viewer_ended", user=self._caller.token.user, why=self._end.why)
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            if self._end.code != SLOW_READER:  # half a message may be under way: whatever followed would be nonsense
                try:
                    await self._line.send(json.dumps({"type": "bye", "why": self._end.why}))
                except LineClosed:
                    return
            await self._line.close(self._end.code, self._end.why[:100])

    # what ends it

    async def _guard(self) -> None:
        while await self._desk.gate.still_good(self._caller):  # noqa: ASYNC110  # a file of tokens tells nobody
            await trio.sleep(TOKEN_SECONDS)
        raise _Ended("the token is no longer good", POLICY, "token")

    async def _until_end(self) -> None:
        await self._desk.wait_ending()
        raise _Ended("the farm ends", GOING_AWAY, "farm")

    async def _read(self) -> None:
        while True:
            try:
                found = parse_message(await self._line.receive())
            except WatchWrong as error:
                await self._send({"type": "error", "error": str(error)})
                continue
            if isinstance(found, Seen):
                self._pace.seen(found.count)
                continue
            self._watch = found
            self._told.clear()
            self._sent_seq.clear()
            changed, self._watched = self._watched, trio.Event()
            changed.set()

    # what is sent

    async def _send(self, message: Mapping[str, Any] | bytes) -> None:
        async with self._lock:
            with trio.move_on_after(SLOW_SECONDS) as patience:
                if isinstance(message, bytes):
                    await self._line.send_bytes(message)
                else:
                    await self._line.send(json.dumps(message, ensure_ascii=False))
            if patience.cancelled_caught:
                raise _Ended(f"what was sent was not read within {SLOW_SECONDS:g} s", SLOW_READER, "slow_reader")

    async def _send_changed(self, kind: str, message: Mapping[str, Any]) -> None:
        """Only where it is not what the viewer was told last."""
        if self._told.get(kind) != message:
            self._told[kind] = message
            await self._send({"type": kind, **message})

    async def _send_rows(self, kind: str, rows: Mapping[str, Mapping[str, Any]], *, gone: bool) -> None:
        old = self._told.get(kind)
        self._told[kind] = rows
        changed, lost = changed_rows(old or {}, rows)
        if old is None or changed or (lost and gone):
            more = {"gone": lost} if gone and old is not None else {}
            await self._send({"type": kind, "whole": old is None, kind: changed, **more})

    async def _pause(self, seconds: float) -> None:
        """So long, or until the viewer wants something else."""
        watched = self._watched
        with trio.move_on_after(seconds):
            await watched.wait()

    async def _states(self) -> None:
        engines_at = float("-inf")
        while True:
            if not self._watch.phones:
                await self._watched.wait()
                continue
            watch, began = self._watched, trio.current_time()
            try:
                await self._state()
                if self._desk.engines is not None and (began - engines_at >= ENGINES_SECONDS or watch.is_set()):
                    engines_at = began
                    await self._send_changed("engines", dict(await self._desk.engines(self._caller)))
            except StoreError as error:
                emit("actors.farm.state_failed", level="error", error=str(error))
            if not watch.is_set():
                await self._pause(STATE_SECONDS)

    async def _state(self) -> None:
        live = self._desk.live
        look = await live.look()
        watch = self._watch
        rows = {name: row for name, row in live.rows(look, self._caller).items() if watch.wants(name)}
        statistics = attrs.asdict(live.farm.statistics())
        statistics["tick_age_seconds"] = round(statistics["tick_age_seconds"])  # else every second would be a change
        runs = await live.runs(self._caller)
        if watch is not self._watch:
            return  # it wants something else by now
        await self._send_changed("farm", {**statistics, **drain_view(look.pauses)})
        await self._send_rows("phones", rows, gone=True)
        await self._send_rows("runs", runs, gone=False)

    async def _details(self) -> None:
        while True:
            watch = self._watch
            if watch.detail is None:
                await self._watched.wait()
                continue
            try:
                found = await self._desk.live.detail(watch.detail, self._caller)
            except Missing as error:
                if self._told.get("detail") != str(error):
                    self._told["detail"] = str(error)
                    await self._send({"type": "error", "error": f"{watch.detail}: {error}"})
            except StoreError as error:
                emit("actors.farm.state_failed", level="error", error=str(error))
            else:
                if watch is self._watch:
                    await self._send_changed("detail", found)
            if watch is self._watch:
                await self._pause(DETAIL_SECONDS)

    async def _screens(self) -> None:
        due = float("-inf")
        while True:
            watch = self._watch
            if watch.screens is None or watch.is_hidden:
                await self._watched.wait()
                continue
            period = 1.0 / watch.screens.fps
            now = trio.current_time()
            # a round that begins a little late delays no later one; a new watch begins at once
            due = due + period if due + period <= now < due + 2 * period else now
            await self._send_screens(watch, watch.screens.side, max_age=period / 2)
            if watch is self._watch:
                await self._pause(max(0.0, due + period - trio.current_time()))

    async def _send_screens(self, watch: Watch, side: int, max_age: float) -> None:
        live = self._desk.live
        try:
            seats = live.seats(await live.look(STATE_SECONDS), self._caller)
        except StoreError as error:
            emit("actors.farm.state_failed", level="error", error=str(error))
            return
        watched = [phone for phone in seats if watch.wants(phone) or phone == watch.detail]
        mine = [seats[phone] for phone in self._pace.next_phones(watched)]
        for phone, picture in (await live.pictures(mine, side, max_age)).items():
            if watch is not self._watch:
                return
            if self._sent_seq.get(phone) == picture.seq:
                continue
            self._sent_seq[phone] = picture.seq
            self._pace.sent()
            await self._send(picture_message(phone, picture.header(trio.current_time()), picture.jpeg))
