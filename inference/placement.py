"""Which engine runs on which GPU: one full replica a card, and why not otherwise."""

import attrs

from inference.topology import GpuPlace, Link, Topology

FIRST_PORT = 30000  # SGLang's own; below the ephemeral range, which starts at 32768
WHY_NO_TENSOR_PARALLEL = (
    "tensor parallel without NVLink is refused: every layer's all-reduce would cross PCIe, which at least doubles the "
    "time per token in decode; two 5090 measured 11 % less throughput and 3.8 times the latency of one card. The model "
    "fits one card: run one replica a card"
)
WHY_NOT_MORE_THAN_TWO = (
    "tensor parallel over more than two cards without NVLink is refused: custom all-reduce is off then, and NCCL over "
    "PCIe is slower than a smaller context or a quantised model"
)
WHY_NO_DISAGGREGATION = (
    "prefill/decode separation is refused: it buys control of latency targets, not throughput, and needs a fast way "
    "for the KV cache; without NVLink that goes over PCIe and makes the time to the first token worse"
)
WHY_NO_INT4_KV = (
    "an INT4 or FP4 KV cache is refused: Qwen models are sensitive to KV quantisation, and a coordinate that is off by "
    "a little taps the wrong thing; use FP8, and compare it by corral bench engine --ab"
)
WHY_NO_DP_ENCODER = (
    "--mm-enable-dp-encoder is refused: it spreads the vision encoder over the cards of a tensor parallel engine, "
    "which only a PIX pair is here; an engine on one card has nothing to spread it over"
)


@attrs.frozen
class Replica:
    """One engine's place."""

    gpus: tuple[int, ...]
    """One index, or the two of a pair."""
    port: int
    numa_node: int | None
    cpus: str | None


@attrs.frozen
class Placement:
    """All engines of a host."""

    replicas: tuple[Replica, ...]
    idle: tuple[int, ...] = ()
    """GPUs that carry none."""
    notes: tuple[str, ...] = ()


@attrs.frozen
class PlacementRefusal:
    """It is not done, and why."""

    reason: str


def place_replicas(
    topology: Topology,
    *,
    fits_one_card: bool,
    cards_per_engine: int = 1,
    extends_context: bool = False,
    first_port: int = FIRST_PORT,
) -> Placement | PlacementRefusal:
    """Put engines on GPUs.

    Args:
        topology: of the host.
        fits_one_card: weights and at least one episode's KV cache do.
        cards_per_engine: 1, or tensor parallel.
        extends_context: the second card is for a context that one card cannot hold.
        first_port: of the first engine; the others count on.
    """
    if cards_per_engine < 1 or cards_per_engine > len(topology.gpus):
        return PlacementRefusal(f"an engine on {cards_per_engine} cards cannot be placed on {len(topology.gpus)}")
    if cards_per_engine == 1:
        if not fits_one_card:
            return PlacementRefusal(
                "the model does not fit one card: quantise its weights, take a smaller one, or use a PIX pair"
            )
        return Placement(_numbered([(place,) for place in topology.gpus], first_port))
    if cards_per_engine > 2:
        return _place_islands(topology, cards_per_engine, first_port)
    pairs = topology.pairs(Link.NVLINK)
    notes: tuple[str, ...] = ()
    if not pairs:
        if fits_one_card and not extends_context:
            return PlacementRefusal(WHY_NO_TENSOR_PARALLEL)
        pairs = topology.pairs(Link.PIX)
        if not pairs:
            return PlacementRefusal(
                "no two cards are on one PCIe switch (PIX): a pair over the CPU would be slower still"
            )
        notes = ("pairs are for a longer context, not for speed: expect less throughput than of one replica a card",)
    return _placed(topology, pairs, first_port, notes)


def _place_islands(topology: Topology, size: int, first_port: int) -> Placement | PlacementRefusal:
    """Tensor parallel over more than two: only where each card has NVLink to each."""
    indexes = [place.index for place in topology.gpus]
    groups = [tuple(indexes[at : at + size]) for at in range(0, len(indexes) - size + 1, size)]
    whole = [
        group
        for group in groups
        if all(topology.link(one, other) is Link.NVLINK for one in group for other in group if one != other)
    ]
    if not whole:
        return PlacementRefusal(WHY_NOT_MORE_THAN_TWO)
    return _placed(topology, whole, first_port, ())


def _placed(
    topology: Topology, groups: "list[tuple[int, ...]] | tuple[tuple[int, int], ...]", port: int, notes: tuple[str, ...]
) -> Placement:
    by_index = {place.index: place for place in topology.gpus}
    replicas = _numbered([tuple(by_index[index] for index in group) for group in groups], port)
    used = {index for group in groups for index in group}
    return Placement(replicas, tuple(index for index in by_index if index not in used), notes)


def _numbered(groups: list[tuple[GpuPlace, ...]], first_port: int) -> tuple[Replica, ...]:
    return tuple(
        Replica(tuple(place.index for place in group), first_port + number, group[0].numa_node, group[0].cpus)
        for number, group in enumerate(groups)
    )
