"""Commands on a phone through the adb server: `shell,v2` where the phone has it, else the old `shell:`."""

import trio

from actors.devices.adb.client import AdbClient, phone_timeout, total_deadline
from actors.devices.adb.errors import AdbProtocolError
from actors.devices.adb.wire import CLOSED_STDIN, SHELL_EXIT, SHELL_STDERR, SHELL_STDOUT, ShellReader, WireError
from actors.devices.base import DeviceLost, ShellResult

SHELL_V2 = "shell_v2"
OUTPUT_LIMIT = 64 * 1024 * 1024  # a command that prints more is a mistake, and would fill our memory


async def run_shell(
    client: AdbClient, serial: str, command: str, *, timeout_seconds: float, framed: bool = True
) -> ShellResult:
    """Run a command to its end.

    Args:
        client: the adb server.
        serial: the phone.
        command: a line for the phone's shell.
        timeout_seconds: total, from here to the last byte.
        framed: the phone has `shell_v2`. Without it output and errors come as one, and there is no exit code.

    Raises:
        DeviceTimeout: it did not end in time; the phone's side is told by the closed stream.
        DeviceLost: the stream ended before the command did.
        AdbProtocolError: the phone sent what is no shell stream.
    """
    with total_deadline(timeout_seconds, lambda: phone_timeout(serial, f"shell {command!r}", timeout_seconds)):
        if framed:
            return await _run_framed(client, serial, command)
        return ShellResult(await _run_plain(client, serial, f"shell:{command}"), b"", None)


async def run_exec(client: AdbClient, serial: str, command: str, *, timeout_seconds: float) -> bytes:
    """All bytes that a command prints through `exec:`. A dead stream looks like a short answer: verify them."""
    with total_deadline(timeout_seconds, lambda: phone_timeout(serial, f"exec {command!r}", timeout_seconds)):
        return await _run_plain(client, serial, f"exec:{command}")


async def _run_plain(client: AdbClient, serial: str, service: str) -> bytes:
    output = bytearray()
    async with client.open_service(serial, service) as socket:
        while data := await socket.receive_some():
            output += data
            _check_size(output, serial)
    return bytes(output)


async def _run_framed(client: AdbClient, serial: str, command: str) -> ShellResult:
    stdout, stderr = bytearray(), bytearray()
    pieces = ShellReader()
    async with client.open_service(serial, f"shell,v2,raw:{command}") as socket:
        await socket.send(CLOSED_STDIN)
        while data := await socket.receive_some():
            try:
                for kind, piece in pieces.feed(data):
                    if kind == SHELL_STDOUT:
                        stdout += piece
                    elif kind == SHELL_STDERR:
                        stderr += piece
                    elif kind == SHELL_EXIT and piece:
                        return ShellResult(bytes(stdout), bytes(stderr), piece[0])
            except WireError as error:
                raise AdbProtocolError(f"shell {command!r}: {error}", phone=serial) from error
            _check_size(stdout, serial)
            _check_size(stderr, serial)
        await trio.lowlevel.checkpoint()
    raise DeviceLost(f"the connection ended in the middle of {command!r}", phone=serial)


def _check_size(output: bytearray, serial: str) -> None:
    if len(output) > OUTPUT_LIMIT:
        raise AdbProtocolError(f"more than {OUTPUT_LIMIT} bytes of output", phone=serial)
