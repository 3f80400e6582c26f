"""The door into a running run: a Unix socket in its folder, for its owner alone. JSON lines, one answer a request.

What can be asked stands in `actors.control_answers`; anything else is answered `{"ok": false, "error": "..."}`.

A path that is too long for a Unix socket, or a file system that has none, gets a socket in a private temporary
folder; `control.path` in the run folder then says where.
"""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import trio

from runtime.nursery import open_bare_nursery
from runtime.telemetry import emit

SOCKET_NAME = "control.sock"
PATH_NAME = "control.path"
MAX_PATH_BYTES = 107  # sockaddr_un.sun_path is 108 with its closing zero
MAX_LINE_BYTES = 2 << 20  # an answer with a thousand phones is 400 kB, one with pictures half a megabyte
IDLE_SECONDS = 30.0  # a client that says nothing for so long is not there any more
ANSWER_SECONDS = 10.0
_BACKLOG = 8

Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class ControlError(Exception):
    """The run cannot be asked, or refuses; the text says why and what to do."""


@asynccontextmanager
async def open_control(folder: Path, answer: Answer) -> AsyncIterator[Path]:
    """Answer requests while the block runs; gives the socket's path. Nothing of it is left afterwards.

    Args:
        folder: The run folder.
        answer: Request → answer. It may wait; requests of one connection wait for each other.

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


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= MAX_PATH_BYTES


async def _bind(folder: Path) -> tuple[trio.socket.SocketType, Path | None]:
    """A listening socket, and the private folder that was made for it, if one was."""
    path = _place_in(folder)
    if _fits(path):
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
                await stream.send_all(json.dumps(await answer_to_line(line, answer)).encode() + b"\n")


async def answer_to_line(line: bytes, answer: Answer) -> Mapping[str, Any]:
    """The answer to one line, whatever it holds."""
    try:
        request = json.loads(line)
    except ValueError as error:
        return {"ok": False, "error": f"not JSON: {error}"}
    if not isinstance(request, dict):
        return {"ok": False, "error": "a request is a JSON object"}
    return await answer(request)


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
    door = KeptDoor(folder)
    try:
        return await door.ask(request)
    finally:
        await door.aclose()


@attrs.define(eq=False)
class KeptDoor:
    """A connection to a running run's door that is kept between requests; opened when it is needed."""

    folder: Path
    _stream: trio.SocketStream | None = attrs.field(default=None, init=False)
    _buffered: bytearray = attrs.field(factory=bytearray, init=False)
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask one thing; those who ask at the same time wait for each other.

        Raises:
            ControlError: the folder is no run that runs, it does not answer, or it refuses.
        """
        async with self._lock:
            line = await self._line_for(json.dumps(dict(request)).encode() + b"\n")
        if line is None:
            raise ControlError(f"{self.folder}: the run hung up without an answer")
        answered: dict[str, Any] = json.loads(line)
        if not answered.get("ok"):
            raise ControlError(str(answered.get("error", "the run refuses")))
        return answered

    async def aclose(self) -> None:
        """Hang up; a later request connects anew."""
        stream, self._stream = self._stream, None
        self._buffered.clear()
        if stream is not None:
            await trio.aclose_forcefully(stream)

    def close(self) -> None:
        """As `aclose`, without waiting, for the end of everything."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.socket.close()

    async def _line_for(self, request: bytes) -> bytes | None:
        is_whole = False
        try:
            with trio.fail_after(ANSWER_SECONDS):
                line = await self._exchange(request)
            is_whole = line is not None
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise ControlError(f"{self.folder}: no run is under way there") from error
        except trio.TooSlowError as error:
            raise ControlError(f"{self.folder}: the run does not answer within {ANSWER_SECONDS:g} s") from error
        except (OSError, trio.BrokenResourceError) as error:
            hint = "; it belongs to another user" if getattr(error, "errno", None) == errno.EACCES else ""
            raise ControlError(f"{self.folder}: the run cannot be asked: {error}{hint}") from error
        finally:
            if not is_whole:  # a later answer on it would be that to this request
                with trio.CancelScope(shield=True):
                    await self.aclose()
        return line

    async def _exchange(self, request: bytes) -> bytes | None:
        was_kept = self._stream is not None
        if self._stream is None:
            path = control_path(self.folder)
            if not _fits(path):  # no socket can be there: a run says where it has its own
                raise FileNotFoundError(errno.ENOENT, "no socket", str(path))
            self._stream = await trio.open_unix_socket(path)
        try:
            await self._stream.send_all(request)
            line = await _read_line(self._stream, self._buffered)
        except trio.BrokenResourceError:
            if not was_kept:
                raise
            line = None
        if line is None and was_kept:  # the run hangs up on whoever is silent for long
            await self.aclose()
            return await self._exchange(request)
        return line
