"""CPU time and memory of processes, from /proc."""

import os
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process since its start.

    Raises:
        OSError: there is no such process.
    """
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def group_cpu_seconds(group: int) -> float:
    """The same of every process of a process group; those that end meanwhile are left out."""
    total = 0.0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            if int(_stat(int(folder.name))[2]) == group:
                total += cpu_seconds(int(folder.name))
        except OSError:  # it has ended since the folder was listed
            continue
    return total


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM.

    Raises:
        OSError: there is no such process.
    """
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * PAGE_BYTES


def waited_seconds(pid: int) -> float:
    """How long the main thread of a process was ready to run, but other processes had the cores.

    Raises:
        OSError: there is no such process, or the kernel does not count it.
    """
    return int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[1]) / 1e9


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the command, which may hold blanks and brackets: [0] is the state."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
