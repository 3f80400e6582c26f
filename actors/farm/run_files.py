"""Reads files out of run folders for people who may be anybody: validated names, no links followed, nothing huge."""

import os
import stat
from pathlib import Path


class NoFile(Exception):
    """There is no such plain file of a sensible size in the folder."""


def read_inside(folder: Path, *parts: str, most: int) -> bytes:
    """A file below a folder.

    Every step down is opened relative to the one before and follows no link, so that neither a name nor something
    that was put into the folder leads out of it.

    Args:
        folder: Where to begin.
        parts: Names of folders and, last, of the file.
        most: Bytes; a larger file is not read.

    Raises:
        NoFile: it is not there, is no plain file, or is larger; or a part is no plain name.
    """
    if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
        raise NoFile("that is no name of a file")
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    here = -1
    try:
        here = os.open(folder, flags | os.O_DIRECTORY)
        for part in parts[:-1]:
            below = os.open(part, flags | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        file = os.open(parts[-1], flags | os.O_NONBLOCK, dir_fd=here)
    except OSError as error:
        raise NoFile(f"there is no {parts[-1][:80]}") from error
    finally:
        if here >= 0:
            os.close(here)
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_size > most:
            raise NoFile(f"{parts[-1][:80]} is no file that is shown")
        with os.fdopen(file, "rb", closefd=False) as opened:
            return opened.read(most)
    finally:
        os.close(file)
