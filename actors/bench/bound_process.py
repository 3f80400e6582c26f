"""Programs that a benchmark starts in blocking code: they end with it, whatever ends it, and say that they are up."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO

from actors.bench.engines import BenchUnavailable

LOOK_SECONDS = 0.05
# As runtime.lifeline's, but the program itself has the process id that is given back, so that it can be measured. The
# kernel's signal comes when the thread that started it ends: benchmarks start theirs in the main thread.
_BOUND = (
    "import ctypes, os, sys;"
    "ctypes.CDLL(None).prctl(1, 9);"
    "os.getppid() == int(sys.argv[1]) or sys.exit(1);"
    "os.execv(sys.argv[2], sys.argv[2:])"
)


def start_bound(
    *arguments: str, stdin: int | None = None, stderr: IO[bytes] | None = None
) -> "subprocess.Popen[bytes]":
    """Start `python -m ARGUMENTS` in a session of its own, with its standard output to us; killed when we end."""
    command: Sequence[str] = (sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid()))
    program = (sys.executable, "-m", *arguments)
    return subprocess.Popen(
        [*command, *program], stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
    )


def first_line(process: "subprocess.Popen[bytes]", what: str, seconds: float) -> str:
    """The first line that a program says.

    Args:
        process: By `start_bound`.
        what: For the message.
        seconds: How long it may take.

    Raises:
        BenchUnavailable: it ended before, or takes longer.
    """
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    said, until = b"", time.monotonic() + seconds
    while b"\n" not in said:
        said += process.stdout.read() or b""
        if b"\n" not in said and (process.poll() is not None or time.monotonic() > until):
            raise BenchUnavailable(f"{what} does not start")
        time.sleep(LOOK_SECONDS)
    os.set_blocking(process.stdout.fileno(), True)
    return said.decode()
