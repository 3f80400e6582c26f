"""Which phones there are: addresses become identities, and two addresses of one phone become one."""

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import trio

from actors.devices.adb.attach import Attach, attach
from actors.devices.adb.client import AdbClient
from actors.devices.adb.errors import DeviceNotFound, DeviceOffline, DeviceUnauthorized
from actors.devices.adb.identity import read_identity
from actors.devices.adb.shell import SHELL_V2
from actors.devices.base import CaptureMethod, DeviceError, DeviceLost, DeviceTimeout, Driver
from actors.scenario import BotKind, ReplayPhones
from runtime.ids import PhoneId, slug_for
from runtime.telemetry import emit

AT_ONCE = 4  # connects and greetings in flight; more only wait for each other on the adb server
GREETINGS = 3
GREETING_PAUSE_SECONDS = 2.0  # longer than our adb server needs to come back
ATTACH_SECONDS = 10.0


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
    awaits_owner: bool = False
    """The phone is there, and its owner must accept our key."""
    seed: int | None = None
    """Of a simulated phone's app."""
    capture: CaptureMethod = CaptureMethod.RAW
    driver: Driver = Driver.NATIVE
    scrcpy_server: Path | None = None
    replay: ReplayPhones | None = None
    """Of recorded pictures: there is no phone to ask."""
    pictures: tuple[Path, ...] = ()
    """Those."""

    @property
    def is_simulated(self) -> bool:
        """One of our own."""
        return self.seed is not None


async def _greet(client_now: Callable[[], AdbClient], address: str, attached: Attach) -> PhoneId:
    for last in (False,) * (GREETINGS - 1) + (True,):
        try:
            client = client_now()
            await attached(client, address, timeout_seconds=ATTACH_SECONDS)
            framed = SHELL_V2 in await client.features(address)
            return (await read_identity(client, address, framed=framed)).phone
        except (DeviceNotFound, DeviceOffline, DeviceUnauthorized, DeviceTimeout):
            raise  # the phone's own answer, after all the time that it was given
        except DeviceLost as error:
            if last:
                raise
            emit("actors.phone.asked_again", address=address, error=str(error))
            await trio.sleep(GREETING_PAUSE_SECONDS)
    raise AssertionError("the last greeting returns or raises")


async def identify(
    client_now: Callable[[], AdbClient], wanted: Sequence[FoundPhone], *, attached: Attach = attach
) -> list[FoundPhone]:
    """Ask every phone for its serial number, some at a time.

    Phones stay connected: whoever drives them finds them there. An adb server that dies meanwhile (version 29 crashes
    now and then when phones connect together) is waited for.

    Args:
        client_now: The adb server of the moment; raises `AdbServerLost` while there is none.
        wanted: What the scenario names.
        attached: How a phone is connected.

    Returns:
        One entry a phone, in the order wanted. Of two addresses with one serial number the first is kept, with the
        other as an alias and a warning.
    """
    asked: dict[str, FoundPhone] = {}
    limiter = trio.CapacityLimiter(AT_ONCE)

    async def ask(entry: FoundPhone) -> None:
        async with limiter:
            try:
                asked[entry.address] = attrs.evolve(entry, phone=await _greet(client_now, entry.address, attached))
            except DeviceError as error:
                asked[entry.address] = attrs.evolve(
                    entry,
                    phone=PhoneId(slug_for(entry.address)),
                    error=str(error),
                    awaits_owner=isinstance(error, DeviceUnauthorized),
                )
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
