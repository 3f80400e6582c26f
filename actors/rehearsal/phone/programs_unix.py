"""The everyday programs of a simulated phone: echo, cat, ls, rm, sleep and their kind."""

import re
import zlib

import trio

from actors.rehearsal.phone.handset import Handset, StoredFile
from actors.rehearsal.phone.process import Process, Program, UsageError, number

REGULAR_FILE = 0o100000
FOLDER_MODE = 0o040771
DEFAULT_MODE = REGULAR_FILE | 0o644
ALWAYS_FOLDERS = frozenset({"/", "/data", "/data/local", "/data/local/tmp", "/sdcard", "/system"})


def normal_path(path: str) -> str:
    """An absolute path without doubled or trailing slashes; relative ones count from the root."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def is_folder(handset: Handset, path: str) -> bool:
    """True for the folders of every phone, and for those that hold a file."""
    prefix = path.rstrip("/") + "/"
    return path in ALWAYS_FOLDERS or any(name.startswith(prefix) for name in handset.files)


def children(handset: Handset, folder: str) -> tuple[str, ...]:
    """Names directly inside a folder, in alphabetical order."""
    prefix = folder.rstrip("/") + "/"
    inside = {
        name[len(prefix) :].split("/", 1)[0]
        for name in (*handset.files, *ALWAYS_FOLDERS)
        if name.startswith(prefix) and name != prefix
    }
    return tuple(sorted(inside))


def store(handset: Handset, path: str, data: bytes, *, append: bool = False, mode: int = DEFAULT_MODE) -> None:
    """Write a file; `/dev/null` swallows it."""
    path = normal_path(path)
    if path == "/dev/null":
        return
    present = handset.files.get(path)
    if append and present is not None:
        data = present.data + data
    handset.files[path] = StoredFile(data=data, mode=mode, modified=int(handset.boot_epoch + handset.clock()))


async def _echo(process: Process) -> int:
    words = list(process.arguments)
    newline = "\n"
    if words[:1] == ["-n"]:
        words.pop(0)
        newline = ""
    await process.out((" ".join(words) + newline).encode())
    return 0


async def _cat(process: Process) -> int:
    if not process.arguments:
        while data := await process.stdin.read_some():
            await process.out(data)
        return 0
    code = 0
    for path in process.arguments:
        file = process.handset.files.get(normal_path(path))
        if file is None:
            await process.complain(f"cat: {path}: No such file or directory")
            code = 1
        else:
            await process.out(file.data)
    return code


async def _ls(process: Process) -> int:
    handset, code = process.handset, 0
    for path in [word for word in process.arguments if not word.startswith("-")] or ["/"]:
        name = normal_path(path)
        if name in handset.files:
            await process.print(path)
        elif is_folder(handset, name):
            for child in children(handset, name):
                await process.print(child)
        else:
            await process.complain(f"ls: {path}: No such file or directory")
            code = 1
    return code


async def _rm(process: Process) -> int:
    flags = "".join(word[1:] for word in process.arguments if word.startswith("-"))
    files, code = process.handset.files, 0
    for path in [word for word in process.arguments if not word.startswith("-")]:
        name = normal_path(path)
        inside = [other for other in files if other.startswith(name + "/")] if "r" in flags else []
        if name not in files and not inside:
            if "f" not in flags:
                await process.complain(f"rm: {path}: No such file or directory")
                code = 1
            continue
        for other in (name, *inside):
            files.pop(other, None)
    return code


async def _sleep(process: Process) -> int:
    await trio.sleep(sum(number(word.removesuffix("s"), "time") for word in process.arguments))
    return 0


async def _true(process: Process) -> int:  # noqa: ARG001
    return 0


async def _false(process: Process) -> int:  # noqa: ARG001
    return 1


async def _grep(process: Process) -> int:
    flags = "".join(word[1:] for word in process.arguments if word.startswith("-"))
    words = [word for word in process.arguments if not word.startswith("-")]
    if not words:
        raise UsageError("grep: needs a pattern", 2)
    pattern = words[0] if "E" in flags else re.escape(words[0]) if "F" in flags else words[0].replace("\\|", "|")
    try:
        expression = re.compile(pattern.encode(), re.IGNORECASE if "i" in flags else 0)
    except re.error as error:
        raise UsageError(f"grep: bad pattern {pattern!r}: {error}", 2) from None
    code = 1
    for line in (await process.stdin.read_all()).splitlines():
        if (expression.search(line) is not None) != ("v" in flags):
            code = 0
            if "q" not in flags:
                await process.out(line + b"\n")
    return code


async def _head(process: Process) -> int:
    words = list(process.arguments)
    count = int(number(words[1], "count")) if words[:1] == ["-n"] and len(words) > 1 else 10
    for line in (await process.stdin.read_all()).splitlines(keepends=True)[:count]:
        await process.out(line)
    return 0


async def _gzip(process: Process) -> int:
    levels = [word[1:] for word in process.arguments if word[1:].isdigit()]
    level = int(levels[-1][:1]) if levels else 6
    data = await process.stdin.read_all()

    def compress() -> bytes:
        packer = zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        return packer.compress(data) + packer.flush()

    await process.out(await trio.to_thread.run_sync(compress, limiter=process.handset.drawing))
    return 0


async def _id(process: Process) -> int:
    await process.print("uid=2000(shell) gid=2000(shell) groups=2000(shell) context=u:r:shell:s0")
    return 0


async def _date(process: Process) -> int:
    if process.arguments != ("+%s",):
        raise UsageError("date: only +%s is simulated")
    await process.print(str(int(process.handset.boot_epoch + process.handset.clock())))
    return 0


UNIX_PROGRAMS: dict[str, Program] = {
    "echo": _echo,
    "cat": _cat,
    "ls": _ls,
    "rm": _rm,
    "mkdir": _true,  # folders exist by the files in them
    "sleep": _sleep,
    "true": _true,
    "export": _true,  # the programs here read no environment
    ":": _true,
    "false": _false,
    "grep": _grep,
    "head": _head,
    "gzip": _gzip,
    "id": _id,
    "date": _date,
}
