"""Phones that were authorised before stay authorised, and a new key is told of."""

from pathlib import Path

import attrs
import pytest
import structlog.testing

from actors.devices.adb.attach import attach
from actors.devices.adb.errors import DeviceUnauthorized
from actors.devices.adb.keys import find_keys
from actors.rehearsal.phone.auth import AuthMode
from tests.kit.adb import any_adb, genuine_adb
from tests.kit.devices import probe_spec, simulated_phones


def test_keys_are_the_vendors_and_the_users(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    for path in (folder / "a.adb_key", folder / "b.adb_key", folder / "a.pub", tmp_path / "one"):
        path.write_text("key")
    environ = {"HOME": str(tmp_path), "ADB_VENDOR_KEYS": f"{folder}:{tmp_path / 'one'}:{tmp_path / 'none'}"}

    keys = find_keys(environ)

    assert keys.vendor == (folder / "a.adb_key", folder / "b.adb_key", tmp_path / "one")
    assert (keys.own, keys.is_new) == (tmp_path / ".android" / "adbkey", True)
    (problem,) = keys.problems
    assert str(tmp_path / "none") in problem


@any_adb
async def test_a_vendors_key_lets_another_server_in_and_a_new_key_is_announced(
    adb_binary: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with simulated_phones([probe_spec(auth=AuthMode.ACCEPT)]) as (phone,):
        with structlog.testing.capture_logs() as logs:
            async with genuine_adb(adb_binary, first) as adb:
                await attach(adb.server.client, phone.address, timeout_seconds=20)
        made = [line["path"] for line in logs if line["event"] == "actors.adb.key_made"]
        assert made == [str(first / ".android" / "adbkey")]

        phone.spec = attrs.evolve(phone.spec, auth=AuthMode.NEVER)  # the owner accepts no more keys
        async with genuine_adb(adb_binary, second) as adb:
            with pytest.raises(DeviceUnauthorized):
                await attach(adb.server.client, phone.address, timeout_seconds=20)
        with structlog.testing.capture_logs() as logs:
            async with genuine_adb(adb_binary, second, ADB_VENDOR_KEYS=made[0]) as adb:
                await attach(adb.server.client, phone.address, timeout_seconds=20)
        assert [line for line in logs if line["event"] == "actors.adb.key_made"] == [], "it is not new"
