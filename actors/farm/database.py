"""The file under a farm's state: SQLite, opened, brought to the present version, and copied while it is used.

WAL with synchronous=FULL: what was committed survives a kill -9 and a power loss.
"""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from actors.farm.migrations import MIGRATIONS

BUSY_SECONDS = 10.0  # for a backup or somebody's sqlite3 shell to let go
STATE_NAME = "state.sqlite3"
LOCK_NAME = "farm.lock"


class StoreError(Exception):
    """The state cannot be read or written; the text says what and where."""


class FarmRuns(StoreError):
    """Another process uses this farm's folder."""


@attrs.define(eq=False)
class Database:
    """An open database; made by `open_database`. For one thread at a time."""

    path: Path
    _connection: sqlite3.Connection = attrs.field(alias="connection")

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()

    def rows(self, sql: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
        """All rows of a query."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be read: {error}") from error

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of the block, or nothing of it if it raises."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be written: {error}") from error

    def back_up(self, target: Path, add: Callable[[sqlite3.Connection], None] = lambda _: None) -> None:
        """Write a copy of the state as it is now, which opens like the original; the farm may run meanwhile.

        Args:
            target: Appears whole, or not at all.
            add: Puts more into the copy.

        Raises:
            StoreError: it cannot be written, or is there already.
        """
        draft = target.with_name(f".{target.name}.draft")
        try:
            if target.exists():
                raise StoreError(f"{target} is there already: give another name")
            _unlink(draft)
            os.close(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o600))
            copy = sqlite3.connect(draft)
            try:
                self._connection.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # one file, whatever is added
                with copy:
                    add(copy)
            finally:
                copy.close()
            descriptor = os.open(draft, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            draft.replace(target)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{target} cannot be written: {error}") from error
        finally:
            _unlink(draft)


def _unlink(draft: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):  # a log that a kill left would be played into the next one
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def open_database(path: Path) -> Database:
    """Open the state, which is made where there is none, and bring it to the present version.

    Raises:
        StoreError: it is no farm's state, is damaged, or belongs to a newer release.
    """
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{path} cannot be opened: {error}") from error
    db.row_factory = sqlite3.Row
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        _migrate(db, path)
        _check(db, path)
    except sqlite3.Error as error:
        db.close()
        raise StoreError(f"{path} is no farm's state, or is damaged: {error}") from error
    except BaseException:
        db.close()
        raise
    return Database(path, db)


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise StoreError(f"{path} has version {version}, and this release knows {len(MIGRATIONS)}: use a newer one")
    for number in range(version, len(MIGRATIONS)):
        # one script is one transaction: a kill in the middle leaves the version before
        db.executescript(f"BEGIN IMMEDIATE;\n{MIGRATIONS[number]}\nPRAGMA user_version = {number + 1};\nCOMMIT;")


def _check(db: sqlite3.Connection, path: Path) -> None:
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise StoreError(f"{path} is damaged ({found}): restore a backup with corral farm restore")


@contextmanager
def open_folder(folder: Path) -> Iterator[Path]:
    """A farm's folder, made where there is none, for this process alone; gives the path of its state.

    Raises:
        FarmRuns: another process uses it.
        StoreError: it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"{folder} cannot be used: {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FarmRuns(f"{folder} is used by another corral farm: stop it first") from error
        yield folder / STATE_NAME
    finally:
        os.close(lock)
