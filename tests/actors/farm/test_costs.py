"""What runs cost."""

import json
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.farm.config import PricesConfig
from actors.farm.costs import Usage, busy_seconds, costs_view, usage_from_json, usage_sum
from actors.farm.record_usage import usage_of
from tests.kit.run_folder import EPISODE, run_folder

PRICES = PricesConfig("CNY", phone_minute=0.5, gpu_hour=18.0, input_million=4.0, cached_million=1.0, output_million=8.0)
INTERVALS = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)).map(lambda pair: (min(pair), max(pair))))


def test_money_is_every_price_times_what_was_used() -> None:
    used = Usage(3, input_tokens=3_000_000, cached_tokens=1_000_000, output_tokens=500_000, gpu_seconds=600.0)
    used = attrs.evolve(used, phone_seconds=120.0)

    assert used.money(PRICES) == pytest.approx(1.0 + 3.0 + 8.0 + 1.0 + 4.0)
    assert used.money(PricesConfig()) == 0.0
    assert Usage(1, input_tokens=5, cached_tokens=9).money(PRICES) == pytest.approx(9e-6)  # an engine that miscounts
    assert costs_view(used, PRICES, is_complete=False) == {
        "tokens": {"input": 3_000_000, "cached": 1_000_000, "output": 500_000},
        "gpu_seconds": 600.0,
        "phone_minutes": 2.0,
        "money": 17.0,
        "currency": "CNY",
        "complete": False,
    }


@given(st.lists(st.builds(Usage, st.integers(0, 9), st.integers(0, 9), gpu_seconds=st.integers(0, 9))))
def test_sums_and_json(parts: list[Usage]) -> None:
    total = usage_sum(parts)

    assert total.plans == sum(one.plans for one in parts)
    assert usage_from_json(json.loads(json.dumps(attrs.asdict(total)))) == total


@given(INTERVALS)
def test_time_that_overlaps_counts_once(intervals: list[tuple[float, float]]) -> None:
    total = busy_seconds(intervals)

    assert total <= sum(end - begin for begin, end in intervals) + 1e-9
    assert total >= max((end - begin for begin, end in intervals), default=0.0) - 1e-9
    assert total <= 100.0 + 1e-9
    assert busy_seconds([*intervals, *intervals]) == total


def test_episodes_share_the_time_of_an_engine(tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    alone = usage_of(run)[EPISODE]
    twin = run / "episodes" / "run-Q-0"
    twin.mkdir()
    for name in ("steps.jsonl", "episode.json"):
        (twin / name).write_bytes((run / "episodes" / EPISODE / name).read_bytes())
    both = usage_of(run)

    assert alone.plans > 2
    assert alone.input_tokens == alone.plans * 100
    assert sum(one.gpu_seconds for one in both.values()) == pytest.approx(alone.gpu_seconds)
    assert both[EPISODE].gpu_seconds == pytest.approx(both["run-Q-0"].gpu_seconds)


@pytest.mark.parametrize(
    "line",
    [
        '{"in":{"plan":{"type":"PlanReply","prompt_tokens":"many","prefill_seconds":NaN}}}',
        '{"in":{"plan":{"type":"PlanReply","decode_seconds":1e999,"output_tokens":-4}}}',
        '{"in":{"plan":{"type":"PlanFailed","why":"late"}}}',
        '{"in":[{"plan":{}}]}',
        '["plan":{',
        '{"in":{"plan":{"type":"PlanReply","text":"cut sho',
    ],
)
def test_damaged_records_cost_nothing(tmp_path: Path, line: str) -> None:
    run = run_folder(tmp_path, steps=1)
    with (run / "episodes" / EPISODE / "steps.jsonl").open("a") as file:
        file.write(line + "\n")
    (used,) = usage_of(run).values()

    assert (used.input_tokens, used.output_tokens, used.gpu_seconds) == (0, 0, 0.0)


def test_a_folder_without_episodes_costs_nothing(tmp_path: Path) -> None:
    assert usage_of(tmp_path) == {}
