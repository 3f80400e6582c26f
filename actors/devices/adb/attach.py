"""From an address to a phone that answers: what adb lists and the phone says decide, never what `connect` says."""

from contextlib import suppress
from typing import Protocol

import trio

from actors.devices.adb.client import AdbClient
from actors.devices.adb.connection_states import is_network_address
from actors.devices.adb.connections import PhoneConnections
from actors.devices.base import DeviceError
from runtime.nursery import open_bare_nursery

__all__ = ["Attach", "attach", "is_network_address"]

DETACH_SECONDS = 2.0


class Attach(Protocol):
    """How a phone is connected: by itself, or by whoever keeps the connections of a fleet."""

    async def __call__(self, client: AdbClient, address: str, *, timeout_seconds: float) -> bool:
        """Return once the phone answers; True when the caller may disconnect it. Raises `DeviceLost`."""
        ...


async def attach(client: AdbClient, address: str, *, timeout_seconds: float) -> bool:
    """Return once adb lists `address` as `device` and the phone has answered.

    When it fails or is cancelled, an address that was connected here is disconnected again.

    Returns:
        True when we connected it ourselves, so that we may also disconnect it.

    Raises:
        DeviceUnauthorized: the phone wants its owner to accept our key.
        DeviceOffline: it stayed offline, or another state, until the deadline.
        DeviceNotFound: it never appeared.
        DeviceTimeout: adb calls it `device`, and it did not answer.
        AdbServerLost: (or `AdbServerUnresponsive`) the server is the trouble.
    """
    connections = PhoneConnections(lambda: client, waits_for_server=False)
    phone = connections.states.want(address)
    attached = False
    failures: list[DeviceError] = []

    async def keep() -> None:
        with suppress(DeviceError):  # who waits is told of it
            await connections.run()

    try:
        async with open_bare_nursery() as nursery:
            nursery.start_soon(keep)
            try:
                await connections.wait_ready(address, timeout_seconds=timeout_seconds)
                attached = True
            except DeviceError as error:
                failures.append(error)
            nursery.cancel_scope.cancel()
    finally:
        if phone.connected and not attached:
            # left there, adb would keep knocking at a phone that is not ours to use
            with trio.CancelScope(shield=True), suppress(DeviceError):
                await client.disconnect(address, timeout_seconds=DETACH_SECONDS)
    if failures:
        raise failures[0]
    return phone.connected
