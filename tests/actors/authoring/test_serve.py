"""What `corral author` takes, and how it ends."""

import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.authoring import serve
from actors.authoring.serve import open_source
from actors.configuration import ScenarioError
from actors.devices.adb.server import AdbServerConfig
from actors.devices.base import DeviceLost


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("simulated:chess", "no bundled app 'chess'"),
        ("nowhere/at/all", "no such file or folder"),
        ("shot.png", "no such file or folder"),
    ],
)
async def test_a_target_that_is_none_is_said(target: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        async with open_source(target):
            pass


@pytest.mark.parametrize("address", ["127.0.0.1:21000", "R58M123ABC", "phone.example:5555"])
async def test_serials_and_addresses_are_phones(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def no_server(config: AdbServerConfig | None) -> AsyncIterator[None]:
        if config is not None:
            raise DeviceLost("adb was asked")
        yield

    monkeypatch.setattr(serve, "open_adb_server", no_server)

    with pytest.raises(DeviceLost, match="adb was asked"):
        async with open_source(address):
            pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "actors.cli.main", "author", "simulated:merge", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(number)
        rest, errors = process.communicate(timeout=20)

    assert re.match(r"The page is at http://127\.0\.0\.1:\d+/[\w-]{20,}/ ", line)
    assert (process.returncode, rest, errors) == (0, "", "")
