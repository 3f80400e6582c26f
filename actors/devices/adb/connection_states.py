"""What to do next so that every wanted phone is connected: a state machine a phone, and one door that all go through.

What adb lists is all that counts: the words of `connect` are no evidence, and neither is `device`, which adb goes on
saying of a phone that hangs. Ready is who is listed as `device` and has answered a question since.
"""

import math
import re
from collections.abc import Callable, Iterable
from enum import StrEnum

import attrs

from actors.devices.adb.wire import DeviceEntry

HEAL_AFTER_SECONDS = 1.0  # offline for longer than a handshake on a slow line: disconnect and connect heal it
STUCK_SECONDS = 15.0  # `connecting` or `authorizing` for longer than adb's own 10 s: nothing comes of it
AUTHORIZE_SECONDS = 3.0  # a phone that takes our key at once is `unauthorized` for the blink before it
RECONNECT_SECONDS = 0.5  # the first pause of a phone that refuses or is not up yet; it doubles
RECONNECT_CAP_SECONDS = 8.0
AT_ONCE = 4  # connects under way; the client of a server that does not bear that lets them begin one by one
SLOW_SECONDS = 1.0  # a connect that takes longer is likely of a dead phone, and keeps no other one from its turn
MOST_AT_ONCE = 64  # with those
STAGGER_SECONDS = 0.02  # between two connects: a restarted server must not meet a hundred in one moment
PROBES_AT_ONCE = 8
PROBE_EVERY_SECONDS = 15.0  # of a phone that nobody else has heard from
PROBES_BEFORE_HEAL = 2  # a busy phone may miss one
_NETWORK_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\]):\d{1,5}")


class Step(StrEnum):
    """Something to do about one address."""

    CONNECT = "connect"
    HEAL = "heal"
    """Disconnect, then connect."""
    PROBE = "probe"
    """Ask the phone itself, end to end."""
    DISCONNECT = "disconnect"


class Standing(StrEnum):
    """How a phone stands."""

    ABSENT = "absent"
    """adb does not list it."""
    CONNECTING = "connecting"
    OFFLINE = "offline"
    UNAUTHORIZED = "unauthorized"
    """Its owner must accept our key; until what adb lists changes, nothing is tried."""
    UNPROVEN = "unproven"
    """Listed as `device`; it has not answered since it is."""
    SILENT = "silent"
    """Listed as `device`, and asked in vain."""
    READY = "ready"


def is_network_address(address: str) -> bool:
    """True for host:port, which can be connected; a USB serial can only be waited for."""
    return _NETWORK_ADDRESS.fullmatch(address) is not None


@attrs.define
class PhoneConnection:
    """What is known of one wanted address; times are of the run clock."""

    address: str
    listed: str | None = None
    """The state that adb lists; None: it does not."""
    since: float = -math.inf
    """It has been listed so, or our last try ended, whichever is later."""
    busy: Step | None = None
    failures: int = 0
    """Connects since the phone last answered."""
    silent: int = 0
    """Probes in a row without an answer."""
    not_before: float = -math.inf
    """No connect before this."""
    is_proven: bool = False
    """It has answered since it is listed as `device` and since anybody doubted it."""
    proved_at: float | None = None
    """When it last answered, whoever asked."""
    connected: bool = False
    """A connect of ours may have been heard."""
    begun_at: float = -math.inf
    """Our latest connect."""

    @property
    def is_network(self) -> bool:
        """It can be connected."""
        return is_network_address(self.address)

    @property
    def standing(self) -> Standing:
        """In one word."""
        if self.listed == "device":
            if self.is_proven:
                return Standing.READY
            return Standing.SILENT if self.silent else Standing.UNPROVEN
        if self.listed == "unauthorized":
            return Standing.UNAUTHORIZED
        if self.busy in (Step.CONNECT, Step.HEAL):
            return Standing.CONNECTING
        return Standing.ABSENT if self.listed is None else Standing.OFFLINE


@attrs.define
class ConnectionStates:
    """All wanted phones. It is told what is seen and what has ended, and says what to begin."""

    at_once: int = AT_ONCE
    _phones: dict[str, PhoneConnection] = attrs.field(init=False, factory=dict)
    _unwanted: set[str] = attrs.field(init=False, factory=set)
    _door_opens_at: float = attrs.field(init=False, default=-math.inf)
    _is_listed: bool = attrs.field(init=False, default=False)

    @property
    def phones(self) -> tuple[PhoneConnection, ...]:
        """Every wanted phone, in the order in which they were wanted."""
        return tuple(self._phones.values())

    def find(self, address: str) -> PhoneConnection | None:
        """What is known of an address that is wanted."""
        return self._phones.get(address)

    def want(self, address: str) -> PhoneConnection:
        """Keep this address connected from now on."""
        self._unwanted.discard(address)
        return self._phones.setdefault(address, PhoneConnection(address))

    def forget(self, address: str) -> None:
        """Nobody wants it any more."""
        known = self._phones.pop(address, None)
        if known is not None and known.connected:
            self._unwanted.add(address)

    def doubt(self, address: str) -> None:
        """Somebody has lost the phone: it is ready again once it has answered."""
        known = self._phones.get(address)
        if known is not None:
            known.is_proven = False

    def observe(self, entries: Iterable[DeviceEntry], now: float) -> bool:
        """What adb lists now. Returns True when that changed the state of a wanted phone."""
        states = {entry.serial: entry.state for entry in entries}
        self._is_listed = True
        changed = False
        for phone in self._phones.values():
            state = states.get(phone.address)
            if state != phone.listed:
                phone.listed, phone.since = state, now
                phone.is_proven, phone.silent = False, 0
                changed = True
        return changed

    def server_lost(self) -> None:
        """A new server knows no phone, and is not to blame the phones for that."""
        self._is_listed = False
        self._unwanted.clear()
        for phone in self._phones.values():
            phone.listed, phone.since, phone.not_before = None, -math.inf, -math.inf
            phone.busy, phone.failures, phone.silent = None, 0, 0
            phone.is_proven = phone.connected = False

    def proved(self, address: str, at: float) -> None:
        """The phone answered somebody at that time."""
        phone = self._phones.get(address)
        if phone is not None and (phone.proved_at is None or at > phone.proved_at):
            phone.proved_at = at
            if phone.is_proven:
                phone.silent = 0

    def ended(self, address: str, step: Step, now: float, *, answered: bool = False) -> None:
        """A step is over; `answered` tells of a probe."""
        phone = self._phones.get(address)
        if phone is None or phone.busy is not step:
            return  # it was forgotten meanwhile, or the server was
        phone.busy = None
        if step is not Step.PROBE:
            phone.since = now
        elif not answered:
            phone.silent += 1
            phone.is_proven = phone.is_proven and phone.silent < PROBES_BEFORE_HEAL
        else:
            phone.failures = phone.silent = 0
            phone.not_before = -math.inf
            phone.proved_at = now
            phone.is_proven = phone.listed == "device"

    def next_steps(self, now: float, draw: Callable[[], float]) -> list[tuple[str, Step]]:
        """What to begin now, marked as begun: the longest without a connection first.

        Args:
            now: the run clock.
            draw: a random number in [0, 1), for the pauses.
        """
        if not self._is_listed:
            return []
        steps = [(address, Step.DISCONNECT) for address in sorted(self._unwanted)]
        self._unwanted.clear()
        probing = sum(phone.busy is Step.PROBE for phone in self._phones.values())
        under_way = [phone for phone in self._phones.values() if phone.busy in (Step.CONNECT, Step.HEAL)]
        quick = sum(now - phone.begun_at < SLOW_SECONDS for phone in under_way)
        room = min(self.at_once - quick, MOST_AT_ONCE - len(under_way))
        # those that answered before first: of twenty dead phones each would take a second from them
        for phone in sorted(self._phones.values(), key=lambda phone: (min(phone.failures, 1), phone.since)):
            step = _step_for(phone, now)
            if step is None:
                continue
            if step is Step.PROBE and probing < PROBES_AT_ONCE:
                probing += 1
            elif step in (Step.CONNECT, Step.HEAL) and room > 0 and now >= self._door_opens_at:
                room -= 1
                phone.begun_at = now
                self._door_opens_at = now + STAGGER_SECONDS
                phone.failures += 1
                pause = min(RECONNECT_CAP_SECONDS, RECONNECT_SECONDS * 2.0 ** min(phone.failures - 1, 10))
                phone.not_before = now + pause * (1 + draw()) / 2
                phone.connected, phone.is_proven = True, False
            else:
                continue
            phone.busy = step
            steps.append((phone.address, step))
        return steps

    def next_at(self, now: float) -> float:
        """When `next_steps` may have something to say though nothing was told; infinite: never."""
        due = [self._door_opens_at] if self._door_opens_at > now else []
        for phone in self._phones.values():
            if phone.busy is None:
                due += [at for at in _times_of(phone) if at > now]
            elif phone.begun_at + SLOW_SECONDS > now:
                due.append(phone.begun_at + SLOW_SECONDS)
        return min(due, default=math.inf)

    @property
    def is_settled(self) -> bool:
        """Every wanted phone is ready."""
        return all(phone.standing is Standing.READY for phone in self._phones.values())


def _step_for(phone: PhoneConnection, now: float) -> Step | None:
    if phone.busy is not None or phone.listed == "unauthorized":
        return None
    may_connect = phone.is_network and now >= phone.not_before
    if phone.listed == "device":
        if phone.silent >= PROBES_BEFORE_HEAL and phone.is_network:
            return Step.HEAL if may_connect else None
        is_old = phone.proved_at is None or now - phone.proved_at >= PROBE_EVERY_SECONDS
        return Step.PROBE if not phone.is_proven or is_old else None
    if not may_connect:
        return None
    if phone.listed is None:
        return Step.CONNECT
    patience = HEAL_AFTER_SECONDS if phone.listed == "offline" else STUCK_SECONDS
    return Step.HEAL if now - phone.since >= patience else None


def _times_of(phone: PhoneConnection) -> tuple[float, ...]:
    proved_at = -math.inf if phone.proved_at is None else phone.proved_at
    return (
        phone.not_before,
        phone.since + HEAL_AFTER_SECONDS,
        phone.since + STUCK_SECONDS,
        proved_at + PROBE_EVERY_SECONDS,
    )
