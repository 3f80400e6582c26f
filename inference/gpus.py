"""GPUs as a table: what a plan must know of a model before one of them is at hand.

Sources. `memory_mib` is what `nvidia-smi` reports as total (less than the name says: firmware and page tables are
reserved; with ECC on, still less). `bandwidth_gb_s`, `power_watts`, NVLink and compute capability: NVIDIA's product
pages and data sheets, and for compute capability the table at developer.nvidia.com/cuda-gpus. `fp8` means tensor cores
that multiply FP8 (compute capability 8.9 and up); an FP8 KV cache is only a storage format and needs none of that.
"""

import re

import attrs


@attrs.frozen
class GpuKind:
    """One model of GPU."""

    name: str
    """As people say it."""
    matches: str
    """Regular expression over `nvidia-smi`'s product name."""
    memory_mib: int
    bandwidth_gb_s: int
    compute_capability: str
    nvlink: bool
    """It has NVLink ports; whether they are connected only `nvidia-smi topo -m` says."""
    power_watts: int
    fp8: bool


GPU_KINDS = (
    GpuKind("5090", r"RTX 5090\b(?! (D|Laptop))", 32607, 1792, "12.0", nvlink=False, power_watts=575, fp8=True),
    GpuKind("4090", r"RTX 4090\b(?! (D|Laptop))", 24564, 1008, "8.9", nvlink=False, power_watts=450, fp8=True),
    GpuKind("3090", r"RTX 3090\b(?! Ti)", 24576, 936, "8.6", nvlink=True, power_watts=350, fp8=False),
    GpuKind("PRO6000", r"RTX PRO 6000 Blackwell", 97887, 1792, "12.0", nvlink=False, power_watts=600, fp8=True),
    GpuKind("A6000", r"RTX A6000\b", 49140, 768, "8.6", nvlink=True, power_watts=300, fp8=False),
    GpuKind("L4", r"\bL4\b", 23034, 300, "8.9", nvlink=False, power_watts=72, fp8=True),
    GpuKind("L40S", r"\bL40S\b", 46068, 864, "8.9", nvlink=False, power_watts=350, fp8=True),
    GpuKind("A10G", r"\bA10G\b", 23028, 600, "8.6", nvlink=False, power_watts=300, fp8=False),
    GpuKind("A100-40", r"A100.*40GB", 40960, 1555, "8.0", nvlink=True, power_watts=400, fp8=False),
    GpuKind("A100", r"A100.*80GB", 81920, 2039, "8.0", nvlink=True, power_watts=400, fp8=False),
    GpuKind("H100", r"H100.*(80GB|HBM3)", 81559, 3350, "9.0", nvlink=True, power_watts=700, fp8=True),
    GpuKind("H200", r"\bH200\b", 143771, 4800, "9.0", nvlink=True, power_watts=700, fp8=True),
    GpuKind("B200", r"\bB200\b", 183359, 8000, "10.0", nvlink=True, power_watts=1000, fp8=True),
)


def gpu_named(name: str) -> GpuKind | None:
    """The GPU of that short name (`5090`, `rtx 5090`, `h100`); None where the table has none."""
    wanted = re.sub(r"(nvidia|geforce|rtx|[\s_])", "", name.lower())
    return next((kind for kind in GPU_KINDS if kind.name.lower() == wanted), None)


def gpu_of_product(product: str) -> GpuKind | None:
    """The GPU behind `nvidia-smi`'s product name; None where the table has none."""
    return next((kind for kind in GPU_KINDS if re.search(kind.matches, product)), None)
