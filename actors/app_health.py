"""Is the app well? Crashes and ANRs out of the phone's log, with what was logged of them; and whether it is in front.

The forms are those of Android's own code: `AndroidRuntime` for Java and Kotlin, `libc` and `DEBUG` (debuggerd's
tombstone) for native code, `ActivityManager` for an app that does not answer.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

import attrs

from actors.logcat import LogcatLine

MAX_EXCERPT_LINES = 60  # a Java stack with its cause is 20 to 50 lines; a tombstone's backtrace comes in the first 40
MAX_EXCERPT_CHARACTERS = 6000
MAX_FAULTS = 20  # an app that crashes in a circle says the same again and again
_PROCESS = re.compile(r"^Process: (?P<process>[\w.:]+), PID: \d+")
_ANR = re.compile(r"^ANR in (?P<process>[\w.:]+)")
_SIGNAL = re.compile(r"^Fatal signal \d+ \((?P<signal>\w+)\).*")
_TOMBSTONE = re.compile(r">>> (?P<process>\S+) <<<")
_FOCUS = re.compile(r"mCurrentFocus=Window\{\S+ \S+ (?P<component>[^\s}]+)")


class FaultKind(StrEnum):
    """What is wrong with an app."""

    CRASH = "crash"
    """An exception that nobody caught."""
    NATIVE_CRASH = "native_crash"
    ANR = "anr"
    """It did not answer the system in time."""
    AWAY = "away"
    """Something else was in front of it for longer than it may be."""


@attrs.frozen
class AppFault:
    """One thing that went wrong."""

    kind: FaultKind
    process: str
    """Empty where the log does not say."""
    cause: str
    """One line: the exception, the signal, the reason, or what was in front."""
    excerpt: str
    """What was logged of it, cut to a bounded length."""
    at: str
    """The phone's clock, epoch seconds as printed; empty for what is not of the log."""


@attrs.define(eq=False)
class _Open:
    """A fault whose lines still come."""

    kind: FaultKind
    first: LogcatLine
    lines: list[LogcatLine]
    process: str = ""
    is_counted: bool = False

    def takes(self, line: LogcatLine) -> bool:
        if len(self.lines) >= MAX_EXCERPT_LINES:
            return False
        if self.kind is FaultKind.NATIVE_CRASH:
            return line.tag in {"libc", "DEBUG", "crash_dump32", "crash_dump64"} and line.level == "F"
        return line.tag == self.first.tag and line.pid == self.first.pid and line.level == self.first.level

    def fault(self) -> AppFault:
        texts = [line.text for line in self.lines]
        return AppFault(
            self.kind,
            self.process,
            _cause(self.kind, texts)[:300],
            "\n".join(f"{line.level} {line.tag}: {line.text}" for line in self.lines)[:MAX_EXCERPT_CHARACTERS],
            self.first.at,
        )


@attrs.define
class FaultReader:
    """Finds the faults of one app in its phone's log, line by line.

    Args:
        package: Of the app. `package` and `package:name` are its processes; one that the log does not name counts too.
    """

    package: str
    others: int = attrs.field(default=0, init=False)
    """Faults of other apps."""
    _open: list[_Open] = attrs.field(factory=list, init=False)
    _found: list[_Open] = attrs.field(factory=list, init=False)
    count: int = attrs.field(default=0, init=False)
    """Faults of the app, those beyond the first `MAX_FAULTS` too."""

    def feed(self, lines: Sequence[LogcatLine]) -> list[AppFault]:
        """Take what was logged since the last call.

        Returns:
            The app's faults that are known by now and were not before. Lines that come later are in `faults`.
        """
        grown: set[int] = set()
        for line in lines:
            taker = next((one for one in reversed(self._open) if one.takes(line) and not _begins(line)), None)
            if taker is None:
                kind = _begins(line)
                if kind is not None:
                    taker = _Open(kind, line, [])
                    self._open.append(taker)
            if taker is not None:
                taker.lines.append(line)
                taker.process = taker.process or _process_in(line)
                grown.add(id(taker))
        fresh = []
        for one in self._open:
            # a fault whose process is not named waits for one more call, as its lines may come in two pieces
            if one.is_counted or (not one.process and id(one) in grown):
                continue
            one.is_counted = True
            if one.process and not self._is_own(one.process):
                self.others += 1
                continue
            self.count += 1
            if len(self._found) < MAX_FAULTS:
                self._found.append(one)
                fresh.append(one.fault())
        self._open = [one for one in self._open if id(one) in grown]
        return fresh

    def faults(self) -> tuple[AppFault, ...]:
        """The app's faults so far, oldest first, with all of their lines; at most `MAX_FAULTS`."""
        return tuple(one.fault() for one in self._found)

    def _is_own(self, process: str) -> bool:
        return process == self.package or process.startswith(f"{self.package}:")


def _begins(line: LogcatLine) -> FaultKind | None:
    if line.level not in {"E", "F"}:
        return None
    if line.text.startswith("FATAL EXCEPTION"):
        return FaultKind.CRASH
    if line.tag == "ActivityManager" and _ANR.match(line.text):
        return FaultKind.ANR
    if line.tag == "libc" and _SIGNAL.match(line.text):
        return FaultKind.NATIVE_CRASH
    return None


def _process_in(line: LogcatLine) -> str:
    for pattern in (_PROCESS, _ANR):
        found = pattern.match(line.text)
        if found:
            return found["process"]
    tombstone = _TOMBSTONE.search(line.text)
    return tombstone["process"] if tombstone else ""


def _cause(kind: FaultKind, texts: Sequence[str]) -> str:
    match kind:
        case FaultKind.CRASH:
            # the exception follows the line with the process; the last "Caused by" is where it began
            causes = [text.removeprefix("Caused by: ") for text in texts if text.startswith("Caused by: ")]
            thrown = [
                text for text in texts[1:] if not _PROCESS.match(text) and not text.startswith(("\t", " ", "at "))
            ]
            return causes[-1] if causes else (thrown[0] if thrown else texts[0])
        case FaultKind.ANR:
            reasons = [text for text in texts if text.startswith("Reason: ")]
            return reasons[0].removeprefix("Reason: ") if reasons else texts[0]
        case _:
            return texts[0]


def foreground_in(dump: str) -> str | None:
    """The component or window in front, from `dumpsys window windows`; None where nothing says so."""
    found = _FOCUS.search(dump)
    return None if found is None or found["component"] == "null" else found["component"]


@attrs.define
class ForegroundWatch:
    """Tells when something else has been in front of the app for too long. Once for each time that it leaves.

    Args:
        package: Of the app.
        away_seconds: How long something else may be in front.
    """

    package: str
    away_seconds: float
    _left_at: float | None = attrs.field(default=None, init=False)
    _is_told: bool = attrs.field(default=False, init=False)

    def see(self, component: str | None, now: float) -> AppFault | None:
        """Take what is in front now; None is "not known", which changes nothing."""
        if component is None:
            return None
        if component.partition("/")[0] == self.package:
            self._left_at, self._is_told = None, False
            return None
        if self._left_at is None:
            self._left_at = now
        if self._is_told or now - self._left_at < self.away_seconds:
            return None
        self._is_told = True
        cause = f"{component} was in front for {now - self._left_at:.0f} s"
        return AppFault(FaultKind.AWAY, self.package, cause[:300], "", "")
