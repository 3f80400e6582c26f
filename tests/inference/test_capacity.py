import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.capacity import MEMORY_FRACTION, capacity_for, host_budget
from inference.default_model import default_model

MODEL = default_model()
FRAME = (720, 1280)


def test_qwen3_vl_8b_on_a_5090() -> None:
    found = capacity_for(MODEL, memory_mib=32607, frame=FRAME, output_tokens=16)

    assert found.frame_tokens == 880
    assert found.context_tokens == 600 + 2 * 880 + 16
    assert found.kv_bytes_per_token == 73728
    assert 45 <= found.episodes <= 50
    # The engine's default of 100 MB holds about three frames of an 8B model
    assert 100 * (1 << 20) // found.frame_bytes == 3


def test_fp8_holds_almost_twice_as_many_episodes() -> None:
    fp8 = capacity_for(MODEL, memory_mib=32607, frame=FRAME, output_tokens=16)
    bf16 = capacity_for(MODEL, memory_mib=32607, frame=FRAME, output_tokens=16, kv_dtype="bf16")

    assert 1.5 < fp8.episodes / bf16.episodes < 2.0


def test_a_card_that_is_too_small() -> None:
    found = capacity_for(MODEL, memory_mib=16384, frame=FRAME, output_tokens=16)

    assert (found.episodes, found.kv_tokens, found.weights_fit) == (0, 0, False)


def test_a_context_beyond_the_model_fits_nowhere() -> None:
    short = attrs.evolve(MODEL, context_length=2000)

    assert not capacity_for(short, memory_mib=81920, frame=FRAME, output_tokens=16).weights_fit


def test_two_cards_hold_a_longer_context() -> None:
    one = capacity_for(MODEL, memory_mib=32607, frame=FRAME, output_tokens=16, context_tokens=200_000)
    two = capacity_for(MODEL, memory_mib=32607, frame=FRAME, output_tokens=16, context_tokens=200_000, cards=2)

    assert not one.weights_fit
    assert two.weights_fit


@given(
    memory=st.integers(18_000, 200_000),
    width=st.integers(200, 2000),
    height=st.integers(200, 2000),
    tokens=st.integers(1, 500),
    most=st.integers(1, 200),
)
def test_nothing_is_promised_twice(memory: int, width: int, height: int, tokens: int, most: int) -> None:
    found = capacity_for(MODEL, memory_mib=memory, frame=(width, height), output_tokens=tokens, most_episodes=most)

    used = found.weight_bytes + found.kv_tokens * found.kv_bytes_per_token + found.vision_cache_mb * (1 << 20)
    assert found.episodes <= most
    if found.weights_fit:
        assert used <= found.memory_bytes * MEMORY_FRACTION
        # one MB of rounding of the vision cache may cost a few tokens
        assert found.episodes * found.context_tokens <= found.kv_tokens + (1 << 20) // found.kv_bytes_per_token + 1
        assert found.vision_cache_mb * (1 << 20) >= found.episodes * 2 * found.frame_bytes


def test_a_model_without_eyes_needs_no_vision_cache() -> None:
    text = attrs.evolve(MODEL, vision=None, embedding_width=0)

    found = capacity_for(text, memory_mib=32607, frame=FRAME, output_tokens=16)

    assert (found.frame_tokens, found.vision_cache_mb) == (0, 0)


@pytest.mark.parametrize("engines", [1, 8])
def test_the_host_grows_with_its_engines(engines: int) -> None:
    small, large = host_budget(engines, 10, 1 << 34), host_budget(engines + 1, 100, 1 << 34)

    assert small.cores < large.cores
    assert small.ram_gib < large.ram_gib
