"""`pm` and `cmd package` on a simulated phone, as far as installing from a host needs them."""

from actors.rehearsal.phone.packages import InstallError, Which
from actors.rehearsal.phone.process import Process, Program, UsageError
from actors.rehearsal.phone.programs_unix import normal_path

_VALUED = frozenset({"-S", "-i", "--user", "--abi", "--install-location", "--pkg", "--originating-uri", "-p"})


async def _pm(process: Process) -> int:
    words = list(process.arguments)
    command = words.pop(0) if words else ""
    try:
        match command:
            case "list":
                return await _list(process, words)
            case "path":
                return await _path(process, words)
            case "clear" | "grant" | "revoke":
                return await _change(process, command, words)
            case "install":
                return await _install(process, words)
            case "uninstall":
                return await _uninstall(process, words)
            case "install-create":
                session = process.handset.packages.create_session()
                await process.print(f"Success: created install session [{session.number}]")
                return 0
            case "install-write":
                return await _install_write(process, words)
            case "install-commit" | "install-abandon":
                return await _end_session(process, command, words)
            case _:
                raise UsageError(f"Unknown command: {command}", 255)
    except InstallError as error:
        await process.complain(f"Failure {error}")
        return 1


async def _cmd(process: Process) -> int:
    if process.arguments[:1] != ("package",):
        raise UsageError(f"cmd: Can't find service: {' '.join(process.arguments[:1])}", 20)
    return await _pm(Process(process.argv[1:], process.handset, process.stdin, process.out, process.err))


async def _list(process: Process, words: list[str]) -> int:
    if words[:1] != ["packages"]:
        raise UsageError("Error: only 'list packages' is simulated", 255)
    which: Which = "third_party" if "-3" in words else "system" if "-s" in words else "all"
    contained = [word for word in words[1:] if not word.startswith("-")]
    for name in process.handset.packages.names(which):
        if all(part in name for part in contained):
            await process.print(f"package:{name}")
    return 0


async def _path(process: Process, words: list[str]) -> int:
    package = process.handset.packages.find(words[-1]) if words else None
    if package is None:
        return 1
    for split in package.splits:
        await process.print(f"package:/data/app/{package.name}/{split}")
    return 0


async def _change(process: Process, command: str, words: list[str]) -> int:
    words, _ = _without_options(words)
    package = process.handset.packages.find(words[0]) if words else None
    if package is None:
        await process.complain(f"Failed: unknown package {words[0] if words else ''}")
        return 1
    if command == "clear":
        package.data_cleared += 1
        await process.handset.stop_app(package.name)
        await process.print("Success")
    elif len(words) < 2:
        raise UsageError("Error: no permission specified", 255)
    elif command == "grant":
        package.granted.add(words[1])
    else:
        package.granted.discard(words[1])
    return 0


async def _install(process: Process, words: list[str]) -> int:
    names, size = _without_options(words)
    if size is not None:
        splits = {"base.apk": await _read_apk(process, size)}
    else:
        splits = {path.rsplit("/", 1)[-1]: _stored_apk(process, path) for path in names}
    package = process.handset.packages.install(splits)
    await process.handset.stop_app(package.name)
    await process.print("Success")
    return 0


async def _uninstall(process: Process, words: list[str]) -> int:
    names, _ = _without_options(words)
    process.handset.packages.uninstall(names[0] if names else "")
    await process.handset.stop_app(names[0])
    await process.print("Success")
    return 0


async def _install_write(process: Process, words: list[str]) -> int:
    names, size = _without_options(words)
    if len(names) < 2:
        raise UsageError("Error: install-write needs a session and a split name", 255)
    session = process.handset.packages.session(_session_number(names[0]))
    if size is not None and names[2:] in ([], ["-"]):
        apk = await _read_apk(process, size)
    elif len(names) > 2:
        apk = _stored_apk(process, names[2])
    else:
        raise UsageError("Error: must specify an APK size or a path", 1)
    session.splits[names[1]] = apk
    await process.print(f"Success: streamed {len(apk)} bytes")
    return 0


async def _end_session(process: Process, command: str, words: list[str]) -> int:
    names, _ = _without_options(words)
    number = _session_number(names[0] if names else "")
    if command == "install-commit":
        package = process.handset.packages.commit_session(number)
        await process.handset.stop_app(package.name)
    else:
        process.handset.packages.abandon_session(number)
    await process.print("Success")
    return 0


def _without_options(words: list[str]) -> tuple[list[str], int | None]:
    """Plain arguments, and the size that `-S` gives in bytes."""
    plain: list[str] = []
    size = None
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word in _VALUED:
            if word == "-S" and position < len(words) and words[position].isdigit():
                size = int(words[position])
            position += 1
        elif word == "-" or not word.startswith("-"):
            plain.append(word)
    return plain, size


def _session_number(text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"Error: bad session {text!r}", 255)
    return int(text)


async def _read_apk(process: Process, size: int) -> bytes:
    apk = await process.stdin.read_exactly(size)
    if len(apk) < size:
        raise InstallError(f"[INSTALL_FAILED_INVALID_APK: {len(apk)} bytes of {size} arrived]")
    return apk


def _stored_apk(process: Process, path: str) -> bytes:
    file = process.handset.files.get(normal_path(path))
    if file is None:
        raise InstallError(f"[INSTALL_FAILED_INVALID_URI: Error: Unable to open file: {path}]")
    return file.data


PACKAGE_PROGRAMS: dict[str, Program] = {"pm": _pm, "cmd": _cmd}
