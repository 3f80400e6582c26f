from typing import Any

import attrs
import pytest

from inference.config import Dialect, EngineConfig, LaunchConfig, LaunchKind, TenantConfig, check_engine, check_tenant
from runtime.ids import EngineId, TenantId

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
        (
            {"weight": 0.0, "cold_prefills": 0, "chunk_tokens": 0, "session_cache": True, "dialect": Dialect.VLLM},
            ["weight", "cold_prefills", "chunk_tokens", "session_cache"],
        ),
        ({"connect_seconds": float("nan")}, ["connect_seconds"]),
    ],
)
def test_every_problem_is_named_at_once(changes: dict[str, Any], keys: list[str]) -> None:
    problems = check_engine(attrs.evolve(GOOD, **changes))

    assert [problem.split(":")[0] for problem in problems] == keys
    assert not any("secret" in problem for problem in problems)


def test_a_tenants_limits_are_checked() -> None:
    bad = TenantConfig(weight=0.0, input_tokens_per_minute=0, output_tokens_per_minute=-1, adapter=" ")

    problems = check_tenant(TenantId("a b"), bad)

    keys = ["'a b' must be", "weight:", "input_tokens_per_minute:", "output_tokens_per_minute:", "adapter:"]
    assert len(problems) == len(keys)
    assert all(problem.startswith(key) for problem, key in zip(problems, keys, strict=True))
    assert check_tenant(TenantId("qa"), TenantConfig(2.0, 1000, 1000, "qa-lora")) == []
