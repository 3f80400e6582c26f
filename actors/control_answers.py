"""What a running run answers at its door (`actors.control`), and does for whoever asks.

{"command": "status"}                         → {"run", "scenario", "phones": [`PhoneStatus`, ...]}
{"command": "resume", "phone": "CORRAL0000"}  → {"resumed": [...]}; no phone means every one
{"command": "phone", "phone"}                 → `actors.phone_detail`
{"command": "screens", "phones": {"CORRAL0000": 17}, "side": 240}   → `actors.screens`
{"command": "take_over", "phone", "by"}       → {"since_ms"}; refused where somebody else has it
{"command": "hand_back", "phone", "by"}       → {"had": true}; refused where somebody else has it, unless "force"
{"command": "input", "phone", "by", "input": {...}}   → {"ms"} (`actors.person_input`)
{"command": "hold", "by"}, {"command": "go_on"}       → {"phones": [...]}: the whole run
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
import trio

from actors.custody import MAX_NAME
from actors.devices.base import DeviceError
from actors.fleet import Fleet
from actors.live_log import MAX_SIDE, MIN_SIDE
from actors.person_input import InputWrong, action_for
from actors.phone import PhoneJob
from actors.phone_detail import detail_for
from actors.phone_status import statuses
from actors.screens import newest_screens
from runtime.secret import redact
from runtime.telemetry import emit

Request = Mapping[str, Any]


class _Refused(Exception):
    """The request is wrong, or does not fit; the text says why."""


async def answer_for(fleet: Fleet, request: Request) -> dict[str, Any]:
    """Do what a request asks for; one that is wrong is answered, never raised."""
    command = request.get("command")
    answer = _COMMANDS.get(command) if isinstance(command, str) else None
    if answer is None:
        return {"ok": False, "error": f"unknown command {command!r}; commands are {', '.join(_COMMANDS)}"}
    try:
        return {"ok": True, **await answer(fleet, request)}
    except _Refused as error:
        return {"ok": False, "error": str(error)}


async def _status(fleet: Fleet, _request: Request) -> dict[str, Any]:
    phones = [{key: _jsonable(value) for key, value in attrs.asdict(row).items()} for row in statuses(fleet)]
    return {"run": fleet.run_id, "scenario": fleet.scenario.name, "phones": phones}


async def _resume(fleet: Fleet, request: Request) -> dict[str, Any]:
    phone = request.get("phone")
    if phone is not None:
        _job(fleet, request)
    return {"resumed": fleet.resume(phone)}


async def _phone(fleet: Fleet, request: Request) -> dict[str, Any]:
    return detail_for(_job(fleet, request), now=trio.current_time(), zero_ms=fleet.zero_ms)


async def _screens(fleet: Fleet, request: Request) -> dict[str, Any]:
    known, side = request.get("phones"), request.get("side")
    if not isinstance(known, dict) or not all(seq is None or type(seq) is int for seq in known.values()):
        raise _Refused("'phones' must be an object: phone → the number of the picture that was seen, or null")
    if type(side) is not int or not MIN_SIDE <= side <= MAX_SIDE:
        raise _Refused(f"'side' must be a number from {MIN_SIDE} to {MAX_SIDE}")
    jobs = [job for job in fleet.jobs if job.phone in known]
    screens, more = await newest_screens(jobs, known, side)
    return {"screens": screens, "more": more}


async def _take_over(fleet: Fleet, request: Request) -> dict[str, Any]:
    job, by = _job(fleet, request), _name(request)
    now = trio.current_time()
    refused = job.take_over(by, now)
    if refused is not None:
        raise _Refused(refused)
    _tell(fleet, "actors.phone.taken_over", phone=job.phone, by=by)
    return {"since_ms": int(fleet.zero_ms + job.custody.since * 1000)}


async def _hand_back(fleet: Fleet, request: Request) -> dict[str, Any]:
    job, by = _job(fleet, request), _name(request)
    holder = job.custody.holder(trio.current_time())
    if holder not in (None, by) and request.get("force") is not True:
        raise _Refused(f"{holder} has taken over {job.phone}, not {by}")
    had = job.hand_back()
    if had:
        _tell(fleet, "actors.phone.handed_back", phone=job.phone, by=by)
    return {"had": had}


async def _input(fleet: Fleet, request: Request) -> dict[str, Any]:
    job, by = _job(fleet, request), _name(request)
    now = trio.current_time()
    if job.device is None:
        raise _Refused(f"nothing plays on {job.phone}")
    if not job.custody.use(by, now):
        raise _Refused(f"{by} has not taken over {job.phone}, or had nothing to do there for too long")
    try:
        action = action_for(request.get("input"), job.newest)
    except InputWrong as error:
        raise _Refused(str(error)) from error
    try:
        await job.input(action, by, now)
    except DeviceError as error:
        raise _Refused(redact(str(error))) from error
    _tell(fleet, "actors.phone.used", phone=job.phone, by=by, kind=type(action).__name__)
    return {"ms": round((trio.current_time() - now) * 1000, 1)}


async def _hold(fleet: Fleet, request: Request) -> dict[str, Any]:
    return _hold_all(fleet, _name(request), "actors.run.held")


async def _go_on(fleet: Fleet, _request: Request) -> dict[str, Any]:
    return _hold_all(fleet, None, "actors.run.released")


def _hold_all(fleet: Fleet, by: str | None, event: str) -> dict[str, Any]:
    fleet.hold(by)
    _tell(fleet, event, by=by)
    return {"phones": [job.phone for job in fleet.jobs]}


_COMMANDS: Mapping[str, Callable[[Fleet, Request], Awaitable[dict[str, Any]]]] = {
    "status": _status,
    "resume": _resume,
    "phone": _phone,
    "screens": _screens,
    "take_over": _take_over,
    "hand_back": _hand_back,
    "input": _input,
    "hold": _hold,
    "go_on": _go_on,
}


def _tell(fleet: Fleet, event: str, **fields: Any) -> None:
    """Into the log and the run's events."""
    emit(event, **fields)
    fleet.recorder.event(event, **fields)


def _job(fleet: Fleet, request: Request) -> PhoneJob:
    phone = request.get("phone")
    if not isinstance(phone, str):
        raise _Refused("'phone' must be a text")
    found = next((job for job in fleet.jobs if job.phone == phone), None)
    if found is None:
        known = ", ".join(job.phone for job in fleet.jobs)
        raise _Refused(f"there is no phone {phone!r}; phones are {known}")
    return found


def _name(request: Request) -> str:
    by = request.get("by")
    if not isinstance(by, str) or not 0 < len(by) <= MAX_NAME:
        raise _Refused(f"'by' must be a name of at most {MAX_NAME} characters")
    return by


def _jsonable(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value  # JSON has no nan
