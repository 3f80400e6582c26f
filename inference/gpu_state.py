"""How the GPUs of a host are: `nvidia-smi -q -x`, parsed, and whether an engine on them can be relied on."""

import re
from xml.etree import ElementTree as ET

import attrs

from inference.topology import TopologyError

MAX_BYTES = 4 << 20  # 8 GPUs with all their supported clocks are 1 MB
SLOW_SECONDS = 10.0  # a short thermal slowdown at the top of a burst is a card doing its job
RECOVER_SECONDS = 60.0  # a card that was hot is cool for so long before it gets episodes again
FATAL_XIDS = {
    # Xid → what it means, from NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors)
    48: "double-bit ECC error",
    62: "internal micro-controller halt",
    63: "row remapping failure recorded",
    64: "row remapping failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "GSP RPC timeout",
    120: "GSP error",
    154: "GPU recovery action changed",
}
_THROTTLES = {
    "hw_thermal_slowdown": "thermal slowdown by hardware",
    "sw_thermal_slowdown": "thermal slowdown by the driver",
    "hw_power_brake_slowdown": "power brake: the supply asked for less",
    "hw_slowdown": "hardware slowdown",
}
_XID = re.compile(r"(?m)^\[ *(\d+\.\d+)\] .*?NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")


@attrs.frozen
class GpuState:
    """One GPU at one moment; None where nvidia-smi says N/A."""

    index: int
    """Position in the output, which is nvidia-smi's own number."""
    product: str
    bus_id: str
    """As `00000000:61:00.0`."""
    memory_total_mib: int
    memory_used_mib: int | None = None
    utilization_percent: float | None = None
    temperature_c: float | None = None
    power_watts: float | None = None
    throttles: frozenset[str] = frozenset()
    """Active slowdowns, such as `hw_thermal_slowdown`. A software power cap is none: a 575 W card lives at it."""
    needs_recovery: str | None = None
    """What the driver asks for, such as `Reset`; None: nothing."""
    memory_failed: bool = False
    """Row remapping has failed: the memory is broken."""


@attrs.frozen
class Xid:
    """One fatal error of a GPU."""

    stamp: float
    """Seconds since the host was started."""
    bus_id: str
    """As nvidia-smi writes it."""
    number: int


@attrs.frozen
class Verdict:
    """Whether episodes may live on a GPU."""

    fit: bool
    why: str


@attrs.frozen
class Watched:
    """What is remembered of one GPU between two looks."""

    slow_since: float | None = None
    cool_since: float | None = None
    unfit: bool = False
    xid: int | None = None
    """A fatal error since the engine was started; only a restart of the engine forgets it."""


def parse_gpus(text: str) -> tuple[GpuState, ...]:
    """Read `nvidia-smi -q -x`.

    Raises:
        TopologyError: it is no such document, or nvidia-smi itself failed.
    """
    if len(text) > MAX_BYTES:
        raise TopologyError(f"{len(text)} bytes are too many for an output of nvidia-smi -q -x")
    if "<!ENTITY" in text:
        raise TopologyError("this is no output of nvidia-smi -q -x: it declares entities")
    try:
        root = ET.fromstring(text.strip())  # noqa: S314  # no entities, see above, and bounded
    except ET.ParseError as error:
        begin = text.strip().splitlines()[0][:80] if text.strip() else "nothing"
        raise TopologyError(f"this is no output of nvidia-smi -q -x ({error}); it begins {begin!r}") from error
    if root.tag != "nvidia_smi_log":
        raise TopologyError(f"this is no output of nvidia-smi -q -x, but <{root.tag[:40]}>")
    return tuple(_state(index, gpu) for index, gpu in enumerate(root.findall("gpu")))


def parse_xids(log: str) -> tuple[Xid, ...]:
    """The fatal errors in the kernel's log (`dmesg`), in its order."""
    return tuple(
        Xid(float(match.group(1)), _long_bus_id(match.group(2)), int(match.group(3)))
        for match in _XID.finditer(log)
        if int(match.group(3)) in FATAL_XIDS
    )


def fitness_for(state: GpuState | None, before: Watched, now: float, xid: int | None = None) -> tuple[Verdict, Watched]:
    """Whether the engine on a GPU should have episodes.

    Args:
        state: the newest look; None: nvidia-smi does not list the GPU any more.
        before: what the last call returned.
        now: of this look.
        xid: a fatal Xid of this GPU that has come since the last call.
    """
    xid = xid or before.xid
    if state is None:
        return Verdict(fit=False, why="nvidia-smi does not list the GPU any more"), attrs.evolve(before, unfit=True)
    if xid is not None:
        why = f"Xid {xid}: {FATAL_XIDS.get(xid, 'see the kernel log')}"
        return Verdict(fit=False, why=why), attrs.evolve(before, xid=xid, unfit=True)
    if state.memory_failed:
        return Verdict(fit=False, why="row remapping failed: its memory is broken"), attrs.evolve(before, unfit=True)
    if state.needs_recovery is not None:
        why = f"the driver asks for a recovery: {state.needs_recovery}"
        return Verdict(fit=False, why=why), attrs.evolve(before, unfit=True)
    return _thermal(state, before, now)


def _thermal(state: GpuState, before: Watched, now: float) -> tuple[Verdict, Watched]:
    if state.throttles:
        since = now if before.slow_since is None else before.slow_since
        unfit = before.unfit or now - since >= SLOW_SECONDS
        reasons = ", ".join(text for name, text in _THROTTLES.items() if name in state.throttles)
        at = "" if state.temperature_c is None else f" at {state.temperature_c:g} °C"
        why = f"{reasons}{at} for {now - since:.0f} s"
        return Verdict(fit=not unfit, why=why), Watched(slow_since=since, unfit=unfit)
    if not before.unfit:
        return Verdict(fit=True, why="healthy"), Watched()
    since = now if before.cool_since is None else before.cool_since
    unfit = now - since < RECOVER_SECONDS
    why = f"it recovers: healthy for {now - since:.0f} of {RECOVER_SECONDS:g} s" if unfit else "healthy again"
    return Verdict(fit=not unfit, why=why), Watched(cool_since=since if unfit else None, unfit=unfit)


def _state(index: int, gpu: ET.Element) -> GpuState:
    total = _number(gpu.findtext("fb_memory_usage/total"))
    if total is None:
        raise TopologyError(f"GPU {index} does not say how much memory it has")
    used = _number(gpu.findtext("fb_memory_usage/used"))
    recovery = _words(gpu.findtext("gpu_recovery_action"))
    if recovery is None and _words(gpu.findtext("gpu_reset_status/reset_required")) == "Yes":
        recovery = "Reset"
    return GpuState(
        index=index,
        product=_words(gpu.findtext("product_name")) or "unknown GPU",
        bus_id=(gpu.get("id") or "").upper(),
        memory_total_mib=int(total),
        memory_used_mib=None if used is None else int(used),
        utilization_percent=_number(gpu.findtext("utilization/gpu_util")),
        temperature_c=_number(gpu.findtext("temperature/gpu_temp")),
        power_watts=_power(gpu),
        throttles=frozenset(name for name in _THROTTLES if _is_active(gpu, name)),
        needs_recovery=recovery,
        memory_failed=_words(gpu.findtext("remapped_rows/remapped_row_failure")) == "Yes",
    )


def _is_active(gpu: ET.Element, name: str) -> bool:
    new = gpu.findtext(f"clocks_event_reasons/clocks_event_reason_{name}")
    old = gpu.findtext(f"clocks_throttle_reasons/clocks_throttle_reason_{name}")  # drivers before 535
    return "Active" in {new, old}


def _power(gpu: ET.Element) -> float | None:
    places = ("instant_power_draw", "average_power_draw", "power_draw")
    texts = [gpu.findtext(f"{room}/{place}") for room in ("gpu_power_readings", "power_readings") for place in places]
    return next((number for text in texts if (number := _number(text)) is not None), None)


def _number(text: str | None) -> float | None:
    found = re.match(r"\s*(-?\d+(\.\d+)?)\s*(MiB|%|C|W)?\s*$", text or "")
    return None if found is None else float(found.group(1))


def _words(text: str | None) -> str | None:
    text = (text or "").strip()
    return None if text in {"", "N/A", "None"} else text


def _long_bus_id(kernel: str) -> str:
    """`0000:61:00` of the kernel → `00000000:61:00.0` of nvidia-smi."""
    parts = kernel.split(":")
    domain = parts[0] if len(parts) == 3 else "0"
    rest = parts[-2:] if len(parts) >= 2 else ["00", "00"]
    device = rest[1] if "." in rest[1] else f"{rest[1]}.0"
    return f"{domain:0>8}:{rest[0]}:{device}".upper()
