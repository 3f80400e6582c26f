"""Simulated phones on the network: one TCP listener each, as many as wanted in one process."""

import errno
import os
import secrets
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress

import attrs
import trio

from actors.rehearsal.apps.base import AppFactory
from actors.rehearsal.phone.auth import PublicKey
from actors.rehearsal.phone.connection import Connection, Gate
from actors.rehearsal.phone.fault_effects import FaultEffects
from actors.rehearsal.phone.handset import Handset
from actors.rehearsal.phone.spec import ADB_SCANNED_PORTS, PhoneSpec
from actors.rehearsal.phone.stream import Stream

HOST = "127.0.0.1"
_BIND_TRIES = 20  # free ports that turn out to be among those which adb scans are 32 of 28,000
_BACKLOG = 16  # one adb server makes one connection a phone; a frozen phone lets a few pile up
_LINGER_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close() sends RST


class PortInUse(Exception):
    """The address of a simulated phone is taken by someone else; choose another base port."""


@attrs.define(eq=False)
class SimulatedPhone:
    """One phone with its address. `serve` makes it answer; the other methods are the hand of a test on it.

    Attributes:
        spec: what it was made as.
        handset: the inside, new after each boot; tests read the truth there.
        sockets: {name: handler} of `localabstract:NAME`, which `adb forward` reaches. They survive a reboot.
    """

    spec: PhoneSpec
    apps: Mapping[str, AppFactory]
    drawing: trio.CapacityLimiter
    effects: FaultEffects = attrs.field(factory=FaultEffects)
    """The faults of the moment; they survive a reboot."""
    handset: Handset = attrs.field(init=False)
    sockets: dict[str, Callable[[Stream], Awaitable[None]]] = attrs.field(init=False, factory=dict)
    connections_served: int = attrs.field(init=False, default=0)
    """TCP connections accepted so far."""
    _more_ports: list[int] = attrs.field(init=False, factory=list)
    _is_forbidden: bool = attrs.field(init=False, default=False)
    _nursery: trio.Nursery | None = attrs.field(init=False, default=None)
    _accepted_keys: set[PublicKey] = attrs.field(init=False, factory=set)
    _port: int | None = attrs.field(init=False, default=None)
    _gate: Gate = attrs.field(init=False, factory=Gate)
    _connections: set[Connection] = attrs.field(init=False, factory=set)
    _listening: trio.CancelScope = attrs.field(init=False, factory=trio.CancelScope)
    _stopped: trio.Event = attrs.field(init=False, factory=trio.Event)
    _power: trio.Event = attrs.field(init=False, factory=trio.Event)
    _up: trio.Event = attrs.field(init=False, factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        self._boot()
        self._power.set()

    @property
    def port(self) -> int:
        """The TCP port; it stays the same over restarts."""
        if self._port is None:
            raise RuntimeError("the phone has no port before `serve` has started")
        return self._port

    @property
    def address(self) -> str:
        """What `adb connect` takes."""
        return f"{HOST}:{self.port}"

    @property
    def aliases(self) -> tuple[str, ...]:
        """More addresses of the same phone."""
        return tuple(f"{HOST}:{port}" for port in self._more_ports)

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer until cancelled; started once the port listens.

        Raises:
            PortInUse: somebody else has the port.
        """
        started = False
        while True:
            await self._power.wait()
            wanted = self.spec.port if self._port is None else self._port
            listener, self._port = await _bind(wanted)
            async with trio.open_nursery() as nursery:
                self._listening = nursery.cancel_scope
                self._nursery = nursery
                await nursery.start(trio.serve_listeners, self._serve_connection, [listener])
                for port in self._more_ports:
                    listener, _ = await _bind(port)
                    await nursery.start(trio.serve_listeners, self._serve_connection, [listener])
                self._up.set()
                if not started:
                    started = True
                    task_status.started()
            self._stopped.set()

    @property
    def connection_count(self) -> int:
        """How many hosts are connected now."""
        return len(self._connections)

    # -- the hand of a test

    def freeze(self) -> None:
        """Stop answering, as a hung phone does: TCP stays open, and new connections are taken in silence."""
        self._gate.close()

    def thaw(self) -> None:
        """Go on where `freeze` stopped."""
        self._gate.open()

    def drop(self, *, reset: bool = True) -> None:
        """Cut every connection (with RST, or with FIN); the phone goes on listening."""
        for connection in tuple(self._connections):
            if reset:
                with suppress(OSError):  # it may be closed already
                    connection.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            connection.cut()

    def half_close(self) -> None:
        """Close the phone's side of every connection, and leave the host's open."""
        for connection in tuple(self._connections):
            with suppress(OSError):  # it may be closed already
                connection.stream.socket.shutdown(socket.SHUT_WR)

    def forbid(self) -> None:
        """Cut every connection, and let no host in from now on."""
        self._is_forbidden = True
        self.drop(reset=False)

    async def allow(self) -> None:
        """The owner accepts the hosts that wait."""
        self._is_forbidden = False
        for connection in tuple(self._connections):
            await connection.accept_key()

    async def add_address(self) -> str:
        """Listen at one more address; returns it. Raises `PortInUse`."""
        listener, port = await _bind(0)
        self._more_ports.append(port)
        assert self._nursery is not None, "the phone is served"
        await self._nursery.start(trio.serve_listeners, self._serve_connection, [listener])
        return f"{HOST}:{port}"

    async def power_off(self) -> None:
        """Cut every connection and stop listening; returns when the port is closed."""
        self._power = trio.Event()
        self._up = trio.Event()
        self._stopped = trio.Event()
        self._listening.cancel()
        await self._stopped.wait()

    async def power_on(self) -> None:
        """Boot afresh, with packages and files kept; returns when the phone listens at its old address."""
        self._boot(keep=self.handset)
        self.thaw()
        self._power.set()
        await self._up.wait()

    async def restart(self) -> None:
        """`power_off`, then `power_on`."""
        await self.power_off()
        await self.power_on()

    # -- inside

    def _boot(self, keep: Handset | None = None) -> None:
        booted_at = trio.current_time()
        self.handset = Handset(
            spec=self.spec,
            apps=self.apps,
            clock=lambda: trio.current_time() - booted_at,
            boot_epoch=time.time(),
            drawing=self.drawing,
            effects=self.effects,
        )
        if keep is not None:
            self.handset.packages = keep.packages
            self.handset.files = keep.files

    async def _serve_connection(self, stream: trio.SocketStream) -> None:
        self.connections_served += 1
        connection = Connection(
            stream=stream,
            spec=self.spec,
            handset=self.handset,
            sockets=self.sockets,
            gate=self._gate,
            accepted_keys=self._accepted_keys,
            make_token=secrets.token_bytes,
            is_forbidden=lambda: self._is_forbidden,
        )
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)


async def _bind(wanted: int) -> tuple[trio.SocketListener, int]:
    for _ in range(_BIND_TRIES):
        try:
            (listener,) = await trio.open_tcp_listeners(wanted, host=HOST, backlog=_BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(f"{HOST}:{wanted} is in use; choose another base port") from error
            raise
        port = int(listener.socket.getsockname()[1])
        if port not in ADB_SCANNED_PORTS:
            return listener, port
        await listener.aclose()
    raise PortInUse(f"no free port on {HOST} outside those that adb scans")


async def serve_phones(
    specs: Iterable[PhoneSpec],
    apps: Mapping[str, AppFactory],
    *,
    task_status: trio.TaskStatus[tuple[SimulatedPhone, ...]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve many phones until cancelled; started, with the phones in the order of `specs`, once all listen.

    Args:
        specs: the phones.
        apps: {name: factory} of the apps that every phone has installed.
        task_status: receives the phones.

    Raises:
        PortInUse: (alone or in a group) a wanted port is taken.
        KeyError: a spec names an app that is not in `apps`.
    """
    drawing = trio.CapacityLimiter(os.cpu_count() or 1)  # drawing is pure CPU work: more threads only queue inside
    phones = tuple(SimulatedPhone(spec, apps, drawing) for spec in specs)
    async with trio.open_nursery() as nursery:
        for phone in phones:
            await nursery.start(phone.serve)
        task_status.started(phones)
