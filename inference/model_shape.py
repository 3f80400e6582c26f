"""What a plan must know of a model: its shape, read from its own `config.json` and `preprocessor_config.json`."""

import json
from typing import Any

import attrs

from inference.vision_tokens import SmartResize, Tiles, VisionRule

DTYPE_BYTES = {"float32": 4.0, "float16": 2.0, "half": 2.0, "bfloat16": 2.0, "float8_e4m3fn": 1.0}
QUANTISED_BYTES = {
    "fp8": 1.0,
    "awq": 0.56,
    "gptq": 0.56,
    "compressed-tensors": 1.0,
    "bitsandbytes": 0.56,
    "mxfp4": 0.53,
}
# bytes a weight: 4 bits with a scale and a zero point for each 128 are 0.56; used only where no weights are at hand
SMART_RESIZE_MODELS = {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"}
TILE_MODELS = {"internvl", "internvl_chat"}
QWEN_MIN_PIXELS, QWEN_MAX_PIXELS = 56 * 56, 28 * 28 * 1280  # the processor's own where a file names none
EMBEDDING_BYTES = 2.0  # frames' embeddings stay in bf16, whatever the weights are


class ModelError(Exception):
    """A model directory cannot be planned with. The message says which file and what is wrong with it."""


@attrs.frozen
class ModelShape:
    """A decoder-only transformer with grouped-query attention, and perhaps an eye."""

    name: str
    layers: int
    kv_heads: int
    head_dim: int
    hidden_size: int
    parameters: int
    """Counted from the shape where no weights are at hand."""
    weight_bytes: int
    context_length: int
    dtype: str
    vision: VisionRule | None = None
    embedding_width: int = 0
    """Numbers that the vision encoder hands over for one token; Qwen3-VL's DeepStack hands over several vectors."""

    def kv_bytes_per_token(self, kv_dtype_bytes: float) -> int:
        """2 x layers x kv_heads x head_dim x bytes."""
        return round(2 * self.layers * self.kv_heads * self.head_dim * kv_dtype_bytes)

    def embedding_bytes(self, vision_tokens: int) -> int:
        """Of one frame's embeddings, as the engine's vision cache holds them."""
        return round(vision_tokens * self.embedding_width * EMBEDDING_BYTES)


def parse_model(config: bytes, processor: bytes | None = None, *, weight_bytes: int | None = None) -> ModelShape:
    """Read a model's shape.

    Args:
        config: `config.json`.
        processor: `preprocessor_config.json`, for the rule that frames become tokens by.
        weight_bytes: of the files with weights; None: estimated from the shape.

    Raises:
        ModelError: something is missing or senseless, or it is no model of this kind.
    """
    whole = _object(config, "config.json")
    text = _text_part(whole)
    _refuse_other_kinds(text)
    layers, hidden = _positive(text, "num_hidden_layers"), _positive(text, "hidden_size")
    heads = _positive(text, "num_attention_heads")
    kv_heads = _positive(text, "num_key_value_heads", heads)
    if heads % kv_heads:
        raise ModelError(f"config.json: {heads} attention heads cannot share {kv_heads} KV heads")
    head_dim = _positive(text, "head_dim", hidden // heads)
    vision = whole.get("vision_config")
    vision = vision if isinstance(vision, dict) else {}
    dtype = str(
        whole.get("dtype") or whole.get("torch_dtype") or text.get("dtype") or text.get("torch_dtype") or "bfloat16"
    )
    if dtype not in DTYPE_BYTES:
        raise ModelError(f"config.json: dtype {dtype!r} is none of {', '.join(DTYPE_BYTES)}")
    parameters = _text_parameters(text, whole, heads, kv_heads, head_dim) + _vision_parameters(vision, hidden)
    quantised = whole.get("quantization_config") or text.get("quantization_config")
    method = str(quantised.get("quant_method")) if isinstance(quantised, dict) else None
    if weight_bytes is None:
        if "num_experts" in text or "num_local_experts" in text:
            raise ModelError(
                "config.json: a mixture of experts is not counted from its shape; put its weights beside it"
            )
        weight_bytes = round(parameters * QUANTISED_BYTES.get(method or "", DTYPE_BYTES[dtype]))
    extra = vision.get("deepstack_visual_indexes")
    return ModelShape(
        name=str(whole.get("_name_or_path") or whole.get("model_type") or "model"),
        layers=layers,
        kv_heads=kv_heads,
        head_dim=head_dim,
        hidden_size=hidden,
        parameters=parameters,
        weight_bytes=weight_bytes,
        context_length=_positive(text, "max_position_embeddings", 32768),
        dtype=dtype if method is None else f"{dtype}, {method} weights",
        vision=_vision_rule(whole, vision, _object(processor, "preprocessor_config.json") if processor else {}),
        embedding_width=hidden * (1 + (len(extra) if isinstance(extra, list) else 0)) if vision else 0,
    )


def _text_part(whole: dict[str, Any]) -> dict[str, Any]:
    for name in ("text_config", "llm_config"):
        part = whole.get(name)
        if isinstance(part, dict):
            return part
    return whole


def _refuse_other_kinds(text: dict[str, Any]) -> None:
    if text.get("kv_lora_rank"):
        raise ModelError(
            "config.json: multi-head latent attention keeps its KV cache in another form; not planned here"
        )
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and (odd := sorted({str(k) for k in kinds} - {"full_attention", "sliding_attention"})):
        raise ModelError(
            f"config.json: layers of kind {', '.join(odd)} have no KV cache of this form; not planned here"
        )


def _text_parameters(text: dict[str, Any], whole: dict[str, Any], heads: int, kv_heads: int, head_dim: int) -> int:
    hidden, layers = _positive(text, "hidden_size"), _positive(text, "num_hidden_layers")
    vocabulary = _positive(text, "vocab_size") * hidden
    tied = bool(whole.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))
    attention = 2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim
    return vocabulary * (1 if tied else 2) + layers * (attention + 3 * hidden * _positive(text, "intermediate_size"))


def _vision_parameters(vision: dict[str, Any], hidden: int) -> int:
    depth = vision.get("depth", vision.get("num_hidden_layers"))
    width = vision.get("hidden_size")
    if not isinstance(depth, int) or not isinstance(width, int):
        return 0
    inner = vision.get("intermediate_size", 4 * width)
    merge = vision.get("spatial_merge_size", 2)
    gates = 3 if vision.get("hidden_act") == "silu" else 2  # Qwen2.5-VL's encoder has a gated MLP
    extra = vision.get("deepstack_visual_indexes")
    mergers = 1 + (len(extra) if isinstance(extra, list) else 0)
    if not isinstance(inner, int) or not isinstance(merge, int):
        raise ModelError("config.json: the vision encoder's sizes must be integers")
    merged = width * merge * merge
    return depth * (4 * width * width + gates * width * inner) + mergers * (merged * merged + merged * hidden)


def _vision_rule(whole: dict[str, Any], vision: dict[str, Any], processor: dict[str, Any]) -> VisionRule | None:
    kind = str(whole.get("model_type", ""))
    if kind in SMART_RESIZE_MODELS:
        patch = _positive(processor or vision, "patch_size", _positive(vision, "patch_size", 14))
        merge = _positive(processor or vision, "merge_size", _positive(vision, "spatial_merge_size", 2))
        size = processor.get("size")
        size = size if isinstance(size, dict) else {}
        least = processor.get("min_pixels") or size.get("shortest_edge") or QWEN_MIN_PIXELS
        most = processor.get("max_pixels") or size.get("longest_edge") or QWEN_MAX_PIXELS
        if not (isinstance(least, int) and isinstance(most, int) and 0 < least <= most):
            raise ModelError(f"preprocessor_config.json: from {least!r} to {most!r} pixels is no range")
        return SmartResize(patch * merge, least, most)
    if kind in TILE_MODELS:
        return _tile_rule(whole, vision, processor)
    return None


def _tile_rule(whole: dict[str, Any], vision: dict[str, Any], processor: dict[str, Any]) -> Tiles:
    side = whole.get("force_image_size") or vision.get("image_size") or 448
    side = side[0] if isinstance(side, list) and side else side
    patch = vision.get("patch_size") or 14
    patch = patch[0] if isinstance(patch, list) and patch else patch
    ratio = whole.get("downsample_ratio", 0.5)
    if not (isinstance(side, int) and isinstance(patch, int) and isinstance(ratio, int | float) and 0 < patch <= side):
        raise ModelError("config.json: the size of the vision encoder's tiles or patches makes no sense")
    least = processor.get("min_patches") or whole.get("min_dynamic_patch") or 1
    most = processor.get("max_patches") or whole.get("max_dynamic_patch") or 12
    if not (isinstance(least, int) and isinstance(most, int) and 0 < least <= most <= 64):
        raise ModelError(f"config.json: from {least!r} to {most!r} tiles is no range")
    thumbnail = whole.get("use_thumbnail", True)
    return Tiles(side, round((side // patch) ** 2 * ratio * ratio), least, most, thumbnail=bool(thumbnail))


def _object(source: bytes, file: str) -> dict[str, Any]:
    try:
        value = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{file} is no JSON object")
    return value


def _positive(part: dict[str, Any], name: str, default: int | None = None) -> int:
    value = part.get(name, default)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 40:
        raise ModelError(f"config.json: {name!r} must be a positive integer, not {value!r}")
    return value
