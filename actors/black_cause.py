"""Why a phone's pictures are black: a protected window says so in `dumpsys window`."""

import re

from actors.devices.base import Device, DeviceError

WINDOW_COMMAND = "dumpsys window windows"
ASK_SECONDS = 5.0
FLAG_SECURE = 0x2000
"""`WindowManager.LayoutParams.FLAG_SECURE`."""

PROTECTED = "the window in front is protected (FLAG_SECURE): no capture method shows it"
_FOCUS = re.compile(r"mCurrentFocus=Window\{(?P<id>[0-9a-f]+) ")
_WINDOW = re.compile(r"^\s*Window #\d+ Window\{(?P<id>[0-9a-f]+) ", re.MULTILINE)
_FLAGS = re.compile(r"\bfl=(?:#(?P<hex>[0-9a-f]+)|(?P<names>[A-Z][A-Z_ ]*))")


def is_protected(text: str) -> bool:
    """Whether the window with the focus has FLAG_SECURE, in the words of Android 7 (hexadecimal) to 15 (names)."""
    focus = _FOCUS.search(text)
    if focus is None:
        return False
    starts = list(_WINDOW.finditer(text))
    ends = [*(one.start() for one in starts), len(text)][1:]
    for start, end in zip(starts, ends, strict=False):
        if start["id"] != focus["id"]:
            continue
        flags = _FLAGS.search(text, start.end(), end)
        if flags is None:
            return False
        if flags["hex"] is not None:
            return bool(int(flags["hex"], 16) & FLAG_SECURE)
        return "SECURE" in flags["names"].split()
    return False


async def black_cause(device: Device) -> str | None:
    """What the phone says of a black screen; None where it says nothing, or cannot be asked now."""
    try:
        said = await device.shell(WINDOW_COMMAND, timeout_seconds=ASK_SECONDS)
    except DeviceError:
        return None  # the next capture tells what is wrong with the phone
    return PROTECTED if is_protected(said.stdout.decode("utf-8", "replace")) else None
