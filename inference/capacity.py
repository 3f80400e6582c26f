"""How many episodes one engine can hold: GPU memory less weights, activations and the vision cache is KV cache."""

import math

import attrs

from inference.model_shape import ModelShape

KV_BYTES = {"fp8": 1.0, "bf16": 2.0, "fp16": 2.0}
MEMORY_FRACTION = 0.85
# Weights, KV and vision cache together, of all memory; the rest is for activations, CUDA graphs and the CUDA context.
# SGLang's own formula gives 0.83 to 0.88 on cards of 24 to 96 GB; launch profiles pass this very value to the engine.
TEXT_TOKENS = 600  # system prompt 190, eight lines of history at 20 to 30, goal and notes: counted on bundled profiles
FRAMES_PER_EPISODE = 2  # the `sliding` layout sends the previous and the current one
DEFAULT_VISION_CACHE_MB = 100  # SGLang 0.5.23's own
ENGINE_CORES = 4.0  # tokenizer, scheduler and detokenizer are a process each, and one core decodes and resizes frames
ENGINE_RAM_GIB = 8.0  # 3 GiB resident in three processes, measured on a CPU build; the rest is pinned buffers
PHONE_CORES = 0.08  # capture, decoding, perception and encoding of one phone at five frames a second
PHONE_RAM_GIB = 0.05
ASSISTANT_TOKENS = 4096 + 400  # schema slice, examples and the question; and the SQL


@attrs.frozen
class EngineCapacity:
    """What fits on one engine."""

    memory_bytes: int
    weight_bytes: int
    kv_bytes_per_token: int
    kv_tokens: int
    """All KV tokens there is room for, beside the vision cache."""
    context_tokens: int
    """Of one episode: text, frames and output."""
    episodes: int
    """Whose whole context is in memory at once; 0: not even one."""
    vision_cache_mb: int
    """For `SGLANG_VLM_CACHE_SIZE_MB`: two frames of each episode; 0 for a model without eyes."""
    frame_tokens: int
    frame_bytes: int
    """Of one frame's embeddings."""

    @property
    def weights_fit(self) -> bool:
        """Weights and the KV cache of one episode fit."""
        return self.episodes > 0


@attrs.frozen
class HostBudget:
    """What the host needs beside its GPUs. Estimates: each site measures its own."""

    cores: float
    ram_gib: float


def capacity_for(
    shape: ModelShape,
    *,
    memory_mib: int,
    frame: tuple[int, int],
    output_tokens: int,
    kv_dtype: str = "fp8",
    most_episodes: int | None = None,
    cards: int = 1,
    context_tokens: int | None = None,
) -> EngineCapacity:
    """Divide an engine's memory.

    Args:
        shape: of the model.
        memory_mib: of one GPU, as nvidia-smi reports it.
        frame: (width, height) in pixels, as frames are sent.
        output_tokens: of one answer.
        kv_dtype: key of `KV_BYTES`.
        most_episodes: no more are homed there, so that the vision cache need not hold more.
        cards: that share weights and KV cache.
        context_tokens: of one episode; None: what the default layout needs.
    """
    memory = memory_mib * (1 << 20) * cards
    free = math.floor(memory * MEMORY_FRACTION) - shape.weight_bytes
    per_token = shape.kv_bytes_per_token(KV_BYTES[kv_dtype])
    frame_tokens = 0 if shape.vision is None else shape.vision.tokens(*frame)
    frame_bytes = shape.embedding_bytes(frame_tokens)
    context = context_tokens or TEXT_TOKENS + FRAMES_PER_EPISODE * frame_tokens + output_tokens
    episode_bytes = context * per_token + FRAMES_PER_EPISODE * frame_bytes
    episodes = max(0, free // episode_bytes) if context <= shape.context_length else 0
    if most_episodes is not None:
        episodes = min(episodes, most_episodes)
    cache_mb = math.ceil(episodes * FRAMES_PER_EPISODE * frame_bytes / (1 << 20))
    kv_tokens = max(0, free - cache_mb * (1 << 20)) // per_token
    return EngineCapacity(
        memory_bytes=memory,
        weight_bytes=shape.weight_bytes,
        kv_bytes_per_token=per_token,
        kv_tokens=kv_tokens,
        context_tokens=context,
        episodes=episodes,
        vision_cache_mb=cache_mb,
        frame_tokens=frame_tokens,
        frame_bytes=frame_bytes,
    )


def host_budget(engines: int, phones: int, weight_bytes: int) -> HostBudget:
    """CPU cores and memory for engines, phones and this process; weights are read once through the page cache."""
    cores = engines * ENGINE_CORES + phones * PHONE_CORES + 2.0
    ram = engines * ENGINE_RAM_GIB + phones * PHONE_RAM_GIB + weight_bytes / (1 << 30) + 4.0
    return HostBudget(round(cores, 1), round(ram, 1))
