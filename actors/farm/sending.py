"""Files of run folders as answers: opened without following links, zipped outside of memory, sent piece by piece."""

import os
import tempfile
import zipfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import IO

import trio
from starlette.responses import Response, StreamingResponse

from actors.farm.run_files import NoFile, read_inside
from actors.farm.store import Missing, Refused

MAX_PICTURE_BYTES = 32 << 20
MAX_ZIP_BYTES = 2 << 30  # of what goes into one
SCRATCH = "scratch"
"""The farm's folder for what is being made; emptied when the daemon starts."""
PIECE_BYTES = 256 << 10
ZIP_TYPE = "application/zip"


def read_picture(folder: Path, *names: str) -> tuple[bytes, str] | None:
    """A picture under a folder and its media type; None: there is none of that name, or it is none. Blocks."""
    try:
        content = read_inside(folder, *names, most=MAX_PICTURE_BYTES)
    except NoFile:
        return None
    kind = picture_type(content)
    return None if kind is None else (content, kind)


def zipped(files: Mapping[str, Path], scratch: Path) -> IO[bytes]:
    """A zip of files, at its beginning, that is gone once it is closed. Blocks.

    Args:
        files: Name in it → file.
        scratch: A folder for it.

    Raises:
        Missing: a file is not there any more.
        Refused: it would be too large.
    """
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    made: IO[bytes] = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115  # whoever sends it closes it
    try:
        _check_size(files)
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, file in files.items():
                archive.write(file, name)
    except FileNotFoundError as error:
        made.close()
        raise Missing("its folder was removed meanwhile") from error
    except BaseException:
        made.close()
        raise
    made.seek(0)
    return made


def _check_size(files: Mapping[str, Path]) -> None:
    if sum(file.lstat().st_size for file in files.values()) > MAX_ZIP_BYTES:
        raise Refused(f"it is larger than {MAX_ZIP_BYTES >> 30} GiB: take it from the farm's machine")


def file_answer(file: IO[bytes], media_type: str, name: str) -> Response:
    """Send an open file under a name, and close it."""
    size = os.fstat(file.fileno()).st_size
    headers = {"content-disposition": f'attachment; filename="{name}"', "content-length": str(size)}
    return StreamingResponse(_pieces(file), media_type=media_type, headers=headers)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while piece := await trio.to_thread.run_sync(file.read, PIECE_BYTES):
            yield piece


def picture_type(content: bytes) -> str | None:
    """By its first bytes; None: it is no picture that is served."""
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    return "image/png" if content.startswith(b"\x89PNG\r\n\x1a\n") else None
