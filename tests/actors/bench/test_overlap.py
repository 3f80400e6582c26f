from pathlib import Path

import pytest

from actors.bench.overlap import Variant, bench_overlap, play_on_virtual_clock

RULES = Path(__file__).parents[3] / "scenarios" / "battler.rules.toml"


def test_thinking_between_acts_stalls_as_the_formula_says_and_overlap_hides_it() -> None:
    told: list[tuple[str, float]] = []
    result = bench_overlap(
        seeds=(1, 2),
        seconds=20.0,
        latency_seconds=0.3,
        act_seconds=0.25,
        rules_path=RULES,
        tell=lambda what, share: told.append((what, share)),
    )
    summary = result.summary
    expected = summary["expected stall without overlap, L/(L+H)"]

    assert summary["no overlap"]["stall_fraction_mean"] == pytest.approx(expected, abs=0.05)
    assert summary["overlap"]["stall_fraction_mean"] <= 0.06
    assert summary["no latency"]["stall_fraction_mean"] == pytest.approx(0.0, abs=0.02)
    assert summary["no overlap"]["horizon_seconds_mean"] >= 0.6
    assert len(result.rows) == len(told) == 8
    assert told[0][1] == 0.0
    assert 0.8 < told[-1][1] < 1.0
    assert "--latency-ms 300" in result.command


def test_equal_seeds_give_equal_numbers() -> None:
    def played() -> object:
        return play_on_virtual_clock(Variant("overlap", 0.3), 5, seconds=8.0, act_seconds=0.25, rules_path=RULES)

    assert played() == played()
