"""Endpoints of a tenant's findings: what goes wrong, what people say of it, and how it can be seen again."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from actors.farm.access import Caller, Endpoint, Need, RequestError
from actors.farm.api import Api
from actors.farm.asked import asked_choice, asked_number, asked_tenant
from actors.farm.costs import Usage
from actors.farm.findings_views import finding_view
from actors.farm.record_reader import Unreadable
from actors.farm.records import AttemptRecord
from actors.farm.sending import SCRATCH, ZIP_TYPE, file_answer, read_picture, zipped
from actors.farm.store import Missing, Refused, Store
from actors.results.finding_words import FindingKind, FindingState
from actors.results.findings_store import Example, Finding, Findings, FindingsUnreadable
from actors.results.repro import can_reproduce, repro_files
from actors.results.screens import MAX_SCREENS

MAX_LISTED = 1000
MAX_NOTE = 4000
_STATES, _KINDS = tuple(FindingState), tuple(FindingKind)
FINDING_SCHEMAS: Mapping[str, Any] = {
    "FindingMark": {
        "type": "object",
        "additionalProperties": False,
        "required": ["state"],
        "properties": {"state": {"enum": list(_STATES)}, "note": {"type": "string", "maxLength": MAX_NOTE}},
    }
}


@attrs.define(eq=False)
class FindingsApi:
    """What each does. A finding has one name in each tenant, and none in another."""

    api: Api

    async def list_findings(self, request: Request, caller: Caller) -> Response:
        """The latest first."""
        tenant = asked_tenant(request, caller)
        state = asked_choice(request, "state", _STATES)
        kind = asked_choice(request, "kind", _KINDS)
        scenario = request.query_params.get("scenario")
        limit = min(asked_number(request, "limit") or 100, MAX_LISTED)
        found = await self._load(tenant)
        chosen = [
            one
            for one in found.findings.values()
            if one.counts
            and state in (None, one.state)
            and kind in (None, one.kind)
            and (scenario is None or any(_scenario_of(found, run) == scenario for run in one.counts))
        ]
        chosen.sort(key=lambda one: (one.last_run, one.count, one.signature), reverse=True)
        screens = {"kept": len(found.screens), "most": MAX_SCREENS, "forgotten": found.forgotten_screens}
        return JSONResponse({"findings": await self._views(tenant, chosen[:limit]), "screens": screens})

    async def show(self, request: Request, caller: Caller) -> Response:
        """With its examples, and how it can be seen again."""
        tenant = asked_tenant(request, caller)
        found = await self._load(tenant)
        return JSONResponse(await self._whole(tenant, found, _named(found, request)))

    async def mark(self, request: Request, caller: Caller) -> Response:
        """Say what it is."""
        tenant = asked_tenant(request, caller)
        body = await self.api.object_of(request)
        state, note = _mark_of(body)
        one = _named(await self._load(tenant), request)
        await self.api.note(caller, "mark finding", f"{tenant}/{one.signature}", state)
        try:
            found = await self.api.farm.findings.change(tenant, lambda now: now.marked(one.signature, state, note))
        except KeyError as error:
            raise Missing("the runs that it was seen in were read again, and it is not in them any more") from error
        except (FindingsUnreadable, OSError) as error:
            raise _unusable(error) from error
        return JSONResponse(await self._whole(tenant, found, found.findings[one.signature]))

    async def repro(self, request: Request, caller: Caller) -> Response:
        """The smallest run folder that shows it: `corral replay` takes it unzipped."""
        one = _named(await self._load(asked_tenant(request, caller)), request)
        example = await trio.to_thread.run_sync(self._example, one)
        if example is None:
            raise Missing("no run that shows this finding has its folder any more")
        files = self.api.farm.files(example.run)
        scratch = self.api.farm.folder / SCRATCH

        def made() -> Any:
            inside = {
                f"{one.signature}/{name}": file for name, file in repro_files(files.folder, example.episode).items()
            }
            return zipped(inside, scratch)

        return file_answer(await trio.to_thread.run_sync(made), ZIP_TYPE, f"finding-{one.signature}.zip")

    async def picture(self, request: Request, caller: Caller) -> Response:
        """The frame that was kept nearest before it."""
        one = _named(await self._load(asked_tenant(request, caller)), request)
        for example in one.examples:
            if await trio.Path(self.api.farm.files(example.run).folder).is_dir():
                found = await self._picture_of(example)
                if found is not None:
                    content, kind = found
                    return Response(content, media_type=kind)
        raise Missing("there is no picture of it any more")

    async def _picture_of(self, example: Example) -> tuple[bytes, str] | None:
        farm = self.api.farm
        folder = farm.files(example.run).folder
        try:
            said = await farm.findings.reader.look("film", folder=str(folder), episode=example.episode)
        except Unreadable:
            return None
        frames = [frame for strip in said["episodes"] for frame in strip["frames"]]
        before = [one for one in frames if example.step is None or one["step"] is None or one["step"] <= example.step]
        for frame in [*reversed(before), *frames][:3]:  # a picture may be lost
            found = await trio.to_thread.run_sync(read_picture, folder, "frames", f"{frame['sha']}.jpg")
            if found is not None:
                return found
        return None

    async def _load(self, tenant: str) -> Findings:
        try:
            return await self.api.farm.findings.load(tenant)
        except FindingsUnreadable as error:
            raise _unusable(error) from error

    def _example(self, one: Finding) -> Example | None:
        """The latest that can be replayed."""
        for example in sorted(one.examples, key=lambda example: example.run, reverse=True):
            if can_reproduce(self.api.farm.files(example.run).folder, example.episode):
                return example
        return None

    async def _views(self, tenant: str, chosen: Sequence[Finding]) -> list[dict[str, Any]]:
        names = sorted({attempt for one in chosen for attempt in one.counts})

        def look(store: Store) -> tuple[dict[str, Usage], dict[str, AttemptRecord]]:
            return store.scans.finding_costs(tenant, [one.signature for one in chosen]), store.scans.relatives(names)

        costs, attempts = await self.api.farm.store.do(look)
        prices = self.api.farm.config.prices
        return [finding_view(one, costs.get(one.signature), prices, attempts) for one in chosen]

    async def _whole(self, tenant: str, found: Findings, one: Finding) -> dict[str, Any]:
        (view,) = await self._views(tenant, [one])
        example = await trio.to_thread.run_sync(self._example, one)
        scanned = None if example is None else found.runs.get(example.run)
        repro = None
        if example is not None and scanned is not None:
            command = f"unzip finding-{one.signature}.zip && corral replay {one.signature}"
            repro = {"scenario": scanned.scenario, "seed": scanned.seed, "episode": example.episode, "command": command}
        return {**view, "repro": repro}


def _named(found: Findings, request: Request) -> Finding:
    name = request.path_params["finding"]
    one = found.findings.get(name)
    if one is None:
        raise Missing(f"there is no finding {name[:40]!r}")
    return one


def _mark_of(body: Mapping[str, Any]) -> tuple[FindingState, str | None]:
    unknown = set(body) - {"state", "note"}
    if unknown:
        raise RequestError(f"there is no {min(unknown)[:40]!r}: a finding has 'state' and 'note'")
    state, note = body.get("state"), body.get("note")
    if state not in list(_STATES):
        raise RequestError(f"'state' must be one of {', '.join(_STATES)}")
    if note is not None and (not isinstance(note, str) or len(note) > MAX_NOTE):
        raise RequestError(f"'note' must be a text of up to {MAX_NOTE} characters")
    return FindingState(state), note


def _scenario_of(found: Findings, run: str) -> str | None:
    return found.runs[run].scenario if run in found.runs else None


def _unusable(error: Exception) -> Refused:
    del error  # it names files of the machine; the log has it
    return Refused("the tenant's file of findings cannot be used at the moment: see the daemon's log")


def finding_endpoints(api: Api) -> tuple[Endpoint, ...]:
    """All of them."""
    mine, finding = FindingsApi(api), "/api/v1/findings/{finding}"
    text = {"type": "string"}
    query: dict[str, dict[str, Any]] = {
        "state": {"enum": list(_STATES)},
        "kind": {"enum": list(_KINDS)},
        "scenario": text,
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LISTED},
        "tenant": text,
    }
    whose = {"tenant": text}
    return (
        Endpoint(
            "GET",
            "/api/v1/findings",
            Need.VIEWER,
            mine.list_findings,
            "What goes wrong.",
            query=query,
            schema="Findings",
        ),
        Endpoint(
            "GET",
            finding,
            Need.VIEWER,
            mine.show,
            "One finding, with its examples.",
            query=whose,
            schema="FindingWhole",
        ),
        Endpoint(
            "POST",
            finding,
            Need.OPERATOR,
            mine.mark,
            "Say what it is.",
            query=whose,
            body="FindingMark",
            schema="FindingWhole",
        ),
        Endpoint(
            "GET",
            f"{finding}/repro",
            Need.VIEWER,
            mine.repro,
            "The smallest run folder that shows it; `corral replay` takes it unzipped.",
            query=whose,
            answer=ZIP_TYPE,
        ),
        Endpoint(
            "GET", f"{finding}/picture", Need.VIEWER, mine.picture, "A picture of it.", query=whose, answer="image/*"
        ),
    )
