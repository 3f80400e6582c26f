"""Keeps a phone's video stream running: one that breaks is begun anew, with growing pauses."""

import attrs
import trio

from actors.devices.adb.client import AdbClient
from actors.devices.adb.errors import StreamUnavailable
from actors.devices.adb.scrcpy import ScrcpyConfig, ScrcpyStream
from actors.devices.adb.scrcpy_start import open_scrcpy
from actors.devices.base import DeviceError
from runtime.telemetry import emit

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
HEALTHY_SECONDS = 20.0  # a stream that has run for so long broke by itself, not because it cannot run


@attrs.define(eq=False)
class StreamKeeper:
    """The stream of the moment."""

    client: AdbClient
    serial: str
    config: ScrcpyConfig
    features: frozenset[str]
    stream: ScrcpyStream | None = attrs.field(init=False, default=None)
    """None while there is none: pictures must come another way."""
    failure: DeviceError | None = attrs.field(init=False, default=None)
    """Why there is none, or was none the last time."""
    begun: int = attrs.field(init=False, default=0)
    _settled: trio.Event = attrs.field(init=False, factory=trio.Event)

    async def wait_settled(self) -> None:
        """Return once the first attempt has succeeded or failed."""
        await self._settled.wait()

    async def run(self) -> None:
        """Work until cancelled, or until the operator's file turns out to be of no use."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            began_at = trio.current_time()
            try:
                async with open_scrcpy(self.client, self.serial, self.config, features=self.features) as stream:
                    self.stream = stream
                    self.begun += 1
                    self._settled.set()
                    await stream.run()
            except DeviceError as error:
                self.failure = error
                emit("actors.video.ended", level="warning", phone=self.serial, error=str(error))
            finally:
                self.stream = None
            self._settled.set()
            if isinstance(self.failure, StreamUnavailable) and not self.begun:
                return
            if trio.current_time() - began_at >= HEALTHY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
