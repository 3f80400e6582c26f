"""Geometry out of what different Androids print."""

import pytest

from actors.devices.adb.display import (
    is_display_complaint,
    parse_default_display,
    parse_display_ids,
    parse_geometry,
)
from policies.geometry import Geometry

ANDROID_13 = """  Display: mDisplayId=0 (organized)
    init=1080x2400 420dpi base=1080x2400 400dpi cur=2400x1080 app=2400x1080 rng=1080x1017-2400x2337
    mCurrentRotation=ROTATION_90
  DisplayFrames w=2400 h=1080 r=1
"""
ANDROID_12_WITHOUT_FRAMES = """    init=720x1280 320dpi cur=720x1280 app=720x1280 rng=720x672-1280x1232
    mRotation=ROTATION_180 mDeferredRotationPauseCount=0
"""
ANDROID_8 = """    init=720x1280 320dpi cur=1280x720 app=1280x720 rng=720x672-1280x1232
      mRotation=3 mAltOrientation=false
"""


@pytest.mark.parametrize(
    ("text", "geometry"),
    [
        (ANDROID_13, Geometry(2400, 1080, rotation=1, density=400)),
        (ANDROID_12_WITHOUT_FRAMES, Geometry(720, 1280, rotation=2, density=320)),
        (ANDROID_8, Geometry(1280, 720, rotation=3, density=320)),
        ("", None),
        ("Can't find service: window", None),
        ("init=720x1280 320dpi cur=1280x720", None),
        ("DisplayFrames w=0 h=0 r=0 init=720x1280 320dpi", None),
    ],
)
def test_geometry(text: str, geometry: Geometry | None) -> None:
    assert parse_geometry(text) == geometry


def test_displays() -> None:
    text = """Display 4630946545580055170 (HWC display 0): port=130 pnpId=GGL displayName="Inner"
Display 4630947043778501763 (HWC display 3): port=131 pnpId=GGL displayName="Display 77"
Display 4630946545580055170 (HWC display 0): port=130
"""
    assert parse_display_ids(text) == ("4630946545580055170", "4630947043778501763")
    for other in ("", "Can't find service: SurfaceFlinger", "Display ; reboot", "Display -1", "Display " + "9" * 21):
        assert parse_display_ids(other) == ()


@pytest.mark.parametrize(
    ("text", "display"),
    [
        ("mViewports=[DisplayViewport{type=INTERNAL, displayId=2, uniqueId='local:7'}, DisplayViewport{type=INTERNAL, "
         "valid=true, isActive=true, displayId=0, uniqueId='local:46', physicalPort=1}]", "46"),
        ("Viewport INTERNAL: displayId=0, uniqueId=local:4619827259835644672, port=0", "4619827259835644672"),
        ("displayId=0, uniqueId='virtual:com.android'", None),
        ("displayId=00, uniqueId='local:3'", None),
        ("", None),
    ],
)  # fmt: skip
def test_default_display(text: str, display: str | None) -> None:
    assert parse_default_display(text) == display


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (b"[Warning] Multiple displays were found, but no display id was specified!", True),
        (b"Display Id '7' is not valid.", True),
        (b"Invalid display ID: 7", True),
        (b"Can't find surface", False),
        (b"", False),
    ],
)
def test_complaints_of_displays(text: bytes, is_one: bool) -> None:
    assert is_display_complaint(text) == is_one
