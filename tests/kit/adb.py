"""Genuine adb for tests: which binaries there are, and servers of our own with a key of their own."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.devices.adb.server import AdbServer, AdbServerConfig, bundled_adb, open_adb_server

COMMAND_SECONDS = 30.0


def debian_adb() -> Path | None:
    """The adb of the distribution, version 29 on Debian 12."""
    found = shutil.which("adb")
    return Path(found) if found else None


def adb_binaries() -> list[Any]:
    """Test parameters, one for each genuine adb; a missing one is skipped with its reason, and fails under CI."""
    parameters = []
    for name, path in (("adb-system", debian_adb()), ("adb-bundled", bundled_adb())):
        marks: list[pytest.MarkDecorator] = [pytest.mark.adb, pytest.mark.xdist_group("adb")]
        if path is None and not os.environ.get("CI"):
            marks.append(pytest.mark.skip(reason=f"no {name}: install adb, or the Python package adbutils"))
        parameters.append(pytest.param(path, id=name, marks=marks))
    return parameters


any_adb = pytest.mark.parametrize("adb_binary", adb_binaries())
"""Runs a test with each genuine adb. Such a test takes `adb_binary` and `tmp_path`."""


@attrs.frozen
class GenuineAdb:
    """A genuine adb binary together with a server of ours."""

    binary: Path
    server: AdbServer
    home: Path

    async def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run the adb command-line client against our server."""
        environ = os.environ | {"HOME": str(self.home), "ANDROID_ADB_SERVER_PORT": str(self.server.port)}
        with trio.fail_after(COMMAND_SECONDS):
            return await trio.run_process(
                [str(self.binary), *arguments],
                stdin=stdin,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                env=environ,
            )

    async def output(self, *arguments: str) -> str:
        """What a command prints that must succeed."""
        done = await self.run(*arguments)
        assert done.returncode == 0, (arguments, done.stdout[-500:], done.stderr[-500:])
        return done.stdout.decode()

    async def connect(self, *addresses: str) -> None:
        """Connect phones, and wait until adb lists each as `device`."""
        for address in addresses:
            await self.server.client.connect(address)
        await self.wait_state("device", *addresses)

    async def wait_state(self, state: str | None, *addresses: str, seconds: float = 10.0) -> None:
        """Wait until all addresses are in that state (None: not listed)."""
        with trio.fail_after(seconds):
            while True:  # adb 29 does not tell its trackers of every change
                states = {entry.serial: entry.state for entry in await self.server.client.devices()}
                if all(states.get(address) == state for address in addresses):
                    return
                await trio.sleep(0.02)


@asynccontextmanager
async def genuine_adb(binary: Path | None, home: Path, **environ: str) -> AsyncIterator[GenuineAdb]:
    """A running server of that binary, gone when the block ends."""
    assert binary is not None, "CI needs a genuine adb: install the package adb and the wheel adbutils"
    await trio.Path(home).mkdir(exist_ok=True)
    config = AdbServerConfig(binary=binary, home=home, environ=environ)
    async with open_adb_server(config) as server:
        yield GenuineAdb(binary, server, home)


def open_descriptors() -> int:
    """How many file descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


@contextlib.contextmanager
def raises_alone(kind: type[BaseException]) -> Iterator[list[BaseException]]:
    """Expect an error of exactly that kind or below, naked or alone in groups; the list receives it."""
    caught: list[BaseException] = []
    try:
        yield caught
    except BaseException as error:
        inner = error
        while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
            inner = inner.exceptions[0]
        if not isinstance(inner, kind):
            raise
        caught.append(inner)
    else:
        pytest.fail(f"no {kind.__name__} was raised")
