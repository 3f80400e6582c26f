"""What an episode did of late, for people who look on: its last actions and where their time went. Pure, bounded."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from actors.person_input import MAX_TEXT
from policies.action import Action, Hold, Key, LongPress, Swipe, Tap, Text, TwoFingers, Wait
from policies.effect import Effect
from policies.frame import Frame
from policies.step import ActResult, Note, StepInput, StepOutput

KEPT = 20
MIN_SIDE, MAX_SIDE = 64, 1280  # pixels of the long side of a picture

UNDER_WAY, DONE, FAILED, STOPPED = "under_way", "done", "failed", "stopped"
SEEN, NO_EFFECT = "seen", "no_effect"


@attrs.define
class LiveAction:
    """One action and what became of it."""

    at: float
    """When it was decided; the run's clock."""
    token: int | None
    """None: a person did it."""
    seq: int | None
    """Of the planned action."""
    shape: Mapping[str, Any]
    why: str
    outcome: str = UNDER_WAY


@attrs.frozen
class LiveTimes:
    """Where the time of one planned action went, in seconds; None where it is not known."""

    at: float
    capture: float | None = None
    queue: float | None = None
    prefill: float | None = None
    decode: float | None = None
    act: float | None = None
    stale: bool = False
    why: str = ""


@attrs.define
class LiveLog:
    """Of one episode."""

    actions: deque[LiveAction] = attrs.field(factory=lambda: deque(maxlen=KEPT))
    times: deque[LiveTimes] = attrs.field(factory=lambda: deque(maxlen=KEPT))

    def stepped(self, given: StepInput, output: StepOutput, *, seq: int | None, frame: Frame | None) -> None:
        """One step was decided.

        Args:
            given: What went in.
            output: What came out.
            seq: Of the planned action that the command does, if it does one.
            frame: The newest one, to place points on.
        """
        for result in given.results:
            self._take_result(result)
        for note in output.notes:
            self._take_note(note, given.now)
        if output.command is not None:
            shape = _shape("restart_app") if output.command.action is None else shape_of(output.command.action, frame)
            self.actions.append(LiveAction(given.now, output.command.token, seq, shape, output.command.why))

    def stopped(self, token: int) -> None:
        """A command was broken off."""
        self._mark(lambda action: action.token == token, STOPPED)

    def person(self, action: Action, frame: Frame | None, by: str, now: float) -> LiveAction:
        """A person does something; `outcome` of what comes back is to be set."""
        done = LiveAction(now, None, None, shape_of(action, frame, hide_text=True), f"by {by}")
        self.actions.append(done)
        return done

    def _take_result(self, result: ActResult) -> None:
        self._mark(lambda action: action.token == result.token, DONE if result.error is None else FAILED)

    def _take_note(self, note: Note, now: float) -> None:
        fields: Mapping[str, Any] = note.fields
        if note.event == "policies.plan.stale":
            self.times.append(LiveTimes(now, stale=True, why=str(fields.get("why", ""))))
        if note.event == "policies.action.settled":
            seen = fields.get("effect") == Effect.SEEN.value
            self._mark(lambda action: action.seq == fields.get("seq"), SEEN if seen else NO_EFFECT)
            self.times.append(
                LiveTimes(
                    now,
                    capture=fields.get("capture_seconds"),
                    queue=fields.get("queue_seconds"),
                    prefill=fields.get("prefill_seconds"),
                    decode=fields.get("decode_seconds"),
                    act=fields.get("dispatch_seconds"),
                    why=SEEN if seen else NO_EFFECT,
                )
            )

    def _mark(self, is_it: Callable[[LiveAction], bool], outcome: str) -> None:
        found = next((action for action in reversed(self.actions) if is_it(action)), None)
        if found is not None:
            found.outcome = outcome


def shape_of(action: Action, frame: Frame | None, *, hide_text: bool = False) -> dict[str, Any]:
    """`{"kind", "x", "y", "x2", "y2", "text"}`: points as fractions of the frame, None where there is none.

    Args:
        action: What.
        frame: On which it is done; without one no point can be placed.
        hide_text: A person's text may be a password: only how long it is.
    """
    match action:
        case Tap(x, y):
            return _shape("tap", *_at(frame, x, y))
        case LongPress(x, y):
            return _shape("long_press", *_at(frame, x, y))
        case Swipe(x, y, to_x, to_y):
            return _shape("swipe", *_at(frame, x, y), *_at(frame, to_x, to_y))
        case Hold(x=x, y=y):
            return _shape("hold", *_at(frame, x, y))
        case TwoFingers(first=a, second=b):
            return _shape("two_fingers", *_at(frame, a[0], a[1]), *_at(frame, b[0], b[1]))
        case Key(name):
            return _shape("key", text=name.value.lower())
        case Text(text):
            shown = f"({len(text)} characters)" if hide_text else text[:MAX_TEXT]
            return _shape("text", text=shown)
        case Wait(seconds):
            return _shape("wait", text=f"{seconds:g} s")


def _shape(
    kind: str,
    x: float | None = None,
    y: float | None = None,
    x2: float | None = None,
    y2: float | None = None,
    *,
    text: str | None = None,
) -> dict[str, Any]:
    return {"kind": kind, "x": x, "y": y, "x2": x2, "y2": y2, "text": text}


def _at(frame: Frame | None, x: int, y: int) -> tuple[float | None, float | None]:
    if frame is None:
        return None, None
    return _share(x, frame.geometry.width), _share(y, frame.geometry.height)


def _share(value: int, whole: int) -> float:
    return round(min(1.0, max(0.0, value / whole)), 4)
