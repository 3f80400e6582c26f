"""What every phone driver offers, and the errors that say whose fault it was."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import attrs

from policies.action import Action
from policies.frame import Frame
from runtime.ids import PhoneId


class DeviceError(Exception):
    """Something went wrong with a phone. `phone` names it; the text says what and, if known, what to do."""

    def __init__(self, message: str, *, phone: str = "") -> None:
        super().__init__(f"{phone}: {message}" if phone else message)
        self.phone = phone


class DeviceLost(DeviceError):
    """The phone cannot be reached any more: gone, offline, unauthorized, or silent past a deadline."""


class DeviceTimeout(DeviceLost):
    """A call ran past its total wall-clock deadline.

    adb itself has no liveness check, so this is how a frozen phone is found.
    """


class CaptureFailed(DeviceError):
    """No usable picture: empty, truncated or undecodable output. The phone may be well: try again."""


class ActionRefused(DeviceError):
    """The action cannot be right: a point off the screen, or text that this driver cannot type."""


class Unsupported(DeviceError):
    """This driver cannot do this kind of action; it never silently does nothing."""


class ActionExpired(DeviceError):
    """The action waited too long behind others, and was not begun: what it was meant for has passed."""


class CaptureMethod(StrEnum):
    """How pictures come from a phone."""

    AUTO = "auto"
    """The quickest whose pictures agree with the reference's; measured once a model, and remembered."""
    RAW = "raw"
    """`screencap`, uncompressed, with its exit status where the phone has shell_v2."""
    RAW_EXEC = "raw-exec"
    """The same through `exec:`, without a status."""
    RAW_GZIP = "raw-gzip"
    """Compressed by the phone: for slow lines."""
    PNG = "png"
    """What every phone can; slow to decode. The reference of all others."""
    SCRCPY = "scrcpy"
    """H.264 of a scrcpy server, which must be pointed at; input goes through it too."""


class Driver(StrEnum):
    """Which client talks to the adb server."""

    NATIVE = "native"
    ADBUTILS = "adbutils"
    """The library, in worker threads: one call at a time, and no deadline while it reads."""


@attrs.frozen
class ShellResult:
    """What a command on the phone said. `exit_code` is None where the phone has no shell_v2 to carry it."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None


@attrs.frozen
class DeviceInfo:
    """Who the phone is."""

    phone: PhoneId
    """`ro.serialno`, which tells two addresses of one phone apart from two phones."""
    address: str
    """What adb knows it by: a serial or host:port."""
    model: str
    android: str


@attrs.frozen
class DeviceStatistics:
    """Counts since the device was opened."""

    captures: int
    captures_failed: int
    captured_bytes: int
    actions: int
    actions_failed: int
    last_success_at: float | None
    """Run clock of the last call that the phone answered: its end-to-end liveness."""
    capture_method: str = ""
    """The `CaptureMethod` in use."""
    captures_unchanged: int = 0
    """Captures that found the screen as it was: nothing new had come over the stream."""
    actions_expired: int = 0
    """Actions that waited too long behind others and were not begun."""
    input_wait_seconds: float = 0.0
    """The longest that an action has waited for those before it."""
    input_seconds: float = 0.0
    """How long the last action took until the phone had it, beside the gesture's own time: the lag of input."""


class Device(Protocol):
    """One phone.

    Calls may be concurrent: a capture runs beside an action. Every call has a total deadline of its own and can be
    cancelled at any await; a cancelled swipe still lifts its finger.
    """

    @property
    def info(self) -> DeviceInfo:
        """Who the phone is; known as soon as the device is open."""
        ...

    async def capture(self) -> Frame:
        """A new frame. Raises `DeviceLost` or `CaptureFailed`, never returns a truncated or empty one."""
        ...

    async def act(self, action: Action) -> None:
        """Do one action; returns when the phone has taken it.

        Raises `ActionRefused`, `Unsupported` or `DeviceLost`.
        """
        ...

    async def shell(self, command: str, *, timeout_seconds: float = 10.0) -> ShellResult:
        """Run a command on the phone. Raises `DeviceLost`; a failed command is a result, not an error."""
        ...

    async def install(self, apks: Sequence[Path]) -> None:
        """Install a base APK and its splits, all or nothing.

        Raises `DeviceError` with the phone's reason, `Unsupported`, `DeviceLost`, or `OSError` for an unreadable file.
        """
        ...

    def statistics(self) -> DeviceStatistics:
        """Counts so far."""
        ...
