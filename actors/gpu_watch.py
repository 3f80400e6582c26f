"""Looks after one engine's GPU: a card that throttles, lost memory or reported an Xid gets no episodes."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from actors.nvidia_smi import NoNvidiaSmi, query_gpu, query_xids
from inference.gpu_state import GpuState, Watched, Xid, fitness_for
from inference.topology import TopologyError
from runtime.ids import EngineId
from runtime.telemetry import emit, gauge

LOOK_SECONDS = 15.0  # one look costs nvidia-smi half a second of a core

_FIT = gauge("actors_engine_gpu_fit_ratio", "Whether an engine's GPU can be relied on: 1 or 0.", ["engine"])


@attrs.frozen
class GpuLooks:
    """Where the state of GPUs comes from; tests put something else here."""

    gpu: Callable[[int], Awaitable[GpuState | None]] = query_gpu
    xids: Callable[[], Awaitable[tuple[Xid, ...] | None]] = query_xids


async def watch_gpu(
    engine: EngineId,
    gpu: int,
    set_fit: Callable[[EngineId, bool, str], None],
    *,
    looks: GpuLooks = GpuLooks(),
) -> None:
    """Tell the pool whenever the verdict on an engine's GPU changes; ends where there is no nvidia-smi.

    Errors in the kernel's log from before are not held against the GPU.
    """
    try:
        state = await looks.gpu(gpu)
    except NoNvidiaSmi as error:
        emit("actors.gpu.not_watched", level="info", engine=engine, gpu=gpu, why=str(error))
        return
    except TopologyError as error:
        emit("actors.gpu.look_failed", level="warning", engine=engine, gpu=gpu, error=str(error))
        state = None
    before = await looks.xids()
    if before is None:
        emit("actors.gpu.xids_unseen", level="info", engine=engine, gpu=gpu, why="the kernel's log cannot be read")
    since = max((xid.stamp for xid in before or ()), default=-1.0)
    bus_id = None if state is None else state.bus_id
    watched, fit = Watched(), True
    while True:
        bus_id = bus_id if state is None else state.bus_id
        xid = None if before is None or bus_id is None else await _new_xid(looks, bus_id, since)
        verdict, watched = fitness_for(state, watched, trio.current_time(), xid)
        if verdict.fit != fit:
            fit = verdict.fit
            set_fit(engine, fit, verdict.why)
        _FIT.labels(engine=engine).set(float(fit))
        await trio.sleep(LOOK_SECONDS)
        try:
            state = await looks.gpu(gpu)
        except TopologyError as error:  # nvidia-smi itself fails when a GPU has fallen off the bus
            emit("actors.gpu.look_failed", level="warning", engine=engine, gpu=gpu, error=str(error))
            state = None


async def _new_xid(looks: GpuLooks, bus_id: str, since: float) -> int | None:
    found = await looks.xids() or ()
    return next((xid.number for xid in reversed(found) if xid.bus_id == bus_id and xid.stamp > since), None)
