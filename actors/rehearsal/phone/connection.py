"""One TCP connection of a simulated phone: handshake, authentication, and the streams inside it."""

import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import attrs
import trio

from actors.rehearsal.phone.auth import TOKEN_SIZE, AuthMode, PublicKey, is_signed, parse_public_key
from actors.rehearsal.phone.handset import Handset
from actors.rehearsal.phone.services import service_for
from actors.rehearsal.phone.spec import PhoneSpec
from actors.rehearsal.phone.stream import Stream
from actors.rehearsal.phone.wire import (
    AUTH,
    AUTH_PUBLIC_KEY,
    AUTH_SIGNATURE,
    AUTH_TOKEN,
    CLSE,
    CNXN,
    MAX_PAYLOAD_V1,
    OKAY,
    OPEN,
    STLS,
    VERSION_NO_CHECKSUM,
    WRTE,
    Banner,
    Packet,
    PacketReader,
    WireError,
    encode_banner,
    encode_header,
    encode_packet,
    parse_acked,
    parse_banner,
)

RECEIVE_SIZE = 256 * 1024
JOINED_PAYLOAD = 16 * 1024  # below this, copying behind the header is cheaper than a second system call
OUTGOING_PACKETS = 4  # enough to keep the socket busy; each may hold 1 MiB
_UNAUTHORIZED_COMMANDS = frozenset({CNXN, AUTH, STLS})


class Gate:
    """Open: bytes pass. Closed: everybody waits, as in front of a hung phone."""

    def __init__(self) -> None:
        self._opened = trio.Event()
        self._opened.set()

    def close(self) -> None:
        """Let nobody through from now on."""
        if self._opened.is_set():
            self._opened = trio.Event()

    def open(self) -> None:
        """Let everybody through."""
        self._opened.set()

    async def wait_open(self) -> None:
        """Return when the gate is open."""
        while not self._opened.is_set():
            await self._opened.wait()


@attrs.define(eq=False)
class Connection:
    """A host's connection, from CNXN to the end of TCP."""

    stream: trio.SocketStream
    spec: PhoneSpec
    handset: Handset
    sockets: Mapping[str, Callable[[Stream], Awaitable[None]]]
    gate: Gate
    accepted_keys: set[PublicKey]
    """Keys that the phone knows; one that it accepts is added."""
    make_token: Callable[[int], bytes]
    is_forbidden: Callable[[], bool] = attrs.field(default=lambda: False)
    """No host is let in now, whatever its key."""
    _streams: dict[int, Stream] = attrs.field(init=False, factory=dict)
    _ids: "itertools.count[int]" = attrs.field(init=False, factory=lambda: itertools.count(1))
    _scope: trio.CancelScope = attrs.field(init=False, factory=trio.CancelScope)
    _reader: PacketReader = attrs.field(init=False, factory=PacketReader)
    _outgoing: trio.MemorySendChannel[Packet] = attrs.field(init=False)
    _queued: trio.MemoryReceiveChannel[Packet] = attrs.field(init=False)
    _checksum: bool = attrs.field(init=False, default=True)
    _max_payload: int = attrs.field(init=False, default=MAX_PAYLOAD_V1)
    _features: frozenset[str] = attrs.field(init=False, default=frozenset())
    _online: bool = attrs.field(init=False, default=False)
    _token: bytes = attrs.field(init=False, default=b"")
    _offered: PublicKey | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._outgoing, self._queued = trio.open_memory_channel(OUTGOING_PACKETS)

    def cut(self) -> None:
        """End the connection at once; services are cancelled."""
        self._scope.cancel()

    async def run(self) -> None:
        """Serve until either side ends the connection. A peer that breaks the protocol is hung up on."""
        async with self.stream, trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            nursery.start_soon(self._write_packets)
            # the peer's fault or a cut line: what a phone does about either is to hang up
            with suppress(WireError, trio.BrokenResourceError):
                await self._read_packets(nursery)
            for stream in tuple(self._streams.values()):
                stream.close_nowait()
            nursery.cancel_scope.cancel()

    async def _read_packets(self, nursery: trio.Nursery) -> None:
        while data := await self.stream.receive_some(RECEIVE_SIZE):
            await self.gate.wait_open()
            for packet in self._reader.feed(data):
                await self._handle(packet, nursery)

    async def _write_packets(self) -> None:
        try:
            async for packet in self._queued:
                await self.gate.wait_open()
                if len(packet.payload) <= JOINED_PAYLOAD:
                    await self.stream.send_all(encode_packet(packet, checksum=self._checksum))
                else:
                    await self.stream.send_all(encode_header(packet, checksum=self._checksum))
                    await self.stream.send_all(packet.payload)
        except trio.BrokenResourceError:
            self.cut()

    async def _handle(self, packet: Packet, nursery: trio.Nursery) -> None:
        if not self._online and packet.command not in _UNAUTHORIZED_COMMANDS:
            return  # as adbd does with a host that it has not let in
        if packet.command == CNXN:
            await self._greet(packet)
        elif packet.command == AUTH:
            await self._authenticate(packet)
        elif packet.command == OPEN:
            await self._open(packet, nursery)
        elif packet.command in (WRTE, OKAY, CLSE):
            # a stream that is closed here may still get late packets from the host: they mean nothing
            if (stream := self._streams.get(packet.arg1)) is not None:
                self._deliver(packet, stream)
        else:
            raise WireError(f"{packet.name} is not spoken here")

    @staticmethod
    def _deliver(packet: Packet, stream: Stream) -> None:
        if packet.command == WRTE:
            stream.deliver_nowait(bytes(packet.payload))
        elif packet.command == OKAY:
            stream.acknowledge(parse_acked(packet.payload) if stream.delayed_ack else 0)
        else:
            stream.close_nowait()

    # -- letting the host in

    async def _greet(self, packet: Packet) -> None:
        version = min(packet.arg0, self.spec.version)
        self._max_payload = min(packet.arg1, self.spec.max_payload)
        self._features = parse_banner(packet.payload).features & self.spec.features
        self._checksum = version < VERSION_NO_CHECKSUM
        self._reader.verify_checksum = self._checksum
        self._reader.max_payload = self.spec.max_payload
        if self.spec.auth is AuthMode.NONE and not self.is_forbidden():
            await self._go_online()
        else:
            await self._ask_for_signature()

    async def _ask_for_signature(self) -> None:
        self._token = self.make_token(TOKEN_SIZE)
        await self._outgoing.send(Packet(AUTH, AUTH_TOKEN, 0, self._token))

    async def _authenticate(self, packet: Packet) -> None:
        if packet.arg0 == AUTH_SIGNATURE:
            is_known = any(is_signed(self._token, packet.payload, key) for key in self.accepted_keys)
            if is_known and not self.is_forbidden():
                await self._go_online()
            else:
                await self._ask_for_signature()  # the host tries its next key, at last offers its public one
        elif packet.arg0 == AUTH_PUBLIC_KEY:
            self._offered = parse_public_key(packet.payload)
            if self.spec.auth is AuthMode.ACCEPT and not self.is_forbidden():
                await self.accept_key()

    async def accept_key(self) -> None:
        """The owner accepts the key that the host has offered, if it has offered one and waits."""
        if self._offered is not None and not self._online:
            self.accepted_keys.add(self._offered)
            await self._go_online()

    async def _go_online(self) -> None:
        self._online = True
        properties = {
            "ro.product.name": "corral",
            "ro.product.model": self.spec.model,
            "ro.product.device": "corral",
        }
        banner = encode_banner(Banner("device", properties, self.spec.features))
        await self._outgoing.send(Packet(CNXN, self.spec.version, self.spec.max_payload, banner))

    # -- streams

    async def _open(self, packet: Packet, nursery: trio.Nursery) -> None:
        name = bytes(packet.payload).split(b"\0", 1)[0].decode("utf-8", "replace")
        delayed_ack = "delayed_ack" in self._features
        serve = service_for(name, self.handset, self.sockets)
        if serve is None or packet.arg0 == 0 or (packet.arg1 and not delayed_ack):
            await self._outgoing.send(Packet(CLSE, 0, packet.arg0))
            return
        stream = Stream(
            local_id=next(self._ids),
            remote_id=packet.arg0,
            service=name,
            max_payload=self._max_payload,
            send_packet=self._outgoing.send,
            delayed_ack=delayed_ack,
            window=packet.arg1 if delayed_ack else 1,
        )
        self._streams[stream.local_id] = stream
        await stream.accept()
        nursery.start_soon(self._run_stream, stream, serve)

    async def _run_stream(self, stream: Stream, serve: Callable[[Stream], Awaitable[None]]) -> None:
        try:
            await stream.run(serve)
        finally:
            del self._streams[stream.local_id]
