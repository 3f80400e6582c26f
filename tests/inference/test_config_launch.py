import attrs
import pytest

from inference.config import Dialect, EngineConfig, LaunchConfig, LaunchKind, check_engine, launch_of
from runtime.ids import EngineId

LAUNCH = LaunchConfig(LaunchKind.SGLANG, model_path="/models/q", profile="sglang-5090")
MADE = EngineConfig(EngineId("e1"), launch=LAUNCH, gpu=0)


def test_an_engine_whose_command_line_is_made_needs_no_url() -> None:
    assert check_engine(MADE) == []
    assert check_engine(attrs.evolve(MADE, url="http://127.0.0.1:30000")) == []


def test_one_that_somebody_else_runs() -> None:
    attached = attrs.evolve(MADE, managed=False, url="https://engines.example", ca_file="ca.pem")

    assert check_engine(attached) == []
    assert launch_of(attached) is None
    assert launch_of(MADE) is LAUNCH
    assert check_engine(attrs.evolve(MADE, managed=False))[0].startswith("url: it is needed")


@pytest.mark.parametrize(
    ("changes", "launch", "key"),
    [
        ({}, {"model_path": None}, "launch.args"),
        ({}, {"model_path": None}, "launch.profile"),
        ({"dialect": Dialect.OPENAI}, {}, "dialect"),
        ({}, {"kind": LaunchKind.LLAMACPP}, "launch.model_path"),
        ({}, {"pair_gpu": 0}, "launch.pair_gpu"),
        ({"gpu": None}, {"pair_gpu": 1}, "launch.pair_gpu"),
        ({}, {"pair_gpu": -1}, "launch.pair_gpu"),
        ({}, {"numa_node": -1}, "launch.numa_node"),
        ({}, {"context_length": 0}, "launch.context_length"),
        ({}, {"vision_cache_mb": 0}, "launch.vision_cache_mb"),
        ({}, {"start_seconds": 0.0}, "launch.start_seconds"),
        ({}, {"model_path": None, "args": ("x",), "prefix": ("docker",)}, "launch.prefix"),
        ({}, {"model_path": None, "args": ("x",), "cleanup": ("docker",)}, "launch.cleanup"),
        ({"url": "http://10.0.0.1:30000"}, {}, "url"),
        ({"ca_file": "ca.pem"}, {}, "ca_file"),
    ],
)
def test_what_is_wrong(changes: dict[str, object], launch: dict[str, object], key: str) -> None:
    config = attrs.evolve(MADE, **changes, launch=attrs.evolve(LAUNCH, **launch))  # type: ignore[arg-type]

    assert key in [problem.partition(": ")[0] for problem in check_engine(config)]
