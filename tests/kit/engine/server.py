"""The session's SGLang server: started at the first call, on a private port, gone with the test process."""

import atexit
import contextlib
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attrs

from runtime.lifeline import leader_command
from tests.kit.engine.environment import EngineEnvironment, engine_environment
from tests.kit.ports import free_port

START_SECONDS = 600.0  # 80 to 120 on a quiet machine
ASK_SECONDS = 30.0


@attrs.frozen
class RealEngine:
    """A running server."""

    url: str
    pid: int
    log: Path


@cache
def real_engine() -> RealEngine:
    """The one that tests share. Skips the test where there is none; fails it under CI."""
    environment = engine_environment()
    stack = contextlib.ExitStack()
    server = stack.enter_context(open_engine(environment))
    atexit.register(stack.close)
    return server


@contextlib.contextmanager
def open_engine(environment: EngineEnvironment) -> Iterator[RealEngine]:
    """A server for the time of the block, ready."""
    port = free_port(4000)
    folder = Path(tempfile.mkdtemp(prefix="corral-sglang-"))
    log = folder / "engine.log"
    theirs, ours = os.pipe()
    with log.open("wb") as out:
        process = subprocess.Popen(
            leader_command(theirs, 1.0, environment.command(port)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment.variables},
            cwd=folder,
            pass_fds=(theirs,),
            start_new_session=True,
        )
    os.close(theirs)
    server = RealEngine(f"http://127.0.0.1:{port}", process.pid, log)
    try:
        wait_ready(server, process)
        yield server
    finally:
        os.close(ours)  # ends the whole group
        process.wait(30)


def wait_ready(server: RealEngine, process: "subprocess.Popen[bytes]") -> None:
    """Wait until it has answered a health probe, which makes it generate a token."""
    deadline = time.monotonic() + START_SECONDS
    while not _answers(server.url + "/health_generate"):
        said = server.log.read_text(errors="replace")[-4000:]
        assert process.poll() is None, f"SGLang ended with {process.returncode}: {said}"
        assert time.monotonic() < deadline, f"SGLang is not ready after {START_SECONDS:g} s: {said}"
        time.sleep(0.5)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=ASK_SECONDS) as response:
            return int(response.status) == 200
    except (OSError, urllib.error.URLError):
        return False
