"""Our own adb server: found, started, watched, stopped."""

import os
import signal
import sys
from pathlib import Path

import pytest
import trio

from actors.devices.adb.errors import AdbServerLost, AdbServerUnavailable
from actors.devices.adb.server import (
    FIRST_PORT,
    FOREIGN,
    LAST_PORT,
    AdbServer,
    AdbServerConfig,
    bundled_adb,
    find_adb,
    open_adb_server,
    run_adb_server,
)
from tests.kit.adb import any_adb, raises_alone
from tests.kit.devices import wait_until


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


def test_binary_is_looked_for_in_this_order(tmp_path: Path) -> None:
    in_path = script(tmp_path / "adb", "")
    wanted = script(tmp_path / "my-adb", "")

    assert find_adb({"ADB": str(wanted), "PATH": str(tmp_path)}) == wanted
    assert find_adb({"PATH": str(tmp_path)}) == in_path
    assert find_adb({"ADB": "", "PATH": "/nowhere"}) == bundled_adb()
    with pytest.raises(AdbServerUnavailable, match=r"\$ADB is '/no/adb'"):
        find_adb({"ADB": "/no/adb", "PATH": str(tmp_path)})


@any_adb
async def test_server_answers_on_a_port_of_its_own_and_is_gone_afterwards(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        open_adb_server(AdbServerConfig(binary=adb_binary, home=tmp_path)) as one,
        open_adb_server(AdbServerConfig(binary=adb_binary, home=tmp_path)) as two,
    ):
        assert one.port != two.port
        assert all(FIRST_PORT <= server.port <= LAST_PORT for server in (one, two))
        assert await one.client.version() == 41
        assert await two.client.devices() == ()
        assert os.getsid(one.process.pid) == one.process.pid  # Ctrl-C at our terminal does not reach it

    assert one.process.returncode is not None
    with pytest.raises(AdbServerLost):
        await one.client.version()
    assert (tmp_path / ".android" / "adbkey").exists()


@any_adb
async def test_foreign_server_on_our_port_is_left_alone(adb_binary: Path, tmp_path: Path) -> None:
    async with open_adb_server(AdbServerConfig(binary=adb_binary, home=tmp_path)) as foreign:
        with pytest.raises(AdbServerUnavailable, match=f"port {foreign.port}"):
            async with open_adb_server(AdbServerConfig(binary=adb_binary, home=tmp_path, port=foreign.port)):
                pytest.fail("the port is taken")

        assert foreign.process.poll() is None
        assert await foreign.client.version() == 41


@any_adb
async def test_server_that_dies_is_an_error_of_its_actor(adb_binary: Path, tmp_path: Path) -> None:
    config = AdbServerConfig(binary=adb_binary, home=tmp_path)
    with raises_alone(AdbServerLost) as caught:
        async with trio.open_nursery() as nursery:
            server: AdbServer = await nursery.start(run_adb_server, config)
            os.kill(server.process.pid, signal.SIGKILL)
    assert "ended with -9" in str(caught[0])

    again = AdbServerConfig(binary=adb_binary, home=tmp_path, port=server.port)
    with trio.fail_after(60):
        while True:
            try:
                async with open_adb_server(again) as second:
                    assert await second.client.version() == 41
                break
            except AdbServerUnavailable as error:  # a test of another process took the port meanwhile, for a while
                if FOREIGN not in str(error):
                    raise
                await trio.sleep(0.5)


async def test_binary_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    binary = script(tmp_path / "adb", "import sys; sys.exit('cannot bind: no such luck')")

    with pytest.raises(AdbServerUnavailable, match="no such luck"):
        async with open_adb_server(AdbServerConfig(binary=binary)):
            pytest.fail("it did not start")


async def test_binary_that_cannot_be_run(tmp_path: Path) -> None:
    binary = tmp_path / "adb"
    binary.write_bytes(b"not a program")
    binary.chmod(0o755)

    with pytest.raises(AdbServerUnavailable, match="cannot start"):
        async with open_adb_server(AdbServerConfig(binary=binary)):
            pytest.fail("it did not start")


STUBBORN = """
import os, signal, socket, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
server = socket.create_server(("127.0.0.1", int(sys.argv[2])))
while True:
    peer, _ = server.accept()
    request = peer.recv(100)
    if b"version" in request:
        peer.sendall(b"OKAY00040029")
        peer.close()
"""


async def test_server_that_will_not_stop_is_killed(tmp_path: Path) -> None:
    binary = script(tmp_path / "adb", STUBBORN)

    with trio.fail_after(20):
        async with open_adb_server(AdbServerConfig(binary=binary, grace_seconds=0.2)) as server:
            assert await server.client.version() == 0x29

    assert server.process.returncode == -signal.SIGKILL


async def test_cancelled_start_leaves_no_process(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    text = f"""
import os, sys, time
if "server" in sys.argv:
    open({str(pid_file)!r}, "w").write(str(os.getpid()))
    time.sleep(600)
"""
    binary = script(tmp_path / "adb", text)

    async with trio.open_nursery() as nursery:

        async def start() -> None:
            async with open_adb_server(AdbServerConfig(binary=binary)):
                pytest.fail("it never answers")

        nursery.start_soon(start)
        await wait_until(lambda: pid_file.exists() and bool(pid_file.read_text()), seconds=10)
        nursery.cancel_scope.cancel()

    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


@pytest.mark.parametrize(
    ("said", "in_turn"),
    [
        ("Android Debug Bridge version 1.0.41\\nVersion 36.0.0-13206524", False),
        ("Android Debug Bridge version 1.0.41\\nVersion 29.0.6-debian", True),
        ("Android Debug Bridge version 1.0.32", True),
        ("Version x", True),
    ],
)
async def test_connects_overlap_only_where_the_server_bears_that(tmp_path: Path, said: str, in_turn: bool) -> None:
    text = f"import sys\nif sys.argv[1] == 'version':\n    print('{said}')\n    sys.exit()\n{STUBBORN}"
    binary = script(tmp_path / "adb", text)

    async with open_adb_server(AdbServerConfig(binary=binary, grace_seconds=0.2)) as server:
        assert server.client.connects_in_turn is in_turn


@any_adb
async def test_every_genuine_adb_says_its_version(adb_binary: Path, tmp_path: Path) -> None:
    said = (await trio.run_process([str(adb_binary), "version"], capture_stdout=True)).stdout.decode()

    async with open_adb_server(AdbServerConfig(binary=adb_binary, home=tmp_path)) as server:
        assert server.client.connects_in_turn is ("\nVersion 36." not in said)
