from collections.abc import Sequence

import attrs
import trio
import trio.testing

from actors.gpu_watch import LOOK_SECONDS, GpuLooks, watch_gpu
from actors.nvidia_smi import NoNvidiaSmi
from inference.gpu_state import GpuState, Xid
from inference.topology import TopologyError
from runtime.ids import EngineId

COOL = GpuState(3, "NVIDIA GeForce RTX 5090", "00000000:41:00.0", 32607)
HOT = attrs.evolve(COOL, throttles=frozenset({"hw_thermal_slowdown"}))
E1 = EngineId("e1")


class Looks:
    """Answers of nvidia-smi and the kernel, one a look; the last one stays."""

    def __init__(
        self, states: Sequence[GpuState | Exception | None], xids: Sequence[tuple[Xid, ...] | None] = (None,)
    ) -> None:
        self.states, self.logs = list(states), list(xids)
        self.asked: list[int] = []

    async def gpu(self, index: int) -> GpuState | None:
        await trio.lowlevel.checkpoint()
        self.asked.append(index)
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return state

    async def xids(self) -> tuple[Xid, ...] | None:
        await trio.lowlevel.checkpoint()
        return self.logs.pop(0) if len(self.logs) > 1 else self.logs[0]


async def verdicts(looks: Looks, seconds: float) -> list[tuple[EngineId, bool, str]]:
    told: list[tuple[EngineId, bool, str]] = []
    with trio.move_on_after(seconds):
        await watch_gpu(
            E1, 3, lambda engine, fit, why: told.append((engine, fit, why)), looks=GpuLooks(looks.gpu, looks.xids)
        )
    return told


async def test_a_healthy_gpu_is_no_news(autojump_clock: trio.testing.MockClock) -> None:
    looks = Looks([COOL])

    assert await verdicts(looks, 10 * LOOK_SECONDS + 1) == []
    assert looks.asked == [3] * 11


async def test_a_hot_gpu_is_taken_out_and_put_back(autojump_clock: trio.testing.MockClock) -> None:
    told = await verdicts(Looks([COOL, HOT, HOT, COOL]), 600)

    assert [fit for _, fit, _ in told] == [False, True]
    assert "thermal slowdown" in told[0][2]
    assert told[1][2] == "healthy again"


async def test_only_new_xids_of_this_gpu_count(autojump_clock: trio.testing.MockClock) -> None:
    old = Xid(5.0, COOL.bus_id, 79)
    other = Xid(9.0, "00000000:01:00.0", 79)
    assert await verdicts(Looks([COOL], [(old,), (old, other)]), 100) == []

    new = Xid(10.0, COOL.bus_id, 48)
    told = await verdicts(Looks([COOL], [(old,), (old,), (old, other, new), ()]), 600)
    assert told == [(E1, False, "Xid 48: double-bit ECC error")]


async def test_a_gpu_that_is_gone(autojump_clock: trio.testing.MockClock) -> None:
    for lost in (None, TopologyError("no"), NoNvidiaSmi("it hangs")):
        (told,) = await verdicts(Looks([COOL, lost]), 100)
        assert told[:2] == (E1, False)
        assert "does not list" in told[2]


async def test_a_host_without_nvidia_smi(autojump_clock: trio.testing.MockClock) -> None:
    looks = Looks([NoNvidiaSmi("there is none")])

    assert await verdicts(looks, 100) == []
    assert looks.asked == [3], "it is not asked again"
