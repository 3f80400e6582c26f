import pytest

from actors.configuration import ScenarioError
from actors.scenario import parse_scenario
from inference.config import Concurrency, TenantConfig
from tests.kit.scenarios import scenario_text

TENANTS = """
[tenants.qa]
weight = 2
input_tokens_per_minute = 100000
output_tokens_per_minute = 20000
adapter = "qa-lora"
[tenants.default]
"""


def test_tenants_and_the_knee_are_read() -> None:
    text = scenario_text().replace('model = "rehearsal-7b"', 'model = "rehearsal-7b"\nconcurrency = "knee"')
    scenario = parse_scenario((text + TENANTS).encode(), "s.toml")

    assert scenario.engines[0].concurrency is Concurrency.KNEE
    assert scenario.tenants == {"qa": TenantConfig(2.0, 100_000, 20_000, "qa-lora"), "default": TenantConfig()}


def test_what_is_wrong_with_a_tenant_is_told_with_its_path() -> None:
    bad = '[tenants."a b"]\nweight = 0\noutput_tokens_per_minute = 0\n'

    with pytest.raises(ScenarioError) as caught:
        parse_scenario((scenario_text() + bad).encode(), "s.toml")

    told = str(caught.value)
    for part in (
        "'weight' must be more than 0",
        "'output_tokens_per_minute' must be 1 or more",
        "'a b' must be made of",
    ):
        assert part in told
