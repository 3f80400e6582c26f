from typing import Any

import attrs
import pytest

from inference.config import EngineConfig, LaunchConfig, LaunchKind, check_engine
from runtime.ids import EngineId

GOOD = EngineConfig(EngineId("e1"), url="http://127.0.0.1:30000")


@pytest.mark.parametrize(
    "config",
    [
        GOOD,
        attrs.evolve(GOOD, url="https://engine.internal"),
        EngineConfig(EngineId("e1"), launch=LaunchConfig()),
        attrs.evolve(GOOD, launch=LaunchConfig(LaunchKind.SGLANG, args=("python", "-m", "sglang"))),
    ],
)
def test_good(config: EngineConfig) -> None:
    assert check_engine(config) == []


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"url": None}, ["url"]),
        ({"url": None, "launch": LaunchConfig(LaunchKind.VLLM, args=("vllm",))}, ["url"]),
        ({"url": "127.0.0.1:30000"}, ["url"]),
        ({"url": "http://h:99999"}, ["url"]),
        ({"url": "http://h:0"}, ["url"]),
        ({"url": "http://h/v1"}, ["url"]),
        ({"url": "http://me:secret@h"}, ["url"]),
        ({"launch": LaunchConfig(LaunchKind.SGLANG)}, ["launch.args"]),
        ({"launch": LaunchConfig(start_seconds=0.0)}, ["launch.start_seconds"]),
        (
            {"id": EngineId("a b"), "gpu": -1, "max_in_flight": 0, "max_waiting": -1, "total_seconds": 0.0},
            ["id", "gpu", "max_in_flight", "max_waiting", "total_seconds"],
        ),
        ({"connect_seconds": float("nan")}, ["connect_seconds"]),
    ],
)
def test_every_problem_is_named_at_once(changes: dict[str, Any], keys: list[str]) -> None:
    problems = check_engine(attrs.evolve(GOOD, **changes))

    assert [problem.split(":")[0] for problem in problems] == keys
    assert not any("secret" in problem for problem in problems)
