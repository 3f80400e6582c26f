"""What to do next about an address."""

import math

import pytest

from actors.devices.adb.attach import (
    AUTHORIZE_SECONDS,
    HEAL_AFTER_SECONDS,
    RECONNECT_SECONDS,
    Step,
    decide,
    is_network_address,
)


@pytest.mark.parametrize(
    ("state", "seconds", "network", "connecting", "step"),
    [
        ("device", 0.0, True, False, Step.READY),
        ("device", 0.0, True, True, Step.READY),
        (None, math.inf, True, False, Step.CONNECT),
        (None, RECONNECT_SECONDS / 2, True, False, Step.WAIT),
        (None, math.inf, True, True, Step.WAIT),
        (None, math.inf, False, False, Step.WAIT),
        ("offline", HEAL_AFTER_SECONDS / 2, True, False, Step.WAIT),
        ("offline", HEAL_AFTER_SECONDS, True, False, Step.HEAL),
        ("offline", 60.0, True, True, Step.WAIT),
        ("offline", 60.0, False, False, Step.WAIT),
        ("unauthorized", 0.0, True, False, Step.WAIT),
        ("unauthorized", AUTHORIZE_SECONDS, True, False, Step.UNAUTHORIZED),
        ("unauthorized", AUTHORIZE_SECONDS, False, True, Step.UNAUTHORIZED),
        ("authorizing", 60.0, True, False, Step.WAIT),
    ],
)
def test_decide(state: str | None, seconds: float, network: bool, connecting: bool, step: Step) -> None:
    assert decide(state, seconds_in_state=seconds, network=network, connecting=connecting) is step


def test_addresses() -> None:
    assert is_network_address("127.0.0.1:16000")
    assert is_network_address("phone-7.lab:5555")
    assert is_network_address("[::1]:5555")
    assert not is_network_address("R58M123ABC")
    assert not is_network_address("emulator-5554")
