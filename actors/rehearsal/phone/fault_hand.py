"""The hand that makes a simulated phone's day a bad one: begins and ends its faults when they are due."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs
import trio

from actors.rehearsal.apps.base import AppFactory
from actors.rehearsal.phone.faults import (
    Duplicate,
    Fault,
    FaultSchedule,
    Freeze,
    HalfClose,
    Reboot,
    Reset,
    Resize,
    Rotate,
    Turn,
    Unauthorized,
    faults_of,
    kind_of,
)
from actors.rehearsal.phone.serve import SimulatedPhone, serve_phones
from actors.rehearsal.phone.spec import PhoneSpec
from runtime.telemetry import emit


@attrs.define(eq=False)
class FaultHand:
    """One phone's faults. `tell` hears of each that begins and ends."""

    phone: SimulatedPhone
    schedule: FaultSchedule
    tell: Callable[[Turn], None] = attrs.field(default=lambda _: None)
    _is_off: bool = attrs.field(init=False, default=False)
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Act until cancelled; started once what is there from the beginning has begun."""
        began_at = trio.current_time()
        self.phone.effects.on_capture = self._wake
        is_started = False
        async with trio.open_nursery() as nursery:
            while True:
                changed = self._changed
                turns = self.schedule.advance(trio.current_time() - began_at, self.phone.effects.captures)
                self.phone.effects.active = self.schedule.active
                for turn in turns:
                    self.tell(turn)
                    emit(
                        "actors.fault.begun" if turn.begins else "actors.fault.ended",
                        phone=self.phone.spec.serial,
                        fault=kind_of(turn.fault),
                    )
                    if isinstance(turn.fault, Reboot):
                        nursery.start_soon(self._reboot, turn.fault)  # other faults go on meanwhile
                    elif turn.begins:
                        await self._begin(turn.fault)
                    else:
                        await self._end(turn.fault)
                if not is_started:
                    is_started = True
                    task_status.started()
                with trio.CancelScope(deadline=began_at + self.schedule.next_at()):
                    await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _begin(self, fault: Fault) -> None:
        match fault:
            case Freeze():
                self.phone.freeze()
            case Reset():
                self.phone.drop()
            case HalfClose():
                self.phone.half_close()
            case Resize():
                await self.phone.handset.set_size(fault.pixels)
            case Rotate():
                await self.phone.handset.turn()
            case Unauthorized():
                self.phone.forbid()
            case Duplicate():
                await self.phone.add_address()
            case _:
                pass  # the phone's inside asks for the others

    async def _end(self, fault: Fault) -> None:
        match fault:
            case Freeze():
                self.phone.thaw()
            case Resize():
                await self.phone.handset.set_size(None)
            case Rotate():
                await self.phone.handset.turn()
            case Unauthorized():
                await self.phone.allow()
            case _:
                pass

    async def _reboot(self, fault: Reboot) -> None:
        if self._is_off:
            return  # one that is off cannot be switched off again
        self._is_off = True
        await self.phone.power_off()
        await trio.sleep(fault.off_seconds)
        await self.phone.power_on()
        self._is_off = False


async def serve_phones_with_faults(
    specs: Iterable[PhoneSpec],
    apps: Mapping[str, AppFactory],
    faults: Sequence[Fault],
    *,
    task_status: trio.TaskStatus[tuple[SimulatedPhone, ...]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """As `serve_phones`, with faults; their `phones` count the specs from 0."""
    async with trio.open_nursery() as nursery:
        phones: tuple[SimulatedPhone, ...] = await nursery.start(serve_phones, specs, apps)
        for number, phone in enumerate(phones):
            if planned := faults_of(faults, number):
                await nursery.start(FaultHand(phone, FaultSchedule(planned)).run)
        task_status.started(phones)
