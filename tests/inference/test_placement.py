import pytest

from inference.placement import Placement, PlacementRefusal, place_replicas
from inference.topology import Topology, alone, parse_topology
from tests.kit.recorded import recorded

DESIGN = parse_topology(recorded("topo-8x5090.txt"))
NVLINK = parse_topology(recorded("topo-4xA100-nvlink.txt"))


def placed(topology: Topology, **wants: bool | int) -> Placement:
    wants.setdefault("fits_one_card", True)
    found = place_replicas(topology, **wants)  # type: ignore[arg-type]
    assert isinstance(found, Placement)
    return found


def refused(topology: Topology, **wants: bool | int) -> str:
    wants.setdefault("fits_one_card", True)
    found = place_replicas(topology, **wants)  # type: ignore[arg-type]
    assert isinstance(found, PlacementRefusal)
    return found.reason


def test_one_replica_a_card_near_its_memory() -> None:
    found = placed(DESIGN)

    assert [replica.gpus for replica in found.replicas] == [(n,) for n in range(8)]
    assert [replica.port for replica in found.replicas] == list(range(30000, 30008))
    assert [replica.numa_node for replica in found.replicas] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert found.replicas[5].cpus == "32-63,96-127"
    assert found.idle == ()


def test_tensor_parallel_without_nvlink_is_refused_and_says_why() -> None:
    why = refused(DESIGN, cards_per_engine=2)

    assert "3.8 times the latency" in why
    assert "one replica a card" in why
    assert "NCCL over PCIe" in refused(DESIGN, cards_per_engine=4)


def test_pairs_are_on_one_switch_and_extend_a_context() -> None:
    found = placed(DESIGN, cards_per_engine=2, extends_context=True)

    assert [replica.gpus for replica in found.replicas] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert "not for speed" in found.notes[0]


@pytest.mark.parametrize("fits", [True, False])
def test_cards_without_a_common_switch_are_no_pair(fits: bool) -> None:
    assert "one PCIe switch (PIX)" in refused(alone(2), cards_per_engine=2, extends_context=True, fits_one_card=fits)


def test_nvlink_may_be_parallel() -> None:
    assert [r.gpus for r in placed(NVLINK, cards_per_engine=2).replicas] == [(0, 1), (2, 3)]
    assert [r.gpus for r in placed(NVLINK, cards_per_engine=4).replicas] == [(0, 1, 2, 3)]
    three = placed(NVLINK, cards_per_engine=3)
    assert ([r.gpus for r in three.replicas], three.idle) == ([(0, 1, 2)], (3,))


def test_a_model_that_fits_no_card() -> None:
    assert "does not fit one card" in refused(DESIGN, fits_one_card=False)
    assert "cannot be placed" in refused(DESIGN, cards_per_engine=9)
