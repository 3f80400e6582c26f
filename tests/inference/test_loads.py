import json
from typing import Any

import pytest

from inference.errors import EngineGarbled, LoadUnbelievable
from inference.loads import EngineLoad, read_loads, read_metrics


def loads(**fields: Any) -> bytes:
    return json.dumps({"loads": [fields]}).encode()


def test_rows_of_ranks_are_put_together() -> None:
    rows = [{"num_running_reqs": 2, "num_waiting_reqs": 1, "token_usage": 0.5}, {"num_running_reqs": 3}]

    assert read_loads(json.dumps({"loads": rows}).encode(), "e") == EngineLoad(5, 1, 0.25)
    assert read_loads(json.dumps(rows).encode(), "e").running == 5
    assert read_loads(b"{}", "e") == EngineLoad()
    assert read_loads(loads(token_usage=1.0004), "e").token_usage == 1.0


@pytest.mark.parametrize(
    "fields",
    [
        {"num_running_reqs": -1},
        {"num_running_reqs": 10**9},
        {"num_waiting_reqs": "many"},
        {"num_waiting_reqs": True},
        {"token_usage": 7.5},
        {"token_usage": float("nan")},
        {"token_usage": float("inf")},
        {"token_usage": []},
        {"token_usage": 10**400},
    ],
)
def test_what_cannot_be_is_not_believed(fields: dict[str, Any]) -> None:
    with pytest.raises(LoadUnbelievable, match="e: it says that its"):
        read_loads(loads(**fields), "e")


@pytest.mark.parametrize("body", [b"", b"no json", b"[" * 100_000, b"\xff"])
def test_what_is_no_json_is_garbled(body: bytes) -> None:
    with pytest.raises(EngineGarbled, match="no JSON"):
        read_loads(body, "e")


def test_preemptions_and_usage_are_found_in_metrics() -> None:
    sglang = b'# HELP x\nsglang:num_retracted_requests_total{model_name="m",tp_rank="0"} 4.0\nother 1\n'
    vllm = b'vllm:num_preemptions_total{engine="0"} 2.0\nvllm:kv_cache_usage_perc{engine="0"} 0.5\n'

    assert read_metrics(sglang, "e") == EngineLoad(preempted=4.0)
    assert read_metrics(vllm, "e") == EngineLoad(preempted=2.0, token_usage=0.5)
    assert read_metrics(b"<html>", "e") == EngineLoad()
    for lie in (
        b"vllm:kv_cache_usage_perc 50\n",
        b"vllm:num_preemptions_total -1\n",
        b"vllm:num_preemptions_total x\n",
    ):
        with pytest.raises(LoadUnbelievable):
            read_metrics(lie, "e")
