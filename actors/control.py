"""The door into a running run: a Unix socket in its folder, for its owner alone. JSON lines, one answer a request.

    {"command": "status"}                    → {"ok": true, "run": ..., "phones": [{"phone": ..., "state": ...}, ...]}
    {"command": "resume", "phone": "CORRAL0000"}  → {"ok": true, "resumed": ["CORRAL0000"]}; no phone means every one
    anything else                            → {"ok": false, "error": "..."}

A path that is too long for a Unix socket, or a file system that has none, gets a socket in a private temporary
folder; `control.path` in the run folder then says where.
"""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.fleet import Fleet
from actors.phone_status import statuses
from runtime.nursery import open_bare_nursery
from runtime.telemetry import emit

SOCKET_NAME = "control.sock"
PATH_NAME = "control.path"
MAX_PATH_BYTES = 107  # sockaddr_un.sun_path is 108 with its closing zero
MAX_LINE_BYTES = 1 << 20  # an answer with a thousand phones is 400 kB
IDLE_SECONDS = 30.0  # a client that says nothing for so long is not there any more
ANSWER_SECONDS = 10.0
_BACKLOG = 8

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class ControlError(Exception):
    """The run cannot be asked, or refuses; the text says why and what to do."""


def answer_for(fleet: Fleet, request: Mapping[str, Any]) -> dict[str, Any]:
    """Do what a request asks for; one that is wrong is answered, never raised."""
    command, phone = request.get("command"), request.get("phone")
    if command == "status":
        phones = [{key: _jsonable(value) for key, value in attrs.asdict(row).items()} for row in statuses(fleet)]
        return {"ok": True, "run": fleet.run_id, "scenario": fleet.scenario.name, "phones": phones}
    if command == "resume":
        if phone is not None and not isinstance(phone, str):
            return {"ok": False, "error": "'phone' must be a text"}
        try:
            return {"ok": True, "resumed": fleet.resume(phone)}
        except KeyError:
            known = ", ".join(job.phone for job in fleet.jobs)
            return {"ok": False, "error": f"there is no phone {phone!r}; phones are {known}"}
    return {"ok": False, "error": f"unknown command {command!r}; commands are status, resume"}


def _jsonable(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value  # JSON has no nan


@asynccontextmanager
async def open_control(folder: Path, answer: Answer) -> AsyncIterator[Path]:
    """Answer requests while the block runs; gives the socket's path. Nothing of it is left afterwards.

    Args:
        folder: The run folder.
        answer: Request → answer, without waiting.

    Raises:
        OSError: there is no place for a socket at all.
    """
    place, private = await _bind(folder)
    listener = trio.SocketListener(place)
    path = Path(place.getsockname())
    try:
        if private is not None:
            (folder / PATH_NAME).write_text(f"{path}\n", encoding="utf-8")
        async with open_bare_nursery() as nursery:

            async def serve(stream: trio.SocketStream) -> None:
                await _serve(stream, answer)

            nursery.start_soon(trio.serve_listeners, serve, [listener])
            yield path
            nursery.cancel_scope.cancel()
    finally:
        listener.socket.close()
        _remove(folder, path, private)


def _remove(folder: Path, path: Path, private: Path | None) -> None:
    path.unlink(missing_ok=True)
    if private is not None:
        (folder / PATH_NAME).unlink(missing_ok=True)
        shutil.rmtree(private, ignore_errors=True)


def _place_in(folder: Path) -> Path:
    return folder.resolve() / SOCKET_NAME


async def _bind(folder: Path) -> tuple[trio.socket.SocketType, Path | None]:
    """A listening socket, and the private folder that was made for it, if one was."""
    path = _place_in(folder)
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        try:
            return await _bound(path), None
        except OSError as error:
            emit("actors.control.moved", level="warning", path=str(path), error=error.strerror or str(error))
    private = Path(tempfile.mkdtemp(prefix="corral-"))  # of mode 0700
    try:
        return await _bound(private / SOCKET_NAME), private
    except OSError:
        shutil.rmtree(private, ignore_errors=True)
        raise


async def _bound(path: Path) -> trio.socket.SocketType:
    place = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    try:
        await place.bind(os.fspath(path))
        _keep_private(path)  # before it listens: nobody can have connected yet
        place.listen(_BACKLOG)
    except BaseException:
        place.close()
        raise
    return place


def _keep_private(path: Path) -> None:
    path.chmod(0o600)


async def _serve(stream: trio.SocketStream, answer: Answer) -> None:
    buffered = bytearray()
    with suppress(trio.BrokenResourceError):  # the client has hung up: nobody is left to answer
        async with stream:
            while (line := await _read_line(stream, buffered)) is not None:
                await stream.send_all(json.dumps(answer_to_line(line, answer)).encode() + b"\n")


def answer_to_line(line: bytes, answer: Answer) -> Mapping[str, Any]:
    """The answer to one line, whatever it holds."""
    try:
        request = json.loads(line)
    except ValueError as error:
        return {"ok": False, "error": f"not JSON: {error}"}
    if not isinstance(request, dict):
        return {"ok": False, "error": "a request is a JSON object"}
    return answer(request)


async def _read_line(stream: trio.SocketStream, buffered: bytearray) -> bytes | None:
    """The next line without its end; None at the end of the stream, of patience, or of the size limit."""
    while (end := buffered.find(b"\n")) < 0:
        if len(buffered) > MAX_LINE_BYTES:
            return None
        with trio.move_on_after(IDLE_SECONDS):
            data = await stream.receive_some()
            if data:
                buffered += data
                continue
        return None
    line = bytes(buffered[:end])
    del buffered[: end + 1]
    return line


def control_path(folder: Path) -> Path:
    """Where a run's socket is."""
    try:
        return Path((folder / PATH_NAME).read_text("utf-8").strip())
    except FileNotFoundError:
        return _place_in(folder)


async def ask(folder: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a running run one thing.

    Raises:
        ControlError: the folder is no run that runs, it does not answer, or it refuses.
    """
    path = control_path(folder)
    try:
        with trio.fail_after(ANSWER_SECONDS):
            async with await trio.open_unix_socket(path) as stream:
                await stream.send_all(json.dumps(dict(request)).encode() + b"\n")
                line = await _read_line(stream, bytearray())
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise ControlError(f"{folder}: no run is under way there") from error
    except trio.TooSlowError as error:
        raise ControlError(f"{folder}: the run does not answer within {ANSWER_SECONDS:g} s") from error
    except (OSError, trio.BrokenResourceError) as error:
        hint = "; it belongs to another user" if getattr(error, "errno", None) == errno.EACCES else ""
        raise ControlError(f"{folder}: the run cannot be asked: {error}{hint}") from error
    if line is None:
        raise ControlError(f"{folder}: the run hung up without an answer")
    answered: dict[str, Any] = json.loads(line)
    if not answered.get("ok"):
        raise ControlError(str(answered.get("error", "the run refuses")))
    return answered
