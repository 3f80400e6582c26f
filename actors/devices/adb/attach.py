"""From an address to a phone in state `device`: what adb lists decides, never what `connect` says.

`decide` is the pure part: given what is listed now and since when, what to do next.
"""

import math
import re
from contextlib import suppress
from enum import Enum

import trio

from actors.devices.adb.client import AdbClient
from actors.devices.adb.errors import AdbServerLost, DeviceNotFound, DeviceOffline, DeviceUnauthorized
from actors.devices.adb.wire import DeviceEntry
from actors.devices.base import DeviceError

HEAL_AFTER_SECONDS = 1.0  # offline for longer than a handshake on a slow line: disconnect and connect heal it
AUTHORIZE_SECONDS = 3.0  # a phone that takes our key at once is `unauthorized` for the blink before it
RECONNECT_SECONDS = 0.5  # a phone that refuses or is not up yet; without a pause we would hammer it
DETACH_SECONDS = 2.0
REVIEW_SECONDS = 0.2  # how often adb is asked and the time looked at; most changes of state wake us at once
_NETWORK_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\]):\d{1,5}")


class Step(Enum):
    """What to do next about an address."""

    READY = "ready"
    WAIT = "wait"
    CONNECT = "connect"
    HEAL = "heal"
    """Disconnect, then connect."""
    UNAUTHORIZED = "unauthorized"


def is_network_address(address: str) -> bool:
    """True for host:port, which can be connected; a USB serial can only be waited for."""
    return _NETWORK_ADDRESS.fullmatch(address) is not None


def decide(state: str | None, *, seconds_in_state: float, network: bool, connecting: bool) -> Step:
    """The next step.

    Args:
        state: what adb lists for the address; None: nothing.
        seconds_in_state: for how long it has been so, or since our last try if that is later; infinite when there
            was no try yet and nothing is listed.
        network: the address is host:port.
        connecting: a connect of ours is under way.
    """
    if state == "device":
        return Step.READY
    if state == "unauthorized" and seconds_in_state >= AUTHORIZE_SECONDS:
        return Step.UNAUTHORIZED
    if not network or connecting:
        return Step.WAIT
    if state is None:
        return Step.CONNECT if seconds_in_state >= RECONNECT_SECONDS else Step.WAIT
    if state == "offline" and seconds_in_state >= HEAL_AFTER_SECONDS:
        return Step.HEAL
    return Step.WAIT


async def attach(client: AdbClient, address: str, *, timeout_seconds: float) -> bool:
    """Return once adb lists `address` as `device`.

    When it fails or is cancelled, an address that was connected here is disconnected again.

    Returns:
        True when we connected it ourselves, so that we may also disconnect it.

    Raises:
        DeviceUnauthorized: the phone wants its owner to accept our key.
        DeviceOffline: it stayed offline, or another state, until the deadline.
        DeviceNotFound: it never appeared.
        AdbServerLost: (or `AdbServerUnresponsive`) the server is the trouble.
    """
    attempt = _Attempt(client, address)
    attached = False
    try:
        with trio.move_on_after(timeout_seconds):
            await attempt.run()
            attached = True
            return attempt.connected
    finally:
        if attempt.connected and not attached:
            # left there, adb would keep knocking at a phone that is not ours to use
            with trio.CancelScope(shield=True), suppress(DeviceError):
                await client.disconnect(address, timeout_seconds=DETACH_SECONDS)
    if attempt.state is None:
        raise DeviceNotFound(f"adb listed no such phone within {timeout_seconds:g} s", phone=address)
    raise DeviceOffline(f"still {attempt.state!r} after {timeout_seconds:g} s", phone=address)


class _Attempt:
    """The watching side and the connecting side, which may block for ten seconds, of one attach."""

    def __init__(self, client: AdbClient, address: str) -> None:
        self.client = client
        self.address = address
        self.network = is_network_address(address)
        self.state: str | None = None
        self.connected = False
        self._since = -math.inf
        self._connecting = False
        self._failure: DeviceError | None = None
        self._changed = trio.Event()
        self._listed = False

    async def run(self) -> None:
        """Work until the phone is ready, or raise why it cannot be."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            while self._failure is None:
                changed = self._changed
                step = Step.WAIT
                if self._listed:
                    step = decide(
                        self.state,
                        seconds_in_state=trio.current_time() - self._since,
                        network=self.network,
                        connecting=self._connecting,
                    )
                if step is Step.READY:
                    break
                if step is Step.UNAUTHORIZED:
                    self._failure = DeviceUnauthorized("accept this host's key on the phone", phone=self.address)
                    break
                if step in (Step.CONNECT, Step.HEAL):
                    self._connecting = True
                    nursery.start_soon(self._connect, step is Step.HEAL)
                with trio.move_on_after(REVIEW_SECONDS) as review:
                    await changed.wait()
                if review.cancelled_caught:
                    # adb 29 tells its trackers nothing when a phone becomes unauthorized: it must be asked
                    await self._ask()
            nursery.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure

    async def _watch(self) -> None:
        try:
            async with self.client.track_devices() as lists:
                async for entries in lists:
                    self._observe(entries)
        except DeviceError as error:
            self._fail(error)

    async def _ask(self) -> None:
        try:
            self._observe(await self.client.devices())
        except DeviceError as error:
            self._fail(error)

    def _observe(self, entries: tuple[DeviceEntry, ...]) -> None:
        state = next((entry.state for entry in entries if entry.serial == self.address), None)
        if state != self.state:
            self.state = state
            self._since = trio.current_time()
        self._listed = True
        self._wake()

    async def _connect(self, heal: bool) -> None:
        try:
            if heal:
                await self.client.disconnect(self.address)
            self.connected = True  # already now: a connect that is cut off may have been heard
            await self.client.connect(self.address)
        except AdbServerLost as error:
            self._fail(error)
        except DeviceError:
            pass  # refused, or hanging on a silent phone: what is listed decides, and the deadline ends it
        finally:
            self._since = trio.current_time()
            self._connecting = False
            self._wake()

    def _fail(self, error: DeviceError) -> None:
        self._failure = error
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
