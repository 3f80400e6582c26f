"""Runs the vendor's commands for cloud phones: bounded, without a shell, and never in the way of a run's end."""

import subprocess
from collections.abc import Sequence

import attrs
import trio

from actors.devices.base import DeviceError
from actors.vendor_config import VendorConfig, command_for
from runtime.ids import PhoneId
from runtime.secret import redact
from runtime.telemetry import emit

AT_ONCE = 4
RELEASE_SECONDS = 15.0  # for all phones together: a run that is being stopped waits no longer
TAIL_CHARACTERS = 300


class VendorError(DeviceError):
    """A command of the vendor failed, could not be started, or ran past its time."""


@attrs.define(eq=False)
class Vendor:
    """The vendor of a run's phones."""

    config: VendorConfig
    _acquired: dict[str, PhoneId] = attrs.field(init=False, factory=dict)
    _limiter: trio.CapacityLimiter = attrs.field(init=False, factory=lambda: trio.CapacityLimiter(AT_ONCE))

    async def acquire_all(self, phones: Sequence[tuple[str, PhoneId]]) -> None:
        """Rent phones (address, id); one that cannot be had is told, and may still be there."""

        async def acquire(address: str, phone: PhoneId) -> None:
            self._acquired[address] = phone  # already now: a command that is cut off may have been heard
            try:
                await self._run("acquire", self.config.acquire, address, phone)
            except VendorError as error:
                emit("actors.vendor.failed", level="warning", command="acquire", error=str(error))

        if self.config.acquire:
            async with trio.open_nursery() as nursery:
                for address, phone in phones:
                    nursery.start_soon(acquire, address, phone)

    @property
    def can_reboot(self) -> bool:
        """There is a command for it."""
        return bool(self.config.reboot)

    async def reboot(self, address: str, phone: PhoneId) -> None:
        """Reboot a phone. Raises `VendorError`."""
        await self._run("reboot", self.config.reboot, address, phone)

    async def release_all(self) -> None:
        """Return what was acquired; bounded, and done even where the run is being cancelled."""

        async def release(address: str, phone: PhoneId) -> None:
            try:
                await self._run("release", self.config.release, address, phone)
            except VendorError as error:
                emit("actors.vendor.failed", level="warning", command="release", error=str(error))

        acquired, self._acquired = self._acquired, {}
        if not self.config.release or not acquired:
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + RELEASE_SECONDS) as scope:
            async with trio.open_nursery() as nursery:
                for address, phone in acquired.items():
                    nursery.start_soon(release, address, phone)
        if scope.cancelled_caught:
            emit("actors.vendor.failed", level="warning", command="release", error="not all were returned in time")

    async def _run(self, name: str, words: Sequence[str], address: str, phone: PhoneId) -> None:
        argv = command_for(words, {"address": address, "phone": phone})
        async with self._limiter:
            began_at = trio.current_time()
            done: subprocess.CompletedProcess[bytes] | None = None
            try:
                with trio.move_on_after(self.config.timeout_seconds):
                    done = await trio.run_process(
                        argv, stdin=subprocess.DEVNULL, capture_stdout=True, stderr=subprocess.STDOUT, check=False
                    )
            except OSError as error:
                raise VendorError(f"{name}: {argv[0]!r} cannot be started: {error}", phone=address) from error
        if done is None:
            seconds = self.config.timeout_seconds
            raise VendorError(f"{name}: {argv[0]!r} was ended after {seconds:g} s", phone=address)
        if done.returncode != 0:
            said = redact(" / ".join(done.stdout.decode("utf-8", "replace").split("\n"))[-TAIL_CHARACTERS:].strip(" /"))
            raise VendorError(f"{name}: {argv[0]!r} exited with {done.returncode}: {said}", phone=address)
        emit("actors.vendor.done", command=name, address=address, seconds=round(trio.current_time() - began_at, 3))
