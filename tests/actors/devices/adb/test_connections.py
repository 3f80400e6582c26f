"""Connections that are kept: given up, healed, and told of."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from actors.devices.adb import connection_states
from actors.devices.adb.attach import attach
from actors.devices.adb.client import AdbClient
from actors.devices.adb.connection_states import PROBES_BEFORE_HEAL, Standing
from actors.devices.adb.connections import PhoneConnections
from actors.devices.adb.errors import AdbServerLost
from actors.devices.base import DeviceTimeout
from tests.kit.adb import any_adb, genuine_adb
from tests.kit.devices import probe_spec, simulated_phones, wait_until
from tests.kit.lying_server import LyingServer, lying_server

SECONDS = 30.0
PHONE = "10.9.8.7:5555"


@asynccontextmanager
async def kept(client: AdbClient) -> AsyncIterator[PhoneConnections]:
    connections = PhoneConnections(lambda: client)
    async with trio.open_nursery() as nursery:
        await nursery.start(connections.run)
        yield connections
        nursery.cancel_scope.cancel()


@any_adb
async def test_a_phone_that_is_given_up_is_disconnected(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        kept(adb.server.client) as connections,
    ):
        await connections.wait_ready(phone.address, timeout_seconds=SECONDS)
        connections.forget(phone.address)
        await wait_until(lambda: phone.connection_count == 0, seconds=SECONDS)
        assert connections.health() == ()
        await adb.wait_state(None, phone.address, seconds=SECONDS)


async def test_a_silent_device_is_reconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead TCP connection behind a NAT: adb goes on saying `device`."""

    def wake(server: LyingServer, address: str) -> None:
        server.answer = b"SERIAL1\n"
        server.list(address, "device")

    server = LyingServer(
        {PHONE: "device"}, answer=b"", on_connect=wake, on_disconnect=lambda server, address: server.list(address, None)
    )
    async with lying_server(server) as client, kept(client) as connections:
        await connections.wait_ready(PHONE, timeout_seconds=SECONDS)
    assert server.asked.count(f"host:disconnect:{PHONE}") == 1
    assert server.asked.count(f"host:transport:{PHONE}") >= PROBES_BEFORE_HEAL + 1


async def test_what_others_hear_spares_the_phone_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_states, "PROBE_EVERY_SECONDS", 0.05)
    server = LyingServer({PHONE: "device"})
    async with lying_server(server) as client, kept(client) as connections:
        await connections.wait_ready(PHONE, timeout_seconds=SECONDS)
        connections.heard_at = lambda _: trio.current_time()
        await trio.testing.wait_all_tasks_blocked(0.02)
        connections.doubt("somebody else")  # wakes it
        await trio.sleep(0.1)
        before = server.asked.count(f"host:transport:{PHONE}")
        for _ in range(10):
            connections.doubt("somebody else")
            await trio.sleep(0.02)
        assert server.asked.count(f"host:transport:{PHONE}") == before
        (health,) = connections.health()
        assert (health.standing, health.address) == (Standing.READY, PHONE)


async def test_a_device_that_never_answers_is_a_timeout_for_who_waits() -> None:
    server = LyingServer({PHONE: "device"}, answer=b"", on_connect=lambda server, address: None)
    async with lying_server(server) as client:
        with pytest.raises(DeviceTimeout, match="a first question was not answered within 1 s"):
            await attach(client, PHONE, timeout_seconds=1.0)


async def test_who_waits_while_there_is_no_server_is_told(autojump_clock: trio.abc.Clock) -> None:
    def no_server() -> AdbClient:
        raise AdbServerLost("our adb server is being restarted")

    connections = PhoneConnections(no_server)
    async with trio.open_nursery() as nursery:
        await nursery.start(connections.run)
        with pytest.raises(AdbServerLost):
            await connections.wait_ready(PHONE, timeout_seconds=20.0)
        assert connections.restarts == 0, "there never was one"
        nursery.cancel_scope.cancel()
