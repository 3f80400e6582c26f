"""Addresses become phones: aliases are found, an adb server that dies meanwhile is waited for."""

from pathlib import Path

import structlog.testing
import trio

from actors.devices.adb.client import AdbClient
from actors.devices.adb.errors import AdbServerLost
from actors.discovery import FoundPhone, identify
from runtime.ids import PhoneId
from tests.kit.adb import any_adb, genuine_adb
from tests.kit.devices import probe_spec, simulated_phones


def wanted(*addresses: str) -> list[FoundPhone]:
    return [FoundPhone(PhoneId("?"), address, "game") for address in addresses]


@any_adb
async def test_two_addresses_of_one_phone_are_one_phone_and_a_warning(adb_binary: Path, tmp_path: Path) -> None:
    specs = (probe_spec(serial="SAME"), probe_spec(serial="SAME"), probe_spec(serial="OTHER"))
    async with genuine_adb(adb_binary, tmp_path) as adb, simulated_phones(specs) as phones:
        with structlog.testing.capture_logs() as logs:
            found = await identify(lambda: adb.server.client, wanted(*(phone.address for phone in phones)))

    assert [(phone.phone, phone.address) for phone in found] == [
        ("SAME", phones[0].address),
        ("OTHER", phones[2].address),
    ]
    assert found[0].aliases == (phones[1].address,)
    (warning,) = [log for log in logs if log["event"] == "actors.phone.doubled"]
    assert (warning["used"], warning["ignored"]) == (phones[0].address, phones[1].address)


@any_adb
async def test_a_server_that_died_is_waited_for(adb_binary: Path, tmp_path: Path) -> None:
    asked: list[int] = []

    async with genuine_adb(adb_binary, tmp_path) as adb, simulated_phones([probe_spec(serial="A")]) as phones:

        def client_now() -> AdbClient:
            asked.append(1)
            if len(asked) == 1:
                return AdbClient(9)  # nobody listens there
            if len(asked) == 2:
                raise AdbServerLost("it is being restarted")
            return adb.server.client

        (found,) = await identify(client_now, wanted(phones[0].address))

    assert (found.phone, found.error) == ("A", None)


@any_adb
async def test_a_phone_that_is_not_there_keeps_its_address_and_the_reason(adb_binary: Path, tmp_path: Path) -> None:
    async with genuine_adb(adb_binary, tmp_path) as adb, simulated_phones([probe_spec(serial="A")]) as phones:
        with trio.fail_after(30):
            found = await identify(lambda: adb.server.client, wanted("127.0.0.1:9", phones[0].address))

    assert [phone.phone for phone in found] == ["127.0.0.1-9", "A"]
    assert found[0].error is not None
    assert "127.0.0.1:9" in found[0].error
