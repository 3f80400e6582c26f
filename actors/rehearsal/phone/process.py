"""What a program on a simulated phone has: arguments, a phone, input, output and errors."""

import math
from collections.abc import Awaitable, Callable, Mapping

import attrs

from actors.rehearsal.phone.handset import Handset
from actors.rehearsal.phone.wire import SHELL_CLOSE_STDIN, SHELL_STDIN, ShellReader

Write = Callable[[bytes | memoryview], Awaitable[None]]


class UsageError(Exception):
    """The program was called wrongly; the text goes to its error output, and it exits with `exit_code`."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Input:
    """Bytes that a program reads, shared by the programs of one command line."""

    def __init__(self, read: Callable[[], Awaitable[bytes]]) -> None:
        self._read = read
        self._pending = b""

    async def read_some(self) -> bytes:
        """What is there next; b"" at the end."""
        if self._pending:
            data, self._pending = self._pending, b""
            return data
        return await self._read()

    async def read_exactly(self, count: int) -> bytes:
        """`count` bytes, or fewer if the input ends before."""
        parts: list[bytes] = []
        missing = count
        while missing > 0 and (data := await self.read_some()):
            parts.append(data[:missing])
            self._pending = data[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    async def read_all(self) -> bytes:
        """Everything to the end."""
        parts: list[bytes] = []
        while data := await self.read_some():
            parts.append(data)
        return b"".join(parts)

    async def read_line(self) -> bytes:
        """The next line with its end; b"" at the end of the input."""
        line = b""
        while not line.endswith(b"\n") and (data := await self.read_some()):
            head, newline, rest = data.partition(b"\n")
            line += head + newline
            self._pending = rest
        return line


class FramedInput:
    """The input inside a `shell,v2` stream: pieces of kind stdin, up to the one that closes it."""

    def __init__(self, read: Callable[[], Awaitable[bytes]]) -> None:
        self._read = read
        self._pieces = ShellReader()
        self._ready: list[bytes] = []
        self._ended = False

    async def read(self) -> bytes:
        """What is there next; b"" once the host closed the input."""
        while not self._ready and not self._ended:
            for kind, data in self._pieces.feed(await self._read()):
                if kind == SHELL_STDIN and data:
                    self._ready.append(data)
                elif kind == SHELL_CLOSE_STDIN:
                    self._ended = True
        return self._ready.pop(0) if self._ready else b""


@attrs.define(eq=False)
class Process:
    """One run of one program."""

    argv: tuple[str, ...]
    handset: Handset
    stdin: Input
    out: Write
    err: Write
    environ: Mapping[str, str] = attrs.field(factory=dict)
    """What stood before the program: `NAME=value program ...`."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """All but the program's name."""
        return self.argv[1:]

    async def print(self, text: str) -> None:
        """A line of output."""
        await self.out(f"{text}\n".encode())

    async def complain(self, text: str) -> None:
        """A line of error output."""
        await self.err(f"{text}\n".encode())


Program = Callable[[Process], Awaitable[int]]
"""Runs to its exit code. A program that is cut off is cancelled at its await."""


def number(text: str, what: str) -> float:
    """A number out of an argument.

    Raises:
        UsageError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"Error: {what} must be a number, not {text!r}")
    return value
