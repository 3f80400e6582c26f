"""Public reports of farms about connections, one test each; docs/field-reports.md has the table."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import structlog.testing
import trio

from actors.devices.adb import connection_states
from actors.devices.adb.attach import attach
from actors.devices.adb.client import AdbClient
from actors.devices.adb.connection_states import Standing
from actors.devices.adb.connections import PhoneConnections
from actors.devices.adb.device import AdbDeadlines, open_adb_device
from actors.devices.adb.errors import (
    AdbServerLost,
    AdbServerUnavailable,
    AdbServerUnresponsive,
    DeviceNotFound,
    DeviceOffline,
    DeviceUnauthorized,
    PhoneTaken,
)
from actors.devices.adb.server import AdbServer, AdbServerConfig, open_adb_server, run_adb_server
from actors.devices.adb.shell import run_shell
from actors.devices.base import DeviceLost, DeviceTimeout
from actors.discovery import FoundPhone, identify
from actors.fleet_phones import refuse_other_phone
from actors.rehearsal.phone.faults import Duplicate, Trickle
from runtime.child import ChildContext, ChildSpec
from runtime.ids import PhoneId
from runtime.nursery import open_bare_nursery
from runtime.restart import Intensity
from runtime.supervisor import open_supervisor
from tests.kit.adb import any_adb, genuine_adb, open_descriptors
from tests.kit.devices import probe_spec, simulated_phones, wait_until
from tests.kit.field import faulty
from tests.kit.lying_server import LyingServer, lying_server

SECONDS = 30.0
PHONE = "10.9.8.7:5555"


@asynccontextmanager
async def kept(client: AdbClient, *addresses: str) -> AsyncIterator[PhoneConnections]:
    """Connections that are kept while the block runs."""
    connections = PhoneConnections(lambda: client)
    async with trio.open_nursery() as nursery:
        await nursery.start(connections.run)
        for address in addresses:
            connections.states.want(address)
        yield connections
        nursery.cancel_scope.cancel()


def standings(connections: PhoneConnections) -> list[Standing]:
    return [one.standing for one in connections.health()]


async def wait_all_ready(connections: PhoneConnections) -> None:
    await wait_until(lambda: set(standings(connections)) == {Standing.READY}, seconds=SECONDS)


async def test_01_connect_says_connected_but_the_state_is_offline() -> None:
    """openstf/stf#1133, redroid-doc#613, #830: only disconnect and connect heal it, and success is not claimed."""

    def heal(server: LyingServer, address: str) -> None:
        if f"host:disconnect:{address}" in server.asked:
            server.list(address, "device")

    stubborn = LyingServer({PHONE: "offline"}, connect_says=f"already connected to {PHONE}")
    async with lying_server(stubborn) as client:
        with pytest.raises(DeviceOffline, match="still 'offline'"):
            await attach(client, PHONE, timeout_seconds=3.0)
    assert f"host:connect:{PHONE}" in stubborn.asked

    healing = LyingServer({PHONE: "offline"}, connect_says=f"already connected to {PHONE}", on_connect=heal)
    async with lying_server(healing) as client:
        await attach(client, PHONE, timeout_seconds=SECONDS)
    asked = [one for one in healing.asked if "connect:" in one]
    assert asked[:2] == [f"host:disconnect:{PHONE}", f"host:connect:{PHONE}"]


@any_adb
async def test_02_the_server_lives_and_its_list_is_empty(adb_binary: Path, tmp_path: Path) -> None:
    """MAA1999/M9A#917: what is wanted and missing is connected again by itself."""
    async with (
        simulated_phones([probe_spec("A"), probe_spec("B")]) as phones,
        genuine_adb(adb_binary, tmp_path) as adb,
        kept(adb.server.client, *(phone.address for phone in phones)) as connections,
    ):
        await wait_all_ready(connections)
        served = [phone.connections_served for phone in phones]
        await adb.output("disconnect")  # somebody empties the list

        await wait_until(
            lambda: all(now.connections_served > before for now, before in zip(phones, served, strict=True)),
            seconds=SECONDS,
        )
        await wait_all_ready(connections)


@any_adb
async def test_03_offline_is_healed_without_killing_a_server(adb_binary: Path, tmp_path: Path) -> None:
    """MaaAssistantArknights#11249, #5112, #15381: `kill-server` did not help, and broke other tools."""
    stubborn = LyingServer({PHONE: "offline"})
    async with lying_server(stubborn) as client:
        with pytest.raises(DeviceOffline):
            await attach(client, PHONE, timeout_seconds=2.5)
    assert "host:kill" not in stubborn.asked
    assert f"host:disconnect:{PHONE}" in stubborn.asked

    async with genuine_adb(adb_binary, tmp_path) as foreign:
        wanted = AdbServerConfig(binary=adb_binary, port=foreign.server.port, home=tmp_path / "ours")
        with pytest.raises(AdbServerUnavailable):
            async with open_adb_server(wanted):
                pytest.fail("a port that somebody else has was taken")
        assert foreign.server.process.returncode is None
        assert await foreign.server.client.version()


@any_adb
async def test_04_a_killed_server_is_one_event_and_all_phones_come_back(adb_binary: Path, tmp_path: Path) -> None:
    """flutter/cocoon PR 268, ionic native-run#5: every TCP phone is forgotten; one restart, staggered reconnects."""
    now: list[AdbServer] = []
    most_at_once = 0

    def client_now() -> AdbClient:
        if not now:
            raise AdbServerLost("being restarted")
        return now[-1].client

    async def watch(connections: PhoneConnections) -> None:
        nonlocal most_at_once
        while True:
            busy = [phone.standing is Standing.CONNECTING for phone in connections.states.phones]
            most_at_once = max(most_at_once, sum(busy))
            await trio.sleep(0.002)

    async with (
        simulated_phones([probe_spec(f"P{n}") for n in range(8)]) as phones,
        trio.open_nursery() as nursery,
    ):
        connections = PhoneConnections(client_now)
        config = AdbServerConfig(binary=adb_binary, home=tmp_path)
        nursery.start_soon(connections.run)
        nursery.start_soon(watch, connections)
        with structlog.testing.capture_logs() as logs:
            async with open_adb_server(config) as server:
                now.append(server)
                for phone in phones:
                    connections.states.want(phone.address)
                await wait_all_ready(connections)
                os.killpg(server.process.pid, signal.SIGKILL)
                await server.wait_exited()
                await wait_until(lambda: connections.restarts == 1, seconds=SECONDS)
                now.clear()
            async with open_adb_server(config) as server:
                now.append(server)
                await wait_all_ready(connections)
                events = [line["event"] for line in logs if line["event"].startswith("actors.adb.")]
                nursery.cancel_scope.cancel()
    assert events.count("actors.adb.lost") == 1
    assert events.count("actors.adb.restarted") == 1
    assert connections.restarts == 1
    assert 1 <= most_at_once <= connection_states.AT_ONCE
    assert all(phone.connections_served >= 2 for phone in phones)


async def test_05_a_server_that_takes_connections_and_says_nothing() -> None:
    """dadb#109, adbutils#16, expo#48744: it hung for ever. A typed error, within the deadline."""

    async def say_nothing(_stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, say_nothing, [listener])
        client = AdbClient(listener.socket.getsockname()[1])
        with trio.fail_after(SECONDS):
            with pytest.raises(AdbServerUnresponsive):
                await client.devices(timeout_seconds=0.3)
            with pytest.raises(AdbServerUnresponsive):
                await attach(client, PHONE, timeout_seconds=SECONDS)
        nursery.cancel_scope.cancel()


@any_adb
async def test_05_our_own_server_that_hangs_is_given_up_for_another(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same of a server of ours, which a supervisor then starts anew."""
    monkeypatch.setattr("actors.devices.adb.server.ALIVE_EVERY_SECONDS", 0.1)
    monkeypatch.setattr("actors.devices.adb.server.ALIVE_SECONDS", 0.5)
    servers: list[AdbServer] = []

    async def hang() -> None:
        async with open_bare_nursery() as nursery:
            servers.append(await nursery.start(run_adb_server, AdbServerConfig(binary=adb_binary, home=tmp_path)))
            os.killpg(servers[0].process.pid, signal.SIGSTOP)

    with trio.fail_after(SECONDS), pytest.raises(AdbServerUnresponsive):
        await hang()
    assert servers[0].process.returncode is not None


@any_adb
async def test_06_a_timeout_that_is_total_and_not_per_read(adb_binary: Path, tmp_path: Path) -> None:
    """AzurLaneAutoScript PR 1019, and `shell(timeout=2)` of a library that took 600 s on a frozen phone."""
    deadlines = AdbDeadlines(capture=1.0)
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        open_adb_device(adb.server.client, phone.address, deadlines=deadlines) as device,
    ):
        await device.capture()
        async with faulty(phone, Trickle(bytes_per_second=5000)):  # bytes go on coming: 184 s for the whole picture
            with trio.fail_after(SECONDS), pytest.raises(DeviceTimeout, match="within 1 s"):
                await device.capture()
        phone.freeze()
        with trio.fail_after(SECONDS), pytest.raises(DeviceTimeout, match="within 1 s"):
            await run_shell(adb.server.client, phone.address, "echo x", timeout_seconds=1.0)


@any_adb
async def test_07_a_stuck_screenshot_ends_in_seconds_and_its_actor_starts_again(
    adb_binary: Path, tmp_path: Path
) -> None:
    """appium#9342: ten minutes, then an exception."""
    starts = captures = 0
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
    ):
        client = adb.server.client

        async def look(_: ChildContext, /, *, task_status: trio.TaskStatus[None]) -> None:
            nonlocal starts, captures
            async with open_adb_device(client, phone.address, deadlines=AdbDeadlines(capture=1.0)) as device:
                starts += 1
                task_status.started()
                while True:
                    await device.capture()
                    captures += 1

        async with open_supervisor("test") as supervisor:
            quick = Intensity(max_restarts=50, period_seconds=60.0, base_seconds=0.1, cap_seconds=0.5)
            await supervisor.start_child(ChildSpec(name="phone", run=look, intensity=quick))
            await wait_until(lambda: captures >= 3, seconds=SECONDS)
            phone.freeze()
            await wait_until(lambda: supervisor.statistics().child("phone").restarts >= 1, seconds=SECONDS)
            phone.thaw()
            before = captures
            await wait_until(lambda: starts >= 2 and captures > before + 3, seconds=SECONDS)
            await supervisor.drain()


@any_adb
async def test_08_a_thousand_calls_leave_no_file_open(adb_binary: Path, tmp_path: Path) -> None:
    """uiautomator2#998: too many open files after many connects and forwards."""
    async with (
        simulated_phones([probe_spec(width=72, height=128)]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
    ):
        client = adb.server.client
        # the first time libraries are loaded and threads started, which keep what they need
        counts = []
        for cycles in (5, 125):
            for _ in range(cycles):
                await client.connect(phone.address)
                await run_shell(client, phone.address, "screencap", timeout_seconds=SECONDS, framed=False)
                local = await client.forward(phone.address, "tcp:0", "localabstract:x")
                await client.kill_forward(phone.address, local)
            await client.disconnect(phone.address)
            await wait_until(lambda: phone.connection_count == 0, seconds=SECONDS)
            counts.append(open_descriptors())
    assert counts[1] <= counts[0] + 2


@any_adb
async def test_09_more_phones_than_one_buffer_holds(adb_binary: Path, tmp_path: Path) -> None:
    """openstf/stf#965, frida-core PR 1145, gnirehtet#464, #553, scrcpy PR 3029: after 8, 16, 40 or 49 they vanish."""
    count = 128
    specs = [probe_spec(f"MANY{n}", app=None, width=72, height=128) for n in range(count)]
    async with (
        simulated_phones(specs) as phones,
        genuine_adb(adb_binary, tmp_path) as adb,
        kept(adb.server.client, *(phone.address for phone in phones)) as connections,
    ):
        await wait_until(
            lambda: sum(one is Standing.READY for one in standings(connections)) == count, seconds=2 * SECONDS
        )
        listed = await adb.server.client.devices()
        assert {entry.serial for entry in listed} == {phone.address for phone in phones}
        assert len(await adb.output("devices", "-l")) > 4096


@any_adb
async def test_29_a_dead_phone_is_not_shown_as_connected(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeviceFarmer/stf#560, #233: health is the age of the last answer, whatever adb says."""
    monkeypatch.setattr(connection_states, "PROBE_EVERY_SECONDS", 0.3)
    monkeypatch.setattr("actors.devices.adb.connections.PROBE_SECONDS", 0.5)
    monkeypatch.setattr(connection_states, "PROBES_BEFORE_HEAL", 10**6)  # left alone, to see what is said of it
    async with (
        simulated_phones([probe_spec()]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        kept(adb.server.client, phone.address) as connections,
    ):
        await wait_all_ready(connections)
        phone.freeze()
        connections.doubt(phone.address)
        await wait_until(lambda: standings(connections) == [Standing.SILENT], seconds=SECONDS)

        def age() -> float:
            (health,) = connections.health()
            assert health.answered_seconds_ago is not None
            return health.answered_seconds_ago

        await wait_until(lambda: age() > 1.5, seconds=SECONDS)
        (health,) = connections.health()
        assert (health.listed, health.standing) == ("device", Standing.SILENT)
        phone.thaw()
        await wait_all_ready(connections)
        assert age() < 1.5


@any_adb
async def test_30_an_unauthorized_phone_is_not_knocked_at_again_and_again(adb_binary: Path, tmp_path: Path) -> None:
    """openstf#1266, #973, stf#881: a connection every half second. Left alone until what adb lists changes."""
    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        phone.forbid()
        async with kept(adb.server.client, phone.address) as connections:
            await wait_until(lambda: standings(connections) == [Standing.UNAUTHORIZED], seconds=SECONDS)
            knocks = phone.connections_served
            with pytest.raises(DeviceUnauthorized, match="accept this host's key"):
                await connections.wait_ready(phone.address, timeout_seconds=SECONDS)
            await trio.sleep(1.0)
            assert standings(connections) == [Standing.UNAUTHORIZED]
            assert phone.connections_served == knocks

            await phone.allow()
            await wait_all_ready(connections)


async def test_32_an_adb_that_hangs_as_it_starts_is_given_up(tmp_path: Path) -> None:
    """dotnet/android PR 660: five hours in CI. Starting has a deadline, and leaves no process."""
    hung = tmp_path / "adb"
    hung.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    hung.chmod(0o755)
    with trio.fail_after(SECONDS), pytest.raises(AdbServerUnavailable, match="no answer within 1 s"):
        async with open_adb_server(AdbServerConfig(binary=hung, home=tmp_path, start_seconds=1.0)):
            pytest.fail("a server that says nothing was used")
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@any_adb
async def test_33_one_phone_at_two_addresses_is_driven_once(adb_binary: Path, tmp_path: Path) -> None:
    """A phone at 127.0.0.1:6900 and at localhost:6900, or on a port that adb scans: two rows, one serial number."""
    async with (
        simulated_phones([probe_spec("SAME")]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
        faulty(phone, Duplicate()),
    ):
        (second,) = phone.aliases
        wanted = [FoundPhone(PhoneId(a), a, "probe") for a in (phone.address, second)]
        with structlog.testing.capture_logs() as logs:
            (found,) = await identify(lambda: adb.server.client, wanted)
        assert (found.phone, found.address, found.aliases) == ("SAME", phone.address, (second,))
        assert "actors.phone.doubled" in {line["event"] for line in logs}

        # one that could not be asked at first says who it is later
        late = FoundPhone(PhoneId("127-0-0-1"), second, "probe", error="it was off")
        both = [attrs.evolve(found, aliases=()), late]
        with pytest.raises(PhoneTaken, match="driven through another address already"):
            refuse_other_phone(both, late, PhoneId("SAME"))
        with pytest.raises(PhoneTaken, match="this was SAME, and now OTHER is at this address"):
            refuse_other_phone(both, found, PhoneId("OTHER"))
        refuse_other_phone(both, found, PhoneId("SAME"))


@any_adb
async def test_34_a_phone_that_is_switched_off_is_no_hang(
    adb_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nmeum/android-tools#28: it stayed listed, and a shell hung."""
    monkeypatch.setattr(connection_states, "RECONNECT_CAP_SECONDS", 0.5)
    async with simulated_phones([probe_spec()]) as (phone,), genuine_adb(adb_binary, tmp_path) as adb:
        client = adb.server.client
        async with kept(client, phone.address) as connections:
            await wait_all_ready(connections)
            await phone.power_off()
            with trio.fail_after(SECONDS), pytest.raises(DeviceLost):
                await run_shell(client, phone.address, "echo x", timeout_seconds=2.0)
            await wait_until(lambda: standings(connections) != [Standing.READY], seconds=SECONDS)
            with trio.fail_after(SECONDS), pytest.raises((DeviceOffline, DeviceNotFound)):
                await connections.wait_ready(phone.address, timeout_seconds=1.0)
            await phone.power_on()
            await wait_all_ready(connections)
