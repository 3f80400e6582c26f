"""Makes a tiny Qwen3-VL with random weights, its tokenizer and its processor: FOLDER/tiny-qwen3-vl, about 3 MB.

Free text of it is nonsense, always the same; constrained output is valid. It shows what an engine does, and nothing of
what a model can.
"""

import json
import sys
import sysconfig
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration

VOCABULARY = 2048
CONTEXT = 8192
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
PLAIN = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
# Qwen's: digits stand alone, which fixed-width coordinates depend on
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{%- if message.content is string %}{{ message.content }}"
    "{%- else %}{%- for part in message.content %}"
    "{%- if part.type in ('image', 'image_url') %}<|vision_start|><|image_pad|><|vision_end|>"
    "{%- elif part.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{%- elif 'text' in part %}{{ part.text }}{%- endif %}{%- endfor %}{%- endif %}<|im_end|>\n"
    "{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer():
    """A byte-level BPE over Python's own library, with Qwen's way of cutting words."""
    made = Tokenizer(models.BPE(byte_fallback=False))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:60]
    made.train_from_iterator(
        (path.read_text(errors="ignore") for path in sources),
        trainers.BpeTrainer(vocab_size=2000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=[one for one in SPECIAL if one not in ("<|endoftext|>", "<|im_end|>")],
    )
    fast.add_tokens(PLAIN)
    assert len(fast) <= VOCABULARY, len(fast)
    fast.chat_template = CHAT_TEMPLATE
    fast.model_max_length = CONTEXT
    return fast


def write_model(folder):
    """Everything that an engine looks for in a model's folder."""
    fast = tokenizer()
    ids = {name: fast.convert_tokens_to_ids(name) for name in SPECIAL}
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [12, 10, 10], "mrope_interleaved": True}
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 64,
            "max_position_embeddings": CONTEXT,
            "tie_word_embeddings": False,
            "rms_norm_eps": 1e-6,
            "rope_theta": 5e6,
            "rope_parameters": rope,
            "rope_scaling": {key: value for key, value in rope.items() if key != "rope_theta"},
            "eos_token_id": ids["<|im_end|>"],
            "bos_token_id": ids["<|endoftext|>"],
            "pad_token_id": ids["<|endoftext|>"],
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 2,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 128,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [0, 1],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    Qwen3VLForConditionalGeneration(config).to(torch.bfloat16).save_pretrained(folder)
    fast.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    image = {
        "size": {"longest_edge": 16777216, "shortest_edge": 65536},
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "processor_class": "Qwen3VLProcessor",
    }
    video = {**image, "size": {"longest_edge": 25165824, "shortest_edge": 4096}}
    _write(folder / "preprocessor_config.json", {**image, "image_processor_type": "Qwen2VLImageProcessorFast"})
    _write(folder / "video_preprocessor_config.json", {**video, "video_processor_type": "Qwen3VLVideoProcessor"})
    _write(
        folder / "generation_config.json",
        {
            "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]],
            "pad_token_id": ids["<|endoftext|>"],
            "do_sample": False,
        },
    )


def _write(path, value):
    path.write_text(json.dumps(value, indent=1))


if __name__ == "__main__":
    write_model(Path(sys.argv[1]) / "tiny-qwen3-vl")
