"""`input`: taps, swipes, held fingers, keys and text on a simulated phone, in real time."""

from collections.abc import Mapping

import trio

from actors.rehearsal.apps.base import TouchPhase
from actors.rehearsal.phone.handset import Handset
from actors.rehearsal.phone.process import Process, Program, UsageError, number

MOVE_INTERVAL_SECONDS = 1 / 60  # a finger moves once a frame, as a touch panel of 60 Hz reports it
DEFAULT_SWIPE_MS = 300.0  # Android's own, frameworks/base/cmds/input
LONG_PRESS_SECONDS = 0.5

KEY_NAMES: Mapping[int, str] = {
    3: "HOME", 4: "BACK", 24: "VOLUME_UP", 25: "VOLUME_DOWN", 26: "POWER", 61: "TAB", 66: "ENTER", 67: "DEL",
    82: "MENU", 187: "APP_SWITCH", 224: "WAKEUP",
}  # fmt: skip
"""Android's key codes, as in `android.view.KeyEvent`."""

_SOURCES = frozenset({"touchscreen", "touchpad", "mouse", "keyboard", "stylus", "trackball"})
_PHASES = {"DOWN": TouchPhase.DOWN, "MOVE": TouchPhase.MOVE, "UP": TouchPhase.UP, "CANCEL": TouchPhase.UP}


async def _input(process: Process) -> int:
    words = list(process.arguments)
    if words and words[0] in _SOURCES:
        words.pop(0)
    if words[:1] == ["-d"]:
        del words[:2]
    command, rest = (words[0], words[1:]) if words else ("", [])
    if delay := process.handset.effects.input_delay_seconds:
        await trio.sleep(delay)
    match command, rest:
        case "tap", [x, y]:
            point = _pixel(x, y)
            await swipe(process.handset, point, point, 0.0)
        case "swipe" | "draganddrop", [x, y, to_x, to_y, *duration]:
            milliseconds = number(duration[0], "duration") if duration else DEFAULT_SWIPE_MS
            await swipe(process.handset, _pixel(x, y), _pixel(to_x, to_y), max(0.0, milliseconds / 1000))
        case "motionevent", [phase, x, y] if phase in _PHASES:
            await process.handset.touch(_PHASES[phase], *_pixel(x, y))
        case "keyevent", keys:
            await _press(process.handset, keys)
        case "text", [text]:
            await process.handset.type_text(text.replace("%s", " "))
        case _:
            raise UsageError(f"Error: Unknown command or wrong arguments: input {' '.join(process.arguments)}", 255)
    return 0


async def swipe(handset: Handset, start: tuple[int, int], end: tuple[int, int], seconds: float) -> None:
    """Touch at `start`, glide to `end` in real time, lift. The finger is lifted even if this is cancelled."""
    began_at = trio.current_time()
    where = start
    try:
        await handset.touch(TouchPhase.DOWN, *start)
        while (elapsed := trio.current_time() - began_at) < seconds:
            await trio.sleep(min(MOVE_INTERVAL_SECONDS, seconds - elapsed))
            share = min(1.0, (trio.current_time() - began_at) / seconds)
            where = (
                round(start[0] + (end[0] - start[0]) * share),
                round(start[1] + (end[1] - start[1]) * share),
            )
            await handset.touch(TouchPhase.MOVE, *where)
        where = end
    finally:
        with trio.CancelScope(shield=True):  # bounded: it waits for one drawing of the screen at most
            await handset.touch(TouchPhase.UP, *where)


async def _press(handset: Handset, keys: list[str]) -> None:
    if keys and keys[0] in ("--longpress", "--doubletap", "--async"):
        keys = keys[1:]
    if not keys:
        raise UsageError("Error: keyevent needs a key", 255)
    for key in keys:
        name = KEY_NAMES.get(int(key), key) if key.isdigit() else key.removeprefix("KEYCODE_")
        await handset.press(name)


def _pixel(x: str, y: str) -> tuple[int, int]:
    return int(number(x, "x")), int(number(y, "y"))


INPUT_PROGRAMS: dict[str, Program] = {"input": _input}
