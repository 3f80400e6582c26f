"""Fault plans: read exactly, written back, and due once each."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.configuration import ScenarioError
from actors.rehearsal.phone.faults import (
    KINDS,
    Banner,
    Duplicate,
    Fault,
    FaultSchedule,
    Freeze,
    Reboot,
    Reset,
    Resize,
    Trickle,
    Truncate,
    encode_faults,
    faults_between,
    faults_of,
    parse_faults,
)
from actors.scenario import SimulatedPhones, parse_scenario
from tests.kit.scenarios import scenario_text

ONE = 'kind = "{}"\n{}'
NEEDS = {"truncate": "at_byte = 7", "trickle": "bytes_per_second = 10", "resize": 'size = "360x640"'}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_written_in_a_file(kind: str) -> None:
    source = f"[[faults]]\nkind = {kind!r}\n{NEEDS.get(kind, '')}\nphones = [1]\n"

    (fault,) = parse_faults(source.encode(), "f.toml", count=2)

    assert type(fault) is KINDS[kind]
    assert fault.phones == (1,)


def test_every_mistake_is_told_at_once_with_its_place() -> None:
    source = """
[[faults]]
kind = "freze"
[[faults]]
kind = "truncate"
[[faults]]
kind = "freeze"
at_seconds = -1
secnds = 3
[[faults]]
kind = "trickle"
bytes_per_second = true
"""
    with pytest.raises(ScenarioError) as caught:
        parse_faults(source.encode(), "f.toml", count=1)

    text = str(caught.value)
    assert "did you mean 'freeze'? @ $.faults[0]" in text
    assert "missing key 'at_byte'" in text
    assert "'at_seconds' must be >= 0: -1" in text
    assert "unknown key 'secnds', did you mean 'seconds'?" in text
    assert "'bytes_per_second' must be a number: True" in text
    assert "f.toml:" in text


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('kind = "freeze"\nphones = [0, 2]', "there is no phone 2: they are 0 to 1 @ $.faults[0].phones"),
        ('kind = "rst"\nat_seconds = 1\nafter_captures = 1', "not both @ $.faults[0]"),
        ('kind = "resize"\nsize = "10x640"', "sides of 64 to 8192"),
        ('kind = "duplicate"\nat_seconds = 1', "unknown key 'at_seconds'"),
    ],
)
def test_what_no_single_key_shows(table: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_faults(f"[[faults]]\n{table}".encode(), count=2)

    assert words in str(caught.value)


@given(st.text(), st.integers(0, 2**40), st.floats(1, 1e9, allow_nan=False))
def test_a_written_plan_is_read_as_it_was(text: str, number: int, rate: float) -> None:
    plan: tuple[Fault, ...] = (
        Banner(text=text, behind=text, phones=(0, 3)),
        Truncate(at_byte=number, at_seconds=0.5),
        Trickle(bytes_per_second=rate, after_captures=3, seconds=1.5),
        Resize(size="360x640"),
        Duplicate(),
    )

    assert parse_faults(encode_faults(plan), count=4) == plan


def test_phones_are_counted_over_the_groups() -> None:
    plan = (Freeze(phones=(0, 5)), Reset(phones=(4,)), Reboot())

    assert faults_between(plan, 4, 2) == (Freeze(phones=(1,)), Reset(phones=(0,)), Reboot())
    assert faults_of(plan, 5) == (Freeze(), Reboot())


def test_a_fault_begins_and_ends_once() -> None:
    schedule = FaultSchedule((Freeze(at_seconds=2.0, seconds=3.0), Reset(after_captures=4), Duplicate()))

    assert [(turn.fault, turn.begins) for turn in schedule.advance(0.0, 0)] == [(Duplicate(), True)]
    assert schedule.next_at() == 2.0
    assert schedule.advance(1.9, 3) == []
    assert [turn.begins for turn in schedule.advance(2.0, 3)] == [True]
    assert Freeze(at_seconds=2.0, seconds=3.0) in schedule.active
    assert schedule.next_at() == 5.0
    assert [turn.fault for turn in schedule.advance(3.0, 9)] == [Reset(after_captures=4)]
    assert [turn.begins for turn in schedule.advance(5.0, 9)] == [False]
    assert schedule.active == (Duplicate(),)
    assert schedule.next_at() == math.inf
    assert schedule.advance(99.0, 99) == []


def test_a_scenario_has_faults_of_its_own_and_of_a_file() -> None:
    text = scenario_text() + '[[phones.faults]]\nkind = "freeze"\nphones = [0]\n'
    scenario = parse_scenario(text.encode())

    more = scenario.with_faults((Reset(phones=(1,)), Reboot()))

    battler, errands = (group for group in more.phones if isinstance(group, SimulatedPhones))
    assert battler.faults == (Reboot(),)
    assert errands.faults == (Freeze(phones=(0,)), Reset(phones=(0,)), Reboot())


def test_a_scenario_with_a_wrong_fault_is_refused_with_its_place() -> None:
    text = scenario_text() + '[[phones.faults]]\nkind = "freeze"\nphones = [1]\n'

    with pytest.raises(ScenarioError, match=r"there is no phone 1: they are 0 to 0 @ \$\.phones\[1\]\.faults\[0\]"):
        parse_scenario(text.encode(), "s.toml")


def test_every_kind_is_in_the_documentation() -> None:
    text = (Path(__file__).resolve().parents[4] / "docs" / "connections.md").read_text("utf-8")

    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []
