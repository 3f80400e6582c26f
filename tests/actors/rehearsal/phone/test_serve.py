"""A simulated phone as a raw TCP peer sees it, without any adb."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from actors.rehearsal.phone.auth import AuthMode
from actors.rehearsal.phone.serve import SimulatedPhone
from actors.rehearsal.phone.wire import (
    AUTH,
    CLSE,
    CNXN,
    OKAY,
    OPEN,
    WRTE,
    Packet,
    PacketReader,
    encode_packet,
    parse_banner,
)
from tests.kit.devices import probe_spec, simulated_phones, wait_until


class RawHost:
    """The host side of one connection, packet by packet."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.reader = PacketReader()
        self.waiting: list[Packet] = []

    async def send(self, *arguments: object) -> None:
        await self.stream.send_all(encode_packet(Packet(*arguments), checksum=True))  # type: ignore[arg-type]

    async def receive(self) -> Packet | None:
        with trio.fail_after(5):
            while not self.waiting:
                data = await self.stream.receive_some()
                if not data:
                    return None
                self.waiting += self.reader.feed(data)
        return self.waiting.pop(0)

    async def names_until_closed(self) -> list[str]:
        names = []
        while (packet := await self.receive()) is not None:
            names.append(packet.name)
        return names


@asynccontextmanager
async def raw_host(phone: SimulatedPhone) -> AsyncIterator[RawHost]:
    async with await trio.open_tcp_stream("127.0.0.1", phone.port) as stream:
        yield RawHost(stream)


@asynccontextmanager
async def greeted_host(phone: SimulatedPhone) -> AsyncIterator[tuple[RawHost, Packet]]:
    async with raw_host(phone) as host:
        await host.send(CNXN, 0x01000001, 0x100000, b"host::features=shell_v2,cmd")
        hello = await host.receive()
        assert hello is not None
        yield host, hello


async def test_greeting() -> None:
    async with simulated_phones([probe_spec(max_payload=8192)]) as (phone,), greeted_host(phone) as (_, hello):
        assert (hello.command, hello.arg0, hello.arg1) == (CNXN, 0x01000001, 8192)
        assert parse_banner(hello.payload).properties["ro.product.model"] == "Corral One"


async def test_late_packets_for_a_closed_stream_mean_nothing() -> None:
    async with simulated_phones([probe_spec()]) as (phone,), greeted_host(phone) as (host, _):
        await host.send(OPEN, 5, 0, b"shell:true\0")
        okay, close = await host.receive(), await host.receive()
        assert okay is not None
        assert close is not None
        assert (okay.command, close.command, close.arg1) == (OKAY, CLSE, 5)
        for command in (OKAY, WRTE, CLSE, OKAY):
            await host.send(command, 5, okay.arg0, b"late" if command == WRTE else b"")

        await host.send(OPEN, 6, 0, b"shell:echo still here\0")
        assert [(await host.receive()).name for _ in range(2)] == ["OKAY", "WRTE"]  # type: ignore[union-attr]


async def test_unknown_service_and_unexpected_window_are_refused() -> None:
    async with simulated_phones([probe_spec()]) as (phone,), greeted_host(phone) as (host, _):
        for window, service in ((0, b"jdwp:1\0"), (0, b"localabstract:nobody\0"), (4096, b"shell:true\0")):
            await host.send(OPEN, 5, window, service)
            answer = await host.receive()
            assert answer is not None
            assert (answer.command, answer.arg0, answer.arg1) == (CLSE, 0, 5)


async def test_nothing_is_served_before_the_host_is_let_in() -> None:
    specs = [probe_spec(auth=AuthMode.NEVER)]
    async with simulated_phones(specs) as (phone,), greeted_host(phone) as (host, challenge):
        assert (challenge.command, challenge.arg0, len(challenge.payload)) == (AUTH, 1, 20)
        await host.send(OPEN, 5, 0, b"shell:input tap 1 1\0")
        await host.send(AUTH, 2, 0, bytes(256))
        again = await host.receive()
        assert again is not None
        assert again.command == AUTH
        assert again.payload != challenge.payload


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0" * 4096])
async def test_a_peer_that_speaks_something_else_is_hung_up_on(noise: bytes) -> None:
    async with simulated_phones([probe_spec()]) as (phone,):
        async with raw_host(phone) as host:
            with suppress(trio.BrokenResourceError):  # RST, where bytes were left unread
                await host.stream.send_all(noise)
                assert await host.receive() is None
        async with greeted_host(phone):
            pass


async def test_freeze_and_drop() -> None:
    async with simulated_phones([probe_spec()]) as (phone,), greeted_host(phone) as (host, _):
        phone.freeze()
        await host.send(OPEN, 5, 0, b"shell:echo hi\0")
        with trio.move_on_after(0.2) as scope:
            await host.receive()
        assert scope.cancelled_caught
        phone.thaw()
        assert (await host.receive()) is not None

        phone.drop(reset=False)
        assert "CNXN" not in await host.names_until_closed()
        await wait_until(lambda: phone.connection_count == 0)
        async with greeted_host(phone) as (second, _):
            phone.drop(reset=True)
            with pytest.raises(trio.BrokenResourceError):
                await second.receive()


async def test_restart_keeps_port_and_packages_and_leaves_the_neighbour_alone() -> None:
    async with (
        simulated_phones([probe_spec(), probe_spec("NEIGHBOUR")]) as (phone, neighbour),
        greeted_host(neighbour) as (host, _),
    ):
        phone.handset.packages.install({"a.apk": b"package=kept\n"})
        port, before = phone.port, phone.handset
        await phone.power_off()
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream("127.0.0.1", port)
        await phone.power_on()
        assert phone.port == port
        assert phone.handset is not before
        assert phone.handset.packages.find("kept") is not None
        async with greeted_host(phone):
            pass
        await host.send(OPEN, 5, 0, b"shell:echo hi\0")
        assert (await host.receive()) is not None
