"""What tests of field reports share: a phone with faults, and an episode on a real driver with a model that counts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from actors.bench.overlap import ChunkSink
from actors.devices.base import Device
from actors.phone import draw_from
from actors.rehearsal.phone.fault_hand import FaultHand
from actors.rehearsal.phone.faults import Fault, FaultSchedule
from actors.rehearsal.phone.serve import SimulatedPhone
from actors.scenario import AppConfig, CaptureConfig
from actors.session import EpisodeSession, EpisodeSpec
from inference.messages import Completion, Prompt, Usage
from policies.effect import EffectSettings
from policies.episode import EpisodePolicy
from policies.perception import compile_probes
from policies.step import EpisodeSettings, Limits
from runtime.ids import DEFAULT_TENANT, EngineId, EpisodeId, PhoneId
from tests.kit.adb import adb_binaries
from tests.kit.devices import PROBE_PACKAGE

newest_adb = pytest.mark.parametrize("adb_binary", adb_binaries()[-1:])
"""As `any_adb`, where the version of the server makes no difference."""


@asynccontextmanager
async def faulty(phone: SimulatedPhone, *faults: Fault) -> AsyncIterator[None]:
    """A phone with faults, while the block runs."""
    async with trio.open_nursery() as nursery:
        await nursery.start(FaultHand(phone, FaultSchedule(faults)).run)
        yield
        nursery.cancel_scope.cancel()
    phone.effects.active = ()


@attrs.define
class CountingModel:
    """Answers one tap, and keeps what it was shown."""

    prompts: list[Prompt] = attrs.field(factory=list)

    async def __call__(self, prompt: Prompt, *, deadline: float) -> Completion:
        """A completion."""
        self.prompts.append(prompt)
        await trio.sleep(0.01)
        return Completion("T500,500", "stop", Usage(100, 10, 9), EngineId("e"), "x", "sticky", 0.0, 0.1, 0.1)


async def _restart(device: Device, app: AppConfig) -> None:
    del device, app


def field_session(model: Any, *, seconds: float, follow_log: bool = False) -> EpisodeSession:
    """An episode of the probe app."""
    settings = EpisodeSettings("win", limits=Limits(seconds=seconds), effect=EffectSettings(fail_after=1000))
    spec = EpisodeSpec(
        episode=EpisodeId("run-P-0"),
        phone=PhoneId("PROBE0"),
        app_name="probe",
        app=AppConfig(goal="win", package=PROBE_PACKAGE, criteria=settings.criteria),
        seed=1,
        tenant=DEFAULT_TENANT,
        settings=settings,
        capture=CaptureConfig(every_seconds=0.05),
        plan_timeout_seconds=3.0,
    )
    return EpisodeSession(
        spec,
        policy=EpisodePolicy(settings, spec.episode),
        perception=compile_probes({}, {}),
        complete=model,
        sink=ChunkSink(),
        draw=draw_from(1),
        restart_app=_restart,
        follow_log=follow_log,
        in_thread=False,
    )
