"""The farm's file: every mistake at once, and what a reload cannot change."""

import attrs
import pytest

from actors.configuration import ScenarioError
from actors.farm.config import FarmConfig, FarmListen, parse_farm_config, restart_needed

GOOD = b"""
[[phones]]
name = "lab"
kind = "adb"
addresses = ["10.0.0.5:5555", "emu-1"]
labels = ["pixel"]
tenants = ["games"]

[[phones]]
name = "sim"
kind = "simulated"
count = 2

[tenants.games]
weight = 3

[[engines]]
id = "e0"
url = "http://127.0.0.1:30000"
"""

BAD = b"""
[farm]
foldr = "x"
[listen]
port = 70000
[limits]
runs = 0
[[phones]]
name = "lab"
kind = "adbb"
[prices]
currency = "euro"
"""

CROSSED = b"""
[listen]
host = "0.0.0.0"
[[phones]]
name = "a"
kind = "adb"
addresses = ["x", "x", "../y"]
[[phones]]
name = "b"
kind = "simulated"
count = 1
labels = ["no spaces"]
[assistant]
file = "assistant.toml"
share_engines = true
[tenants.t]
weight = 0
"""


def test_a_sound_file() -> None:
    config = parse_farm_config(GOOD)

    assert [phone.id for phone in config.farm_phones()] == ["10.0.0.5:5555", "emu-1", "sim-0", "sim-1"]
    assert config.is_simulated("sim-1")
    assert not config.is_simulated("emu-1")
    assert (config.weight_of("games"), config.weight_of("others")) == (3.0, 1.0)
    assert config.listen.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            BAD,
            ["did you mean 'folder'?", "'port' must be <= 65535", "'runs' must be >= 1", "adbb", "'currency' must be"],
        ),
        (
            CROSSED,
            [
                "unencrypted",
                "stands in pool 'a' already",
                "'../y' is no serial",
                "'no spaces' is not a legal name",
                "no engines that could be shared",
                "weight: it must be more than 0",
            ],
        ),
    ],
)
def test_all_mistakes_at_once_each_with_its_line(source: bytes, says: list[str]) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_farm_config(source, "farm.toml")

    told = [str(problem) for problem in caught.value.problems]
    assert len(told) == len(says), told
    for text in says:
        assert any(text in one and one.startswith("farm.toml:") for one in told), text


def test_a_reload_tells_what_it_cannot_change() -> None:
    config: FarmConfig = parse_farm_config(GOOD)

    assert restart_needed(config, attrs.evolve(config, phones=config.phones[:1])) == []
    assert restart_needed(config, attrs.evolve(config, listen=FarmListen(port=1))) == ["listen"]
