import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from actors.bench import gpu_meter
from actors.bench.gpu_meter import Busyness, EngineMeter, NvmlGpus, open_gpus, processes_behind

SERVER = (
    "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); print(s.getsockname()[1], flush=True)\n"
    "while True: pass"
)


class FakeNvml:
    """Two GPUs: process 41 computes on the second one."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, works: bool = True) -> None:
        self.works = works

    def nvmlInit(self) -> None:  # noqa: N802  # NVML's own name
        if not self.works:
            raise self.NVMLError("no driver")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index == 2:
            raise self.NVMLError("it has fallen off the bus")
        return index

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=(80, 20)[handle])

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=(40, 41)[handle])]


def test_the_gpus_that_an_engine_uses_are_read_and_all_where_none_is_known() -> None:
    gpus = NvmlGpus(FakeNvml())

    assert gpus.shares(frozenset({41, 99})) == (0.2,)
    assert gpus.shares(frozenset()) == (0.8, 0.2)


def test_without_bindings_or_driver_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_gpus() is None
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(works=False))
    assert open_gpus() is None
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert open_gpus() is not None


@pytest.mark.parametrize(
    ("busiest", "gpu", "words"),
    [
        (0.99, 0.2, "CPU full, GPU idle"),
        (0.99, 0.9, "CPU full, GPU busy"),
        (0.99, None, "CPU full: a process"),
        (0.3, 0.2, ""),
        (None, 0.2, ""),
    ],
)
def test_a_full_cpu_beside_an_idle_gpu_is_named(busiest: float | None, gpu: float | None, words: str) -> None:
    assert Busyness(busiest, busiest, gpu).verdict.startswith(words)
    assert bool(Busyness(busiest, busiest, gpu).verdict) == bool(words)


async def test_a_spinning_process_behind_a_port_is_seen_with_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_meter, "SAMPLE_SECONDS", 0.01)
    with subprocess.Popen(  # noqa: ASYNC220  # it starts in no time
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, start_new_session=True
    ) as server:
        try:
            assert server.stdout is not None
            port = int(await trio.to_thread.run_sync(server.stdout.readline))
            found = processes_behind(port)
            meter = EngineMeter(f"http://127.0.0.1:{port}", NvmlGpus(FakeNvml()))
            meter.restart()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(meter.run)
                with trio.fail_after(30):
                    while (meter.busyness(1.0).engine_cores or 0.0) < 0.05:
                        await trio.sleep(0.02)
                nursery.cancel_scope.cancel()
            busy = meter.busyness(1.0)
        finally:
            server.kill()

    assert found == {server.pid}
    assert busy.gpu_share == pytest.approx(0.5)
    assert busy.busiest_process_cores == busy.engine_cores


def test_an_engine_elsewhere_and_this_very_process_are_left_out() -> None:
    meter = EngineMeter("http://192.0.2.1:30000")
    meter.restart()

    assert meter.busyness(1.0) == Busyness(None, None, None)
    assert os.getpid() not in processes_behind(1)
