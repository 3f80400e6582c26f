"""Rule files: mistakes with their lines, and the handbook's examples are right and complete."""

import re
from pathlib import Path

import attrs
import pytest

from actors.configuration import ScenarioError
from actors.rulefile import PROBE_KINDS, parse_rule_file
from actors.scenario import parse_scenario
from policies.geometry import Anchor, Region
from policies.reflex import Rule

HANDBOOK = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")


BLOCKS = re.findall(r"```toml\n(.*?)```", HANDBOOK, re.DOTALL)


def test_the_handbooks_phones_are_a_scenarios() -> None:
    (phones,) = [block for block in BLOCKS if block.startswith("[[phones]]")]
    app = '[apps.game]\ngoal = "g"\npackage = "p.q"\n[[engines]]\nid = "e"\nurl = "http://127.0.0.1:1"\n'

    assert parse_scenario(f'name = "s"\n{app}{phones}'.encode(), "s.toml").phones


def test_the_handbooks_examples_are_rule_files() -> None:
    blocks = [block for block in BLOCKS if not block.startswith("[[phones]]")]

    kinds = {type(probe) for block in blocks for probe in parse_rule_file(block.encode(), "rules.md").probes.values()}

    assert len(blocks) >= 3
    assert len(kinds) >= 5


@pytest.mark.parametrize("cls", [*PROBE_KINDS.values(), Region, Rule], ids=lambda cls: cls.__name__)
def test_the_handbook_explains_every_key(cls: type) -> None:
    missing = [field.name for field in attrs.fields(cls) if f"`{field.name}" not in HANDBOOK]

    assert [name for name in missing if name not in {"region", "color"}] == []


def test_the_handbook_names_every_kind_and_anchor() -> None:
    for word in [*PROBE_KINDS, *(anchor.value for anchor in Anchor)]:
        assert f"`{word}`" in HANDBOOK, word


def test_mistakes_come_with_their_lines() -> None:
    source = b"""[probes.a]
kind = "colour"

[[rules]]
name = "r"
when = [{ probe = "b" }]
do = { tap_match = "b", key = "BACK" }
"""
    with pytest.raises(ScenarioError) as caught:
        parse_rule_file(source, "r.toml")
    assert [(p.line, "did you mean 'color'" in p.message) for p in caught.value.problems] == [(1, True)]

    with pytest.raises(ScenarioError) as caught:
        parse_rule_file(b"\n" + source.split(b"\n\n", 1)[1], "r.toml")
    messages = [p.message for p in caught.value.problems]
    assert messages[0] == "there is no probe 'b'"
    assert messages[-1] == "give exactly one of tap, tap_match, swipe, key; not tap_match, key"
    assert all(p.line is not None for p in caught.value.problems)
