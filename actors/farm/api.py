"""What each endpoint of the farm's HTTP API does (docs/farm.md); `actors.farm.routes` has the table of them."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from actors.farm.access import Caller, RequestError
from actors.farm.asked import asked_attempt, asked_choice, asked_number, asked_run
from actors.farm.bodies import json_object
from actors.farm.daemon import Farm
from actors.farm.live import Live, user_of
from actors.farm.pin_desk import PinDesk
from actors.farm.records import WHOLE_FARM, AttemptRecord, RunRecord
from actors.farm.run_files import NoFile, read_inside
from actors.farm.store import MAX_LISTED, Missing, Store
from actors.farm.submission import parse_submission
from actors.farm.views import attempt_view, costs_of, drain_view, moment, run_view
from actors.farm.work import RunState
from runtime.ids import TenantId
from runtime.telemetry import render_metrics

LOG_BYTES = 64 << 10  # of a log, where nobody says how much
MAX_LOG_BYTES = 1 << 20
MAX_RESULT_BYTES = 256 << 20
RESULTS = {
    "summary.json": "application/json",
    "junit.xml": "application/xml",
    "report.html": "text/html; charset=utf-8",
}
"""Of a run folder; nothing else of it is served."""
# the report styles itself and carries its pictures; it runs no script, and belongs to no origin
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"


@attrs.define(eq=False)
class Api:
    """What each endpoint does. What is of another tenant is answered as if it were not there."""

    farm: Farm
    pins: PinDesk | None = None
    """Asks pinned questions; None: the farm has no assistant."""
    live: Live = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.live = Live(self.farm)

    # open

    async def healthz(self, _request: Request) -> Response:
        """200 while it looks at its queue."""
        alive = self.farm.is_alive
        return JSONResponse({"alive": alive}, status_code=200 if alive else 503)

    async def readyz(self, _request: Request) -> Response:
        """200 while a run that is submitted may start."""
        statistics = self.farm.statistics()
        ready = self.farm.is_alive and not statistics.draining
        why = "drained" if statistics.draining else "" if ready else "it does not look at its queue"
        return JSONResponse({"ready": ready, "why": why}, status_code=200 if ready else 503)

    # looking

    async def metrics(self, _request: Request, caller: Caller) -> Response:
        """What names a tenant is for admins alone."""
        text = render_metrics()
        if not caller.is_admin:
            text = b"".join(line for line in text.splitlines(keepends=True) if b'tenant="' not in line)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def show_farm(self, _request: Request, _caller: Caller) -> Response:
        """Counts, and whether it is drained."""
        pauses = await self.farm.store.do(lambda store: store.pauses())
        return JSONResponse({**attrs.asdict(self.farm.statistics()), **drain_view(pauses)})

    async def list_scenarios(self, _request: Request, _caller: Caller) -> Response:
        """Names."""
        return JSONResponse({"scenarios": await trio.to_thread.run_sync(self.farm.scenarios)})

    async def list_runs(self, request: Request, caller: Caller) -> Response:
        """A page."""
        query = request.query_params
        state = asked_choice(request, "state", tuple(RunState))
        tenant: TenantId | None = caller.tenant
        if caller.is_admin:
            tenant = TenantId(query["tenant"]) if "tenant" in query else None
        elif query.get("tenant", caller.tenant) != caller.tenant:
            return JSONResponse({"runs": [], "before": None})
        limit = asked_number(request, "limit") or 100
        find = partial(
            Store.runs,
            tenant=tenant,
            states=[] if state is None else [RunState(state)],
            before=asked_number(request, "before"),
            limit=limit,
        )

        def look(store: Store) -> tuple[list[RunRecord], dict[str, list[AttemptRecord]]]:
            records = find(store)
            return records, store.scans.attempts_of([one.run for one in records])

        found, attempts = await self.farm.store.do(look)
        views = [self._view(one, attempts.get(one.run, [])) for one in found]
        more = found[-1].number if found and len(found) == min(limit, MAX_LISTED) else None
        return JSONResponse({"runs": views, "before": more})

    async def show_run(self, request: Request, caller: Caller) -> Response:
        """All of one."""
        record = await self._run(request, caller)
        attempts = await self.farm.store.do(lambda store: store.attempts(record.run))
        prices, now = self.farm.config.prices, self.farm.clock()
        phones = await self.farm.progress(record.run) if record.state is RunState.RUNNING else []
        views = [attempt_view(one, prices, now) for one in attempts]
        return JSONResponse({**self._view(record, attempts), "attempts": views, "progress": phones})

    async def logs(self, request: Request, caller: Caller) -> Response:
        """Bytes of the log from an offset on, or its end."""
        attempt = await self._attempt(request, caller)
        offset = asked_number(request, "offset")
        limit = asked_number(request, "limit")
        take = min(LOG_BYTES if limit is None else limit, MAX_LOG_BYTES)
        log = self.farm.files(attempt).log
        text, following = await trio.to_thread.run_sync(_read_log, log, offset, take)
        headers = {"x-next-offset": str(following)}
        return Response(text, media_type="text/plain; charset=utf-8", headers=headers)

    async def results(self, request: Request, caller: Caller) -> Response:
        """One file of a fixed list."""
        attempt = await self._attempt(request, caller)
        name = request.path_params["name"]
        if name not in RESULTS:
            raise Missing(f"there is no such result; there are {', '.join(RESULTS)}")
        read = partial(read_inside, self.farm.files(attempt).folder, name, most=MAX_RESULT_BYTES)
        try:
            content = await trio.to_thread.run_sync(read)
        except NoFile as error:
            raise Missing(f"this attempt has no {name}") from error
        headers = {"content-security-policy": REPORT_POLICY} if name == "report.html" else {}
        return Response(content, media_type=RESULTS[name], headers=headers)

    async def audit(self, request: Request, _caller: Caller) -> Response:
        """The newest first."""
        limit = asked_number(request, "limit") or 100
        actions = await self.farm.store.do(lambda store: store.actions(limit))
        return JSONResponse({"actions": [{**one, "at": moment(one["at"])} for one in actions]})

    # doing

    async def submit(self, request: Request, caller: Caller) -> Response:
        """201 with the run."""
        found = parse_submission(await self.object_of(request))
        await self.note(caller, "submit", found.scenario or "text")
        record = await self.farm.submit(found, tenant=caller.tenant, user=caller.token.user)
        return JSONResponse(self._view(record), status_code=201)

    async def cancel(self, request: Request, caller: Caller) -> Response:
        """The run as it is now; one that plays takes a moment to end."""
        record = await self._run(request, caller)
        await self.note(caller, "cancel", record.run)
        return JSONResponse(self._view(await self.farm.cancel(record.run, caller.token.user)))

    async def pause(self, request: Request, caller: Caller) -> Response:
        """The run as it is now."""
        record = await self._run(request, caller)
        hold = (await self.object_of(request)).get("hold", False)
        if not isinstance(hold, bool):
            raise RequestError("'hold' must be true or false")
        if hold:
            await self.note(caller, "hold", record.run)
            by = user_of(caller, record.work.tenant)
            return JSONResponse(self._view(await self.farm.hold(record.run, by)))
        await self.note(caller, "pause", record.run)
        return JSONResponse(self._view(await self.farm.pause(record.run, caller.token.user)))

    async def resume(self, request: Request, caller: Caller) -> Response:
        """The run as it is now."""
        record = await self._run(request, caller)
        phone = (await self.object_of(request)).get("phone")
        if phone is not None and not isinstance(phone, str):
            raise RequestError("'phone' must be a text")
        await self.note(caller, "resume", record.run, phone or "")
        return JSONResponse(self._view(await self.farm.resume(record.run, phone)))

    async def pin(self, request: Request, caller: Caller) -> Response:
        """The run as it is now."""
        return await self._pin(request, caller, pinned=True)

    async def unpin(self, request: Request, caller: Caller) -> Response:
        """The run as it is now."""
        return await self._pin(request, caller, pinned=False)

    async def pause_phone(self, request: Request, caller: Caller) -> Response:
        """What plays there goes on to its end."""
        phone = request.path_params["phone"]
        self._check_phone(phone)
        await self.note(caller, "pause phone", phone)
        await self.farm.pause_phone(phone, caller.token.user)
        return JSONResponse({"phone": phone, "paused": True})

    async def resume_phone(self, request: Request, caller: Caller) -> Response:
        """Also one that is not of the farm any more."""
        phone = request.path_params["phone"]
        if phone == WHOLE_FARM:
            raise Missing("there is no such phone")
        await self.note(caller, "resume phone", phone)
        return JSONResponse({"phone": phone, "paused": False, "was_paused": await self.farm.resume_phone(phone)})

    async def drain(self, _request: Request, caller: Caller) -> Response:
        """Survives a restart, until somebody takes it back."""
        await self.note(caller, "drain", "farm")
        await self.farm.pause_phone(WHOLE_FARM, caller.token.user)
        return JSONResponse({"drained": True, "playing": self.farm.statistics().playing})

    async def undrain(self, _request: Request, caller: Caller) -> Response:
        """Runs start again."""
        await self.note(caller, "undrain", "farm")
        await self.farm.resume_phone(WHOLE_FARM)
        return JSONResponse({"drained": False})

    async def _pin(self, request: Request, caller: Caller, *, pinned: bool) -> Response:
        record = await self._run(request, caller)
        await self.note(caller, "pin" if pinned else "unpin", record.run)
        await self.farm.store.do(lambda store: store.pin(record.run, pinned=pinned))
        return JSONResponse({**self._view(record), "pinned": pinned})

    async def note(self, caller: Caller, action: str, target: str, detail: str = "") -> None:
        """Before it is done: what cannot be noted is not done."""
        await self.farm.note(caller.action(action, target, detail))

    async def _run(self, request: Request, caller: Caller) -> RunRecord:
        return await asked_run(self.farm, request.path_params["run"], caller)

    async def _attempt(self, request: Request, caller: Caller) -> str:
        return (await asked_attempt(self.farm, request, caller)).attempt

    def _check_phone(self, phone: str) -> None:
        if phone not in {one.id for one in self.farm.config.farm_phones()}:
            raise Missing("there is no such phone")

    def _view(self, record: RunRecord, attempts: Sequence[AttemptRecord] | None = None) -> dict[str, Any]:
        """With its costs, where its attempts are known."""
        waits = self.farm.reason_for(record.run) if record.state is RunState.QUEUED else ""
        prices = self.farm.config.prices
        costs = None if attempts is None else costs_of(attempts, prices, self.farm.clock())
        return run_view(record, waits, costs, self.farm.stands(record))

    async def object_of(self, request: Request) -> Mapping[str, Any]:
        """The body as an object; an empty one is an empty object."""
        return await json_object(request, self.farm.config.limits.body_bytes)


def _read_log(log: Path, offset: int | None, limit: int) -> tuple[bytes, int]:
    """(text, offset after it). Without an offset, the end of the log from the start of a line on."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - limit) if offset is None else min(offset, size)
            file.seek(start)
            text = file.read(limit)
    except OSError as error:
        raise Missing("there is no log: it has not begun, or was removed") from error
    if offset is None and start > 0:
        text = text[text.find(b"\n") + 1 :]
    return text, start + len(text) if offset is not None else size
