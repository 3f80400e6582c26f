"""Who a phone is: `ro.serialno`, whatever address leads to it. Two addresses of one phone are one phone."""

from collections.abc import Iterable, Mapping

import trio

from actors.devices.adb.client import AdbClient
from actors.devices.adb.errors import AdbProtocolError
from actors.devices.adb.shell import run_shell
from actors.devices.base import DeviceError, DeviceInfo
from runtime.ids import PhoneId

IDENTITY_COMMAND = "getprop ro.serialno; getprop ro.product.model; getprop ro.build.version.release"
IDENTITY_SECONDS = 5.0


def parse_identity(text: str, *, address: str) -> DeviceInfo:
    """What `IDENTITY_COMMAND` printed.

    Raises:
        AdbProtocolError: there is no serial number in it.
    """
    lines = [line.strip() for line in text.splitlines()]
    if len(lines) < 3 or not lines[0]:
        raise AdbProtocolError(f"no ro.serialno, model and version in {text[:120]!r}", phone=address)
    return DeviceInfo(phone=PhoneId(lines[0]), address=address, model=lines[1], android=lines[2])


async def read_identity(
    client: AdbClient, address: str, *, framed: bool = False, timeout_seconds: float = IDENTITY_SECONDS
) -> DeviceInfo:
    """Ask a phone that adb lists as `device` who it is."""
    result = await run_shell(client, address, IDENTITY_COMMAND, timeout_seconds=timeout_seconds, framed=framed)
    return parse_identity(result.stdout.decode("utf-8", "replace"), address=address)


async def read_identities(
    client: AdbClient, addresses: Iterable[str], *, timeout_seconds: float = IDENTITY_SECONDS
) -> dict[str, DeviceInfo | DeviceError]:
    """Ask many phones at once: {address: who it is, or why it did not say}."""
    found: dict[str, DeviceInfo | DeviceError] = {}

    async def ask(address: str) -> None:
        try:
            found[address] = await read_identity(client, address, timeout_seconds=timeout_seconds)
        except DeviceError as error:
            found[address] = error

    async with trio.open_nursery() as nursery:
        for address in addresses:
            nursery.start_soon(ask, address)
    return found


def addresses_by_phone(identities: Mapping[str, DeviceInfo | DeviceError]) -> dict[PhoneId, tuple[str, ...]]:
    """{phone: its addresses in alphabetical order}; a phone with more than one has aliases."""
    grouped: dict[PhoneId, list[str]] = {}
    for address, identity in sorted(identities.items()):
        if isinstance(identity, DeviceInfo):
            grouped.setdefault(identity.phone, []).append(address)
    return {phone: tuple(addresses) for phone, addresses in grouped.items()}
