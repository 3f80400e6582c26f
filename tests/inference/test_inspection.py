import json
from typing import Any

import pytest

from inference.inspection import Expected, inspect_engine
from tests.kit.recorded import recorded

INFO: dict[str, Any] = json.loads(recorded("sglang-0.5.23-server-info.json"))


def test_a_sound_engine() -> None:
    found = inspect_engine(INFO, Expected(8, context_length=8192, cards=1))

    assert found.mismatches == ()
    assert (found.version, found.kv_tokens) == ("0.5.23", 16384)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"disable_radix_cache": True}, "its radix cache is off"),
        ({"chunked_prefill_size": -1}, "chunked prefill is off"),
        ({"kv_cache_dtype": "auto"}, "its KV cache is 'auto', and 'fp8_e4m3' was asked for"),
        ({"disaggregation_mode": "decode"}, "apart (decode)"),
        ({"tp_size": 2}, "it runs on 2 cards, not on 1"),
        ({"max_running_requests": 4}, "it runs 4 requests at a time, and up to 8 are sent"),
        ({"max_total_num_tokens": 4000}, "500 for each of 8 requests in flight"),
        ({"max_total_num_tokens": 8191}, "fewer than one context of 8192"),
    ],
)
def test_a_mismatch(changes: dict[str, Any], why: str) -> None:
    info = {**INFO, "kv_cache_dtype": "fp8_e4m3", **changes}
    found = inspect_engine(info, Expected(8, kv_cache_dtype="fp8_e4m3", context_length=8192, cards=1))

    assert any(why in mismatch for mismatch in found.mismatches)


@pytest.mark.parametrize(
    "info", [{}, dict.fromkeys(INFO), {name: "?" for name in INFO if name != "disaggregation_mode"}]
)
def test_what_is_not_said_is_not_judged(info: dict[str, Any]) -> None:
    assert inspect_engine(info, Expected(8, context_length=8192, cards=1)).mismatches == ()
