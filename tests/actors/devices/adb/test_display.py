"""Geometry out of what different Androids print."""

import pytest

from actors.devices.adb.display import parse_geometry
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
