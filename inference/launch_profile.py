"""Engine launch profiles as data: which flags and variables an engine is started with, why, and what is given up first.

Names of flags are SGLang 0.5.23's and vLLM 0.32's. A flag that the installed engine does not have is dropped with a
warning (`inference.command`), so an older or newer engine starts as well.
"""

from enum import StrEnum

import attrs

from inference.capacity import MEMORY_FRACTION
from inference.config import Dialect, LaunchKind


class KeyWay(StrEnum):
    """How an engine is told its key, so that neither a command line nor a log shows it."""

    CONFIG_FILE = "config_file"
    """`--config FILE`: YAML that only our user can read."""
    ENVIRONMENT = "environment"
    """A variable, named by `LaunchProfile.key_variable`."""


@attrs.frozen
class Flag:
    """One flag. In its value `{model}`, `{max_in_flight}` and the like are filled in."""

    name: str
    why: str
    value: str | None = None
    needed: bool = False
    """An engine without it cannot be started this way at all."""


@attrs.frozen
class Rung:
    """What is given up when the engine does not start, or does not answer an image with a grammar."""

    gives_up: str
    flags: tuple[Flag, ...] = ()
    """Instead of those of the same name, or added."""
    environment: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen
class LaunchProfile:
    """One way of starting an engine."""

    name: str
    kind: LaunchKind
    dialect: Dialect
    summary: str
    command: tuple[str, ...]
    help_arguments: tuple[str, ...]
    key_way: KeyWay
    flags: tuple[Flag, ...]
    key_variable: str = ""
    environment: dict[str, str] = attrs.field(factory=dict)
    ladder: tuple[Rung, ...] = ()


_SGLANG_PLACE = (
    Flag("--model-path", "the weights", "{model_path}", needed=True),
    Flag("--served-model-name", "the name that requests give", "{model}", needed=True),
    Flag("--host", "a managed engine is nobody else's business", "127.0.0.1", needed=True),
    Flag("--port", "chosen by us", "{port}", needed=True),
    Flag("--max-running-requests", "admission never sends more", "{max_in_flight}"),
)
_SGLANG_SERVING = (
    Flag("--chunked-prefill-size", "a long prompt must not stall the others' tokens", "2048"),
    Flag("--schedule-policy", "admission orders requests; priorities need fcfs", "fcfs"),
    Flag("--enable-priority-scheduling", "a plan that is due soon goes first"),
    Flag("--default-priority-value", "without it the priority label of metrics is no number", "0"),
    Flag("--enable-session-radix-cache", "episodes must not evict each other's prefixes"),
    Flag("--enable-streaming-session", "`/open_session` and `/close_session` of an episode"),
    Flag("--enable-metrics", "KV usage, retractions and queue times"),
    Flag("--enable-cache-report", "cached tokens in each answer"),
    Flag("--grammar-backend", "the one that our grammars are tested with", "xgrammar"),
    Flag("--constrained-json-disable-any-whitespace", "a model may print blanks for ever otherwise"),
    Flag("--sleep-on-idle", "an idle scheduler takes a whole core otherwise"),
)
_GPU_MEMORY = Flag("--mem-fraction-static", "what `corral plan` counts with", f"{MEMORY_FRACTION:g}")
_FRAME_SHAPES = Flag(
    "--mm-process-config",
    "few fixed frame shapes, so that the vision encoder's CUDA graphs are reused; 720p is 0.92 million pixels",
    '{"image":{"size":{"shortest_edge":65536,"longest_edge":1048576}}}',
)
_VIT_GRAPH = {"SGLANG_VIT_ENABLE_CUDA_GRAPH": "1"}  # encoder p99 172 → 26 ms with fixed shapes
_NO_VIT_GRAPH = Rung("the vision encoder's CUDA graph", environment={"SGLANG_VIT_ENABLE_CUDA_GRAPH": "0"})
_TRITON = Rung(
    "FlashInfer's attention, for Triton's",
    (
        Flag("--attention-backend", "Triton compiles for the card that is there", "triton"),
        Flag("--mm-attention-backend", "the same for the vision encoder", "triton_attn"),
    ),
)
_OWN_KV = Rung(
    "the FP8 KV cache, and with it half of the episodes",
    (Flag("--kv-cache-dtype", "the type of the weights", "auto"),),
)
_NO_GRAPHS = Rung(
    "all CUDA graphs",
    (
        Flag("--cuda-graph-backend-decode", "no graphs", "disabled"),
        Flag("--cuda-graph-backend-prefill", "no graphs", "disabled"),
    ),
)
_SGLANG = LaunchProfile(
    name="sglang",
    kind=LaunchKind.SGLANG,
    dialect=Dialect.SGLANG,
    summary="SGLang on any NVIDIA GPU, KV cache in the model's own type",
    command=("python3", "-m", "sglang.launch_server"),
    help_arguments=("--help",),
    key_way=KeyWay.CONFIG_FILE,
    flags=(*_SGLANG_PLACE, _GPU_MEMORY, *_SGLANG_SERVING, _FRAME_SHAPES),
    environment=_VIT_GRAPH,
    ladder=(_NO_VIT_GRAPH, _TRITON, _NO_GRAPHS),
)
_VLLM = LaunchProfile(
    name="vllm",
    kind=LaunchKind.VLLM,
    dialect=Dialect.VLLM,
    summary="vLLM on any GPU",
    command=("vllm", "serve", "{model_path}"),
    help_arguments=("--help=all",),
    key_way=KeyWay.ENVIRONMENT,
    key_variable="VLLM_API_KEY",
    flags=(
        Flag("--served-model-name", "the name that requests give", "{model}", needed=True),
        Flag("--host", "a managed engine is nobody else's business", "127.0.0.1", needed=True),
        Flag("--port", "chosen by us", "{port}", needed=True),
        Flag("--max-num-seqs", "admission never sends more", "{max_in_flight}"),
        Flag("--gpu-memory-utilization", "what `corral plan` counts with", f"{MEMORY_FRACTION:g}"),
        Flag("--enable-prefix-caching", "an episode's steps share a prefix"),
        Flag("--enable-chunked-prefill", "a long prompt must not stall the others' tokens"),
        Flag("--enable-prompt-tokens-details", "cached tokens in each answer"),
        Flag("--limit-mm-per-prompt", "frames, and no memory for videos", '{"image":8,"video":0}'),
        Flag(
            "--structured-outputs-config",
            "the backend that our grammars are tested with",
            '{"backend":"xgrammar","disable_any_whitespace":true}',
        ),
    ),
    ladder=(Rung("all CUDA graphs", (Flag("--enforce-eager", "no graphs"),)),),
)
LAUNCH_PROFILES = {
    profile.name: profile
    for profile in (
        _SGLANG,
        attrs.evolve(
            _SGLANG,
            name="sglang-5090",
            summary="SGLang on RTX 5090 (sm120, 32 GB, no NVLink): FP8 KV, FlashInfer, session radix cache",
            flags=(
                *_SGLANG.flags,
                Flag("--kv-cache-dtype", "doubles the episodes that fit 32 GB", "fp8_e4m3"),
                Flag("--attention-backend", "the fastest on sm120 that takes an FP8 KV cache", "flashinfer"),
            ),
            ladder=(_NO_VIT_GRAPH, _TRITON, _OWN_KV, _NO_GRAPHS),
        ),
        attrs.evolve(
            _SGLANG,
            name="sglang-cpu",
            summary="SGLang without a GPU: slow, for tests with small models",
            flags=(
                *_SGLANG_PLACE,
                *_SGLANG_SERVING,
                Flag("--device", "there is no GPU", "cpu", needed=True),
                Flag("--attention-backend", "plain PyTorch", "torch_native"),
                Flag("--mm-attention-backend", "plain PyTorch", "sdpa"),
                Flag("--sampling-backend", "plain PyTorch", "pytorch"),
                Flag("--disable-cuda-graph", "there is no CUDA"),
            ),
            environment={"SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1"},
            ladder=(),
        ),
        _VLLM,
        attrs.evolve(
            _VLLM,
            name="vllm-5090",
            summary="vLLM on RTX 5090: FP8 KV",
            flags=(*_VLLM.flags, Flag("--kv-cache-dtype", "doubles the episodes that fit 32 GB", "fp8")),
            ladder=(Rung("the FP8 KV cache", (Flag("--kv-cache-dtype", "", "auto"),)), *_VLLM.ladder),
        ),
    )
}
