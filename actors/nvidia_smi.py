"""Asks `nvidia-smi` about the GPUs of this host."""

import shutil
import subprocess
from collections.abc import Sequence

import trio

from inference.gpu_state import GpuState, parse_gpus
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


async def query_topology() -> Topology:
    """What connects the GPUs; raises as `query_gpus`."""
    return parse_topology(await _ask(("topo", "-m")))


async def _ask(arguments: Sequence[str]) -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        raise NoNvidiaSmi("there is no nvidia-smi on this host")
    with trio.move_on_after(ANSWER_SECONDS) as patience:
        try:
            done = await trio.run_process(
                [program, *arguments], capture_stdout=True, stderr=subprocess.DEVNULL, check=False
            )
        except OSError as error:
            raise NoNvidiaSmi(f"nvidia-smi cannot be run: {error.strerror or error}") from error
    if patience.cancelled_caught:
        raise NoNvidiaSmi(f"nvidia-smi did not answer within {ANSWER_SECONDS:g} s: a GPU may have fallen off the bus")
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        said = " ".join(text.split())[:200] or "nothing"
        raise NoNvidiaSmi(f"nvidia-smi ended with {done.returncode}: {said}")
    return text
