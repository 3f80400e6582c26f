"""Asks `nvidia-smi` about the GPUs of this host."""

import shutil
import subprocess
from collections.abc import Sequence

import attrs
import trio

from inference.gpu_state import GpuState, Xid, parse_gpus, parse_xids
from inference.topology import Topology, TopologyError, parse_topology

ANSWER_SECONDS = 20.0  # it answers within 1 s; a GPU that fell off the bus makes it hang


class NoNvidiaSmi(TopologyError):
    """There is no `nvidia-smi` on this host, or it does not answer."""


async def query_gpus() -> tuple[GpuState, ...]:
    """Every GPU as it is now.

    Raises:
        NoNvidiaSmi: it cannot be asked.
        TopologyError: it says nothing of use.
    """
    return parse_gpus(await _ask(("-q", "-x")))


async def query_gpu(index: int) -> GpuState | None:
    """One GPU as it is now, by nvidia-smi's number; None where it lists no such GPU. Raises as `query_gpus`."""
    found = parse_gpus(await _ask(("-q", "-x", "-i", str(index))))
    return attrs.evolve(found[0], index=index) if found else None


async def query_xids() -> tuple[Xid, ...] | None:
    """Errors of GPUs in the kernel's log; None where we may not read it."""
    program = shutil.which("dmesg")
    if program is None:
        return None
    with trio.move_on_after(ANSWER_SECONDS):
        try:
            done = await trio.run_process([program], capture_stdout=True, stderr=subprocess.DEVNULL, check=False)
        except OSError:  # not ours to run
            return None
        return parse_xids(done.stdout.decode("utf-8", "replace")) if done.returncode == 0 else None
    return None


async def query_topology() -> Topology:
    """What connects the GPUs; raises as `query_gpus`."""
    return parse_topology(await _ask(("topo", "-m")))


async def _ask(arguments: Sequence[str]) -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        raise NoNvidiaSmi("there is no nvidia-smi on this host")
    try:
        with trio.fail_after(ANSWER_SECONDS):
            done = await trio.run_process(
                [program, *arguments], capture_stdout=True, stderr=subprocess.DEVNULL, check=False
            )
    except trio.TooSlowError as error:
        why = f"nvidia-smi did not answer within {ANSWER_SECONDS:g} s: a GPU may have fallen off the bus"
        raise NoNvidiaSmi(why) from error
    except OSError as error:
        raise NoNvidiaSmi(f"nvidia-smi cannot be run: {error.strerror or error}") from error
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        said = " ".join(text.split())[:200] or "nothing"
        raise NoNvidiaSmi(f"nvidia-smi ended with {done.returncode}: {said}")
    return text
