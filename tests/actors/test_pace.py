import attrs

from actors.pace import pace_warnings
from actors.scenario import AppConfig, PlannerConfig, Scenario, SimulatedPhones
from inference.config import EngineConfig, LaunchConfig
from inference.latency_curve import CurvePoint, LatencyCurve
from inference.profile import ModelProfile, ReplyCodec
from runtime.ids import EngineId

REAL = EngineConfig(EngineId("e1"), url="http://127.0.0.1:30000")
SCENARIO = Scenario(
    name="s", phones=(SimulatedPhones("a"),), apps={"a": AppConfig(goal="g", package="a.b")}, engines=(REAL,)
)
COMPACT = ModelProfile()


def test_the_compact_grammar_keeps_pace() -> None:
    assert pace_warnings(SCENARIO, PlannerConfig(), COMPACT) == []


def test_a_wordy_codec_does_not() -> None:
    wordy = attrs.evolve(COMPACT, codec=ReplyCodec.QWEN_TOOL_CALL, max_tokens=400)
    found = "\n".join(pace_warnings(SCENARIO, PlannerConfig(), wordy))

    assert "5 actions, 324 tokens, takes 5.36 s to say (A100 constants, not measured here) and 1.25 s to play" in found
    assert "max_age_seconds = 2 drops it" in found


def test_a_plan_that_takes_longer_than_is_waited_for() -> None:
    (found,) = pace_warnings(SCENARIO, PlannerConfig(timeout_seconds=0.5), COMPACT)

    assert "timeout_seconds = 0.5 gives it up" in found


def test_a_measured_curve() -> None:
    slow = LatencyCurve((CurvePoint(1, 100.0, 40.0),), "measured: x.json")

    assert "(measured: x.json)" in pace_warnings(SCENARIO, PlannerConfig(), COMPACT, slow)[0]


def test_stand_ins_have_a_latency_of_their_own() -> None:
    rehearsed = attrs.evolve(SCENARIO, engines=(EngineConfig(EngineId("e1"), launch=LaunchConfig()),))
    wordy = attrs.evolve(COMPACT, codec=ReplyCodec.QWEN_TOOL_CALL, max_tokens=400)

    assert pace_warnings(rehearsed, PlannerConfig(), wordy) == []
    assert pace_warnings(SCENARIO, PlannerConfig(enabled=False), wordy) == []
