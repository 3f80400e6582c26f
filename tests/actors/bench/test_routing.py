"""Routing compared: the judge on made-up rounds, and our side of it on real engines. Counts, never times."""

import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.bench import router_environment
from actors.bench.engines import BenchUnavailable, get_text, metric_in
from actors.bench.router_environment import POLICIES, built, open_router
from actors.bench.routing import ENGINES, OURS, Cell, Round, compare_routing, episodes_of, judge
from inference.profile import PromptLayout

SHORT = Cell(8, PromptLayout.APPEND, 3, (0.0, 0.02))


def one(contestant: str, repeat: int = 0, **changes: Any) -> Round:
    base = Round(contestant, repeat, 10.0, 0.3, 0.5, 0.6, 96, 0, 1000, 300, 500, (0.25, 0.25, 0.25, 0.25))
    return attrs.evolve(base, **changes)


def test_ours_is_held_against_the_best_at_each_measure() -> None:
    rounds = [
        *(one(OURS, n, wall_seconds=10.0 + 0.01 * n, p50_seconds=0.30) for n in range(5)),
        *(one("quick", n, wall_seconds=10.0, p50_seconds=0.40) for n in range(5)),
        *(one("snappy", n, wall_seconds=12.0, p50_seconds=0.31) for n in range(5)),
    ]
    verdict = judge(rounds)

    assert (verdict["wall_best"], verdict["p50_best"]) == ("quick", "snappy")
    assert verdict["wall_ratio"] == pytest.approx(1.002)
    assert verdict["p50_ratio"] == pytest.approx(0.9677, abs=1e-4)
    assert verdict["met"] is True


@pytest.mark.parametrize(
    "change",
    [
        {"wall_seconds": 10.4},
        {"p50_seconds": 0.32},
        {"cached_tokens": 280},
        {"shares": (0.27, 0.25, 0.24, 0.24)},
        {"errors": 1},
    ],
)
def test_every_target_can_be_missed(change: dict[str, Any]) -> None:
    rounds = [*(one(OURS, n, **change) for n in range(5)), *(one("peer", n) for n in range(5))]

    assert judge(rounds)["met"] is False


def test_rounds_are_paired_by_repeat_whatever_their_order() -> None:
    slow, fast = {"wall_seconds": 20.0}, {"wall_seconds": 10.0}
    rounds = [one(OURS, 1, **fast), one(OURS, 0, **slow), one("peer", 0, **slow), one("peer", 1, **fast)]

    assert judge(rounds)["wall_ratio"] == 1.0


def test_the_same_bytes_and_pauses_for_everybody_and_others_in_the_next_repeat() -> None:
    assert episodes_of(SHORT, seed=1) == episodes_of(SHORT, seed=1)
    assert episodes_of(SHORT, seed=1) != episodes_of(SHORT, seed=2)


def test_our_pool_loses_nothing_and_spreads_episodes_evenly() -> None:
    rounds = trio.run(lambda: compare_routing([SHORT], (), None, repeats=2, seed=1))
    played = rounds[SHORT.name]

    assert [(one.contestant, one.requests, one.errors) for one in played] == [(OURS, 24, 0)] * 2
    assert all(one.shares == (0.25,) * ENGINES for one in played)
    assert all(one.output_tokens == 24 * 16 for one in played)
    assert played[0].cached_share > 0.2
    assert judge(played)["met"] is True


async def test_engines_that_do_not_answer_are_told_apart_from_those_that_do() -> None:
    assert await get_text("http://127.0.0.1:1", "/ping") is None
    assert await get_text("http://nonsense", "/ping") is None


def test_a_metric_is_the_sum_of_its_samples() -> None:
    text = '# HELP a_total x\na_total{m="1"} 3.0\na_total{m="2"} 4.0\na_total_more 9.0\nb 1\n'

    assert metric_in(text, "a_total") == 7.0
    assert metric_in(text, "c") == 0.0


def test_an_environment_that_cannot_be_built_says_which_step_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(command: tuple[str, ...], **_: object) -> None:
        raise subprocess.CalledProcessError(1, command, output=b"no space left")

    monkeypatch.setattr(subprocess, "run", fails)

    with pytest.raises(BenchUnavailable, match="no space left"):
        built(tmp_path)
    assert not list(tmp_path.glob("*/ready"))


def test_an_environment_is_built_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands: list[tuple[str, ...]] = []

    def runs(command: tuple[str, ...], **_: object) -> None:
        commands.append(command)
        if command[1:3] == ("-m", "venv"):
            Path(command[3]).mkdir()

    monkeypatch.setattr(subprocess, "run", runs)
    python = built(tmp_path)

    assert built(tmp_path) == python
    assert len(commands) == 2
    assert commands[1][0] == str(python)
    assert commands[1][-1] == router_environment.REQUIREMENT


async def test_a_router_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BenchUnavailable, match="did not start"):
        async with open_router(tmp_path / "python", POLICIES[0], [], tmp_path):
            raise AssertionError("it cannot have started")
