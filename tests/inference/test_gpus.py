import pytest

from inference.gpus import GPU_KINDS, gpu_named, gpu_of_product


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA GeForce RTX 5090", "5090"),
        ("NVIDIA GeForce RTX 4090", "4090"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100-40"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "PRO6000"),
        ("NVIDIA GeForce RTX 5090 D", None),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", None),
        ("Tesla T4", None),
    ],
)
def test_products(product: str, name: str | None) -> None:
    found = gpu_of_product(product)

    assert (None if found is None else found.name) == name


@pytest.mark.parametrize("name", ["5090", "rtx 5090", "RTX_5090", "GeForce RTX 5090", "h100", "a100-40", "Pro6000"])
def test_names_as_people_say_them(name: str) -> None:
    assert gpu_named(name) is not None


def test_unknown_names() -> None:
    assert gpu_named("9090") is None
    assert gpu_named("") is None


def test_the_card_of_the_design() -> None:
    card = gpu_named("5090")

    assert card is not None
    assert (card.compute_capability, card.nvlink, card.memory_mib >> 10) == ("12.0", False, 31)
    assert len({kind.name for kind in GPU_KINDS}) == len(GPU_KINDS)
