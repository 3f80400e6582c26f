"""A thousand cycles of capture, act and plan, and fifty reconnects, through the real adb server and a real engine."""

import gc
from pathlib import Path

import pytest
import trio

from actors.bench.overlap import ChunkSink
from actors.devices.adb.device import open_adb_device
from actors.devices.base import Device
from actors.engine import process_plan_for
from actors.phone import draw_from
from actors.scenario import AppConfig, CaptureConfig
from actors.session import EpisodeSession, EpisodeSpec
from inference.config import EngineConfig, LaunchConfig
from inference.pool import EnginePool, open_pool
from policies.effect import EffectSettings
from policies.episode import EpisodePolicy
from policies.overlap import OverlapSettings
from policies.perception import compile_probes
from policies.step import EpisodeSettings, Limits
from runtime.ids import DEFAULT_TENANT, EngineId, EpisodeId, PhoneId
from runtime.process import open_process
from tests.kit.adb import any_adb, genuine_adb, open_descriptors
from tests.kit.devices import probe_spec, simulated_phones

ENGINE = EngineConfig(
    EngineId("blind"), launch=LaunchConfig(args=("--blind", "--latency-ms", "5")), model="rehearsal-7b"
)
STEPS = 21
KEPT = 3  # connections to the engine that are kept for the next request; a leak would be one a cycle, fifty in all


async def restart(device: Device, app: AppConfig) -> None:
    raise AssertionError("nothing hangs here")


def session_for(number: int, pool: EnginePool) -> EpisodeSession:
    settings = EpisodeSettings(
        "play",
        overlap=OverlapSettings(act_seconds=0.02, margin_seconds=0.0),
        effect=EffectSettings(replan_after=1000, back_after=1000, restart_after=1000, fail_after=1001),
        limits=Limits(seconds=60, steps=STEPS),
    )
    spec = EpisodeSpec(
        episode=EpisodeId(f"leak-{number}"),
        phone=PhoneId("P"),
        app_name="probe",
        app=AppConfig(goal="play", package="dev.corral.probe"),
        seed=number,
        tenant=DEFAULT_TENANT,
        settings=settings,
        capture=CaptureConfig(every_seconds=0.01),
        plan_timeout_seconds=5.0,
    )
    return EpisodeSession(
        spec,
        policy=EpisodePolicy(settings, spec.episode),
        perception=compile_probes({}, {}),
        complete=pool,
        sink=ChunkSink(),
        draw=draw_from(number),
        restart_app=restart,
    )


@any_adb
@pytest.mark.slow
async def test_nothing_is_left_of_a_thousand_cycles_and_fifty_reconnects(adb_binary: Path, tmp_path: Path) -> None:
    async with (
        open_process(process_plan_for(ENGINE, tmp_path)) as process,
        open_pool() as pool,
        simulated_phones([probe_spec(width=180, height=320)]) as (phone,),
        genuine_adb(adb_binary, tmp_path) as adb,
    ):
        pool.add_engine(ENGINE, process.address)
        await pool.wait_engine_answers(ENGINE.id)
        done = {"captures": 0, "acts": 0, "plans": 0}

        async def cycle(number: int) -> None:
            session = session_for(number, pool)
            async with open_adb_device(adb.server.client, phone.address) as device:
                await session.play(device)
            pool.release(session.spec.episode)
            done["captures"] += len(session.statistics.capture_latencies)
            done["acts"] += session.policy.tally.planned
            done["plans"] += session.policy.tally.plans_completed

        for number in range(3):  # threads and connections that are kept for later
            await cycle(number)
        gc.collect()
        descriptors, tasks = open_descriptors(), trio.lowlevel.current_statistics().tasks_living
        for number in range(50):
            await cycle(100 + number)
        with trio.move_on_after(10):  # the server closes its side of a stream a moment later
            while open_descriptors() > descriptors + KEPT or trio.lowlevel.current_statistics().tasks_living > tasks:
                await trio.sleep(0.1)

        assert open_descriptors() <= descriptors + KEPT
        assert trio.lowlevel.current_statistics().tasks_living <= tasks
        assert done["captures"] >= 1000
        assert done["acts"] > 100
        assert done["plans"] > 50
