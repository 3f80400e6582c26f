"""Commands of a vendor of cloud phones: from a farm's file, never from a scenario's, without a shell, bounded."""

import sys
from pathlib import Path

import pytest
import structlog.testing
import trio

from actors.configuration import ScenarioError
from actors.scenario import parse_scenario
from actors.vendor import Vendor, VendorError
from actors.vendor_config import VendorConfig, command_for, parse_farm
from runtime.ids import PhoneId
from tests.kit.scenarios import scenario_text

WRITE = "import sys; open(sys.argv[1], 'a').write(' '.join(sys.argv[2:]) + '\\n')"
PHONE = PhoneId("P1")


def logging_to(path: Path, name: str) -> tuple[str, ...]:
    return (sys.executable, "-c", WRITE, str(path), name, "{address}", "{phone}")


def test_a_farm_file_is_read() -> None:
    source = b'[vendor]\nreboot = ["vendorctl", "reboot", "{address}"]\ntimeout_seconds = 5\n'

    assert parse_farm(source) == VendorConfig(reboot=("vendorctl", "reboot", "{address}"), timeout_seconds=5.0)


def test_every_mistake_is_told_at_once() -> None:
    source = b"""
[vendor]
acquire = ["", "x"]
reboot = ["v", "{serial}"]
release = ["v", "{address"]
"""
    with pytest.raises(ScenarioError) as caught:
        parse_farm(source, "farm.toml")

    text = str(caught.value)
    assert "the first word must be a program @ $.vendor.acquire" in text
    assert "only {address} and {phone} can be filled in, not {serial} @ $.vendor.reboot" in text
    assert "a brace itself is written twice @ $.vendor.release" in text
    with pytest.raises(ScenarioError, match="'reboot' must be a list"):
        parse_farm(b'[vendor]\nreboot = "vendorctl reboot"\n')


@pytest.mark.parametrize("key", ["vendor", "farm"])
def test_a_scenario_that_names_commands_is_refused(key: str) -> None:
    text = scenario_text() + f'[{key}]\nreboot = ["rm", "-rf", "/"]\n'

    with pytest.raises(ScenarioError, match=rf"'{key}' does not belong in a scenario.* @ \$\.{key}"):
        parse_scenario(text.encode(), "s.toml")


def test_a_value_is_one_word_whatever_is_in_it() -> None:
    words = ("v", "--at={address}", "{{}}")

    assert command_for(words, {"address": "a b; {phone}", "phone": "P"}) == ("v", "--at=a b; {phone}", "{}")


async def test_phones_are_acquired_rebooted_and_released(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    config = VendorConfig(
        acquire=logging_to(log, "acquire"), reboot=logging_to(log, "reboot"), release=logging_to(log, "release")
    )
    vendor = Vendor(config)

    await vendor.acquire_all([("a:1", PHONE)])
    await vendor.reboot("a:1", PHONE)
    with trio.CancelScope() as scope:
        scope.cancel()
        await vendor.release_all()
    await vendor.release_all()

    assert log.read_text().splitlines() == ["acquire a:1 P1", "reboot a:1 P1", "release a:1 P1"]


async def test_failures_are_told_in_one_line(tmp_path: Path) -> None:
    fails = (sys.executable, "-c", "import sys; print('no such phone'); sys.exit(7)")
    hangs = (sys.executable, "-c", "import time; time.sleep(600)")

    with pytest.raises(VendorError, match=r"a:1: reboot: .* exited with 7: no such phone"):
        await Vendor(VendorConfig(reboot=fails)).reboot("a:1", PHONE)
    with pytest.raises(VendorError, match="cannot be started"):
        await Vendor(VendorConfig(reboot=(str(tmp_path / "none"),))).reboot("a:1", PHONE)
    with pytest.raises(VendorError, match=r"was ended after 0\.5 s"):
        await Vendor(VendorConfig(reboot=hangs, timeout_seconds=0.5)).reboot("a:1", PHONE)
    with structlog.testing.capture_logs() as logs:
        await Vendor(VendorConfig(acquire=fails)).acquire_all([("a:1", PHONE)])
    assert [line["command"] for line in logs if line["event"] == "actors.vendor.failed"] == ["acquire"]
