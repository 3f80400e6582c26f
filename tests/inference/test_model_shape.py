import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.default_model import default_model
from inference.model_shape import ModelError, parse_model
from inference.vision_tokens import SmartResize, Tiles

DENSE: dict[str, Any] = {
    "model_type": "qwen2",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 28,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}
INTERNVL: dict[str, Any] = {
    "model_type": "internvl_chat",
    "force_image_size": 448,
    "downsample_ratio": 0.5,
    "min_dynamic_patch": 1,
    "max_dynamic_patch": 12,
    "use_thumbnail": True,
    "llm_config": {**DENSE, "model_type": "qwen3"},
    "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24, "image_size": 448, "patch_size": 14},
}


def encoded(config: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps({**config, **changes}).encode()


def test_the_default_is_qwen3_vl_8b() -> None:
    shape = default_model()

    assert round(shape.parameters / 1e9, 1) == 8.8
    assert shape.kv_bytes_per_token(2.0) == 2 * 36 * 8 * 128 * 2
    assert shape.kv_bytes_per_token(1.0) == 73728
    assert shape.vision == SmartResize(32, 65536, 16777216)
    assert shape.embedding_width == 4 * 4096, "the frame's vector, and three of DeepStack"


def test_dense_grouped_query_attention() -> None:
    shape = parse_model(encoded(DENSE))

    assert round(shape.parameters / 1e9, 1) == 7.6
    assert shape.weight_bytes == 2 * shape.parameters
    assert (shape.kv_heads, shape.head_dim) == (4, 128)
    assert shape.kv_bytes_per_token(2.0) == 57344
    assert (shape.vision, shape.embedding_width) == (None, 0)


def test_weights_at_hand_are_believed() -> None:
    assert parse_model(encoded(DENSE), weight_bytes=5_000_000_000).weight_bytes == 5_000_000_000
    mixture = encoded(DENSE, num_experts=64)
    assert parse_model(mixture, weight_bytes=5).weight_bytes == 5
    with pytest.raises(ModelError, match="mixture of experts"):
        parse_model(mixture)


def test_quantised_weights() -> None:
    shape = parse_model(encoded(DENSE, quantization_config={"quant_method": "fp8"}))

    assert shape.weight_bytes == shape.parameters
    assert shape.dtype == "bfloat16, fp8 weights"


def test_the_text_part_of_a_vision_language_model() -> None:
    shape = parse_model(encoded(INTERNVL))

    assert (shape.layers, shape.kv_heads) == (28, 4)
    assert shape.vision == Tiles(448, 256, 1, 12, thumbnail=True)
    assert shape.embedding_width == 3584


def test_pixels_of_the_processor() -> None:
    config = encoded(DENSE, model_type="qwen2_5_vl", vision_config={"patch_size": 14, "spatial_merge_size": 2})
    processor = b'{"patch_size": 14, "merge_size": 2, "min_pixels": 3136, "max_pixels": 12845056}'

    assert parse_model(config, processor).vision == SmartResize(28, 3136, 12845056)
    with pytest.raises(ModelError, match="no range"):
        parse_model(config, b'{"min_pixels": 9, "max_pixels": 2}')


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (b"", "config.json is not JSON"),
        (b"[" * 100_000, "config.json is not JSON"),
        (b"[]", "no JSON object"),
        (b"{}", "'num_hidden_layers' must be a positive integer, not None"),
        (encoded(DENSE, num_hidden_layers=True), "num_hidden_layers"),
        (encoded(DENSE, hidden_size=-1), "hidden_size"),
        (encoded(DENSE, num_key_value_heads=5), "28 attention heads cannot share 5"),
        (encoded(DENSE, kv_lora_rank=512), "latent attention"),
        (encoded(DENSE, layer_types=["full_attention", "linear_attention"]), "kind linear_attention"),
        (encoded(DENSE, torch_dtype="int3"), "dtype 'int3' is none of"),
    ],
)
def test_what_is_no_such_model(config: bytes, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        parse_model(config)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda x: st.lists(x, max_size=3), max_leaves=5))
def test_a_senseless_value_is_refused_in_words(value: Any) -> None:
    for key in ("num_attention_heads", "vision_config", "quantization_config", "head_dim", "max_position_embeddings"):
        for config in (DENSE, INTERNVL):
            try:
                parse_model(encoded(config, **{key: value}))
            except ModelError as error:
                assert "config.json" in str(error)  # noqa: PT017  # the other outcome is right as well
