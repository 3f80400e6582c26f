"""What may go wrong with a simulated phone, and when: fault plans as values, and who is due at a moment."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from actors.configuration import Problem, ScenarioError, line_of, read_toml, register_tagged_union, structured
from actors.rehearsal.phone.spec import MAX_SIDE, MIN_SIDE

_SIZE = r"[1-9][0-9]{1,4}x[1-9][0-9]{1,4}"
_PHONES = {"each_min": 0, "each_max": 100_000}
LONGEST_SECONDS = 1e6  # eleven days: longer than any rehearsal


@attrs.frozen(kw_only=True)
class Always:
    """What every fault says: on which phones it is."""

    phones: tuple[int, ...] = attrs.field(default=(), metadata=_PHONES)
    """Numbers of the phones, from 0; empty: all."""


@attrs.frozen(kw_only=True)
class Moment(Always):
    """A fault that happens once: `at_seconds` after the start, or as capture number `after_captures` ends."""

    at_seconds: float | None = attrs.field(default=None, metadata={"min": 0, "max": LONGEST_SECONDS})
    after_captures: int | None = attrs.field(default=None, metadata={"min": 0})


@attrs.frozen(kw_only=True)
class Spell(Moment):
    """A fault that lasts."""

    seconds: float | None = attrs.field(default=None, metadata={"above": 0, "max": LONGEST_SECONDS})
    """None: for good."""


@attrs.frozen(kw_only=True)
class Freeze(Spell):
    """`freeze`: the phone stops answering; connections stay open, and new ones are taken in silence."""


@attrs.frozen(kw_only=True)
class Reset(Moment):
    """`rst`: every connection is cut with RST; the phone goes on listening."""


@attrs.frozen(kw_only=True)
class HalfClose(Moment):
    """`half-close`: the phone's side of every connection is closed, the other is left open."""


@attrs.frozen(kw_only=True)
class Truncate(Spell):
    """`truncate`: what a capture prints ends at that byte, and so does its stream."""

    at_byte: int = attrs.field(metadata={"min": 0})


@attrs.frozen(kw_only=True)
class Trickle(Spell):
    """`trickle`: what a capture prints comes that slowly."""

    bytes_per_second: float = attrs.field(metadata={"min": 1})


@attrs.frozen(kw_only=True)
class Crlf(Spell):
    """`crlf`: what a capture prints went through a terminal: every LF has a CR before it."""


@attrs.frozen(kw_only=True)
class Banner(Spell):
    """`banner`: text before a picture, and behind it, as phones with several displays print it."""

    text: str = "[Warning] Multiple displays were found, but no display id was specified! Defaulting to the first.\n"
    behind: str = ""


@attrs.frozen(kw_only=True)
class Black(Spell):
    """`black`: every picture is black."""


@attrs.frozen(kw_only=True)
class PartBlack(Spell):
    """`part-black`: that share of every picture is black, from its lower end."""

    share: float = attrs.field(default=0.5, metadata={"above": 0, "max": 1})


@attrs.frozen(kw_only=True)
class Secure(Spell):
    """`secure`: the window in front has FLAG_SECURE, so that pictures are black; `dumpsys window` tells it."""


@attrs.frozen(kw_only=True)
class Rotate(Spell):
    """`rotate`: the screen is turned so many quarters to the left of how the app would have it."""

    quarters: int = attrs.field(default=1, metadata={"min": 1, "max": 3})


@attrs.frozen(kw_only=True)
class Resize(Spell):
    """`resize`: the screen has another size, as after `wm size`; apps begin anew."""

    size: str = attrs.field(metadata={"pattern": _SIZE, "means": "a size like 720x1280"})

    @property
    def pixels(self) -> tuple[int, int]:
        """(width, height), held upright."""
        width, height = self.size.split("x")
        return int(width), int(height)


@attrs.frozen(kw_only=True)
class Unauthorized(Spell):
    """`unauthorized`: connections are cut and no key is accepted; at its end the owner accepts what was offered."""


@attrs.frozen(kw_only=True)
class SlowInput(Spell):
    """`slow-input`: `input` takes so long to start, as a Java process does."""

    delay_seconds: float = attrs.field(default=1.0, metadata={"above": 0, "max": 600})


@attrs.frozen(kw_only=True)
class DeafInput(Spell):
    """`deaf-input`: touches, keys and text are taken and do nothing."""


@attrs.frozen(kw_only=True)
class Duplicate(Always):
    """`duplicate`: the phone can be reached at a second address, too, with the same serial number."""


@attrs.frozen(kw_only=True)
class Stamped(Spell):
    """`stamped`: the machine's monotonic clock stands in every picture."""


@attrs.frozen(kw_only=True)
class Reboot(Moment):
    """`reboot`: off, and on again; packages and files stay, apps begin anew."""

    off_seconds: float = attrs.field(default=2.0, metadata={"min": 0, "max": 3600})


Fault = (
    Freeze
    | Reset
    | HalfClose
    | Truncate
    | Trickle
    | Crlf
    | Banner
    | Black
    | PartBlack
    | Secure
    | Rotate
    | Resize
    | Unauthorized
    | SlowInput
    | DeafInput
    | Duplicate
    | Stamped
    | Reboot
)
KINDS: Mapping[str, type[Fault]] = {
    "freeze": Freeze,
    "rst": Reset,
    "half-close": HalfClose,
    "truncate": Truncate,
    "trickle": Trickle,
    "crlf": Crlf,
    "banner": Banner,
    "black": Black,
    "part-black": PartBlack,
    "secure": Secure,
    "rotate": Rotate,
    "resize": Resize,
    "unauthorized": Unauthorized,
    "slow-input": SlowInput,
    "deaf-input": DeafInput,
    "duplicate": Duplicate,
    "stamped": Stamped,
    "reboot": Reboot,
}
"""Every kind, by the name that files use."""
register_tagged_union(Fault, KINDS)


def kind_of(fault: Fault) -> str:
    """The name that files use."""
    return next(name for name, kind in KINDS.items() if type(fault) is kind)


@attrs.frozen
class FaultFile:
    """A file of faults for simulated phones: `[[faults]]` tables."""

    faults: tuple[Fault, ...] = attrs.field(metadata={"nonempty": True})


def fault_problems(faults: Sequence[Fault], *, count: int, at: str) -> list[tuple[str, str]]:
    """(message, path) of what no single key shows.

    Args:
        faults: The plan.
        count: How many phones there are to name.
        at: The path of the list, for messages.
    """
    found: list[tuple[str, str]] = []
    for index, fault in enumerate(faults):
        where = f"{at}[{index}]"
        if isinstance(fault, Moment) and fault.at_seconds is not None and fault.after_captures is not None:
            found.append(("a fault begins 'at_seconds' or 'after_captures', not both", where))
        if isinstance(fault, Resize) and not all(MIN_SIDE <= side <= MAX_SIDE for side in fault.pixels):
            found.append(
                (f"'size' must have sides of {MIN_SIDE} to {MAX_SIDE} pixels: {fault.size!r}", f"{where}.size")
            )
        beyond = sorted({number for number in fault.phones if number >= count})
        if beyond:
            known = f"they are 0 to {count - 1}" if count else "there is no simulated phone"
            found.append((f"there is no phone {', '.join(map(str, beyond))}: {known}", f"{where}.phones"))
    return found


def parse_faults(source: bytes, file: str = "", *, count: int) -> tuple[Fault, ...]:
    """Read a file of faults.

    Args:
        source: The file.
        file: Its name, for messages.
        count: How many simulated phones there are.

    Raises:
        ScenarioError: with every mistake, each with its line and key path.
    """
    parsed, problems = structured(read_toml(source, file), FaultFile, source=source, file=file)
    if parsed is not None:
        lines = source.decode("utf-8-sig").splitlines()
        problems = [
            Problem(message, path, file, line_of(lines, path))
            for message, path in fault_problems(parsed.faults, count=count, at="$.faults")
        ]
    if parsed is None or problems:
        raise ScenarioError(problems)
    return parsed.faults


def encode_faults(faults: Iterable[Fault]) -> bytes:
    """The file that `parse_faults` reads as these faults."""
    lines: list[str] = []
    for fault in faults:
        lines += ["[[faults]]", f"kind = {json.dumps(kind_of(fault))}"]
        lines += [f"{key} = {_toml(value)}" for key, value in attrs.asdict(fault).items() if value is not None]
        lines.append("")
    return "\n".join(lines).encode()


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    # a JSON text with its letters as they are is a TOML text, but for one control character
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def faults_of(faults: Iterable[Fault], number: int) -> tuple[Fault, ...]:
    """Those that are on phone `number`, said for that phone alone."""
    return tuple(attrs.evolve(fault, phones=()) for fault in faults if not fault.phones or number in fault.phones)


def faults_between(faults: Iterable[Fault], first: int, count: int) -> tuple[Fault, ...]:
    """Those that are on any of `count` phones from `first` on, with the numbers counted from there."""
    kept = []
    for fault in faults:
        inside = tuple(number - first for number in fault.phones if first <= number < first + count)
        if inside or not fault.phones:
            kept.append(attrs.evolve(fault, phones=inside))
    return tuple(kept)


@attrs.frozen
class Turn:
    """A fault that begins now, or ends."""

    fault: Fault
    begins: bool


@attrs.define
class FaultSchedule:
    """Who is due. It is told the time and the captures, and begins and ends each fault once."""

    faults: tuple[Fault, ...]
    _waiting: list[Fault] = attrs.field(init=False)
    _running: list[tuple[float, Fault]] = attrs.field(init=False, factory=list)
    """(when it ends, fault)."""

    def __attrs_post_init__(self) -> None:
        self._waiting = list(self.faults)

    @property
    def active(self) -> tuple[Fault, ...]:
        """Those that last now."""
        return tuple(fault for _, fault in self._running)

    def advance(self, seconds: float, captures: int) -> list[Turn]:
        """What begins and ends, `seconds` after the phone's start, with so many captures done; ends come first."""
        turns = [Turn(fault, begins=False) for end, fault in self._running if end <= seconds]
        self._running = [entry for entry in self._running if entry[0] > seconds]
        due = [fault for fault in self._waiting if _is_due(fault, seconds, captures)]
        for fault in due:
            self._waiting.remove(fault)
            turns.append(Turn(fault, begins=True))
            if isinstance(fault, Spell):
                self._running.append((math.inf if fault.seconds is None else seconds + fault.seconds, fault))
            elif not isinstance(fault, Moment):
                self._running.append((math.inf, fault))
        return turns

    def next_at(self) -> float:
        """Seconds after the phone's start at which something is due by time; infinite: nothing is."""
        begins = [_begin(fault) for fault in self._waiting]
        return min([*begins, *(end for end, _ in self._running)], default=math.inf)


def _begin(fault: Fault) -> float:
    if not isinstance(fault, Moment):
        return 0.0
    if fault.at_seconds is None:
        return 0.0 if fault.after_captures is None else math.inf
    return fault.at_seconds


def _is_due(fault: Fault, seconds: float, captures: int) -> bool:
    if isinstance(fault, Moment) and fault.after_captures is not None:
        return captures >= fault.after_captures
    return _begin(fault) <= seconds
