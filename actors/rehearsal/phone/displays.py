"""A second display of a simulated phone, as the cover of a foldable: found first, and without the app."""

import numpy as np

from actors.rehearsal.apps.base import Canvas
from actors.rehearsal.phone.spec import PhoneSpec

MAIN_DISPLAY = "4619827259835644672"
SECOND_DISPLAY = "4619827551948147201"
GRAY = 40  # it is on, and shows nothing: not black, so that only a client that chooses is right
WARNING = (
    "[Warning] Multiple displays were found, but no display id was specified! Defaulting to the first display found, "
    "however this default is not guaranteed to be consistent across captures. A display id should be specified.\n"
    "A display id can be specified with the [-d display-id] option.\n"
    'See "dumpsys SurfaceFlinger --display-id" for valid display IDs.'
)


def displays_of(spec: PhoneSpec) -> tuple[str, ...]:
    """Identifiers, in the order in which the phone finds them: the first is captured where none is asked for."""
    return (MAIN_DISPLAY,) if spec.second_size is None else (SECOND_DISPLAY, MAIN_DISPLAY)


def dump_display_ids(spec: PhoneSpec) -> list[str]:
    """`dumpsys SurfaceFlinger --display-id` in Android 13's words."""
    return [
        f'Display {display} (HWC display {number}): port={number} pnpId=CRL displayName="CORRAL_{number}"'
        for number, display in enumerate(displays_of(spec))
    ]


def dump_viewports(spec: PhoneSpec) -> str:
    """The line of `dumpsys display` that says which display is the default one, `displayId=0`."""
    main = f"displayId=0, uniqueId='local:{MAIN_DISPLAY}'"
    viewports = [f"DisplayViewport{{type=INTERNAL, valid=true, isActive=true, {main}}}"]
    if spec.second_size is not None:
        second = f"displayId=2, uniqueId='local:{SECOND_DISPLAY}'"
        viewports.insert(0, f"DisplayViewport{{type=INTERNAL, valid=true, isActive=false, {second}}}")
    return f"  mViewports=[{', '.join(viewports)}]"


def second_screen(size: tuple[int, int]) -> Canvas:
    """What the second display shows, as RGB."""
    width, height = size
    return np.full((height, width, 3), GRAY, np.uint8)
