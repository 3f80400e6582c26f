"""The model that plans are made for when none is named: the shape of Qwen3-VL-8B, as its `config.json` states it.

Facts about an architecture, and no weights. Counted from them it has 8.76 billion parameters; the model card's 8.77
has norms and position embeddings in it.
"""

import json

from inference.model_shape import ModelShape, parse_model

DEFAULT_MODEL_NAME = "Qwen3-VL-8B (bundled description)"
_CONFIG = {
    "model_type": "qwen3_vl",
    "_name_or_path": DEFAULT_MODEL_NAME,
    "dtype": "bfloat16",
    "tie_word_embeddings": False,
    "text_config": {
        "num_hidden_layers": 36,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 262144,
    },
    "vision_config": {
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "hidden_act": "gelu_pytorch_tanh",
        "patch_size": 16,
        "spatial_merge_size": 2,
        "deepstack_visual_indexes": [8, 16, 24],
    },
}
_PROCESSOR = {"patch_size": 16, "merge_size": 2, "size": {"shortest_edge": 65536, "longest_edge": 16777216}}


def default_model() -> ModelShape:
    """Qwen3-VL-8B in bf16."""
    return parse_model(json.dumps(_CONFIG).encode(), json.dumps(_PROCESSOR).encode())
