"""Rule files grow at their end, and keep every byte that stood in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.authoring.snippets import grown, probe_toml, rule_toml
from actors.configuration import ScenarioError
from actors.rulefile import parse_rule_file
from policies.action import KeyName
from policies.geometry import Anchor, Region
from policies.probes import (
    BarProbe,
    ColorProbe,
    DetectorProbe,
    DigitsProbe,
    Direction,
    HsvRange,
    OcrProbe,
    OcrReads,
    Probe,
    TemplateProbe,
)
from policies.reflex import Comparison, Condition, ReflexAction, Rule

REGION = Region(1, 2, 30, 40, Anchor.BOTTOM_RIGHT, (1080, 2400))
RED = HsvRange((170, 1, 2), (10, 255, 254))
PROBES: list[Probe] = [
    TemplateProbe(REGION, "close", 1080, 0.85),
    ColorProbe(Region(0, 0, 9, 9), RED, 0.25),
    BarProbe(REGION, RED, Direction.UP),
    DigitsProbe(REGION, "digits/x"),
    OcrProbe(REGION, OcrReads.NUMBER, r'"Level\s*([0-9]+)"', single_line=False),
    DetectorProbe(REGION, "orc.onnx", ("orc", "elf"), "elf", input_size=(320, 320), mean=(1.0, 2.0, 3.5)),
]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: type(probe).__name__)
def test_a_probe_that_is_written_is_the_one_that_is_read(probe: Probe) -> None:
    assert parse_rule_file(probe_toml("it", probe).encode(), "").probes == {"it": probe}


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_pattern_survives(pattern: str) -> None:
    probe = ColorProbe(REGION, RED)
    rule = Rule(
        pattern or "x",
        (Condition("it"), Condition("it", Comparison.BELOW, 0.5)),
        ReflexAction(key=KeyName.BACK),
        priority=3,
        frames=2,
        cooldown_seconds=0.5,
        voids_plan=False,
    )

    parsed = parse_rule_file(f"{probe_toml('it', probe)}\n{rule_toml(rule)}".encode(), "")

    assert parsed.rules == (rule,)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "# only a comment",
        "pictures = 'p'\n[[rules]]\nname = 'r'\nwhen = [{ probe = 'a' }]\n"
        "do = { key = 'BACK' }\n[probes.a] # mine\nkind = 'color'\nregion = { x = 0, y = 0, width = 1, height = 1 }\n"
        "color = { low = [0, 0, 0], high = [1, 1, 1] }",
    ],
)
def test_what_stands_in_the_file_stays(source: str) -> None:
    text = grown(source, probe_toml("new", PROBES[0]), "r.toml")

    assert source in text
    assert "new" in parse_rule_file(text.encode(), "").probes


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("probes = {}\n", "not TOML"),
        ("[probes.new]\nkind = 'bar'\n", "missing key"),
        ("this is no toml", "not TOML"),
        (probe_toml("new", PROBES[1]), "not TOML"),
    ],
)
def test_a_file_that_would_break_is_refused(source: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        grown(source, probe_toml("new", PROBES[0]), "r.toml")
