"""What a host carries: engines, KV cache, episodes and latency."""

import math

import attrs

from inference.capacity import (
    ASSISTANT_TOKENS,
    EngineCapacity,
    HostBudget,
    capacity_for,
    host_budget,
)
from inference.gpus import GpuKind
from inference.latency_curve import A100_CURVE, LatencyCurve
from inference.model_shape import ModelShape
from inference.placement import Placement, PlacementRefusal, place_replicas
from inference.topology import Topology

GOAL_MS = 500.0  # a step slower than that is seen as lag
TABLE_TOKENS = (8, 16, 32, 64, 128, 256)
TABLE_CONCURRENCY = 50  # of the published constants
ASSISTANT_OUTPUT_TOKENS = 400  # a query of 150, its repair now and then, and the summary


class PlanRefused(Exception):
    """There is no such plan. The message says why, and what to change."""


@attrs.frozen
class PlanRequest:
    """What is planned for."""

    shape: ModelShape
    topology: Topology
    memory_mib: int
    """Of the smallest GPU."""
    phones: int
    output_tokens: int
    frame: tuple[int, int]
    """(width, height) as frames are sent."""
    gpu: GpuKind | None = None
    """None: a GPU that the table does not have."""
    gpu_name: str = "unknown GPU"
    kv_dtype: str = "fp8"
    curve: LatencyCurve = A100_CURVE
    questions_per_minute: float = 60.0
    """Of the assistant; 0: there is none."""
    cards_per_engine: int = 1
    context_tokens: int | None = None
    cores: int | None = None
    """Of the host; None: not known."""
    ram_gib: float | None = None


@attrs.frozen
class Plan:
    """The answer."""

    request: PlanRequest
    placement: Placement
    capacity: EngineCapacity
    knee: int
    """Requests in flight at one engine beyond which each token takes more than 1.25 times as long."""
    episodes_per_engine: int
    """The lesser of what memory holds and the knee."""
    step_ms: float
    """With the output tokens asked for, at the knee: the engine as busy as it may get."""
    concurrency: int
    """Requests at one engine at a time when all phones ask at once."""
    table: tuple[tuple[int, float], ...]
    """(output tokens, step in ms) at the knee."""
    tokens_within_goal: int
    gpus_for_bots: int
    gpus_for_assistant: int
    host: HostBudget

    @property
    def gpus_needed(self) -> int:
        """GPUs for both."""
        return self.gpus_for_bots + self.gpus_for_assistant

    @property
    def is_enough(self) -> bool:
        """The host has as many GPUs as are needed."""
        return self.gpus_needed <= len(self.request.topology.gpus)


def plan_for(request: PlanRequest) -> Plan:
    """Plan a host.

    Raises:
        PlanRefused: the model does not fit, or the placement that was asked for is refused.
    """
    knee = request.curve.knee()
    cards, capacity = request.cards_per_engine, _capacity(request, 1, knee)
    fits_one = capacity.weights_fit
    if not fits_one and cards == 1:
        cards = 2
    if cards > 1:
        capacity = _capacity(request, cards, knee)
    placement = place_replicas(
        request.topology, fits_one_card=fits_one, cards_per_engine=cards, extends_context=not fits_one
    )
    if isinstance(placement, PlacementRefusal):
        raise PlanRefused(placement.reason if fits_one else f"{_does_not_fit(request)}: {placement.reason}")
    if not capacity.weights_fit:
        raise PlanRefused(_does_not_fit(request) + ": quantise its weights, or take a smaller model or larger cards")
    per_engine = min(capacity.episodes, knee)
    for_bots = math.ceil(request.phones / per_engine) * cards
    for_assistant = _assistant_gpus(request, cards, knee)
    engines = max(1, min(len(placement.replicas) - math.ceil(for_assistant / cards), for_bots // cards) or 1)
    concurrency = max(1, min(per_engine, math.ceil(request.phones / engines)))
    return Plan(
        request=request,
        placement=placement,
        capacity=capacity,
        knee=knee,
        episodes_per_engine=per_engine,
        step_ms=request.curve.step_ms(request.output_tokens, knee),
        concurrency=concurrency,
        table=tuple((tokens, request.curve.step_ms(tokens, knee)) for tokens in TABLE_TOKENS),
        tokens_within_goal=request.curve.tokens_within(GOAL_MS, knee),
        gpus_for_bots=for_bots,
        gpus_for_assistant=for_assistant,
        host=host_budget(len(placement.replicas), request.phones, request.shape.weight_bytes),
    )


def _capacity(request: PlanRequest, cards: int, knee: int) -> EngineCapacity:
    return capacity_for(
        request.shape,
        memory_mib=request.memory_mib,
        frame=request.frame,
        output_tokens=request.output_tokens,
        kv_dtype=request.kv_dtype,
        most_episodes=knee,
        cards=cards,
        context_tokens=request.context_tokens,
    )


def _does_not_fit(request: PlanRequest) -> str:
    shape = request.shape
    if request.context_tokens is not None and request.context_tokens > shape.context_length:
        return f"a context of {request.context_tokens} tokens is more than the {shape.context_length} of {shape.name}"
    what = f"{shape.name} with {shape.weight_bytes / (1 << 30):.1f} GiB of weights and the context of one episode"
    return f"{what} do not fit one {request.gpu_name}"


def _assistant_gpus(request: PlanRequest, cards: int, knee: int) -> int:
    if request.questions_per_minute <= 0:
        return 0
    text = attrs.evolve(request.shape, vision=None, embedding_width=0)
    capacity = capacity_for(
        text,
        memory_mib=request.memory_mib,
        frame=request.frame,
        output_tokens=ASSISTANT_OUTPUT_TOKENS,
        kv_dtype=request.kv_dtype,
        cards=cards,
        context_tokens=min(ASSISTANT_TOKENS, request.shape.context_length),
    )
    at_once = max(1, min(capacity.episodes, knee))
    per_minute = 60.0 * request.curve.requests_per_second(ASSISTANT_OUTPUT_TOKENS, at_once)
    return max(1, math.ceil(request.questions_per_minute / per_minute)) * cards
