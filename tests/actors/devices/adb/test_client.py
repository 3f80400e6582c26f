"""The client against scripted servers that do what genuine ones do at the worst moment."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from actors.devices.adb.client import TURN_SECONDS, AdbClient
from actors.devices.adb.errors import (
    AdbProtocolError,
    AdbRefused,
    AdbServerLost,
    AdbServerUnresponsive,
    DeviceNotFound,
    DeviceOffline,
    DeviceUnauthorized,
    ServiceClosed,
    refusal_for,
)
from actors.devices.adb.shell import run_shell
from actors.devices.base import DeviceLost, DeviceTimeout
from tests.kit.adb import open_descriptors


@asynccontextmanager
async def scripted_server(
    serve: Callable[[trio.SocketStream], Awaitable[None]],
) -> AsyncIterator[AdbClient]:
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(
            trio.serve_listeners, serve, await trio.open_tcp_listeners(0, host="127.0.0.1")
        )
        yield AdbClient(listener.socket.getsockname()[1])
        nursery.cancel_scope.cancel()


async def read_request(stream: trio.SocketStream) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + int(data[:4], 16):
        data += await stream.receive_some(4096)
    return data[4:]


async def silent(stream: trio.SocketStream) -> None:
    await trio.sleep_forever()


async def test_nobody_listens() -> None:
    with pytest.raises(AdbServerLost, match="no adb server on port"):
        await AdbClient(9).version()


async def test_server_that_says_nothing_is_found_by_the_deadline() -> None:
    async with scripted_server(silent) as client:
        before = open_descriptors()
        with pytest.raises(AdbServerUnresponsive, match=r"'host:version' within 0\.1 s"):
            await client.version(timeout_seconds=0.1)
        with pytest.raises(AdbServerUnresponsive):
            async with client.track_devices(timeout_seconds=0.1):
                pytest.fail("there is no list")
        with pytest.raises(DeviceTimeout):
            await run_shell(client, "p", "id", timeout_seconds=0.1)
        assert open_descriptors() <= before + 3  # the accepting ends, which the script keeps


async def test_deadline_is_total_and_not_per_read() -> None:
    async def trickle(stream: trio.SocketStream) -> None:
        await read_request(stream)
        await stream.send_all(b"OKAYffff")
        while True:
            await stream.send_all(b"x")
            await trio.sleep(0.05)

    async with scripted_server(trickle) as client:
        with trio.fail_after(2), pytest.raises(AdbServerUnresponsive):
            await client.devices(timeout_seconds=0.3)


@pytest.mark.parametrize("reply", [b"", b"OK", b"OKAY00", b"OKAY0020abc"])
async def test_server_that_hangs_up_in_mid_reply(reply: bytes) -> None:
    async def hang_up(stream: trio.SocketStream) -> None:
        await read_request(stream)
        await stream.send_all(reply or b"")
        await stream.aclose()

    async with scripted_server(hang_up) as client:
        with pytest.raises(AdbServerLost):
            await client.devices()


@pytest.mark.parametrize("reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"OKAYzzzz"])
async def test_server_that_is_none(reply: bytes) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        await read_request(stream)
        await stream.send_all(reply)

    async with scripted_server(answer) as client:
        with pytest.raises(AdbProtocolError):
            await client.devices()


@pytest.mark.parametrize("chunk", [1, 7, 1000])
async def test_long_device_lists_in_pieces(chunk: int) -> None:
    first = "".join(f"127.0.0.1:{16000 + number}\tdevice\n" for number in range(300)).encode()
    second = b"127.0.0.1:16000\toffline\n"

    async def track(stream: trio.SocketStream) -> None:
        await read_request(stream)
        wire = b"OKAY" + b"%04x" % len(first) + first + b"%04x" % len(second) + second + b"0000"
        for start in range(0, len(wire), chunk):
            await stream.send_all(wire[start : start + chunk])
        await stream.aclose()

    async with scripted_server(track) as client, client.track_devices() as lists:
        received = [[(entry.serial, entry.state) for entry in await anext(lists)] for _ in range(3)]
        with pytest.raises(AdbServerLost):
            await anext(lists)

        assert [len(entries) for entries in received] == [300, 1, 0]
        assert received[0][299] == ("127.0.0.1:16299", "device")
        assert received[1] == [("127.0.0.1:16000", "offline")]


async def test_command_whose_stream_ends_early_is_an_error_and_no_short_answer() -> None:
    async def shell(stream: trio.SocketStream) -> None:
        await read_request(stream)
        await stream.send_all(b"OKAY")
        await read_request(stream)
        await stream.send_all(b"OKAY")
        assert await stream.receive_some() == b"\x04\x00\x00\x00\x00"
        await stream.send_all(b"\x01\x05\x00\x00\x00hello")
        await stream.aclose()

    async with scripted_server(shell) as client:
        with pytest.raises(DeviceLost, match="in the middle of 'id'"):
            await run_shell(client, "p", "id", timeout_seconds=5)


async def test_cancelled_call_leaves_nothing_open() -> None:
    async with scripted_server(silent) as client:
        before = open_descriptors()
        with trio.move_on_after(0.05) as scope:
            await client.devices(timeout_seconds=60)
        assert scope.cancelled_caught
        assert open_descriptors() <= before + 1  # the accepting end


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("device offline", DeviceOffline),
        ("device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set", DeviceUnauthorized),
        ("device still authorizing", DeviceUnauthorized),
        ("device still connecting", DeviceOffline),
        ("device '127.0.0.1:16000' not found", DeviceNotFound),
        ("no devices/emulators found", DeviceNotFound),
        ("closed", ServiceClosed),
        ("cannot bind listener: Address already in use", AdbRefused),
    ],
)
def test_refusals_are_typed(text: str, kind: type[Exception]) -> None:
    error = refusal_for(text, phone="p")

    assert type(error) is kind
    assert error.phone == "p"
    assert text.split(".", maxsplit=1)[0] in str(error)


@attrs.define
class Connects:
    """A server that answers each connect after a while, but the silent ones never; and how many it had at once."""

    seconds: float
    silent: tuple[str, ...] = ()
    under_way: int = 0
    most: int = 0
    heard: dict[str, float] = attrs.field(factory=dict)

    async def serve(self, stream: trio.SocketStream) -> None:
        address = (await read_request(stream)).decode().removeprefix("host:connect:")
        self.heard[address] = trio.current_time()
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await trio.sleep(math.inf if address in self.silent else self.seconds)
        self.under_way -= 1
        await stream.send_all(b"OKAY0002ok")


async def connect_all(client: AdbClient, *addresses: str) -> None:
    async with trio.open_nursery() as nursery:
        for address in addresses:
            nursery.start_soon(client.connect, address)


@pytest.mark.parametrize("in_turn", [True, False])
async def test_connects_overlap_or_take_turns(in_turn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.devices.adb.client.TURN_SECONDS", 60.0)
    server = Connects(seconds=0.05)
    async with scripted_server(server.serve) as client:
        client.connects_in_turn = in_turn
        await connect_all(client, *(f"phone:{number}" for number in range(8)))

    assert (server.most == 1) is in_turn
    assert len(server.heard) == 8


async def test_a_silent_phone_keeps_the_next_waiting_for_its_turn_only() -> None:
    server = Connects(seconds=0.0, silent=("silent:1",))
    async with scripted_server(server.serve) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.connect, "silent:1")
        await trio.sleep(0.05)
        with trio.fail_after(TURN_SECONDS + 5):
            await connect_all(client, "phone:1", "phone:2")
        waited = server.heard["phone:1"] - server.heard["silent:1"]
        nursery.cancel_scope.cancel()

    assert waited > TURN_SECONDS * 0.9


async def test_a_connect_that_is_given_up_gives_its_turn_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.devices.adb.client.TURN_SECONDS", 60.0)
    server = Connects(seconds=0.0, silent=("silent:1", "silent:2"))
    async with scripted_server(server.serve) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.connect, "silent:1")
            await trio.sleep(0.05)
            nursery.start_soon(client.connect, "silent:2")  # waits for its turn
            await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        with trio.fail_after(20):
            await client.connect("phone:1")

    assert list(server.heard) == ["silent:1", "phone:1"]
