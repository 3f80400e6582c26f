"""`corral compare`: what a side may be, who plays when with which seed, and what is told of it."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from actors import compare as compare_module
from actors.assets import AppAssets
from actors.bench.engines import BenchUnavailable
from actors.cli.main import corral
from actors.compare import CompareError, compare, played_of, scenario_of_round, side_for
from actors.configuration import ScenarioError
from actors.results.comparison import Played, summarise, verdict_for
from actors.results.summary import EpisodeSummary, summary_for
from actors.run import RunResult
from actors.scenario import Scenario, SimulatedPhones
from policies.criteria import Outcome
from policies.tally import Tally

SCENARIO = Path(__file__).parents[2] / "scenarios" / "quickstart.toml"


def played(number: int = 0, *, won: bool = True, score: float | None = 5.0, plan_ms: float | None = 300.0) -> Played:
    outcome = "succeeded" if won else "failed"
    return Played(number, "P-0", "battler", 1, outcome, score, plan_ms, 20.0, 0.3)


def summary(phone: str, episode: str, *, bot: str = "planned", score: float = 3.0) -> EpisodeSummary:
    return summary_for(
        Tally(),
        phone=phone,
        episode=episode,
        app="battler",
        seed=1,
        bot=bot,
        outcome=Outcome.SUCCEEDED,
        reason="",
        score=score,
        captures=[],
        plans=[0.2, 0.3],
        acts=[],
        engines=["e"],
        models=["m"],
        replayable=True,
    )


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Scenario]:
    """Scenarios instead of runs: A's engine scores 3, B's 5; what was played is listed."""
    listed: list[Scenario] = []

    async def run(scenario: Scenario, assets: dict[str, AppAssets], source: bytes, out: Path) -> RunResult:
        listed.append(scenario)
        score = 3.0 if scenario.planner.overlap else 5.0 + 0.1 * len(listed)
        found = (summary("P-0", "r-P-0-1", score=score), summary("P-1", "r-P-1-1", bot="random"))
        return RunResult(out / f"run-{len(listed)}", found, None, None, None, None, None)

    monkeypatch.setattr(compare_module, "_run", run)
    return listed


def overlap(value: str) -> compare_module.Side:
    return side_for(f"planner.overlap={value}", SCENARIO)


def test_a_side_is_an_engine_a_url_or_values() -> None:
    engine = side_for("rehearsal-0", SCENARIO).scenario
    url = side_for("http://127.0.0.1:30000#qwen", SCENARIO).scenario
    values = side_for("planner.overlap=false,limits.seconds=9", SCENARIO).scenario

    assert [one.id for one in engine.engines] == ["rehearsal-0"]
    assert [(one.url, one.model, one.launch) for one in url.engines] == [("http://127.0.0.1:30000", "qwen", None)]
    assert (values.planner.overlap, values.limits.seconds) == (False, 9)


def test_commas_inside_a_value_belong_to_it() -> None:
    side = side_for('phones[0].size="640x1136",engines[0].launch.args=["--ttft-ms","5"]', SCENARIO)
    launch = side.scenario.engines[0].launch

    assert launch is not None
    assert launch.args == ("--ttft-ms", "5")


def test_an_engine_that_does_not_say_its_model_is_told_at_once() -> None:
    with pytest.raises(BenchUnavailable, match="cannot be measured"):
        side_for("http://127.0.0.1:1", SCENARIO)


@pytest.mark.parametrize(
    "text",
    ["no-such-engine", "http://127.0.0.1:1/path", "colour=red", "x,planner.overlap=true", "planner.act_seconds=no"],
)
def test_a_side_that_is_nothing_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError):
        side_for(text, SCENARIO)
    result = CliRunner().invoke(corral, ["compare", "rehearsal-0", text, str(SCENARIO)])

    assert result.exit_code == 2
    assert result.stderr.strip().startswith("Error: ")
    assert "Traceback" not in result.stderr


def test_sides_take_turns_with_equal_seeds_and_no_two_rounds_share_one(runs: list[Scenario], tmp_path: Path) -> None:
    sides = (overlap("true"), overlap("false"))
    compare(sides, 3, tmp_path, "corral compare", b"")

    assert [one.planner.overlap for one in runs] == [True, False, False, True, True, False]
    assert [one.seed for one in runs] == [7, 7, 1007, 1007, 2007, 2007]


def test_seeds_of_a_group_move_with_the_round_too() -> None:
    scenario = overlap("true").scenario
    assert isinstance(scenario.phones[0], SimulatedPhones)
    group = attrs.evolve(scenario.phones[0], seed=40)
    moved = scenario_of_round(attrs.evolve(scenario, phones=(group, *scenario.phones[1:])), 2)

    assert isinstance(moved.phones[0], SimulatedPhones)
    assert moved.phones[0].seed == 2040
    assert moved.phones[1] == scenario.phones[1]


def test_a_clear_difference_is_told_with_its_pairs(runs: list[Scenario], tmp_path: Path) -> None:
    result = compare((overlap("true"), overlap("false")), 6, tmp_path, "corral compare", b"")

    assert len(runs) == 12
    assert result.summary["A"]["episodes"] == result.summary["B"]["episodes"] == 6
    assert result.summary["A"]["success"].startswith("1 [")
    assert result.summary["B - A"]["score"].endswith("*")
    assert result.summary["verdict"].startswith("B scores higher")
    assert result.summary["runs needed"]["score"] >= 2
    assert len([row for row in result.rows if "folder" in row]) == 12
    json.dumps(result.as_dict())


def test_a_run_that_breaks_down_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def run(*arguments: Any) -> RunResult:
        return RunResult(tmp_path, (), None, None, None, "the adb server is gone", None)

    monkeypatch.setattr(compare_module, "_run", run)

    with pytest.raises(CompareError, match="round 1 of A broke down: the adb server is gone"):
        compare((overlap("true"), overlap("false")), 1, tmp_path, "", b"")
    result = CliRunner().invoke(corral, ["compare", "rehearsal-0", "rehearsal-0", str(SCENARIO)])
    assert (result.exit_code, len(result.stderr.strip().splitlines())) == (3, 1)


def test_a_signal_ends_it_with_what_there_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def run(*arguments: Any) -> RunResult:
        return RunResult(tmp_path, (summary("P-0", "r-P-0-1"),), None, None, "SIGINT", None, None)

    monkeypatch.setattr(compare_module, "_run", run)
    result = compare((overlap("true"), overlap("false")), 5, tmp_path, "", b"")

    assert result.notes[-1] == "stopped early"
    assert result.summary["A"]["episodes"] == 1
    assert result.summary["verdict"].startswith("nothing can be said")


def test_episodes_of_a_phone_are_numbered_and_random_bots_left_out() -> None:
    found = played_of(
        4,
        (summary("P-0", "r-P-0-2", score=2.0), summary("P-0", "r-P-0-1", score=1.0), summary("P-1", "x", bot="random")),
    )

    assert [(one.key, one.score) for one in found] == [((4, "P-0", "battler", 1), 1.0), ((4, "P-0", "battler", 2), 2.0)]
    assert found[0].plan_ms == 200.0


def test_episodes_that_say_nothing_of_the_bot_are_counted_apart() -> None:
    lost = attrs.evolve(played(1), outcome="quarantined", score=None)
    told = summarise([played(0), lost], [played(0), played(1)])

    assert (told["A"]["episodes"], told["A"]["not judged"]) == (1, 1)
    assert told["B - A"]["episodes"] == 1


def test_a_difference_of_success_comes_before_one_of_score() -> None:
    always, never = [played(n) for n in range(20)], [played(n, won=False, score=9.0) for n in range(20)]

    assert verdict_for(never, always) == "B succeeds more often"
    assert verdict_for(always, never) == "A succeeds more often"
    assert "not told apart" in verdict_for(always, always)


def test_numbers_that_are_missing_are_left_out() -> None:
    told = summarise([played(score=None, plan_ms=None)], [played(score=None, plan_ms=None)])

    assert "score" not in told["A"]
    assert "plan ms" not in told["B - A"]
    assert "score" not in told["runs needed"]


def test_a_few_values_are_told_without_an_interval_that_would_be_too_sure() -> None:
    few = summarise([played(n) for n in range(5)], [played(n, score=9.0) for n in range(5)])
    enough = summarise([played(n) for n in range(6)], [played(n, score=9.0) for n in range(6)])

    assert few["B - A"]["score"] == "4"
    assert enough["B - A"]["score"] == "4 [4, 4] *"
