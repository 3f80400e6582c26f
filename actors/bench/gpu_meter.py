"""How busy an engine's processes and its GPUs are: `CPU full, GPU idle` is what a node shows that decodes pictures.

GPUs are read through NVML where its Python bindings (`nvidia-ml-py`) and a driver are there; without them the CPU of an
engine on this machine is still told.
"""

import importlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import attrs
import trio

from actors.bench.processes import cpu_seconds

SAMPLE_SECONDS = 0.5
FULL_CORES = (
    0.9  # of one core: an engine's tokenizer and its scheduler are single-threaded, each with a core of its own
)
IDLE_GPU_SHARE = 0.5  # the document's case is 20 %
LISTENING = "0A"  # a socket's state in /proc/net/tcp
LOOPBACK_HOSTS = {"127.0.0.1", "localhost", "::1", "[::1]"}


class Gpus(Protocol):
    """What is asked of the GPUs of this machine."""

    def shares(self, pids: frozenset[int]) -> tuple[float, ...]:
        """Utilisation from 0 to 1 of each GPU that one of the processes uses; of all GPUs where none is known to."""
        ...


class NvmlGpus:
    """The same through NVML; `open_gpus` makes one."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def shares(self, pids: frozenset[int]) -> tuple[float, ...]:
        """See `Gpus`. A GPU that does not answer is left out."""
        everyone, theirs = [], []
        for index in range(self._nvml.nvmlDeviceGetCount()):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                share = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
                users = {process.pid for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
            except self._nvml.NVMLError:
                continue
            everyone.append(share)
            if users & pids:
                theirs.append(share)
        return tuple(theirs or everyone)


def open_gpus() -> Gpus | None:
    """The GPUs of this machine; None where there is no driver or there are no bindings."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return NvmlGpus(nvml)


@attrs.frozen
class Busyness:
    """Means over a measurement. A share is from 0 to 1."""

    engine_cores: float | None
    """CPU of all the engine's processes; None: the engine is not on this machine."""
    busiest_process_cores: float | None
    """Of its busiest process."""
    gpu_share: float | None
    """Of its GPUs; None: there is no NVML."""

    @property
    def verdict(self) -> str:
        """What it means, in words; empty where nothing stands out."""
        if self.busiest_process_cores is None or self.busiest_process_cores < FULL_CORES:
            return ""
        if self.gpu_share is None:
            return "CPU full: a process of the engine uses a whole core; GPUs cannot be read here"
        if self.gpu_share < IDLE_GPU_SHARE:
            return "CPU full, GPU idle: send smaller frames, or give the engine more processes for pictures and tokens"
        return "CPU full, GPU busy"

    def as_dict(self) -> dict[str, Any]:
        """As JSON, rounded."""
        numbers = {name: None if one is None else round(one, 3) for name, one in attrs.asdict(self).items()}
        return {**numbers, "verdict": self.verdict}


@attrs.define
class EngineMeter:
    """Watches the processes behind an engine's URL. `run` samples; `busyness` tells since `restart`."""

    url: str
    gpus: Gpus | None = None
    proc: Path = Path("/proc")
    _pids: frozenset[int] = attrs.field(factory=frozenset, init=False)
    _before: dict[int, float] = attrs.field(factory=dict, init=False)
    _shares: list[float] = attrs.field(factory=list, init=False)

    def restart(self) -> None:
        """Count from now."""
        port = urlsplit(self.url).port
        self._pids = frozenset()
        if port is not None and urlsplit(self.url).hostname in LOOPBACK_HOSTS:
            self._pids = processes_behind(port, self.proc)
        self._before = _cpu_of(self._pids)
        self._shares.clear()

    async def run(self) -> None:
        """Sample the GPUs for ever; returns at once where there are none to read."""
        if self.gpus is None:
            await trio.lowlevel.checkpoint()
            return
        while True:
            self._shares += self.gpus.shares(self._pids)
            await trio.sleep(SAMPLE_SECONDS)

    def busyness(self, seconds: float) -> Busyness:
        """Means over the time since `restart`, which was so long ago."""
        used = [after - self._before.get(pid, 0.0) for pid, after in _cpu_of(self._pids).items()]
        cores = [one / seconds for one in used]
        gpu = sum(self._shares) / len(self._shares) if self._shares else None
        return Busyness(sum(cores) if cores else None, max(cores) if cores else None, gpu)


def processes_behind(port: int, proc: Path = Path("/proc")) -> frozenset[int]:
    """The process that listens on a port of this machine, with its whole process group; none where none is seen."""
    inodes = _listening_inodes(port, proc)
    if not inodes:
        return frozenset()
    wanted = {f"socket:[{inode}]" for inode in inodes}
    folders = [folder for folder in proc.iterdir() if folder.name.isdecimal()]
    listeners = {int(folder.name) for folder in folders if _holds(folder, wanted)}
    groups = {_group(int(pid)) for pid in listeners} - {None, os.getpgrp()}
    members = {int(folder.name) for folder in folders if _group(int(folder.name)) in groups}
    return frozenset(members | listeners - {os.getpid()})


def _listening_inodes(port: int, proc: Path) -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):  # no IPv6 here
            for line in (proc / "net" / table).read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found


def _holds(folder: Path, wanted: set[str]) -> bool:
    with suppress(OSError):  # it has ended, or belongs to somebody else
        return any(str(link.readlink()) in wanted for link in (folder / "fd").iterdir())
    return False


def _group(pid: int) -> int | None:
    with suppress(OSError):
        return os.getpgid(pid)
    return None


def _cpu_of(pids: frozenset[int]) -> dict[int, float]:
    used = {}
    for pid in pids:
        with suppress(OSError):  # it has ended
            used[pid] = cpu_seconds(pid)
    return used
