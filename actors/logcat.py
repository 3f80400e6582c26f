"""The lines of a phone's log, as `logcat -v epoch` prints them."""

import re

import attrs

_LINE = re.compile(
    r"^\s*(?P<at>\d+\.\d+)\s+(?P<pid>\d+)\s+\d+\s+(?P<level>[VDIWEF])\s+(?P<tag>[^:]*?)\s*:\s?(?P<text>.*)$"
)


@attrs.frozen
class LogcatLine:
    """One line."""

    at: str
    """Epoch seconds with milliseconds, as printed: kept as text, to be handed back to `-T`."""
    pid: int
    level: str
    tag: str
    text: str


def parse_logcat(output: bytes) -> list[LogcatLine]:
    """The lines of `logcat -v epoch`; headers and lines of other forms are left out."""
    lines = []
    for raw in output.decode("utf-8", "replace").splitlines():
        match = _LINE.match(raw)
        if match:
            lines.append(LogcatLine(match["at"], int(match["pid"]), match["level"], match["tag"], match["text"]))
    return lines
