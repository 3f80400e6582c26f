"""A plan in words and as JSON, with what to watch out for."""

import json
from typing import Any

import attrs

from inference.capacity import DEFAULT_VISION_CACHE_MB
from inference.latency_curve import A100_SOURCE
from inference.plan import GOAL_MS, Plan
from inference.topology import Link

REDUCED_SIDE = 1280  # long side of 720p


def warnings_of(plan: Plan) -> list[str]:
    """What to watch out for, most pressing first."""
    request, capacity = plan.request, plan.capacity
    found: list[str] = []
    have = len(request.topology.gpus)
    if not plan.is_enough:
        found.append(f"{plan.gpus_needed} GPUs are needed and {have} are there: fewer phones, or more GPUs")
    if plan.step_ms > GOAL_MS:
        found.append(
            f"{request.output_tokens} output tokens take {plan.step_ms:.0f} ms: a step below {GOAL_MS:.0f} ms has at "
            "most "
            f"{plan.tokens_within_goal} tokens. Shorten the reply first; all else gains less"
        )
    if capacity.episodes < plan.knee:
        found.append(
            f"memory holds the context of {capacity.episodes} episodes, fewer than the {plan.knee} requests at the "
            "knee: "
            "beyond that the engine preempts, which is seen as latency spikes; admission stays below it"
        )
    if request.curve.source == A100_SOURCE:
        found.append(
            f"latencies are {A100_SOURCE}: run corral bench engine on this {request.gpu_name} and plan again with "
            "--measured"
        )
    elif not request.curve.reaches(plan.knee + 1):
        found.append(f"the measurement ends at concurrency {plan.knee}, before the knee: measure further")
    found += _memory_warnings(plan)
    found += _hardware_warnings(plan)
    found += _host_warnings(plan)
    return found


def _memory_warnings(plan: Plan) -> list[str]:
    request, capacity = plan.request, plan.capacity
    found = []
    if capacity.frame_bytes and capacity.vision_cache_mb > DEFAULT_VISION_CACHE_MB:
        holds = DEFAULT_VISION_CACHE_MB * (1 << 20) // capacity.frame_bytes
        found.append(
            f"the engine's default vision cache of {DEFAULT_VISION_CACHE_MB} MB holds {holds} frames; set "
            f"SGLANG_VLM_CACHE_SIZE_MB={capacity.vision_cache_mb} (two frames for each of {capacity.episodes} "
            "episodes, "
            "taken off the KV cache here)"
        )
    if request.kv_dtype == "fp8":
        found.append(
            "FP8 KV doubles what fits, at a small loss that Qwen models feel: compare by corral bench engine --ab"
        )
    else:
        found.append(f"KV in {request.kv_dtype} takes twice the memory of FP8, the default on consumer cards")
    if max(request.frame) > REDUCED_SIDE and request.shape.vision is not None:
        shrink = REDUCED_SIDE / max(request.frame)
        small = round(request.frame[0] * shrink), round(request.frame[1] * shrink)
        fewer = 1 - request.shape.vision.tokens(*small) / max(1, capacity.frame_tokens)
        if fewer > 0:
            found.append(
                f"frames of {request.frame[0]}x{request.frame[1]} are {capacity.frame_tokens} tokens: at "
                f"{small[0]}x{small[1]} they are {fewer:.0%} fewer, and a button of 80 px is still 3x3 of them"
            )
    return found


def _hardware_warnings(plan: Plan) -> list[str]:
    request = plan.request
    found = []
    nvlink = request.topology.has_nvlink or bool(
        request.gpu is not None and request.gpu.nvlink and not request.topology.links
    )
    if len(request.topology.gpus) > 1 and not nvlink:
        pairs = ", ".join(f"{a}+{b}" for a, b in request.topology.pairs(Link.PIX))
        only = f" (pairs on one switch: {pairs})" if pairs else ""
        found.append(
            "no NVLink: one full replica a card, no tensor parallel; two cards only to extend a context, and only on "
            f"one PCIe switch{only}"
        )
    found.append(
        "no prefill/decode separation: it buys control of latency targets, not throughput, and "
        + ("is not needed with one model a card" if nvlink else "without NVLink it makes the first token later")
    )
    if request.gpu is None:
        found.append(f"{request.gpu_name} is not in the table of GPUs: its memory is what nvidia-smi says")
    elif request.gpu.compute_capability == "12.0":
        found.append(
            "sm120: kernels tuned for Hopper may be missing; the launcher proves an image and a grammar at start"
        )
    found.append(
        "a prompt of 100,000 tokens stalls all others unless prefill is chunked: the launcher sets it and checks it, "
        "and "
        "tenants are metered in tokens, not in requests"
    )
    return found


def _host_warnings(plan: Plan) -> list[str]:
    request, host = plan.request, plan.host
    found = []
    if request.cores is not None and request.cores < host.cores:
        found.append(
            f"about {host.cores:g} CPU cores are needed and {request.cores} are there: decoding and resizing frames "
            "would "
            "leave the GPUs idle; reduce frames on the device"
        )
    if request.ram_gib is not None and request.ram_gib < host.ram_gib:
        found.append(f"about {host.ram_gib:g} GiB of RAM are needed and {request.ram_gib:g} are there")
    return found


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values."""
    request, capacity = plan.request, plan.capacity
    return {
        "model": request.shape.name,
        "parameters": request.shape.parameters,
        "weight_gib": round(request.shape.weight_bytes / (1 << 30), 2),
        "gpu": request.gpu_name,
        "gpus": len(request.topology.gpus),
        "engines": [attrs.asdict(replica) for replica in plan.placement.replicas],
        "idle_gpus": list(plan.placement.idle),
        "kv_dtype": request.kv_dtype,
        "kv_bytes_per_token": capacity.kv_bytes_per_token,
        "kv_tokens": capacity.kv_tokens,
        "context_tokens": capacity.context_tokens,
        "episodes_in_memory": capacity.episodes,
        "knee": plan.knee,
        "episodes_per_engine": plan.episodes_per_engine,
        "vision_tokens_per_frame": capacity.frame_tokens,
        "vision_cache_mb": capacity.vision_cache_mb,
        "phones": request.phones,
        "output_tokens": request.output_tokens,
        "step_ms": round(plan.step_ms, 2),
        "step_ms_by_output_tokens": {str(tokens): round(ms, 2) for tokens, ms in plan.table},
        "tokens_within_500_ms": plan.tokens_within_goal,
        "gpus_for_bots": plan.gpus_for_bots,
        "gpus_for_assistant": plan.gpus_for_assistant,
        "is_enough": plan.is_enough,
        "host_cores": plan.host.cores,
        "host_ram_gib": plan.host.ram_gib,
        "latency_source": request.curve.source,
        "warnings": list(warnings_of(plan)),
        "notes": list(plan.placement.notes),
    }


def plan_lines(plan: Plan) -> list[str]:
    """The plan for people."""
    request, capacity, replicas = plan.request, plan.capacity, plan.placement.replicas
    gpus = len(request.topology.gpus)
    weights = request.shape.weight_bytes / (1 << 30)
    lines = [
        f"model            {request.shape.name}: {request.shape.parameters / 1e9:.2f} B parameters, {weights:.1f} GiB, "
        f"{request.shape.dtype}",
        f"GPUs             {gpus} x {request.gpu_name}, {request.memory_mib} MiB each",
        f"engines          {len(replicas)}: "
        + ", ".join(_replica(replica.gpus, replica.port, replica.numa_node) for replica in replicas),
        f"KV cache         {capacity.kv_tokens:,} tokens an engine ({capacity.kv_bytes_per_token:,} bytes each, "
        f"{request.kv_dtype})",
        f"frame            {request.frame[0]}x{request.frame[1]}: {capacity.frame_tokens} vision tokens",
        f"episode          {capacity.context_tokens} tokens of context; {capacity.episodes} in memory, knee at "
        f"{plan.knee}: "
        f"{plan.episodes_per_engine} an engine",
        f"vision cache     {capacity.vision_cache_mb} MB an engine",
        f"step             {plan.step_ms:.0f} ms with {request.output_tokens} output tokens ({request.curve.source})",
        "                 tokens  " + "  ".join(f"{tokens:>5}" for tokens, _ in plan.table),
        "                 ms      " + "  ".join(f"{ms:>5.0f}" for _, ms in plan.table),
        f"                 below {GOAL_MS:.0f} ms: at most {plan.tokens_within_goal} tokens",
        f"needed           {plan.gpus_for_bots} GPUs for {request.phones} phones, {plan.gpus_for_assistant} for the "
        "assistant "
        f"({request.questions_per_minute:g} questions a minute); {gpus} are there",
        f"host             about {plan.host.cores:g} CPU cores and {plan.host.ram_gib:g} GiB of RAM (estimates)",
    ]
    lines += [f"note: {note}" for note in plan.placement.notes]
    return lines


def _replica(gpus: tuple[int, ...], port: int, node: int | None) -> str:
    cards = "+".join(str(index) for index in gpus)
    return f"GPU {cards} :{port}" + ("" if node is None else f" node {node}")


def engines_toml(plan: Plan, model_path: str, model: str) -> str:
    """`[[engines]]` of a scenario: one for each replica, as it was planned.

    Args:
        plan: whose engines these are.
        model_path: weights.
        model: name that requests give.
    """
    blackwell = plan.request.gpu is not None and plan.request.gpu.compute_capability == "12.0"
    profile = "sglang-5090" if blackwell and plan.request.kv_dtype == "fp8" else "sglang"
    return "\n".join(
        _engine_toml(plan, number, profile, model_path, model) for number in range(len(plan.placement.replicas))
    )


def _engine_toml(plan: Plan, number: int, profile: str, model_path: str, model: str) -> str:
    replica = plan.placement.replicas[number]
    launch = ['kind = "sglang"', f"profile = {json.dumps(profile)}", f"model_path = {json.dumps(model_path)}"]
    if plan.capacity.vision_cache_mb:
        launch.append(f"vision_cache_mb = {plan.capacity.vision_cache_mb}")
    if replica.numa_node is not None:
        launch.append(f"numa_node = {replica.numa_node}")
    if len(replica.gpus) == 2:
        launch.append(f"pair_gpu = {replica.gpus[1]}")
    if plan.request.context_tokens is not None:
        launch.append(f"context_length = {plan.request.context_tokens}")
    return "\n".join(
        [
            "[[engines]]",
            f'id = "sglang-{number}"',
            f"model = {json.dumps(model)}",
            f'url = "http://127.0.0.1:{replica.port}"',
            f"gpu = {replica.gpus[0]}",
            f"max_in_flight = {plan.episodes_per_engine}",
            f"launch = {{ {', '.join(launch)} }}",
            "",
        ]
    )
