"""Runs one child process: start, ready, watch, stop (ask, wait, kill)."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import IO

import attrs
import trio

from runtime import lifeline
from runtime.nursery import open_bare_nursery
from runtime.secret import redact
from runtime.telemetry import counter, emit

LOG_TAIL_BYTES = 2000  # of the log that an error repeats: a traceback's last lines
MAX_LINE_BYTES = 64 << 10
PROBE_EVERY_SECONDS = 0.25

_LOG_LOST = counter("runtime_process_log_lost_lines_total", "Lines of child processes that their log did not take.")


class ProcessError(Exception):
    """A child process is not what it should be.

    Attributes:
        process: its name in the plan.
        reason: what happened, without the name.
    """

    def __init__(self, reason: str, *, process: str) -> None:
        super().__init__(f"{process}: {reason}")
        self.process = process
        self.reason = reason


class ProcessNotReady(ProcessError):
    """It did not become ready in time: see its log, or give it more time."""


class ProcessLost(ProcessError):
    """It could not be started, or ended before it was ready: its log says why."""


@attrs.frozen
class ReadyLine:
    """The process prints a line on standard output once it is ready."""

    address_in: Callable[[str], str | None]
    """Where it answers if this is the line, else None."""


@attrs.frozen
class ReadyProbe:
    """The process is ready when a probe says so."""

    address: str
    """Where it will answer."""
    answers: Callable[[], Awaitable[bool]]
    """True when it is. Called every `PROBE_EVERY_SECONDS`; it bounds itself."""


@attrs.frozen
class ProcessPlan:
    """How to run a child process."""

    name: str
    """For events and errors."""
    argv: tuple[str, ...]
    log_path: Path
    """What it says on standard output and error is appended here."""
    ready: ReadyLine | ReadyProbe
    environment: Mapping[str, str] = attrs.field(factory=dict)
    """Added to our own."""
    start_seconds: float = 600.0
    stop_grace_seconds: float = 20.0
    redacted: bool = False
    """Secrets that we know are masked in its log. Its standard error then passes through us as well."""
    inherited_fds: tuple[int, ...] = ()
    """Descriptors of ours that the program gets, under the same numbers. Ours stay open: the caller closes them."""


class ManagedProcess:
    """A running child process; made by `open_process` alone."""

    def __init__(self, name: str, address: str, pid: int, exited: trio.Event) -> None:
        self.name = name
        self.address = address
        """Where it answers, as its ready line or its probe says."""
        self.pid = pid
        """Leads the process group; the program itself is its child."""
        self.exit_code: int | None = None
        self._exited = exited

    async def wait_exit(self) -> int:
        """Wait until the process has ended; returns its exit code, as a shell would give it."""
        await self._exited.wait()
        assert self.exit_code is not None
        return self.exit_code


@asynccontextmanager
async def open_process(plan: ProcessPlan) -> AsyncIterator[ManagedProcess]:
    """Start a process and wait until it is ready; stop it and all that it started when the block ends.

    Stopping is SIGTERM to its process group, the grace, SIGKILL, and is never cut short: at cancellation the grace
    is left out. The process cannot outlive us, see `runtime.lifeline`.

    Raises:
        ProcessNotReady: it was not ready within `start_seconds`.
        ProcessLost: it could not be started, or ended before it was ready; the end of its log is in the text.
    """
    plan.log_path.parent.mkdir(parents=True, exist_ok=True)
    with plan.log_path.open("ab", buffering=0) as log:
        leader, lifeline_fd = _spawn(plan, log)
        with closing(_Lifeline(lifeline_fd)) as thread_of_life:
            assert leader.stdout is not None
            output = trio.lowlevel.FdStream(os.dup(leader.stdout.fileno()))
            leader.stdout.close()
            exited = trio.Event()
            process = ManagedProcess(plan.name, "", leader.pid, exited)
            async with output, open_bare_nursery() as nursery:
                found = _Found()
                nursery.start_soon(_copy_output, output, log, plan, found)
                nursery.start_soon(_reap, leader, process, exited)
                try:
                    process.address = await _wait_ready(plan, process, found)
                    emit("runtime.process.launched", process=plan.name, pid=leader.pid, address=process.address)
                    yield process
                finally:
                    await _stop(plan, leader.pid, exited)
                    thread_of_life.close()
                    emit("runtime.process.stopped", process=plan.name, pid=leader.pid, exit_code=process.exit_code)
                    nursery.cancel_scope.cancel()  # a grandchild may hold standard output open


@attrs.define
class _Lifeline:
    """Our end of the pipe; closing it is what tells the other end."""

    fd: int

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@attrs.define(eq=False)
class _Found:
    address: str | None = None
    event: trio.Event = attrs.field(factory=trio.Event)

    def take(self, address: str | None) -> None:
        if address is not None:
            self.address = address
            self.event.set()


def _spawn(plan: ProcessPlan, log: IO[bytes]) -> tuple["subprocess.Popen[bytes]", int]:
    """Start the group leader; returns it and our end of its lifeline.

    Synchronously: an exec takes a few milliseconds, and a start in a worker thread could not be cancelled between the
    fork and our knowing about it.
    """
    theirs, ours = os.pipe()
    command = lifeline.leader_command(theirs, plan.stop_grace_seconds, plan.argv)
    try:
        leader = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if plan.redacted else log,
            pass_fds=(theirs, *plan.inherited_fds),
            env={**os.environ, **plan.environment},
            start_new_session=True,
        )
    except OSError as error:
        os.close(ours)
        raise ProcessLost(f"its process could not be started: {error}", process=plan.name) from error
    finally:
        os.close(theirs)
    return (leader, ours)


async def _wait_ready(plan: ProcessPlan, process: ManagedProcess, found: _Found) -> str:
    ready: list[str] = []

    async def wait_exit() -> None:
        await process.wait_exit()
        nursery.cancel_scope.cancel()

    async def wait_sign() -> None:
        ready.append(await _wait_sign(plan, found))
        nursery.cancel_scope.cancel()

    with trio.move_on_after(plan.start_seconds) as patience:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_exit)
            nursery.start_soon(wait_sign)
    if ready:
        return ready[0]
    if patience.cancelled_caught:
        raise ProcessNotReady(
            f"not ready within {plan.start_seconds:g} s; its log {plan.log_path} ends:\n{_log_tail(plan)}",
            process=plan.name,
        )
    await trio.sleep(0.05)  # what it said last may still be on its way through the pipe into the log
    raise ProcessLost(
        f"it ended with exit code {process.exit_code} before it was ready; its log {plan.log_path} ends:\n"
        f"{_log_tail(plan)}",
        process=plan.name,
    )


async def _wait_sign(plan: ProcessPlan, found: _Found) -> str:
    if isinstance(plan.ready, ReadyProbe):
        while not await plan.ready.answers():  # noqa: ASYNC110  # the process can be asked only by polling
            await trio.sleep(PROBE_EVERY_SECONDS)
        return plan.ready.address
    await found.event.wait()
    assert found.address is not None
    return found.address


async def _copy_output(output: trio.lowlevel.FdStream, log: IO[bytes], plan: ProcessPlan, found: _Found) -> None:
    """Drain the pipe into the log, so that the process never blocks on it, and look for the ready line."""
    pending = b""
    try:
        async for chunk in output:
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                _write_log(log, _shown(line, plan) + b"\n")  # whole lines, as standard error goes to the same file
                if isinstance(plan.ready, ReadyLine) and found.address is None:
                    found.take(plan.ready.address_in(line.decode("utf-8", "replace").strip()))
            if len(pending) > MAX_LINE_BYTES:
                _write_log(log, _shown(pending, plan))
                pending = b""
    finally:
        _write_log(log, _shown(pending, plan))


def _shown(text: bytes, plan: ProcessPlan) -> bytes:
    if not plan.redacted:
        return text
    return redact(text.decode("utf-8", "replace")).encode()


def _write_log(log: IO[bytes], content: bytes) -> None:
    try:
        log.write(content)
        log.flush()
    except OSError:  # a full disk must not end the process; what it said is lost, and that is counted
        _LOG_LOST.inc()


async def _reap(leader: "subprocess.Popen[bytes]", process: ManagedProcess, exited: trio.Event) -> None:
    """Wait for the leader, end whatever is left of its group while its number is still ours, then reap it."""
    pidfd = os.pidfd_open(leader.pid)
    try:
        with trio.CancelScope(shield=True):  # `_stop` bounds it: after SIGKILL it ends
            await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)
    with suppress(ProcessLookupError, PermissionError):  # PermissionError: only zombies are left in it
        os.killpg(leader.pid, signal.SIGKILL)
    code = leader.wait()
    process.exit_code = 128 - code if code < 0 else code
    exited.set()


async def _stop(plan: ProcessPlan, group: int, exited: trio.Event) -> None:
    if exited.is_set():
        return
    try:
        os.killpg(group, signal.SIGTERM)
        with trio.move_on_after(plan.stop_grace_seconds):
            await exited.wait()
    finally:
        if not exited.is_set():
            emit("runtime.process.killed", level="warning", process=plan.name, pid=group)
            os.killpg(group, signal.SIGKILL)
            with trio.CancelScope(shield=True):
                await exited.wait()


def _log_tail(plan: ProcessPlan) -> str:
    with plan.log_path.open("rb") as log:
        log.seek(0, os.SEEK_END)
        log.seek(max(0, log.tell() - LOG_TAIL_BYTES))
        return log.read().decode("utf-8", "replace").strip() or "(nothing)"
