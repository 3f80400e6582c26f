"""`corral phones simulate`, as a process of its own."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from actors.cli.phones import phones
from tests.kit.adb import any_adb, genuine_adb

COMMAND = [sys.executable, "-c", "from actors.cli.phones import phones; phones()", "simulate"]


async def wait_for_file(path: Path) -> list[dict[str, str]]:
    with trio.fail_after(30):
        while not await trio.Path(path).exists():
            await trio.sleep(0.02)
    described: list[dict[str, str]] = json.loads(await trio.Path(path).read_text("utf-8"))
    return described


@any_adb
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
async def test_genuine_adb_uses_them_until_they_are_told_to_stop(
    adb_binary: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    ready = tmp_path / "ready.json"
    arguments = ["--count", "2", "--app", "merge", "--size", "180x320", "--base-port", "0"]
    process = await trio.lowlevel.open_process(
        [*COMMAND, *arguments, "--ready-file", str(ready)], stdout=subprocess.PIPE
    )
    try:
        first, second = await wait_for_file(ready)
        async with genuine_adb(adb_binary, tmp_path / "home") as adb:
            await adb.connect(first["address"], second["address"])
            assert await adb.output("-s", second["address"], "shell", "getprop ro.serialno") == "CORRAL0001\n"
            raw = (await adb.run("-s", first["address"], "exec-out", "screencap")).stdout
            assert len(raw) == 16 + 180 * 320 * 4
        process.send_signal(stop)
        with trio.fail_after(10):
            assert await process.wait() == 0
        assert process.stdout is not None
        printed = (await process.stdout.receive_some()).decode().splitlines()
        assert printed == [f"{phone['serial']}  adb connect {phone['address']}" for phone in (first, second)]
    finally:
        if process.poll() is None:
            process.kill()
            await process.wait()


async def test_taken_port_is_one_clear_line() -> None:
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        done = await trio.run_process(
            [*COMMAND, "--base-port", str(port)], capture_stderr=True, capture_stdout=True, check=False
        )
        nursery.cancel_scope.cancel()
        await listener.aclose()

    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode() == f"Error: 127.0.0.1:{port} is in use; choose another base port\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--size", "720"], "'720' is not a size like 720x1280"),
        (["--size", "9x9"], "each side must be"),
        (["--base-port", "5553", "--count", "3"], "adb servers scan 5554 to 5585"),
        (["--base-port", "65535", "--count", "2"], "not between 0 and 65535"),
        (["--app", "chess"], "'chess' is not one of"),
        (["--count", "0"], "not in the range"),
    ],
)
def test_wrong_arguments_exit_with_2(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(phones, ["simulate", *arguments])

    assert result.exit_code == 2
    assert says in result.output
