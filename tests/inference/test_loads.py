import json
from typing import Any

import pytest

from inference.errors import EngineGarbled, LoadUnbelievable
from inference.loads import EngineLoad, VisionCacheCount, read_loads, read_metrics, read_vision_cache


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


def test_the_vision_cache_is_counted_over_all_engines_of_a_server() -> None:
    said = (
        b"# TYPE vllm:mm_cache_queries_total counter\n"
        b'vllm:mm_cache_queries_total{engine="0"} 10.0\nvllm:mm_cache_queries_total{engine="1"} 6.0\n'
        b'vllm:mm_cache_queries_created{engine="0"} 1.7e+09\n'
        b'vllm:mm_cache_hits_total{engine="0"} 5.0\nvllm:mm_cache_hits_total{engine="1"} 3.0\n'
    )

    assert read_vision_cache(said, "e") == VisionCacheCount(16, 8)
    assert read_vision_cache(b"sglang:cached_tokens_total 5\n", "e") is None
    assert read_vision_cache(b"vllm:mm_cache_queries_total 5\n", "e") is None


@pytest.mark.parametrize(("queries", "hits"), [("nan", "1"), ("5", "-1"), ("5", "6"), ("inf", "1"), ("many", "1")])
def test_a_vision_cache_that_cannot_be_is_not_believed(queries: str, hits: str) -> None:
    said = f"vllm:mm_cache_queries_total {queries}\nvllm:mm_cache_hits_total {hits}\n".encode()

    with pytest.raises(LoadUnbelievable):
        read_vision_cache(said, "e")


def test_a_share_of_the_vision_cache_is_that_of_the_time_between() -> None:
    before = VisionCacheCount(100, 90)

    assert VisionCacheCount(120, 95).share_since(before) == 0.25
    assert before.share_since(before) is None
    assert VisionCacheCount(10, 5).share_since(before) is None  # it started anew
    assert VisionCacheCount(110, 50).share_since(before) is None
