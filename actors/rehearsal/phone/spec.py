"""What a simulated phone is, before it runs."""

from enum import StrEnum

import attrs

from actors.rehearsal.phone.auth import AuthMode
from actors.rehearsal.phone.wire import MAX_PAYLOAD, MAX_PAYLOAD_V1, VERSION_CHECKSUM, VERSION_NO_CHECKSUM

DEFAULT_FEATURES = frozenset({"shell_v2", "cmd", "stat_v2", "ls_v2", "fixed_push_mkdir", "delayed_ack"})
"""What a phone of Android 13 offers, less what needs a service that is not simulated (abb, apex, sendrecv_v2)."""

ADB_SCANNED_PORTS = range(5554, 5586)
"""Every adb server looks for emulators here by itself: a phone on such a port would be listed twice."""

MIN_SIDE, MAX_SIDE = 64, 8192  # smaller than an icon, larger than any phone: a typing mistake


class VideoKind(StrEnum):
    """What the scrcpy server of a phone sends."""

    LIVE = "live"
    """The screen, encoded as it changes."""
    SHARED = "shared"
    """A few seconds of the app by itself, encoded once for all phones of the process: cheap enough for a fleet.

    `screencap -p` then prints one of a few pictures that were encoded once, too.
    """


def package_for(app: str) -> str:
    """The package name under which a bundled app is installed."""
    return f"dev.corral.{app}"


@attrs.frozen(kw_only=True)
class PhoneSpec:
    """One simulated phone.

    Raises:
        ValueError: a port that adb scans, a size that no phone has, or a payload limit outside the protocol's.
    """

    serial: str
    """`ro.serialno`: the phone's identity."""
    port: int = 0
    """TCP port on 127.0.0.1; 0 takes any free one."""
    model: str = "Corral One"
    android: str = "13"
    sdk: int = 33
    width: int = 720
    """Pixels across, held upright."""
    height: int = 1280
    """Pixels down, held upright."""
    density: int = 320
    """Dots per inch."""
    app: str | None = None
    """The bundled app that runs after boot; None shows the launcher."""
    seed: int = 0
    """Seed of the app's first start; each later start takes the next one, `SEED_STRIDE` further."""
    auth: AuthMode = AuthMode.NONE
    features: frozenset[str] = DEFAULT_FEATURES
    version: int = VERSION_NO_CHECKSUM
    """`VERSION_CHECKSUM` or `VERSION_NO_CHECKSUM`: an old phone sends and checks sums."""
    max_payload: int = MAX_PAYLOAD
    """The phone's `maxdata` in bytes; the smaller of both sides' holds."""
    video: VideoKind = VideoKind.LIVE
    stamped: bool = False
    """The machine's monotonic clock stands in every picture (`stamp.read_stamp`)."""
    second_size: tuple[int, int] | None = None
    """Of a second display, which shows nothing and is found before the first; None: there is one display."""
    grainy: bool = False
    """A fixed grain lies over every picture: a PNG of it is as large as of a game with painted scenery."""

    def __attrs_post_init__(self) -> None:
        if self.port in ADB_SCANNED_PORTS:
            raise ValueError(f"port {self.port}: adb servers scan 5554 to 5585 by themselves; take another")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port {self.port} is not between 0 and 65535")
        if not (MIN_SIDE <= self.width <= MAX_SIDE and MIN_SIDE <= self.height <= MAX_SIDE):
            raise ValueError(f"size {self.width}x{self.height}: each side must be {MIN_SIDE} to {MAX_SIDE}")
        if self.second_size is not None and not all(MIN_SIDE <= side <= MAX_SIDE for side in self.second_size):
            raise ValueError(f"second size {self.second_size}: each side must be {MIN_SIDE} to {MAX_SIDE}")
        if not MAX_PAYLOAD_V1 <= self.max_payload <= MAX_PAYLOAD:
            raise ValueError(f"max_payload {self.max_payload} is not between {MAX_PAYLOAD_V1} and {MAX_PAYLOAD}")
        if self.version not in (VERSION_CHECKSUM, VERSION_NO_CHECKSUM):
            raise ValueError(f"version {self.version:#x} is neither of the two that exist")


def specs_for(
    count: int,
    *,
    app: str | None,
    seed: int,
    width: int = 720,
    height: int = 1280,
    base_port: int = 16000,
    first_number: int = 0,
    video: VideoKind = VideoKind.LIVE,
    stamped: bool = False,
    grainy: bool = False,
    second_size: tuple[int, int] | None = None,
) -> tuple[PhoneSpec, ...]:
    """`count` phones on consecutive ports (or on free ones if `base_port` is 0), each with a seed of its own.

    Serial numbers count from `first_number`, so that several groups of phones stay apart.

    Raises:
        ValueError: as `PhoneSpec`.
    """
    return tuple(
        PhoneSpec(
            serial=f"CORRAL{first_number + number:04d}",
            port=base_port + number if base_port else 0,
            app=app,
            seed=seed + number,
            width=width,
            height=height,
            video=video,
            stamped=stamped,
            grainy=grainy,
            second_size=second_size,
        )
        for number in range(count)
    )
