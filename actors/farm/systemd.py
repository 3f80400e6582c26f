"""What systemd is told, by its socket protocol (sd_notify(3)): ready, reloading, stopping, and that we are alive."""

import os
import socket
import time
from collections.abc import Callable

import attrs
import trio

from runtime.telemetry import emit

_OURS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
MAX_STATUS = 200


@attrs.frozen
class Notifier:
    """Tells systemd; without its socket it tells nobody."""

    address: str | None
    watchdog_seconds: float | None
    """A sign of life is due so often; None: it does not watch us."""

    def tell(self, **fields: str) -> None:
        """Send fields, as `READY="1"`. A socket that does not take them is an event, no error."""
        if self.address is None:
            return
        message = "\n".join(f"{key}={value}" for key, value in fields.items())
        place = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.connect(place)
                sock.send(message.encode())
        except OSError as error:
            emit("actors.farm.notify_failed", level="warning", error=error.strerror or str(error))

    def ready(self, status: str) -> None:
        """Started, or reloaded."""
        self.tell(READY="1", STATUS=status[:MAX_STATUS])

    def reloading(self) -> None:
        """A reload begins; `ready` ends it."""
        self.tell(RELOADING="1", MONOTONIC_USEC=str(time.monotonic_ns() // 1000))

    def stopping(self, status: str) -> None:
        """The end begins."""
        self.tell(STOPPING="1", STATUS=status[:MAX_STATUS])

    async def run_watchdog(self, is_alive: Callable[[], bool]) -> None:
        """Give signs of life for as long as there are some, for ever; systemd restarts us when there are none."""
        if self.watchdog_seconds is None:
            return
        while True:
            if is_alive():
                self.tell(WATCHDOG="1")
            await trio.sleep(self.watchdog_seconds / 3)


def take_notifier() -> Notifier:
    """Of the environment; the variables are removed, as children must not speak for us."""
    address, microseconds, pid = (os.environ.pop(name, None) for name in _OURS)
    watched = microseconds is not None and microseconds.isdecimal() and pid in (None, str(os.getpid()))
    return Notifier(address or None, int(microseconds) / 1e6 if watched and microseconds else None)
