"""Every scenario that we ship is right, and so is every file that it names."""

from pathlib import Path

import pytest

from actors.assets import load_assets
from actors.rehearsal.phone.faults import parse_faults
from actors.scenario import parse_scenario, warnings_for

FOLDER = Path(__file__).resolve().parent.parent / "scenarios"
FAULTS = sorted(FOLDER.glob("faults-*.toml"))
FILES = sorted(p for p in FOLDER.glob("*.toml") if not p.name.endswith(".rules.toml") and p not in FAULTS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_scenario_has_no_mistakes(path: Path) -> None:
    scenario = parse_scenario(path.read_bytes(), str(path))
    assets = load_assets(scenario, FOLDER)

    assert set(assets) == set(scenario.apps)
    assert warnings_for(scenario) == []


@pytest.mark.parametrize("path", FAULTS, ids=lambda path: path.stem)
def test_a_shipped_fault_plan_fits_the_quickstart(path: Path) -> None:
    quickstart = parse_scenario((FOLDER / "quickstart.toml").read_bytes())

    assert parse_faults(path.read_bytes(), str(path), count=quickstart.simulated_count)


def test_every_rule_file_is_used() -> None:
    used = {app.rules for path in FILES for app in parse_scenario(path.read_bytes(), str(path)).apps.values()}

    assert {path.name for path in FOLDER.glob("*.rules.toml")} <= used
