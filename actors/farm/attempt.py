"""One attempt at a run: a `corral run` process of its own, on the lifeline, with a lock that tells whether it is there.

A crash of it takes nothing else along. Its lock is held by the process itself: when the daemon was killed, the one that
comes after it knows by the lock when the phones are free again.
"""

import fcntl
import itertools
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from runtime.ids import is_legal_id
from runtime.process import ProcessError, ProcessPlan, ReadyProbe, open_process

MAX_SUMMARY_BYTES = 256 << 20  # a row an episode, a few kB each


@attrs.frozen
class AttemptFiles:
    """Where an attempt's files are."""

    farm: Path
    attempt: str

    def __attrs_post_init__(self) -> None:
        """Raises ValueError for what is no id, and could name a place outside the farm."""
        if not is_legal_id(self.attempt):
            raise ValueError(f"{self.attempt!r} is no id of an attempt")

    @property
    def out(self) -> Path:
        """All run folders are in here."""
        return self.farm / "runs"

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.out / self.attempt

    @property
    def log(self) -> Path:
        """What the process says."""
        return self.farm / "logs" / f"{self.attempt}.log"

    @property
    def lock(self) -> Path:
        """Locked as long as the process is there."""
        return self.farm / "locks" / f"{self.attempt}.lock"

    @property
    def text(self) -> Path:
        """The scenario, where it came as text."""
        return self.farm / "texts" / f"{self.attempt}.toml"

    def write_text(self, text: str) -> Path:
        """Put the scenario there."""
        self.text.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.text.write_text(text, "utf-8")
        return self.text

    def size_bytes(self) -> int:
        """Of the run folder and the log."""
        found = sum(_size(Path(at) / name) for at, _, names in os.walk(self.folder) for name in names)
        return found + _size(self.log)

    def totals(self) -> dict[str, Any] | None:
        """The totals of its summary; None: it left none that can be read."""
        try:
            with (self.folder / "summary.json").open("rb") as file:
                found = json.loads(file.read(MAX_SUMMARY_BYTES))["totals"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None  # the report was cut: the attempt has its outcome all the same
        return found if isinstance(found, dict) else None

    def set_aside(self) -> Path | None:
        """Make room for the folder; returns where one of that name is now, that was there already.

        That is so where a backup was restored which is older than the attempt.

        Raises:
            OSError: it cannot be moved.
        """
        if not self.folder.exists() and not self.folder.is_symlink():
            return None
        places = (self.out / f"{self.attempt}.earlier-{number}" for number in itertools.count(1))
        place = next(one for one in places if not one.exists() and not one.is_symlink())
        self.folder.rename(place)
        return place

    def last_written(self) -> float | None:
        """When something of it was written last, in seconds since 1970; None: nothing was."""
        found = [Path(at) / name for at, _, names in os.walk(self.folder) for name in names]
        times = [changed for changed in map(_changed, (*found, self.log)) if changed is not None]
        return max(times, default=None)

    def remove(self) -> None:
        """Remove the folder and everything beside it.

        Raises:
            OSError: something of it is left.
        """
        if self.folder.is_dir() and not self.folder.is_symlink():
            shutil.rmtree(self.folder)
        for file in (self.log, self.lock, self.text):
            file.unlink(missing_ok=True)

    def is_alive(self) -> bool:
        """Its process, or one of an earlier daemon, is there still."""
        try:
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # it was never started
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


@attrs.frozen
class AttemptEnd:
    """How the process ended."""

    exit_code: int | None
    """None: there was no process."""
    stopped: bool = False
    """It was asked to stop, and had not ended before."""
    too_long: bool = False
    """It was stopped because it played for too long."""
    failure: str = ""
    """Why there was no process, or what else there is to say."""
    at: float | None = None
    """When it ended, in seconds since 1970, where that was not now."""


async def play(
    files: AttemptFiles, argv: tuple[str, ...], *, stop: trio.Event, stop_seconds: float, most_seconds: float
) -> AttemptEnd:
    """Run the process to its end.

    Args:
        files: Its places.
        argv: Its command line.
        stop: Asks it to stop: SIGTERM, the time, SIGKILL.
        stop_seconds: That time.
        most_seconds: After which it is stopped as well.

    Raises:
        OSError: a file of it cannot be made.
    """
    with _locked(files.lock) as lock:
        plan = ProcessPlan(
            name=f"run-{files.attempt}",
            argv=argv,
            log_path=files.log,
            ready=ReadyProbe("", _at_once),
            stop_grace_seconds=stop_seconds,
            redacted=True,
            inherited_fds=(lock,),
        )
        stopped = too_long = False
        try:
            async with open_process(plan) as process, trio.open_nursery() as nursery:

                async def wait_stop() -> None:
                    nonlocal stopped, too_long
                    with trio.move_on_after(most_seconds) as patience:
                        await stop.wait()
                    stopped = process.exit_code is None
                    too_long = stopped and patience.cancelled_caught
                    nursery.cancel_scope.cancel()

                nursery.start_soon(wait_stop)
                await process.wait_exit()
                nursery.cancel_scope.cancel()
        except ProcessError as error:
            return AttemptEnd(None, failure=error.reason)
        failure = f"it played longer than {most_seconds / 3600:g} hours" if too_long else ""
        return AttemptEnd(process.exit_code, stopped=stopped, too_long=too_long, failure=failure)


async def _at_once() -> bool:
    return True


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def _changed(path: Path) -> float | None:
    try:
        return path.lstat().st_mtime
    except OSError:  # it went away in between, or was never there
        return None


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:  # it went away in between
        return 0
