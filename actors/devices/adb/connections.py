"""Keeps the wanted phones connected through whatever adb server there is: does what `ConnectionStates` decides."""

import random
from collections.abc import AsyncIterator, Callable, Iterable

import attrs
import trio

from actors.devices.adb.client import AdbClient, phone_timeout
from actors.devices.adb.connection_states import AUTHORIZE_SECONDS, ConnectionStates, PhoneConnection, Standing, Step
from actors.devices.adb.errors import AdbServerLost, DeviceNotFound, DeviceOffline, DeviceUnauthorized
from actors.devices.adb.shell import run_shell
from actors.devices.adb.wire import DeviceEntry
from actors.devices.base import DeviceError, DeviceLost
from runtime.nursery import open_bare_nursery
from runtime.telemetry import counter, emit

PROBE_COMMAND = "getprop ro.serialno"
PROBE_SECONDS = 3.0  # a healthy phone takes 5 ms, one on a loaded machine a second
REVIEW_SECONDS = 0.2  # how often adb is asked while a phone is not ready; most changes wake us at once
SLOW_REVIEW_SECONDS = 1.0  # the same when all are ready, or nothing has changed for a while
QUICK_REVIEWS = 50
SERVER_PAUSE_SECONDS = 0.1  # between looks whether the server is back
_RESTARTS = counter("actors_adb_restarts_total", "Times that our adb server was gone, and every phone with it.")
_CONNECTS = counter("actors_adb_connects_connections_total", "Connects to phones that were begun.", ["step"])


@attrs.frozen
class ConnectionHealth:
    """How one phone is reached, for people and programs."""

    address: str
    standing: Standing
    listed: str | None
    """What adb says."""
    answered_seconds_ago: float | None
    """Age of the last answer of the phone itself: its health. None: it never answered."""
    connects: int
    """Since it last answered."""


@attrs.define(eq=False)
class PhoneConnections:
    """Made once a fleet; `run` does the work, everything else may be called at any time.

    Attributes:
        client_now: the adb server of the moment; raises `AdbServerLost` while there is none.
        waits_for_server: go on when the server is gone, and connect everything again with the next one.
        heard_at: when somebody else last had an answer of that address, on the run clock.
    """

    client_now: Callable[[], AdbClient]
    waits_for_server: bool = True
    heard_at: Callable[[str], float | None] = attrs.field(default=lambda _: None)
    draw: Callable[[], float] = random.random
    states: ConnectionStates = attrs.field(init=False, factory=ConnectionStates)
    restarts: int = attrs.field(init=False, default=0)
    """Times that the server was lost."""
    _failure: DeviceError | None = attrs.field(init=False, default=None)
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)
    _quiet: int = attrs.field(init=False, default=0)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work until cancelled; without `waits_for_server`, until the server is lost.

        Raises:
            AdbServerLost: (or `AdbServerUnresponsive`) only without `waits_for_server`.
        """
        task_status.started()
        was_there = is_lost = False
        while True:
            try:
                client = self.client_now()
                async with client.track_devices() as lists:
                    if is_lost:
                        emit("actors.adb.restarted", phones=len(self.states.phones), restarts=self.restarts)
                    was_there, is_lost = True, False
                    await self._serve(client, lists)
            except DeviceError as error:
                if not self.waits_for_server:
                    self._failure = error
                    self._wake()
                    raise
                if was_there and not is_lost:
                    # one event of the fleet, and not one of every phone
                    is_lost = True
                    self.restarts += 1
                    _RESTARTS.inc()
                    emit("actors.adb.lost", level="warning", error=str(error), phones=len(self.states.phones))
                self.states.server_lost()
                self._wake()
                await trio.sleep(SERVER_PAUSE_SECONDS)

    async def attach(self, client: AdbClient, address: str, *, timeout_seconds: float) -> bool:
        """As `actors.devices.adb.attach.attach`, over the connection that is kept here: it is not for others to end."""
        del client  # the server of the moment, which may be another one by then
        await self.wait_ready(address, timeout_seconds=timeout_seconds)
        return False

    async def wait_ready(self, address: str, *, timeout_seconds: float) -> None:
        """Return once the phone has answered through its connection; it is kept from now on.

        Raises:
            DeviceUnauthorized: the phone wants its owner to accept our key.
            DeviceOffline: it stayed offline, or another state, until the deadline.
            DeviceNotFound: it never appeared.
            DeviceTimeout: adb calls it `device`, and it did not answer.
            AdbServerLost: there is no server, or (without `waits_for_server`) it is the trouble.
        """
        phone = self.states.want(address)
        self._wake()
        with trio.move_on_after(timeout_seconds):
            while True:
                if self._failure is not None:
                    raise self._failure
                if phone.standing is Standing.READY:
                    return
                if phone.standing is Standing.UNAUTHORIZED and trio.current_time() - phone.since >= AUTHORIZE_SECONDS:
                    raise DeviceUnauthorized("accept this host's key on the phone", phone=address)
                with trio.move_on_after(REVIEW_SECONDS):
                    await self._changed.wait()
        self.client_now()  # says so where there is no server
        raise _late(phone, timeout_seconds)

    async def wait_authorized(self, address: str) -> None:
        """Return once adb no longer lists the phone as unauthorized, or nobody wants it any more. Asks nothing."""
        while (phone := self.states.find(address)) is not None and phone.standing is Standing.UNAUTHORIZED:
            await self._changed.wait()

    def doubt(self, address: str) -> None:
        """Somebody has lost the phone: whoever waits for it next waits for an answer of it."""
        self.states.doubt(address)
        self._wake()

    def forget(self, address: str) -> None:
        """The phone is given up: no more connects."""
        self.states.forget(address)
        self._wake()

    def health(self) -> tuple[ConnectionHealth, ...]:
        """Every wanted phone as it is now."""
        now = trio.current_time()
        self._hear()
        return tuple(
            ConnectionHealth(
                phone.address,
                phone.standing,
                phone.listed,
                None if phone.proved_at is None else max(0.0, now - phone.proved_at),
                phone.failures,
            )
            for phone in self.states.phones
        )

    # -- inside

    async def _serve(self, client: AdbClient, lists: AsyncIterator[tuple[DeviceEntry, ...]]) -> None:
        failures: list[DeviceError] = []
        async with open_bare_nursery() as nursery:

            def lose(error: DeviceError) -> None:
                failures.append(error)
                nursery.cancel_scope.cancel()

            nursery.start_soon(self._watch, lists, lose)
            while True:
                changed = self._changed
                self._hear()
                now = trio.current_time()
                for address, step in self.states.next_steps(now, self.draw):
                    nursery.start_soon(self._do, client, address, step, lose)
                with trio.move_on_at(min(self.states.next_at(now), now + self._review_seconds)) as review:
                    await changed.wait()
                if review.cancelled_caught:
                    # adb 29 tells its trackers nothing when a phone becomes unauthorized or offline: it must be asked
                    try:
                        self._observe(await client.devices())
                    except DeviceError as error:
                        lose(error)
        raise failures[0]

    @property
    def _review_seconds(self) -> float:
        is_slow = self.states.is_settled or self._quiet >= QUICK_REVIEWS
        return SLOW_REVIEW_SECONDS if is_slow else REVIEW_SECONDS

    async def _watch(self, lists: AsyncIterator[tuple[DeviceEntry, ...]], lose: Callable[[DeviceError], None]) -> None:
        try:
            async for entries in lists:
                self._observe(entries)
        except DeviceError as error:
            lose(error)

    def _observe(self, entries: Iterable[DeviceEntry]) -> None:
        if self.states.observe(entries, trio.current_time()):
            self._quiet = 0
        else:
            self._quiet += 1
        self._wake()

    def _hear(self) -> None:
        for phone in self.states.phones:
            heard_at = self.heard_at(phone.address)
            if heard_at is not None:
                self.states.proved(phone.address, heard_at)

    async def _do(self, client: AdbClient, address: str, step: Step, lose: Callable[[DeviceError], None]) -> None:
        answered = False
        try:
            if step is Step.PROBE:
                answered = await self._is_answering(client, address)
            else:
                _CONNECTS.labels(step.value).inc()
                if step in (Step.HEAL, Step.DISCONNECT):
                    await client.disconnect(address)
                if step is not Step.DISCONNECT:
                    await client.connect(address)
        except AdbServerLost as error:
            lose(error)
        except DeviceError as error:
            # refused, or hanging on a silent phone: what is listed decides, not what this call said
            emit("actors.phone.step_failed", level="debug", address=address, step=step.value, error=str(error))
        finally:
            self.states.ended(address, step, trio.current_time(), answered=answered)
            self._quiet = 0
            self._wake()

    async def _is_answering(self, client: AdbClient, address: str) -> bool:
        try:
            said = await run_shell(client, address, PROBE_COMMAND, timeout_seconds=PROBE_SECONDS, framed=False)
        except AdbServerLost:
            await client.version()  # raises where it is the server that is gone, and not the phone's connection
            return False
        except DeviceLost:
            return False
        return bool(said.stdout.strip())

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _late(phone: PhoneConnection, seconds: float) -> DeviceError:
    if phone.listed is None:
        return DeviceNotFound(f"adb listed no such phone within {seconds:g} s", phone=phone.address)
    if phone.listed == "device":
        return phone_timeout(phone.address, "a first question", seconds)
    return DeviceOffline(f"still {phone.listed!r} after {seconds:g} s", phone=phone.address)
