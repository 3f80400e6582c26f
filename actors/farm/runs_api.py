"""Endpoints that show what a run looked like, what it covered, how two differ, and that give it away for training."""

import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import attrs
import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from actors.farm.access import Caller, Endpoint, Need, RequestError
from actors.farm.asked import asked_attempt, asked_choice, asked_run, asked_tenant, attempt_of
from actors.farm.daemon import Farm
from actors.farm.record_reader import RecordReader
from actors.farm.records import AttemptRecord
from actors.farm.sending import SCRATCH, ZIP_TYPE, file_answer, read_picture, zipped
from actors.farm.store import Missing
from actors.results.training_export import ExportFormat
from runtime.ids import is_legal_id

_FORMATS = tuple(ExportFormat)
_SHA = re.compile(r"[0-9a-f]{64}")
_SUFFIXES = ("jpg", "png")


@attrs.define(eq=False)
class RunsApi:
    """What each does. All of it is of run folders: where one was removed, the answer says so."""

    farm: Farm

    @property
    def _reader(self) -> RecordReader:
        return self.farm.findings.reader

    async def filmstrip(self, request: Request, caller: Caller) -> Response:
        """Episodes with the pictures that were kept."""
        folder = await self._folder(await asked_attempt(self.farm, request, caller))
        episode = request.query_params.get("episode")
        if episode is not None and not is_legal_id(episode):
            raise Missing("there is no such episode")
        found = await self._reader.look("film", folder=str(folder), episode=episode)
        if episode is not None and not found["episodes"]:
            raise Missing(f"there is no episode {episode!r}")
        return JSONResponse(found)

    async def frame(self, request: Request, caller: Caller) -> Response:
        """One picture, by the hash that is its name."""
        sha = request.path_params["sha"]
        attempt = await asked_attempt(self.farm, request, caller)
        if _SHA.fullmatch(sha) is None:
            raise Missing("there is no such picture: its name is 64 hex digits")
        folder = await self._folder(attempt)
        for suffix in _SUFFIXES:
            found = await trio.to_thread.run_sync(read_picture, folder, "frames", f"{sha}.{suffix}")
            if found is not None:
                content, kind = found
                # its name says what is in it; the tenant's own browser may keep it
                return Response(content, media_type=kind, headers={"cache-control": "private, max-age=86400"})
        raise Missing("there is no such picture")

    async def compare(self, request: Request, caller: Caller) -> Response:
        """Two runs side by side; their last attempts."""
        names = {side: request.query_params.get(side) for side in ("a", "b")}
        folders = {}
        for side, name in names.items():
            if not name:
                raise RequestError(f"'{side}' must be a run")
            record = await asked_run(self.farm, name, caller)
            folders[side] = str(await self._folder(await attempt_of(self.farm, record.run)))
        said = await self._reader.look("compare", **folders)
        return JSONResponse({**names, **said})

    async def coverage(self, request: Request, caller: Caller) -> Response:
        """Of the latest run of a scenario, and what is new since the one before."""
        tenant = asked_tenant(request, caller)
        scenario = request.query_params.get("scenario")
        if not scenario:
            raise RequestError("'scenario' must be the name of one")
        latest = await self.farm.store.do(lambda store: store.scans.latest(tenant, scenario, 2))
        folders = [(one, self.farm.files(one.attempt).folder) for one in latest]
        there = [(one, folder) for one, folder in folders if await trio.Path(folder / "episodes").is_dir()]
        if not there:
            raise Missing("no run of this scenario has its folder here")
        before = str(there[1][1]) if len(there) > 1 else None
        found = await self._reader.look("coverage", folder=str(there[0][1]), before=before)
        if found["new_since"] is not None:
            found["new_since"]["run"] = there[1][0].run
        return JSONResponse({"run": there[0][0].run, **found})

    async def export(self, request: Request, caller: Caller) -> Response:
        """Its plans as training data."""
        form = asked_choice(request, "format", _FORMATS) or ExportFormat.CHAT
        attempt = await asked_attempt(self.farm, request, caller)
        folder = await self._folder(attempt)
        scratch = self.farm.folder / SCRATCH
        out = scratch / secrets.token_hex(8)
        try:
            await trio.to_thread.run_sync(_make, scratch)
            await self._reader.export(folder=str(folder), out=str(out), format=form)
            made = await trio.to_thread.run_sync(_zip_of, out, f"{attempt.attempt}-plans", scratch)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(_clear, out)
        return file_answer(made, ZIP_TYPE, f"{attempt.attempt}-{form}.zip")

    async def _folder(self, attempt: AttemptRecord) -> Path:
        if attempt.removed is not None:
            raise Missing(f"the folder of attempt {attempt.attempt} was removed: {attempt.removed}")
        folder = self.farm.files(attempt.attempt).folder
        if not await trio.Path(folder).is_dir() or await trio.Path(folder).is_symlink():
            raise Missing(f"attempt {attempt.attempt} has no folder")
        return folder


def _make(scratch: Path) -> None:
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)


def _zip_of(out: Path, name: str, scratch: Path) -> IO[bytes]:
    files = {f"{name}/{file.relative_to(out)}": file for file in sorted(out.rglob("*")) if file.is_file()}
    return zipped(files, scratch)


def _clear(out: Path) -> None:
    for folder in (out, out.with_name(f".{out.name}.unfinished")):
        shutil.rmtree(folder, ignore_errors=True)


def run_endpoints(farm: Farm) -> tuple[Endpoint, ...]:
    """All of them."""
    mine, run = RunsApi(farm), "/api/v1/runs/{run}"
    text: Mapping[str, Any] = {"type": "string"}
    attempt: Mapping[str, Any] = {"type": "integer", "minimum": 1}
    return (
        Endpoint(
            "GET",
            f"{run}/filmstrip",
            Need.VIEWER,
            mine.filmstrip,
            "The pictures that were kept of its episodes.",
            query={"attempt": attempt, "episode": text},
        ),
        Endpoint(
            "GET",
            f"{run}/frames/{{sha}}",
            Need.VIEWER,
            mine.frame,
            "One of these pictures.",
            query={"attempt": attempt},
            answer="image/*",
        ),
        Endpoint(
            "GET",
            f"{run}/export",
            Need.VIEWER,
            mine.export,
            "Its plans as training data.",
            query={"attempt": attempt, "format": {"enum": list(_FORMATS)}},
            answer=ZIP_TYPE,
        ),
        Endpoint(
            "GET", "/api/v1/compare", Need.VIEWER, mine.compare, "Two runs side by side.", query={"a": text, "b": text}
        ),
        Endpoint(
            "GET",
            "/api/v1/coverage",
            Need.VIEWER,
            mine.coverage,
            "Screens of the latest run of a scenario, and what is new since the one before.",
            query={"scenario": text, "tenant": text},
        ),
    )
