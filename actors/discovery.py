"""Which phones there are: addresses become identities, and two addresses of one phone become one."""

from collections.abc import Sequence

import attrs
import trio

from actors.devices.adb.client import AdbClient
from actors.devices.adb.device import open_adb_device
from actors.devices.base import DeviceError
from actors.scenario import BotKind
from runtime.ids import PhoneId, slug_for
from runtime.telemetry import emit

AT_ONCE = 8  # connects and greetings in flight; adb's own server handles them one by one anyway


@attrs.frozen
class FoundPhone:
    """One phone that a scenario names."""

    phone: PhoneId
    """`ro.serialno`; the address's slug where the phone could not be asked yet."""
    address: str
    app: str
    bot: BotKind = BotKind.PLANNED
    aliases: tuple[str, ...] = ()
    """Other addresses of the same phone, which are not used."""
    error: str | None = None
    """Why it could not be asked; its actor goes on trying."""
    seed: int | None = None
    """Of a simulated phone's app."""


async def identify(client: AdbClient, wanted: Sequence[FoundPhone]) -> list[FoundPhone]:
    """Ask every phone for its serial number, some at a time.

    Returns:
        One entry a phone, in the order wanted. Of two addresses with one serial number the first is kept, with the
        other as an alias and a warning.
    """
    asked: dict[str, FoundPhone] = {}
    limiter = trio.CapacityLimiter(AT_ONCE)

    async def ask(entry: FoundPhone) -> None:
        async with limiter:
            try:
                async with open_adb_device(client, entry.address) as device:
                    asked[entry.address] = attrs.evolve(entry, phone=device.info.phone)
            except DeviceError as error:
                asked[entry.address] = attrs.evolve(entry, phone=PhoneId(slug_for(entry.address)), error=str(error))
                emit("actors.phone.unreachable", level="warning", address=entry.address, error=str(error))

    async with trio.open_nursery() as nursery:
        for entry in wanted:
            nursery.start_soon(ask, entry)
    kept: dict[PhoneId, FoundPhone] = {}
    for entry in wanted:
        found = asked[entry.address]
        first = kept.get(found.phone)
        if first is None:
            kept[found.phone] = found
            continue
        emit(
            "actors.phone.doubled",
            level="warning",
            phone=found.phone,
            used=first.address,
            ignored=found.address,
        )
        kept[found.phone] = attrs.evolve(first, aliases=(*first.aliases, found.address))
    return list(kept.values())
