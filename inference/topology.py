"""What connects the GPUs of a host: `nvidia-smi topo -m`, parsed."""

import re
from enum import StrEnum

import attrs

MAX_BYTES = 1 << 20  # a matrix of 16 GPUs and as many NICs is 6 KB
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # the header is underlined, also in a pipe
_GPU = re.compile(r"GPU(\d{1,3})")
_FAILURES = ("NVIDIA-SMI has failed", "No devices were found", "couldn't communicate", "command not found")


class Link(StrEnum):
    """The best path between two GPUs, from near to far; the words of `nvidia-smi`'s legend."""

    NVLINK = "NVLINK"
    """A bonded set of NVLinks, `NV1` to `NV18`."""
    PIX = "PIX"
    """At most one PCIe bridge: two cards on one switch."""
    PXB = "PXB"
    """Several PCIe bridges, without the host's."""
    PHB = "PHB"
    """Through the host's PCIe bridge, typically the CPU."""
    NODE = "NODE"
    """Through the interconnect between host bridges of one NUMA node."""
    SYS = "SYS"
    """Across the sockets."""


class TopologyError(Exception):
    """A text is no output of `nvidia-smi`, or tells of no GPU. The message says what was found instead."""


@attrs.frozen
class GpuPlace:
    """Where one GPU sits."""

    index: int
    cpus: str | None = None
    """CPUs near it, as `0-31,64-95`; None where the output does not say."""
    numa_node: int | None = None
    """None where the output does not say, or the host has no NUMA."""


@attrs.frozen
class Topology:
    """GPUs of a host and the links between them."""

    gpus: tuple[GpuPlace, ...]
    links: dict[tuple[int, int], Link] = attrs.field(factory=dict)
    """(index, index) → link, both ways round."""

    def link(self, one: int, other: int) -> Link | None:
        """What connects two GPUs; None where nothing is known."""
        return self.links.get((one, other))

    @property
    def has_nvlink(self) -> bool:
        """Some two GPUs are connected by NVLink."""
        return Link.NVLINK in self.links.values()

    def pairs(self, link: Link) -> tuple[tuple[int, int], ...]:
        """Disjoint pairs of GPUs that have exactly this link, lowest numbers first."""
        taken: set[int] = set()
        found = []
        for one, other in sorted(self.links):
            if one < other and self.links[one, other] is link and not {one, other} & taken:
                taken |= {one, other}
                found.append((one, other))
        return tuple(found)


def parse_topology(text: str) -> Topology:
    """Read the matrix of `nvidia-smi topo -m`; network cards in it are passed over.

    Raises:
        TopologyError: it is no such matrix, or nvidia-smi itself failed.
    """
    if len(text) > MAX_BYTES:
        raise TopologyError(f"{len(text)} bytes are too many for an output of nvidia-smi topo -m")
    lines = _ESCAPES.sub("", text).splitlines()
    header = next((number for number, line in enumerate(lines) if line.split()[:1] == ["GPU0"]), None)
    if header is None:
        raise TopologyError(_why_none(lines))
    columns = lines[header].split("CPU Affinity")[0].split()
    gpus: list[GpuPlace] = []
    links: dict[tuple[int, int], Link] = {}
    for line in lines[header + 1 :]:
        cells = line.split()
        name = _GPU.fullmatch(cells[0]) if cells else None
        if name is None:
            continue
        index = int(name.group(1))
        if any(place.index == index for place in gpus):
            raise TopologyError(f"GPU{index} has two rows in the matrix")
        if len(cells) < 1 + len(columns):
            raise TopologyError(f"row GPU{index} has {len(cells) - 1} cells for {len(columns)} columns")
        for column, cell in zip(columns, cells[1:], strict=False):
            other = _GPU.fullmatch(column)
            if other is not None and int(other.group(1)) != index:
                links[index, int(other.group(1))] = _link(cell, index, column)
        gpus.append(_place(index, cells[1 + len(columns) :]))
    _check(gpus, links, columns)
    return Topology(tuple(gpus), links)


def alone(count: int) -> Topology:
    """GPUs of which nothing but their number is known."""
    return Topology(tuple(GpuPlace(index) for index in range(count)))


def _link(cell: str, row: int, column: str) -> Link:
    if re.fullmatch(r"NV\d{1,2}", cell):
        return Link.NVLINK
    if cell in {Link.PIX, Link.PXB, Link.PHB, Link.NODE, Link.SYS}:
        return Link(cell)
    if cell == "SOC":  # drivers before 2017
        return Link.SYS
    raise TopologyError(f"GPU{row} and {column} are connected by {cell!r}, which nvidia-smi's legend does not have")


def _place(index: int, rest: list[str]) -> GpuPlace:
    cpus = rest[0] if rest and re.fullmatch(r"[\d,-]+", rest[0]) else None
    node = int(rest[1]) if len(rest) > 1 and rest[1].isdigit() else None
    return GpuPlace(index, cpus, node)


def _check(gpus: list[GpuPlace], links: dict[tuple[int, int], Link], columns: list[str]) -> None:
    indexes = {place.index for place in gpus}
    named = {int(found.group(1)) for column in columns if (found := _GPU.fullmatch(column))}
    if indexes != named:
        missing = ", ".join(f"GPU{index}" for index in sorted(indexes ^ named))
        raise TopologyError(f"the matrix is not whole: {missing} has a row or a column, not both")
    for (one, other), link in links.items():
        if links.get((other, one)) is not link:
            raise TopologyError(f"GPU{one} to GPU{other} is {link}, and the other way round is not")


def _why_none(lines: list[str]) -> str:
    said = next((line.strip() for line in lines if line.strip()), "")
    if any(failure in line for line in lines for failure in _FAILURES):
        return f"nvidia-smi found no GPU: {said[:200]}"
    return f"this is no output of nvidia-smi topo -m; it begins {said[:80]!r}" if said else "it is empty"
