"""The screen's size, rotation and density, and the phone's displays, in the words of Android 7 to 15."""

import re

from policies.geometry import Geometry

GEOMETRY_COMMAND = "dumpsys window displays"
"""Cheap (no app is asked), and all three in one answer."""

DISPLAYS_COMMAND = "dumpsys SurfaceFlinger --display-id"
VIEWPORTS_COMMAND = "dumpsys display"
"""Long; asked only of a phone with several displays."""

_DISPLAY = re.compile(r"^Display (\d{1,20})\b", re.MULTILINE)
_DEFAULT_VIEWPORT = re.compile(r"\bdisplayId=0, uniqueId='?local:(\d{1,20})\b")
_DISPLAY_COMPLAINT = re.compile(rb"display id|multiple displays", re.IGNORECASE)
_FRAMES = re.compile(r"DisplayFrames w=(\d+) h=(\d+) r=(\d)")
_CURRENT = re.compile(r"\bcur=(\d+)x(\d+)")
_ROTATION = re.compile(r"\bm(?:Current)?Rotation=(?:ROTATION_)?(\d+)")
_BASE_DENSITY = re.compile(r"\bbase=\d+x\d+ (\d+)dpi")
_INIT_DENSITY = re.compile(r"\binit=\d+x\d+ (\d+)dpi")


def parse_geometry(text: str) -> Geometry | None:
    """Geometry of the first display in `dumpsys window displays`; None if size, rotation or density is not there."""
    frames = _FRAMES.search(text)
    if frames is not None:
        width, height, rotation = (int(group) for group in frames.groups())
    else:
        current, turned = _CURRENT.search(text), _ROTATION.search(text)
        if current is None or turned is None:
            return None
        width, height = int(current.group(1)), int(current.group(2))
        rotation = int(turned.group(1))
        if rotation >= 90:  # ROTATION_90 in words, 1 in older ones
            rotation //= 90
    density = _BASE_DENSITY.search(text) or _INIT_DENSITY.search(text)
    if density is None or rotation > 3 or not width or not height:
        return None
    return Geometry(width=width, height=height, rotation=rotation, density=int(density.group(1)))


def parse_display_ids(text: str) -> tuple[str, ...]:
    """Physical displays in `DISPLAYS_COMMAND`, in its order; empty where the phone does not know the command."""
    return tuple(dict.fromkeys(_DISPLAY.findall(text)))


def parse_default_display(text: str) -> str | None:
    """The display that is logical display 0, which apps and touches belong to, out of `VIEWPORTS_COMMAND`."""
    found = _DEFAULT_VIEWPORT.search(text)
    return None if found is None else found.group(1)


def is_display_complaint(text: bytes) -> bool:
    """True for `screencap`'s words that it was told no display where there are several, or one that is not there."""
    return _DISPLAY_COMPLAINT.search(text) is not None
