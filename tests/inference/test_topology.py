import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.topology import GpuPlace, Link, TopologyError, alone, parse_topology
from tests.kit.recorded import recorded

DESIGN = """       GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7
GPU0    X   PIX  NODE NODE SYS  SYS  SYS  SYS
GPU1   PIX   X   NODE NODE SYS  SYS  SYS  SYS
GPU2   NODE NODE  X   PIX  SYS  SYS  SYS  SYS
GPU3   NODE NODE PIX   X   SYS  SYS  SYS  SYS
GPU4   SYS  SYS  SYS  SYS   X   PIX  NODE NODE
GPU5   SYS  SYS  SYS  SYS  PIX   X   NODE NODE
GPU6   SYS  SYS  SYS  SYS  NODE NODE  X   PIX
GPU7   SYS  SYS  SYS  SYS  NODE NODE PIX   X
"""


def test_the_host_of_the_design() -> None:
    found = parse_topology(recorded("topo-8x5090.txt"))

    assert [place.index for place in found.gpus] == list(range(8))
    assert found.gpus[0] == GpuPlace(0, "0-31,64-95", 0)
    assert found.gpus[7] == GpuPlace(7, "32-63,96-127", 1)
    assert (found.link(0, 1), found.link(1, 2), found.link(3, 4)) == (Link.PIX, Link.NODE, Link.SYS)
    assert not found.has_nvlink
    assert found.pairs(Link.PIX) == ((0, 1), (2, 3), (4, 5), (6, 7))


def test_the_matrix_as_the_design_document_prints_it() -> None:
    found = parse_topology(DESIGN)

    assert found.links == parse_topology(recorded("topo-8x5090.txt")).links
    assert found.gpus[3] == GpuPlace(3)


def test_nvlink_beside_network_cards() -> None:
    found = parse_topology(recorded("topo-4xA100-nvlink.txt"))

    assert found.has_nvlink
    assert set(found.links.values()) == {Link.NVLINK}
    assert found.gpus[2] == GpuPlace(2, "32-63", 1)


def test_one_gpu_without_numa() -> None:
    found = parse_topology(recorded("topo-1xL4.txt"))

    assert found.gpus == (GpuPlace(0, "0-7", None),)
    assert found.links == {}


@pytest.mark.parametrize("name", ["smi-failed.txt", "smi-none.txt"])
def test_no_gpu(name: str) -> None:
    with pytest.raises(TopologyError, match="nvidia-smi found no GPU"):
        parse_topology(recorded(name))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("hello", "this is no output of nvidia-smi topo -m; it begins 'hello'"),
        ("     GPU0 GPU1\nGPU0  X   FAR\nGPU1 FAR   X", "connected by 'FAR'"),
        ("     GPU0 GPU1\nGPU0  X   PIX", "not whole: GPU1"),
        ("     GPU0 GPU1\nGPU0  X   PIX\nGPU1 SYS   X", "the other way round is not"),
        ("     GPU0 GPU1\nGPU0  X\nGPU1 PIX X", "row GPU0 has 1 cells for 2 columns"),
        ("     GPU0\nGPU0  X\nGPU0 X", "two rows"),
        ("x" * (2 << 20), "too many"),
    ],
)
def test_what_is_no_matrix(text: str, why: str) -> None:
    with pytest.raises(TopologyError, match=why):
        parse_topology(text)


@given(st.text(alphabet="GPU0123 XPISNODEV\n\t\x1b[4m", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_topology(text)
    except TopologyError:
        return

    assert found.gpus


def test_nothing_is_known_of_cards_that_are_only_counted() -> None:
    found = alone(2)

    assert len(found.gpus) == 2
    assert found.link(0, 1) is None
    assert not found.has_nvlink
