import attrs

from actors.engine_checks import launch_problems, shared_cards
from inference.config import EngineConfig, LaunchConfig, LaunchKind
from runtime.ids import EngineId

LAUNCH = LaunchConfig(LaunchKind.SGLANG, model_path="/m")
ENGINE = EngineConfig(EngineId("e0"), launch=LAUNCH, gpu=0)


def test_a_launch_that_is_never_done() -> None:
    assert launch_problems(ENGINE) == []
    int4 = attrs.evolve(ENGINE, launch=attrs.evolve(LAUNCH, args=("--kv-cache-dtype", "int4")))
    assert "INT4" in launch_problems(int4)[0]
    assert launch_problems(attrs.evolve(int4, managed=False)) == [], "somebody else's engine is his business"
    unknown = attrs.evolve(ENGINE, launch=attrs.evolve(LAUNCH, profile="x"))
    assert launch_problems(unknown)[0].startswith("there is no launch profile 'x'")


def test_how_cards_are_connected_is_asked_on_the_host() -> None:
    parallel = attrs.evolve(ENGINE, launch=attrs.evolve(LAUNCH, args=("--tp", "2")))

    assert launch_problems(parallel) == []


def test_two_engines_on_one_card() -> None:
    other = attrs.evolve(ENGINE, id=EngineId("e1"), gpu=1, launch=attrs.evolve(LAUNCH, pair_gpu=0))

    assert shared_cards([ENGINE, attrs.evolve(other, launch=LAUNCH)]) == []
    assert shared_cards([ENGINE, other]) == [
        ("engines 'e0' and 'e1' share GPU 0: each takes its memory for itself", "$.engines[1].gpu")
    ]
    assert shared_cards([ENGINE, attrs.evolve(other, launch=LaunchConfig(), gpu=0)]) == []
