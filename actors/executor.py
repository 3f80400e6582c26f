"""The main process's side of the SQL executor: asks it over a socketpair, and holds no credentials itself."""

import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from actors.executor_lines import read_lines
from actors.executor_wire import (
    MAX_ANSWER_BYTES,
    READY,
    Assembling,
    ExecuteRequest,
    Failure,
    decode_answer,
    encode_cancel,
    encode_execute,
)
from runtime.nursery import open_bare_nursery
from runtime.process import ProcessPlan, ReadyLine, open_process
from sqlassist.execute.errors import DatabaseDenied, DatabaseError, DatabaseLost
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet

START_SECONDS = 30.0
STOP_GRACE_SECONDS = 5.0
LOCAL = "executor"


class ExecutorLost(DatabaseError):
    """The executor's process has ended: start it again; its log says why."""


@attrs.define(eq=False)
class _Pending:
    assembling: Assembling = attrs.field(factory=Assembling)
    answer: "ResultSet | Refusal | Failure | None" = None
    done: trio.Event = attrs.field(factory=trio.Event)


class Executor:
    """Made by `open_executor`."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._pending: dict[int, _Pending] = {}
        self._number = 0
        self._send_lock = trio.Lock()
        self.lost = trio.Event()
        """Set when its process has ended: it answers nothing any more."""

    async def execute(self, request: ExecuteRequest) -> ResultSet | Refusal:
        """Have a query checked again and run. When this is cancelled, the query is taken back and killed.

        Raises:
            DatabaseLost: the database does not answer.
            DatabaseDenied: an account of ours may not do what it must.
            ExecutorLost: the executor has ended.
        """
        if self.lost.is_set():
            raise ExecutorLost("it has ended", source=LOCAL)
        self._number += 1
        number = self._number
        pending = self._pending[number] = _Pending()
        try:
            await self._send(encode_execute(number, request))
            await pending.done.wait()
        except trio.Cancelled:
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                if not self.lost.is_set():
                    await self._send(encode_cancel(number))
            raise
        finally:
            del self._pending[number]
        match pending.answer:
            case None:
                raise ExecutorLost("it ended while a query was under way", source=LOCAL)
            case Failure(kind, reason, source):
                raise (DatabaseDenied if kind == "DatabaseDenied" else DatabaseLost)(reason, source=source)
            case answer:
                return answer

    async def _send(self, line: bytes) -> None:
        with trio.CancelScope(shield=True):  # half a line would spoil all that follow; the executor always reads
            async with self._send_lock:
                try:
                    await self._stream.send_all(line)
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    raise ExecutorLost("it has ended", source=LOCAL) from error

    async def receive(self) -> None:
        """Take answers in until the executor ends."""
        try:
            async for line in read_lines(self._stream, MAX_ANSWER_BYTES):
                number, message = decode_answer(line)
                pending = self._pending.get(number)
                if pending is None:
                    continue  # nobody waits for it any more
                pending.answer = pending.assembling.take(message)
                if pending.answer is not None:
                    pending.done.set()
        except trio.BrokenResourceError:
            pass  # it was killed: as an end, see below
        finally:
            self.lost.set()
            for pending in self._pending.values():
                pending.done.set()


@asynccontextmanager
async def open_executor(config_file: Path, log_path: Path) -> AsyncIterator[Executor]:
    """An executor of its own process, for the time of the block.

    Raises:
        ProcessError: it did not start; the end of its log is in the text.
    """
    ours, theirs = socket.socketpair()
    try:
        plan = ProcessPlan(
            name="executor",
            argv=(sys.executable, "-m", "actors.executor_serve", str(config_file), str(theirs.fileno())),
            log_path=log_path,
            ready=ReadyLine(lambda line: LOCAL if line == READY else None),
            environment={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_seconds=START_SECONDS,
            stop_grace_seconds=STOP_GRACE_SECONDS,
            inherited_fds=(theirs.fileno(),),
        )
        async with open_process(plan):
            theirs.close()  # so that its end is seen here
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
            executor = Executor(stream)
            async with stream, open_bare_nursery() as nursery:
                nursery.start_soon(executor.receive)
                yield executor
                nursery.cancel_scope.cancel()
    finally:
        ours.close()
        theirs.close()
