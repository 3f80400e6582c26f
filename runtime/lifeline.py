"""Stands between us and a child process, so that none outlives us, whatever ends us.

    python -I -S lifeline.py LIFELINE_FD GRACE_SECONDS COMMAND...

It leads a process group of its own, starts the command in it, and ends with its exit code. When the other end
of the lifeline pipe is closed, which a kill -9 of its owner does as well, it ends the whole group: SIGTERM, the grace,
SIGKILL. The command itself is killed by the kernel if this process is (PR_SET_PDEATHSIG; that signal comes when the
*thread* that forked ends, so it must not be set from a program with worker threads). Standard library only.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.1


def die_with_parent() -> None:
    """Runs in the child between fork and exec."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def leader_command(lifeline_fd: int, grace_seconds: float, command: Sequence[str]) -> list[str]:
    """What to start so that `command` runs on the lifeline whose reading end is `lifeline_fd`."""
    return [sys.executable, "-I", "-S", __file__, str(lifeline_fd), str(grace_seconds), *command]


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code as a shell would."""
    lifeline, grace_seconds, command = int(arguments[0]), float(arguments[1]), arguments[2:]
    os.set_inheritable(lifeline, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # meant for the child, which is in this group; not inherited by it
    try:
        # what our owner let us inherit is meant for the command; the lifeline itself is not, see above
        child = subprocess.Popen(command, preexec_fn=die_with_parent, close_fds=False)  # noqa: PLW1509  # no threads
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error}\n")
        return 127
    child_fd = os.pidfd_open(child.pid)
    readable, _, _ = select.select([lifeline, child_fd], [], [])
    if child_fd not in readable:
        end_group(child, grace_seconds)
    code = child.wait()
    return 128 - code if code < 0 else code


def end_group(child: "subprocess.Popen[bytes]", grace_seconds: float) -> None:
    """Ask the group to end, then kill it, this process included."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(0, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
