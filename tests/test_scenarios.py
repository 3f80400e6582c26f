"""Every scenario that we ship is right, and so is every file that it names."""

from pathlib import Path

import pytest

from actors.assets import load_assets
from actors.scenario import parse_scenario, warnings_for

FOLDER = Path(__file__).resolve().parent.parent / "scenarios"
FILES = sorted(path for path in FOLDER.glob("*.toml") if not path.name.endswith(".rules.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_scenario_has_no_mistakes(path: Path) -> None:
    scenario = parse_scenario(path.read_bytes(), str(path))
    assets = load_assets(scenario, FOLDER)

    assert set(assets) == set(scenario.apps)
    assert warnings_for(scenario) == []


def test_every_rule_file_is_used() -> None:
    used = {app.rules for path in FILES for app in parse_scenario(path.read_bytes(), str(path)).apps.values()}

    assert {path.name for path in FOLDER.glob("*.rules.toml")} <= used
