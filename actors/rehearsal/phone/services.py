"""The services that a host may open on a simulated phone, by name: shell, exec, sync and localabstract."""

import re
from collections.abc import Awaitable, Callable, Mapping

import attrs

from actors.rehearsal.phone.commandline import (
    LAST_EXIT_CODE,
    Command,
    Pipeline,
    Run,
    ShellSyntaxError,
    parse_script,
)
from actors.rehearsal.phone.handset import Handset
from actors.rehearsal.phone.process import FramedInput, Input, Process, Program, UsageError, Write
from actors.rehearsal.phone.programs_android import ANDROID_PROGRAMS
from actors.rehearsal.phone.programs_input import INPUT_PROGRAMS
from actors.rehearsal.phone.programs_packages import PACKAGE_PROGRAMS
from actors.rehearsal.phone.programs_unix import UNIX_PROGRAMS, store
from actors.rehearsal.phone.scrcpy import SCRCPY_PROGRAMS
from actors.rehearsal.phone.stream import Stream
from actors.rehearsal.phone.sync import serve_sync
from actors.rehearsal.phone.wire import (
    SHELL_EXIT,
    SHELL_HEADER_SIZE,
    SHELL_STDERR,
    SHELL_STDOUT,
    encode_shell,
    encode_shell_header,
)

Serve = Callable[[Stream], Awaitable[None]]

PROGRAMS: Mapping[str, Program] = {
    **UNIX_PROGRAMS,
    **ANDROID_PROGRAMS,
    **INPUT_PROGRAMS,
    **PACKAGE_PROGRAMS,
    **SCRCPY_PROGRAMS,
}
NOT_FOUND = 127  # POSIX: the exit code of a shell that finds no such program
SYNTAX_ERROR = 2
CAPTURE_PROGRAM = "screencap"  # faults of the line are laid on what prints pictures
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def service_for(name: str, handset: Handset, sockets: Mapping[str, Serve]) -> Serve | None:
    """The service of that name, or None if the phone has none: the host is then told CLSE."""
    kind, _, argument = name.partition(":")
    kind, *options = kind.split(",")
    if kind == "shell":
        if "v2" in options:
            return lambda stream: _serve_framed_shell(stream, argument, handset)
        return lambda stream: _serve_plain(stream, argument, handset)
    if kind == "exec":
        return lambda stream: _serve_plain(stream, argument, handset)
    if kind == "sync":
        return lambda stream: serve_sync(stream, handset)
    if kind == "localabstract":
        return handset.sockets.get(argument) or sockets.get(argument)
    return None


async def _serve_plain(stream: Stream, script: str, handset: Handset) -> None:
    """`exec:` and the old `shell:`: output and errors in one stream of bytes; the exit code is lost."""
    out = handset.effects.output(stream.write) if CAPTURE_PROGRAM in script else stream.write
    await Shell(handset, Input(stream.read), out, stream.write).run(script)


async def _serve_framed_shell(stream: Stream, script: str, handset: Handset) -> None:
    """`shell,v2`: output, errors and exit code apart."""
    room = stream.max_payload - SHELL_HEADER_SIZE

    def writer(kind: int) -> Write:
        async def write(data: bytes | memoryview) -> None:
            view = memoryview(data)
            for start in range(0, len(view), room):
                piece = view[start : start + room]
                await stream.write(encode_shell_header(kind, len(piece)) + bytes(piece))

        return write

    stdin = Input(FramedInput(stream.read).read)
    out = writer(SHELL_STDOUT)
    if CAPTURE_PROGRAM in script:
        out = handset.effects.output(out)
    exit_code = await Shell(handset, stdin, out, writer(SHELL_STDERR)).run(script)
    await stream.write(encode_shell(SHELL_EXIT, bytes([exit_code & 0xFF])))


class _Exit(Exception):
    """`exit` was called."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@attrs.define(eq=False)
class Shell:
    """Runs command lines, one pipeline after another."""

    handset: Handset
    stdin: Input
    out: Write
    err: Write
    last: int = 0

    async def run(self, script: str) -> int:
        """Run a script, or without one the lines of the input as a person would type them; returns the exit code."""
        try:
            if script.strip():
                await self._run_script(script)
            else:
                while line := await self.stdin.read_line():
                    await self._run_script(line.decode("utf-8", "replace"))
        except _Exit as exited:
            return exited.code
        return self.last

    async def _run_script(self, script: str) -> None:
        try:
            pipelines = parse_script(script)
        except ShellSyntaxError as error:
            await self.err(f"/system/bin/sh: {error}\n".encode())
            self.last = SYNTAX_ERROR
            return
        for pipeline in pipelines:
            if pipeline.run is Run.ALWAYS or (pipeline.run is Run.IF_SUCCEEDED) == (self.last == 0):
                self.last = await self._run_pipeline(pipeline)

    async def _run_pipeline(self, pipeline: Pipeline) -> int:
        stdin = self.stdin
        for command in pipeline.commands[:-1]:
            printed = bytearray()
            await self._run_command(command, stdin, _collector(printed))
            stdin = Input(_source(bytes(printed)))
        return await self._run_command(pipeline.commands[-1], stdin, self.out)

    async def _run_command(self, command: Command, stdin: Input, out: Write) -> int:
        argv = tuple(word.replace(LAST_EXIT_CODE, str(self.last)) for word in command.argv)
        if argv[:1] == ("exec",):
            argv = argv[1:] or ("true",)  # `adb logcat` runs `export ...; exec logcat ...`
        environ: dict[str, str] = {}
        for word in argv[:-1]:
            if not _ASSIGNMENT.match(word):
                break
            key, _, value = word.partition("=")
            environ[key] = value
        argv = argv[len(environ) :]
        name = argv[0].rsplit("/", 1)[-1]
        if name == "exit":
            raise _Exit(int(argv[1]) & 0xFF if len(argv) > 1 and argv[1].isdigit() else self.last)
        files: dict[str, bytearray] = {}
        if command.stdout == "&2":
            out = self.err
        elif command.stdout is not None:
            out = _collector(files.setdefault(command.stdout, bytearray()))
        err = self.err
        if command.stderr == "&1":
            err = out
        elif command.stderr is not None:
            err = _collector(files.setdefault(command.stderr, bytearray()))
        program = PROGRAMS.get(name)
        if program is None:
            await err(f"/system/bin/sh: {name}: inaccessible or not found\n".encode())
            code = NOT_FOUND
        else:
            try:
                code = await program(Process(argv, self.handset, stdin, out, err, environ))
            except UsageError as error:
                await err(f"{error}\n".encode())
                code = error.exit_code
        for path, data in files.items():
            store(self.handset, path, bytes(data), append=command.append)
        return code


def _collector(target: bytearray) -> Write:
    async def write(data: bytes | memoryview) -> None:
        target.extend(data)

    return write


def _source(data: bytes) -> Callable[[], Awaitable[bytes]]:
    parts = [data]

    async def read() -> bytes:
        return parts.pop() if parts else b""

    return read
