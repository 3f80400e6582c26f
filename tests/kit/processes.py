"""Processes that we started, found in /proc: who they are and whether they are gone."""

import os
import signal
from pathlib import Path

import trio


def command_of(pid: int) -> str:
    """The command line; empty for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def parent_of(pid: int) -> int | None:
    """The parent's id; None for one that has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rsplit(")", 1)[1].split()[1])


def is_running(pid: int) -> bool:
    """False for one that has ended, a zombie too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    """All processes below one, zombies left out."""
    parents = {int(p.name): parent_of(int(p.name)) for p in Path("/proc").iterdir() if p.name.isdigit()}
    found: list[int] = []
    new = [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += [child for child in new if is_running(child)]
    return found


def find(fragment: str, *, below: int | None = None) -> int:
    """The one process below ours whose own command line holds the fragment.

    A lifeline's command line repeats that of what it runs, so of several the youngest is meant.
    """
    found = [pid for pid in descendants(below or os.getpid()) if fragment in command_of(pid)]
    assert found, f"no process with {fragment!r}: {[command_of(p) for p in descendants(below or os.getpid())]}"
    return max(found)


async def wait_gone(pids: list[int], *, seconds: float = 10.0) -> None:
    """Wait until none of them runs any more; those that do are killed, and fail the test."""
    with trio.move_on_after(seconds):
        while any(is_running(pid) for pid in pids):
            await trio.sleep(0.05)
    left = [f"{pid} {command_of(pid)}" for pid in pids if is_running(pid)]
    for pid in pids:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"left behind: {left}"
