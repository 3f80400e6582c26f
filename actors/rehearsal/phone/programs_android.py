"""Android's own programs on a simulated phone: properties, window, screen, activities and log."""

import re
import time

import attrs
import trio

from actors.rehearsal.apps.base import LogLine
from actors.rehearsal.phone.displays import SECOND_DISPLAY, WARNING, displays_of, dump_display_ids, dump_viewports
from actors.rehearsal.phone.handset import Handset
from actors.rehearsal.phone.process import Process, Program, UsageError
from actors.rehearsal.phone.programs_unix import store
from actors.rehearsal.phone.spec import MAX_SIDE, MIN_SIDE

LOG_POLL_SECONDS = 0.1  # a follower of the log sees a line at most this late
MAIN_ACTIVITY = ".MainActivity"
LAUNCHER_PACKAGE = "dev.corral.launcher"
_SIZE = re.compile(r"(\d+)x(\d+)")


def properties_of(handset: Handset) -> dict[str, str]:
    """What `getprop` knows."""
    spec = handset.spec
    return {
        "ro.serialno": spec.serial,
        "ro.boot.serialno": spec.serial,
        "ro.product.model": spec.model,
        "ro.product.manufacturer": "Corral",
        "ro.product.brand": "corral",
        "ro.product.name": "corral",
        "ro.product.device": "corral",
        "ro.product.cpu.abi": "x86_64",
        "ro.build.version.release": spec.android,
        "ro.build.version.sdk": str(spec.sdk),
        "ro.build.characteristics": "emulator",
        "ro.sf.lcd_density": str(spec.density),
        "sys.boot_completed": "1",
    }


async def _getprop(process: Process) -> int:
    properties = properties_of(process.handset)
    name, default = (*process.arguments, "", "")[:2]
    if name:
        await process.print(properties.get(name, default))
    else:
        for name, value in sorted(properties.items()):
            await process.print(f"[{name}]: [{value}]")
    return 0


async def _wm(process: Process) -> int:
    handset, spec = process.handset, process.handset.spec
    match process.arguments:
        case ("size",):
            await process.print(f"Physical size: {spec.width}x{spec.height}")
            if handset.natural_size != (spec.width, spec.height):
                await process.print("Override size: {}x{}".format(*handset.natural_size))
        case ("size", "reset"):
            await handset.set_size(None)
        case ("size", wanted) if (found := _SIZE.fullmatch(wanted)) is not None:
            size = (int(found.group(1)), int(found.group(2)))
            if not all(MIN_SIDE <= side <= MAX_SIDE for side in size):
                raise UsageError(f"Error: size {wanted} is outside {MIN_SIDE} to {MAX_SIDE}")
            await handset.set_size(size)
        case ("density",):
            await process.print(f"Physical density: {spec.density}")
            if handset.density != spec.density:
                await process.print(f"Override density: {handset.density}")
        case ("density", "reset"):
            handset.density = spec.density
        case ("density", wanted) if wanted.isdigit():
            handset.density = int(wanted)
        case _:
            raise UsageError(f"Error: unknown command: wm {' '.join(process.arguments)}", 255)
    return 0


async def _screencap(process: Process) -> int:
    words, handset = list(process.arguments), process.handset
    display = None
    if "-d" in words:
        at = words.index("-d")
        display = words[at + 1] if at + 1 < len(words) else ""
        del words[at : at + 2]
    files = [word for word in words if not word.startswith("-")]
    if len(files) > 1 or display == "":
        raise UsageError("usage: screencap [-hp] [-d display-id] [FILENAME]")
    known = displays_of(handset.spec)
    if display is None and len(known) > 1:
        await process.complain(WARNING)
    elif display is not None and display not in known:
        raise UsageError(f"Display Id '{display}' is not valid.")
    is_png = "-p" in words or any(name.endswith(".png") for name in files)
    is_second = (display or next(iter(known))) == SECOND_DISPLAY
    if is_png:
        png = await (handset.second_png() if is_second else handset.screencap_png())
        parts: tuple[bytes | memoryview, ...] = (png,)
    else:
        parts = await (handset.second_raw() if is_second else handset.screencap_raw())
    if files:
        store(process.handset, files[0], b"".join(parts))
        return 0
    try:
        for part in process.handset.effects.around(parts):
            await process.out(part)
    finally:
        process.handset.effects.captured()
    return 0


# -- dumpsys: the lines that drivers read, in Android 13's words


def _dump_displays(handset: Handset) -> list[str]:
    geometry = handset.geometry
    width, height = handset.natural_size
    turned = geometry.rotation * 90
    current = f"{geometry.width}x{geometry.height}"
    return [
        "WINDOW MANAGER DISPLAY CONTENTS (dumpsys window displays)",
        "  Display: mDisplayId=0 (organized)",
        f"    init={handset.spec.width}x{handset.spec.height} {handset.spec.density}dpi"
        f" base={width}x{height} {geometry.density}dpi cur={current} app={current}"
        f" rng={min(width, height)}x{min(width, height)}-{max(width, height)}x{max(width, height)}",
        f"    mCurrentRotation=ROTATION_{turned}",
        "  DisplayRotation",
        f"    mRotation=ROTATION_{turned}",
        f"  DisplayFrames w={geometry.width} h={geometry.height} r={geometry.rotation}",
    ]


def _focus(handset: Handset) -> tuple[str, str]:
    front = handset.front
    if front is None:
        return LAUNCHER_PACKAGE, f"{LAUNCHER_PACKAGE}/.Launcher"
    return front.package, f"{front.package}/{front.package}{MAIN_ACTIVITY}"


def _dump_windows(handset: Handset) -> list[str]:
    _, component = _focus(handset)
    secure = " SECURE" if handset.effects.is_secure else ""
    return [
        "WINDOW MANAGER WINDOWS (dumpsys window windows)",
        f"  Window #1 Window{{1f0a2b3 u0 {component}}}:",
        "    mAttrs={(0,0)(fillxfill) sim={adjust=resize} ty=BASE_APPLICATION wanim=0x1030466",
        f"      fl=LAYOUT_IN_SCREEN{secure} LAYOUT_INSET_DECOR HARDWARE_ACCELERATED",
        "      pfl=FORCE_DRAW_STATUS_BAR_BACKGROUND}",
        f"  mCurrentFocus=Window{{1f0a2b3 u0 {component}}}",
        f"  mFocusedApp=ActivityRecord{{2e1c4d5 u0 {component} t1}}",
    ]


def _dump_activity(handset: Handset) -> list[str]:
    _, component = _focus(handset)
    return [
        "ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)",
        f"  topResumedActivity=ActivityRecord{{2e1c4d5 u0 {component} t1}}",
        f"  mResumedActivity: ActivityRecord{{2e1c4d5 u0 {component} t1}}",
    ]


def _dump_input(handset: Handset) -> list[str]:
    geometry = handset.geometry
    return [
        "INPUT MANAGER (dumpsys input)",
        "  Viewport INTERNAL: displayId=0, "
        f"orientation={geometry.rotation}, logicalFrame=[0, 0, {geometry.width}, {geometry.height}], "
        f"deviceSize=[{geometry.width}, {geometry.height}], isActive=[1]",
        f"    SurfaceOrientation: {geometry.rotation}",
    ]


def _dump_display(handset: Handset) -> list[str]:
    geometry = handset.geometry
    return [
        "DISPLAY MANAGER (dumpsys display)",
        f'    mOverrideDisplayInfo=DisplayInfo{{"Built-in Screen", displayId 0, real {geometry.width} x '
        f"{geometry.height}, rotation {geometry.rotation}, density {geometry.density} x {geometry.density} dpi}}",
        dump_viewports(handset.spec),
        f"    mCurrentOrientation={geometry.rotation}",
    ]


async def _dumpsys(process: Process) -> int:
    handset = process.handset
    match process.arguments:
        case ("window", "displays" | "d", *_):
            lines = _dump_displays(handset)
        case ("window", "windows" | "w", *_):
            lines = _dump_windows(handset)
        case ("window",):
            lines = _dump_displays(handset) + _dump_windows(handset)
        case ("activity", *_):
            lines = _dump_activity(handset)
        case ("input",):
            lines = _dump_input(handset)
        case ("display", *_):
            lines = _dump_display(handset)
        case ("SurfaceFlinger", "--display-id"):
            lines = dump_display_ids(handset.spec)
        case ("battery",):
            lines = ["Current Battery Service state:", "  AC powered: true", "  level: 100", "  temperature: 270"]
        case (service, *_):
            raise UsageError(f"Can't find service: {service}", 0)  # Android's own code for this is 0
        case _:
            raise UsageError("dumpsys: name a service", 1)
    await process.out(("\n".join(lines) + "\n").encode())
    return 0


# -- activities


async def _am(process: Process) -> int:
    handset = process.handset
    match process.arguments:
        case ("force-stop", package):
            await handset.stop_app(package)
        case ("start" | "start-activity", *words):
            return await _start(process, list(words))
        case ("kill", _) | ("kill-all",) | ("broadcast", *_):
            return 0
        case _:
            raise UsageError(f"Error: unknown command 'am {' '.join(process.arguments)}'", 255)
    return 0


async def _start(process: Process, words: list[str]) -> int:
    target = None
    stop_first = False
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "-S":
            stop_first = True
        elif word in ("-n", "-p"):
            target = words[position] if position < len(words) else None
            position += 1
        elif word in ("-a", "-c", "-d", "-t", "-f", "--user", "--display"):
            position += 1
        elif not word.startswith("-"):
            target = word
    if target is None:
        raise UsageError("Error: Activity not started, unable to resolve Intent")
    package, _, activity = target.partition("/")
    known = activity in ("", MAIN_ACTIVITY, package + MAIN_ACTIVITY)
    await process.print(f"Starting: Intent {{ cmp={package}/{activity or MAIN_ACTIVITY} }}")
    if not known or not process.handset.can_start(package):
        await process.complain(
            f"Error type 3\nError: Activity class {{{package}/{activity or MAIN_ACTIVITY}}} does not exist."
        )
        return 1
    if stop_first:
        await process.handset.stop_app(package)
    if not await process.handset.start_app(package):
        await process.complain("Warning: Activity not started, its current task has been brought to the front")
    return 0


async def _monkey(process: Process) -> int:
    words = list(process.arguments)
    package = words[words.index("-p") + 1] if "-p" in words[:-1] else None
    if package is None or not process.handset.can_start(package):
        await process.print("** No activities found to run, monkey aborted.")
        return 252
    await process.handset.start_app(package)
    await process.print("Events injected: 1")
    return 0


async def _pidof(process: Process) -> int:
    pids = [str(app.pid) for app in process.handset.running if app.package in process.arguments]
    if pids:
        await process.print(" ".join(pids))
    return 0 if pids else 1


# -- log


def _format(style: str, epoch: float, pid: int, line: LogLine) -> str:
    if style == "brief":
        return f"{line.level}/{line.tag:<8}({pid:5d}): {line.text}"
    if style == "tag":
        return f"{line.level}/{line.tag:<8}: {line.text}"
    if style == "raw":
        return line.text
    stamp = f"{epoch + line.seconds:.3f}"
    if style != "epoch":
        moment = time.gmtime(epoch + line.seconds)
        stamp = time.strftime("%m-%d %H:%M:%S", moment) + stamp[stamp.index(".") :]
    return f"{stamp} {pid:5d} {pid:5d} {line.level} {line.tag:<8}: {line.text}"


@attrs.define
class _LogOptions:
    """What logcat was asked for."""

    style: str = "threadtime"
    last: int | None = None
    """Only so many of the lines that are there."""
    since: float | None = None
    """Only lines from this time on, in seconds since the epoch."""
    dump: bool = False
    clear: bool = False
    tags: list[str] = attrs.field(factory=list)
    problem: str | None = None

    def wants(self, tag: str) -> bool:
        """True when a line of this tag is shown."""
        silent = "*:S" in self.tags
        return not silent or tag in {wanted.split(":", 1)[0] for wanted in self.tags if not wanted.endswith(":S")}


def _log_options(words: list[str]) -> _LogOptions:
    options = _LogOptions()
    while words:
        word = words.pop(0)
        if word in ("-v", "-b", "-t", "-T", "--pid") and words:
            _take_log_value(options, word, words.pop(0))
        elif word == "-c":
            options.clear = True
        elif word == "-d":
            options.dump = True
        elif word == "-s":
            options.tags.append("*:S")
        elif not word.startswith("-"):
            options.tags.append(word)
    return options


def _take_log_value(options: _LogOptions, word: str, value: str) -> None:
    if word == "-v":
        options.style = value
    if word not in ("-t", "-T"):
        return
    options.dump = options.dump or word == "-t"
    if value.isdigit():
        options.last = int(value)
        return
    try:
        options.since = float(value)  # as `-v epoch` prints it
    except ValueError:
        options.problem = f"logcat: {word} {value} not in a time format"


async def _logcat(process: Process) -> int:
    handset = process.handset
    options = _log_options(list(process.arguments))
    if options.problem is not None:
        await process.complain(options.problem)
        return 1
    if options.clear:
        await handset.collect_log()
        handset.log.clear()
        return 0
    seen = 0
    while True:
        await handset.collect_log()
        fresh = [entry for entry in handset.log if entry[0] > seen]
        if fresh:
            seen = fresh[-1][0]
        shown = [entry for entry in fresh if options.wants(entry[2].tag)]
        if options.since is not None:
            shown = [e for e in shown if round(handset.boot_epoch + e[2].seconds, 3) >= options.since]
        if options.last is not None:
            shown, options.last = shown[-options.last :] if options.last else [], None
        for _, pid, line in shown:
            await process.print(_format(options.style, handset.boot_epoch, pid, line))
        if options.dump:
            return 0
        await trio.sleep(LOG_POLL_SECONDS)


ANDROID_PROGRAMS: dict[str, Program] = {
    "getprop": _getprop,
    "wm": _wm,
    "screencap": _screencap,
    "dumpsys": _dumpsys,
    "am": _am,
    "monkey": _monkey,
    "pidof": _pidof,
    "logcat": _logcat,
}
