"""The command line of an attempt: the reserved phones and the farm's engines instead of the scenario's."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.configuration import read_toml
from actors.farm.command import PhonesDiffer, overrides_for, run_command, toml_value
from actors.farm.config import parse_farm_config
from actors.scenario import AdbPhones, SimulatedPhones, parse_scenario
from runtime.ids import TenantId

FARM = parse_farm_config(b"""
[[phones]]
name = "lab"
kind = "adb"
addresses = ["10.0.0.5:5555", "10.0.0.6:5555"]
[[phones]]
name = "sim"
kind = "simulated"
count = 4
[[engines]]
id = "farm-engine"
url = "http://127.0.0.1:30000"
max_in_flight = 8
[tenants.games]
weight = 2
""")

SCENARIO = b"""
name = "s"
tenant = "somebody-else"
[[engines]]
id = "own"
launch = { kind = "rehearsal" }
[apps.battler]
package = "dev.corral.battler"
goal = "Survive."
[[phones]]
kind = "simulated"
app = "battler"
count = 2
size = "1080x2400"
faults = [{ kind = "freeze", at_seconds = 5, seconds = 2 }]
[[phones]]
kind = "adb"
app = "battler"
addresses = ["192.168.0.1:5555"]
capture = "png"
"""

JSONISH = st.recursive(
    st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSONISH)
def test_values_come_through_toml_unchanged(value: object) -> None:
    assert read_toml(f"value = {toml_value(value)}".encode("utf-8", "surrogatepass"))["value"] == value


def test_a_scenario_gets_the_phones_that_were_reserved_and_nothing_of_its_own() -> None:
    phones = ["sim-0", "10.0.0.6:5555", "10.0.0.5:5555"]

    made = parse_scenario(SCENARIO, "", overrides_for(SCENARIO, FARM, tenant=TenantId("games"), phones=phones))

    first, second, third = made.phones
    assert isinstance(first, AdbPhones)
    assert first.addresses == ("10.0.0.6:5555",)
    assert isinstance(second, SimulatedPhones)
    assert (second.count, second.size, second.faults) == (1, "1080x2400", ())
    assert isinstance(third, AdbPhones)
    assert (third.addresses, third.capture) == (("10.0.0.5:5555",), "png")
    assert made.tenant == "games"
    assert [engine.id for engine in made.engines] == ["farm-engine"]
    assert made.engines[0].max_in_flight == 8
    assert made.tenants["games"].weight == 2.0


def test_groups_on_phones_of_their_kind_keep_all_that_they_say() -> None:
    phones = ["sim-0", "sim-1", "10.0.0.5:5555"]

    made = parse_scenario(SCENARIO, "", overrides_for(SCENARIO, FARM, tenant=TenantId("games"), phones=phones))

    assert isinstance(made.phones[0], SimulatedPhones)
    assert len(made.phones[0].faults) == 1


def test_a_scenario_that_grew_since_it_was_submitted_is_told() -> None:
    with pytest.raises(PhonesDiffer, match="needs 3 phones, and 2 were reserved"):
        overrides_for(SCENARIO, FARM, tenant=TenantId("games"), phones=["sim-0", "sim-1"])


def test_the_command_line() -> None:
    line = run_command(
        ("corral",), Path("s.toml"), out=Path("runs"), run_id="r-1", overrides={"a": "1"}, vendor="farm.toml"
    )

    assert line == (
        *("corral", "run", "s.toml", "--out", "runs", "--run-id", "r-1", "--headless"),
        *("--farm", "farm.toml", "--set", "a=1"),
    )
