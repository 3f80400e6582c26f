"""A warehouse in one file, taken while runs write it: what is in the spool first, then the published files.

In that order nothing falls between: a segment that is loaded and removed meanwhile is in the file that is copied later,
and one that is in both is known by the file's own ledger.
"""

import contextlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MARK = "corral-warehouse"
LAYOUT = b"1\n"  # of the archive; what is inside has versions of its own


class ArchiveFailed(Exception):
    """There is no archive, or it cannot be put there. The text says why and what to do."""


def back_up(folder: Path, target: Path) -> int:
    """Write a warehouse folder to a file; returns how many files it holds. Blocks.

    Args:
        folder: The warehouse; runs and a loader may be at work there.
        target: Appears whole, or not at all; there must be no such file yet.

    Raises:
        ArchiveFailed: the folder is no warehouse, or the target exists.
        OSError: something cannot be read or written.
    """
    if not folder.is_dir():
        raise ArchiveFailed(f"{folder} is no folder: a warehouse is made by runs, as runs/warehouse")
    if target.exists():
        raise ArchiveFailed(f"{target} exists already: give a new name, or remove it")
    count = 0
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w") as archive:
                _add(archive, MARK, io.BytesIO(LAYOUT), len(LAYOUT))
                for path in _files(folder):
                    count += _add_file(archive, path.relative_to(folder).as_posix(), path)
            file.flush()
            os.fsync(file.fileno())
        Path(name).rename(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
    return count


def restore(source: Path, folder: Path) -> int:
    """Put a warehouse from a file in an empty place; returns how many files it holds. Blocks.

    Args:
        source: By `back_up`.
        folder: Does not exist yet, or is empty. It appears whole, or not at all.

    Raises:
        ArchiveFailed: the source is no such file or is damaged, or the folder is in use.
        OSError: something cannot be read or written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ArchiveFailed(f"{folder} is not empty: move it away first")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=folder.parent) as made:
        place = Path(made) / "warehouse"
        try:
            with tarfile.open(source, mode="r:") as archive:
                first = archive.next()
                if first is None or first.name != MARK:
                    raise ArchiveFailed(f"{source} is no backup of a warehouse")
                layout = archive.extractfile(first)
                if layout is None or layout.read() != LAYOUT:
                    raise ArchiveFailed(f"{source} is of a newer release: restore it with that one")
                archive.extractall(place, filter="data")
        except (tarfile.TarError, EOFError) as error:
            raise ArchiveFailed(f"{source} is no backup of a warehouse, or damaged: {error}") from error
        (place / MARK).unlink()
        count = sum(path.is_file() for path in place.rglob("*"))
        if folder.exists():
            folder.rmdir()
        place.rename(folder)
    return count


def _files(folder: Path) -> Iterator[Path]:
    """The spool, then what is published, then the rest; no locks, and nothing that is half made."""
    spool = folder / "spool"
    yield from sorted(path for path in spool.rglob("*") if path.is_file() and not path.is_symlink())
    tops = [path for path in folder.iterdir() if path.is_file() and not path.is_symlink()]
    kept = [
        path
        for path in tops
        if not path.name.startswith(".")
        and path.suffix not in (".lock", ".new", ".wal")
        and ".partial-" not in path.name
    ]
    yield from sorted(kept, key=lambda path: (path.suffix != ".duckdb", path.name))


def _add_file(archive: tarfile.TarFile, name: str, path: Path) -> bool:
    """Whole lines of a segment, which may grow; others are never changed. False: it was loaded and removed."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if path.suffix != ".jsonl":
                _add(archive, name, file, size)
                return True
            lines = file.read(size)
    except FileNotFoundError:
        return False
    whole = lines[: lines.rfind(b"\n") + 1]
    _add(archive, name, io.BytesIO(whole), len(whole))
    return True


def _add(archive: tarfile.TarFile, name: str, content: BinaryIO, size: int) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mode = size, 0o600
    archive.addfile(about, content)
