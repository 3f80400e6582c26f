"""The audit trail: every attempt, refusals too, as JSON lines that nobody can change unseen.

Each record holds the hash of the one before it, so a change, a missing or an inserted record breaks the chain. A file
`head` says how far the trail goes, so a cut end is seen as well; whoever writes the head down elsewhere sees even a
trail that was made anew. A record is on disk before `append` returns. The files hold questions and SQL: they have mode
0600, in a folder of mode 0700.
"""

import datetime as dt
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from runtime.secret import redact

MAX_FILE_BYTES = 64 << 20  # a file is then about 50,000 attempts; it is closed and the next one begun
GENESIS = "0" * 64
VERSION = 1
_HEAD_BYTES = 128


class AuditError(Exception):
    """The trail cannot be written or read: no answer may be given out until it can."""


@attrs.frozen
class AuditEntry:
    """One attempt."""

    tenant: str
    user: str
    question: str
    """What was asked in words; empty where SQL came directly."""
    draft: str
    """The SQL as a model or a person wrote it."""
    verdict: str
    """`pass` or `refuse`"""
    code: str
    """Why it was refused; the way it went, where it passed and read no rows."""
    source: str
    sql: str
    """What was executed."""
    diff: str
    """What the guard changed."""
    plan: Mapping[str, int]
    """Numbers of the plan."""
    rows: int
    ms: float
    retries: int


@attrs.frozen
class Record:
    """One line of the trail."""

    number: int
    at: str
    """UTC, ISO 8601."""
    previous: str
    hash: str
    entry: Mapping[str, Any]


@attrs.frozen
class Verified:
    """What verifying found."""

    records: int
    head: str
    """`<number>:<hash>` of the last record: to be written down elsewhere."""
    problems: tuple[str, ...]
    """Empty where all is well."""


class AuditTrail:
    """Made by `open_audit`; one writer a folder."""

    def __init__(self, folder: Path, head: int, number: int, last: str, max_file_bytes: int) -> None:
        self._folder = folder
        self._head = head
        self._number = number
        self._last = last
        self._max_file_bytes = max_file_bytes
        self._file = -1
        self._size = 0

    def append(self, entry: AuditEntry) -> Record:
        """Write an attempt down. It is on disk when this returns. Blocks for a few milliseconds.

        Raises:
            AuditError: it could not be written.
        """
        number = self._number + 1
        at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        fields = {key: redact(value) if isinstance(value, str) else value for key, value in attrs.asdict(entry).items()}
        line, digest = _line(number, at, self._last, fields)
        try:
            if self._file < 0 or (self._size and self._size + len(line) > self._max_file_bytes):
                self._next_file(number)
            _write_all(self._file, line)
            os.fsync(self._file)
            self._size += len(line)
            self._number, previous, self._last = number, self._last, digest
            _write_head(self._head, number, digest)
        except OSError as error:
            self._give_up()
            raise AuditError(f"{self._folder}: the audit trail cannot be written: {error.strerror}") from error
        return Record(number, at, previous, digest, fields)

    def close(self) -> None:
        """Let the folder go."""
        self._file = _closed(self._file)
        self._head = _closed(self._head)

    def _give_up(self) -> None:
        """Half a line, which was never acknowledged, is cut off; what follows goes to a file of its own."""
        if self._file >= 0:
            with suppress(OSError):  # then it stays half a line until the trail is opened again
                os.ftruncate(self._file, self._size)
        self._file = _closed(self._file)

    def _next_file(self, number: int) -> None:
        self._file = _closed(self._file)
        path = self._folder / f"audit-{number:012d}.jsonl"
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:  # a disk was full before its first line was whole
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.ftruncate(self._file, 0)
        self._size = 0
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def open_audit(folder: Path, *, max_file_bytes: int = MAX_FILE_BYTES) -> AuditTrail:
    """Open a trail for writing, a new one if there is none. A file is begun at each opening.

    Half a line at the end of a file, which a crash or a full disk leaves, is cut off: it was never acknowledged.

    Raises:
        AuditError: another process writes to it, it cannot be written, or it is not whole.
    """
    head = -1
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        head = os.open(folder / "head", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(head, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _cut_torn_ends(folder)
        found = verify_audit(folder)
        if found.problems:
            raise AuditError(  # noqa: TRY301  # the handler below lets the folder go
                f"{folder}: the trail is not whole, nothing is added to it: {found.problems[0]}"
            )
        number, _, last = found.head.partition(":")
        _write_head(head, int(number), last)
        return AuditTrail(folder, head, int(number), last, max_file_bytes)
    except BlockingIOError as error:
        _closed(head)
        raise AuditError(f"{folder}: another process writes to this trail") from error
    except OSError as error:
        _closed(head)
        raise AuditError(f"{folder}: the trail cannot be opened: {error.strerror}") from error
    except AuditError:
        _closed(head)
        raise


def verify_audit(folder: Path, expected_head: str = "") -> Verified:
    """Check a whole trail: every hash, every number, the end, and who may read it.

    Args:
        folder: The trail.
        expected_head: `<number>:<hash>` that was written down: a record that the trail must hold.

    Raises:
        AuditError: it cannot be read.
    """
    problems: list[str] = []
    number, last, is_expected_met = 0, GENESIS, not expected_head
    for path in _files(folder):
        if path.stat().st_mode & 0o077:
            problems.append(f"{path.name}: others may read it, mode {path.stat().st_mode & 0o777:o}")
        if int(path.stem.partition("-")[2]) != number + 1:
            problems.append(f"{path.name}: a file is missing before it, as the trail has reached record {number}")
        for line_number, line in enumerate(_lines(path), start=1):
            place = f"{path.name}:{line_number}"
            record = _record(line)
            if record is None:
                problems.append(f"{place}: no record, or half a one")
                continue
            if record.number != number + 1:
                problems.append(f"{place}: record {record.number} follows record {number}")
            if record.previous != last:
                problems.append(f"{place}: record {record.number} does not follow what is before it")
            if _line(record.number, record.at, record.previous, record.entry)[0] != line + b"\n":
                problems.append(f"{place}: record {record.number} was changed")
            number, last = record.number, record.hash
            is_expected_met = is_expected_met or f"{number}:{last}" == expected_head
    head = f"{number}:{last}"
    problems += _head_problems(folder, number, last)
    if not is_expected_met:
        problems.append(f"the record {expected_head} is not in the trail: it is another one, or was cut")
    return Verified(number, head, tuple(problems))


def _head_problems(folder: Path, number: int, last: str) -> Iterator[str]:
    try:
        text = (folder / "head").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        yield "the file head is missing"
        return
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{folder / 'head'} cannot be read") from error
    if not text and number == 0:
        return
    stated, _, digest = text.partition(":")
    if not stated.isdigit():
        yield "the file head is damaged"
    elif int(stated) > number:
        yield f"the end is cut off: there were {stated} records, {number} are left"
    elif int(stated) == number and digest != last:
        yield f"the last record is not the one that was written: {digest[:12]} was"
    elif int(stated) < number - 1:  # one more than the head says is what a crash between two writes leaves
        yield f"there are {number} records, but only {stated} were written"


def read_audit(folder: Path, *, last: int | None = None) -> Iterator[Record]:
    """Records in order, all or the last ones. Nothing is verified.

    Raises:
        AuditError: it cannot be read.
    """
    kept = [record for path in _files(folder) for line in _lines(path) if (record := _record(line)) is not None]
    yield from kept if last is None else kept[max(0, len(kept) - last) :]


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise AuditError(f"{folder}: there is no audit trail")
    return sorted(folder.glob("audit-*.jsonl"))


def _lines(path: Path) -> list[bytes]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror}") from error
    return lines if lines[-1] else lines[:-1]  # what has no newline after it is half a record, and does not parse


def _record(line: bytes) -> Record | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match data:
        case {"v": 1, "n": int(n), "at": str(at), "prev": str(prev), "hash": str(digest), "entry": dict(entry)}:
            return Record(n, at, prev, digest, entry)
        case _:
            return None


def _line(number: int, at: str, previous: str, entry: Mapping[str, Any]) -> tuple[bytes, str]:
    """A record as a line, and its hash: SHA-256 of its JSON with sorted keys, the hash itself left out."""
    body = {"v": VERSION, "n": number, "at": at, "prev": previous, "entry": dict(entry)}
    text = json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{text[:-1]},"hash":"{digest}"}}\n'.encode(), digest


def _write_head(head: int, number: int, digest: str) -> None:
    """In place and of fixed length: a crash leaves the old one or the new one, as it is less than a sector."""
    os.pwrite(head, f"{number}:{digest}".ljust(_HEAD_BYTES - 1).encode() + b"\n", 0)
    os.fsync(head)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _cut_torn_ends(folder: Path) -> None:
    """Of every file: after a full disk, the next record was written to the next file."""
    for path in _files(folder):
        with path.open("r+b") as file:
            content = file.read()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                file.truncate(whole)
                os.fsync(file.fileno())
        if whole == 0:
            path.unlink()


def _closed(descriptor: int) -> int:
    if descriptor >= 0:
        os.close(descriptor)
    return -1
