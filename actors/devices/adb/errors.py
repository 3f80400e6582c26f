"""What can go wrong between us, the adb server and a phone; upper rooms see the base classes alone."""

from actors.devices.base import CaptureFailed, DeviceError, DeviceLost, DeviceTimeout


class AdbServerUnavailable(DeviceLost):
    """No adb server can be had: no binary, no port, or one that does not come up."""


class AdbServerLost(DeviceLost):
    """The adb server is gone, or hung up on us. It forgets every TCP phone: each must be connected again."""


class AdbServerUnresponsive(DeviceTimeout):
    """The adb server takes connections and says nothing within the deadline."""


class AdbProtocolError(DeviceError):
    """The adb server or the phone said something that this protocol does not have."""


class AdbRefused(DeviceError):
    """The adb server or the phone refused a request; the text is its reason."""


class ServiceClosed(DeviceLost):
    """The phone closed a service as it was opened: it is going away, or has no such service."""


class DeviceNotFound(DeviceLost):
    """The adb server knows no phone of that serial."""


class DeviceOffline(DeviceLost):
    """The adb server lists the phone as offline; disconnecting and connecting again heals most."""


class DeviceUnauthorized(DeviceLost):
    """The phone has not accepted this host's key; nothing helps until its owner does."""


class TruncatedCapture(CaptureFailed):
    """Fewer bytes arrived than the header of the picture promised."""


class GeometryUnsettled(CaptureFailed):
    """The screen kept turning while it was read: picture and geometry never agreed."""


class DisplayUnsettled(CaptureFailed):
    """The phone has several displays and was told none, or one that is not there any more."""


class PhoneTaken(DeviceLost):
    """The address leads to a phone that is driven already, or to another one than before."""


class StreamUnavailable(DeviceError):
    """No scrcpy server can be run on the phone: its file, its version, or the phone's encoder. The text says which."""


class StreamBroken(DeviceError):
    """The video stream ended or became unreadable; the phone may be well: begin it anew."""


class TransferFailed(DeviceError):
    """The phone refused a push or pull; the text is its reason."""


def refusal_for(text: str, *, phone: str) -> DeviceError:
    """The typed error behind a FAIL of the adb server; its words differ little between versions 29 and 36."""
    lowered = text.lower()
    if "unauthorized" in lowered or "authorizing" in lowered:
        return DeviceUnauthorized(f"{text}; accept this host's key on the phone", phone=phone)
    if "offline" in lowered or "connecting" in lowered:
        return DeviceOffline(text, phone=phone)
    if "not found" in lowered or "no devices" in lowered:
        return DeviceNotFound(text, phone=phone)
    if lowered.strip() == "closed":
        return ServiceClosed("the service was closed as it was opened", phone=phone)
    return AdbRefused(text, phone=phone)
