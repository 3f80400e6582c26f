"""The spool: append-only segments of JSON lines, one folder a tenant. An fsync of a batch is its acknowledgement.

A segment grows as `<name>.open`, locked by its writer, and is renamed to `<name>.jsonl` when it is full or old. What a
dead writer left open is sealed by whoever finds it: the end of it that is no whole line is cut off.
"""

import contextlib
import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import attrs

from actors.warehouse.rows import Row
from actors.warehouse.tables import TABLES, VERSION
from runtime.telemetry import emit
from sqlassist.catalog import ColumnType

SEGMENT_BYTES = 8 << 20  # about 30,000 rows: a loader holds one in memory
OPEN, SEALED, UNREADABLE = ".open", ".jsonl", ".unreadable"
SHARED = ("tenant", "run_id", "scenario")
MAX_INTEGER = 2**62


class SegmentUnreadable(Exception):
    """A segment that this program does not understand; the text says which and why."""


@attrs.define(eq=False)
class SpoolWriter:
    """Appends batches of one run's rows. Blocks; for one thread at a time.

    Attributes:
        folder: the tenant's, made when it is needed.
        prefix: of the segments' names; no other writer uses it.
        about: columns that all rows share; they stand in the first line.
        max_bytes: a segment that holds so much is sealed.
        max_age_seconds: one that is so old is, too, so that it is loaded.
    """

    folder: Path
    prefix: str
    about: Mapping[str, str]
    max_bytes: int = SEGMENT_BYTES
    max_age_seconds: float = 30.0
    _file: IO[bytes] | None = attrs.field(default=None, alias="_file")
    _path: Path = attrs.field(default=Path(), alias="_path")
    _size: int = attrs.field(default=0, alias="_size")
    _opened_at: float = attrs.field(default=0.0, alias="_opened_at")
    _next: int = attrs.field(default=0, alias="_next")

    def append(self, rows: Sequence[Row], now: float) -> None:
        """Write rows durably: when this returns, they are on the disk.

        Args:
            rows: Of one batch.
            now: A clock in seconds, for the age of segments.

        Raises:
            OSError: the disk is full or cannot be written. None of the rows is kept, if the disk lets us take them
                back; the next call begins a new segment.
        """
        text = b"".join(_line(row) for row in rows)
        try:
            file = self._file if self._file is not None else self._open(now)
            _write(file, text)
        except OSError:
            self._abandon()
            raise
        self._size += len(text)
        if self._size >= self.max_bytes or now - self._opened_at >= self.max_age_seconds:
            self.seal()

    def seal_if_old(self, now: float) -> None:
        """Seal a segment that nothing was added to for a while. Raises OSError."""
        if self._file is not None and now - self._opened_at >= self.max_age_seconds:
            self.seal()

    def seal(self) -> None:
        """Nothing more goes into the present segment. Raises OSError: it is sealed by the next loader then."""
        if self._file is None:
            return
        file, self._file = self._file, None
        with file:
            _rename_sealed(self._path)

    def _open(self, now: float) -> IO[bytes]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            path = self.folder / f"{self.prefix}-{self._next:05d}{OPEN}"
            self._next += 1
            if path.with_suffix(SEALED).exists():
                continue
            file = _create_locked(path)
            if file is not None:
                break
        try:
            header = _line({"version": VERSION, **self.about})
            _write(file, header)
            _sync_folder(self.folder)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            with contextlib.suppress(OSError):
                file.close()
            raise
        self._file, self._path, self._size, self._opened_at = file, path, len(header), now
        return file

    def _abandon(self) -> None:
        """Take back what was written of a batch that failed, and leave the segment."""
        file, self._file = self._file, None
        if file is None:
            return
        with contextlib.suppress(OSError):
            os.ftruncate(file.fileno(), self._size)
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):
            _rename_sealed(self._path)
        with contextlib.suppress(OSError):
            file.close()  # its lock goes with it: a loader seals what we could not


def _create_locked(path: Path) -> IO[bytes] | None:
    """A new file with our lock on it; None where the name is taken, or somebody sealed it meanwhile."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    except FileExistsError:
        return None
    file = os.fdopen(descriptor, "ab", buffering=0)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(path).st_ino == os.fstat(descriptor).st_ino:  # noqa: PTH116  # beside fstat
            return file
    except (BlockingIOError, FileNotFoundError):
        pass  # a loader took it for the leftover of a dead writer, between the two calls; it is empty
    file.close()
    return None


def adopt_abandoned(folder: Path) -> list[str]:
    """Seal what dead writers left open; returns the names of those segments.

    Raises:
        OSError: the folder cannot be written.
    """
    adopted = []
    for path in sorted(folder.glob(f"*{OPEN}")):
        try:
            with path.open("r+b") as file:
                try:
                    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue  # its writer lives
                _cut_torn_end(file)
                if os.fstat(file.fileno()).st_size == 0:
                    path.unlink()
                    continue
                _rename_sealed(path)
        except FileNotFoundError:
            continue  # its writer sealed it just now
        adopted.append(path.stem)
    return adopted


def loadable_segments(folder: Path) -> list[Path]:
    """The sealed segments, oldest first within a run. One that cannot be understood is told of and put aside.

    Raises:
        OSError: the folder cannot be read or written.
    """
    found = []
    for path in sorted(folder.glob(f"*{SEALED}")):
        try:
            read_header(path)
        except FileNotFoundError:
            continue  # another loader had it
        except SegmentUnreadable as error:
            emit("actors.warehouse.segment_refused", level="error", error=str(error), now=f"{path.stem}{UNREADABLE}")
            path.rename(path.with_suffix(UNREADABLE))
            continue
        found.append(path)
    return found


def read_header(path: Path) -> dict[str, str]:
    """The columns that all rows of a segment share: tenant, run_id, scenario.

    Raises:
        OSError: it cannot be read.
        SegmentUnreadable: it was written by another version of this program, or for another tenant.
    """
    with path.open("rb") as file:
        header = _decoded(file.readline())
    if header is None or header.get("version") != VERSION:
        version = "nothing" if header is None else header.get("version")
        raise SegmentUnreadable(f"{path}: version {version!r}; this program reads {VERSION}")
    about = {name: header.get(name) for name in SHARED}
    if about["tenant"] != path.parent.name or not all(isinstance(value, str) for value in about.values()):
        raise SegmentUnreadable(f"{path}: it does not say that it is of tenant {path.parent.name}")
    return {name: str(value) for name, value in about.items()}


def read_rows(path: Path) -> Iterator[Row | None]:
    """The rows of a sealed segment; None stands for a line that is damaged. Raises OSError."""
    with path.open("rb") as file:
        file.readline()
        for line in file:
            row = _decoded(line)
            yield row if row is not None and is_sound(row) else None


def is_sound(row: Row) -> bool:
    """Its table is known, and every column that is known holds what it should. Others are of a later version."""
    table = TABLES.get(str(row.get("t")))
    if table is None or "at_ms" not in row:
        return False
    return all(_fits(row[name], kind) for name, kind in table.columns.items() if name in row)


def _fits(value: object, kind: ColumnType) -> bool:
    match kind:
        case ColumnType.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool) and abs(value) < MAX_INTEGER
        case ColumnType.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        case ColumnType.BOOLEAN:
            return isinstance(value, bool)
        case _:
            return isinstance(value, str)


def _decoded(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _line(value: Row) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _write(file: IO[bytes], text: bytes) -> None:
    """Write all of it, durably. A nearly full disk takes a part at first, and says so only at the next attempt."""
    left = memoryview(text)
    while left:
        left = left[file.write(left) :]
    os.fsync(file.fileno())


def _cut_torn_end(file: IO[bytes]) -> None:
    """Cut off what follows the last line end: a batch of which not all reached the disk."""
    size = file.seek(0, os.SEEK_END)
    position = size
    while position > 0:
        begin = max(0, position - 65536)
        file.seek(begin)
        found = file.read(position - begin).rfind(b"\n")
        if found >= 0:
            position = begin + found + 1
            break
        position = begin
    if position != size:
        file.truncate(position)
        os.fsync(file.fileno())


def _rename_sealed(path: Path) -> None:
    path.rename(path.with_suffix(SEALED))
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
