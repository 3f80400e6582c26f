"""Two addresses of one phone are one phone."""

import pytest

from actors.devices.adb.errors import AdbProtocolError, DeviceOffline
from actors.devices.adb.identity import addresses_by_phone, parse_identity
from actors.devices.base import DeviceInfo
from runtime.ids import PhoneId


def test_identity_is_read() -> None:
    assert parse_identity("SER1\r\nPixel 8\r\n14\r\n", address="a:1") == DeviceInfo(
        PhoneId("SER1"), "a:1", "Pixel 8", "14"
    )


@pytest.mark.parametrize("text", ["", "\nPixel\n14\n", "error: closed"])
def test_phone_without_serial_number_is_an_error(text: str) -> None:
    with pytest.raises(AdbProtocolError, match=r"no ro\.serialno"):
        parse_identity(text, address="a:1")


def test_aliases_are_grouped_and_silent_phones_left_out() -> None:
    def info(serial: str, address: str) -> DeviceInfo:
        return DeviceInfo(PhoneId(serial), address, "m", "13")

    grouped = addresses_by_phone(
        {
            "localhost:16000": info("A", "localhost:16000"),
            "127.0.0.1:16001": info("B", "127.0.0.1:16001"),
            "127.0.0.1:16000": info("A", "127.0.0.1:16000"),
            "127.0.0.1:16002": DeviceOffline("gone", phone="127.0.0.1:16002"),
        }
    )

    assert grouped == {"A": ("127.0.0.1:16000", "localhost:16000"), "B": ("127.0.0.1:16001",)}
