"""What the assistant says to a client: values → JSON texts, and back.

A client ignores fields that it does not know, so that an older one goes on with a newer server.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from sqlassist.messages import Event, Stage
from sqlassist.protocol import Malformed, shown

MAX_EVENT_BYTES = 16 << 20  # rows are bounded far below by the executor; a client need not take more than this


@attrs.frozen
class Welcome:
    """The answer to a hello."""

    version: int
    session: str
    """To be given in the hello of a later connection, within `limits["resume_seconds"]`."""
    user: str
    tenant: str
    roles: tuple[str, ...]
    limits: Mapping[str, float]
    """What the client has to keep to; `ping_seconds`: it must say something at least that often."""
    versions: Mapping[str, str]
    """Of what answers: `schema`, `layer`."""
    resumed: bool = False
    """True: the session asked for goes on. The events after `after` follow."""
    missed: int = 0
    """How many events after `after` were not kept; they will not come."""
    dropped: str = ""
    """Why the server ended the connection that the session had before, as in its `bye`; empty where it did not."""
    running: tuple[str, ...] = ()
    """Questions that are being answered."""


@attrs.frozen
class EventMessage:
    """Something that happened to a question."""

    id: str
    seq: int
    """Counts every event of a session, from 1."""
    event: Event


@attrs.frozen
class ErrorMessage:
    """A message was not taken; nothing else changed."""

    code: str
    message: str
    id: str = ""
    retry_after: float | None = None
    """Seconds, where waiting helps."""


@attrs.frozen
class HistoryMessage:
    """What a user asked before, newest first."""

    entries: tuple[Mapping[str, Any], ...]


@attrs.frozen
class Reviewed:
    """A review was taken down."""

    id: str
    """Of the request."""
    review: str
    """What it is known by among the reviewers."""


@attrs.frozen
class Pong:
    """The answer to a ping."""


@attrs.frozen
class Bye:
    """The last message before the server closes the connection."""

    code: str
    message: str
    retry_after: float | None = None


Reply = Welcome | EventMessage | ErrorMessage | HistoryMessage | Reviewed | Pong | Bye


def encode(reply: Reply) -> str:
    """One message of the assistant as text; `decode_reply` gives it back.

    Raises:
        ValueError: the data of an event is no JSON: not a number, or half of a character.
        TypeError: likewise, with a value of another type.
    """
    match reply:
        case EventMessage(id_, seq, event):
            return _text("event", id=id_, seq=seq, stage=event.stage.value, data=dict(event.data), last=event.is_last)
        case Welcome():
            fields = {name: getattr(reply, name) for name in _WELCOME}
            return _text("welcome", v=reply.version, **fields)
        case ErrorMessage(code, message, id_, retry_after):
            return _text("error", code=code, message=message, **_optional(id=id_ or None, retry_after=retry_after))
        case HistoryMessage(entries):
            return _text("history", entries=[dict(entry) for entry in entries])
        case Reviewed(id_, review):
            return _text("reviewed", id=id_, review=review)
        case Pong():
            return _text("pong")
        case Bye(code, message, retry_after):
            return _text("bye", code=code, message=message, **_optional(retry_after=retry_after))


def decode_reply(text: str) -> Reply | Malformed:
    """Read one message of the assistant. Never raises."""
    try:
        data = json.loads(text)
        reader = _READERS[data["type"]]
    except (ValueError, RecursionError, KeyError, TypeError):
        return Malformed("not_a_message", f"the server sent what is no message of this protocol: {shown(text[:80])}")
    try:
        return reader(data)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return Malformed("bad_field", f"the server sent a {shown(data['type'])} message that cannot be read")


_WELCOME = ("session", "user", "tenant", "roles", "limits", "versions", "resumed", "missed", "dropped", "running")


def _text(kind: str, **fields: Any) -> str:
    made = json.dumps({"type": kind, **fields}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    made.encode()  # half of a character is a ValueError here, and not in the transport
    return made


def _optional(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _event(data: Mapping[str, Any]) -> EventMessage:
    event = Event(Stage(data["stage"]), dict(data["data"]))
    if not _is_well_formed(event):
        raise ValueError(event.stage)
    return EventMessage(str(data["id"]), int(data["seq"]), event)


def _is_well_formed(event: Event) -> bool:
    """Whether what clients take apart has the form that the schema gives it."""
    data = event.data
    match event.stage:
        case Stage.SCOPE:
            return _are(data.get("tables", []), dict)
        case Stage.ROWS:
            return isinstance(data.get("columns", []), list) and _are(data.get("rows", []), list)
        case Stage.CLARIFICATION:
            choices = data.get("choices", [])
            return _are(choices, dict) and all("id" in one and "label" in one for one in choices)
        case Stage.FAILED:
            wait = data.get("retry_after", 0)
            return isinstance(wait, int | float) and math.isfinite(wait)
        case _:
            return True


def _are(values: object, kind: type) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _welcome(data: Mapping[str, Any]) -> Welcome:
    return Welcome(
        version=int(data["v"]),
        session=str(data["session"]),
        user=str(data["user"]),
        tenant=str(data["tenant"]),
        roles=tuple(map(str, data["roles"])),
        limits={str(name): float(value) for name, value in data["limits"].items()},
        versions={str(name): str(value) for name, value in data["versions"].items()},
        resumed=bool(data["resumed"]),
        missed=int(data["missed"]),
        dropped=str(data["dropped"]),
        running=tuple(map(str, data["running"])),
    )


def _error(data: Mapping[str, Any]) -> ErrorMessage:
    return ErrorMessage(str(data["code"]), str(data["message"]), str(data.get("id", "")), _seconds(data))


def _history(data: Mapping[str, Any]) -> HistoryMessage:
    entries: Sequence[Mapping[str, Any]] = data["entries"]
    return HistoryMessage(tuple(dict(entry) for entry in entries))


def _seconds(data: Mapping[str, Any]) -> float | None:
    value = data.get("retry_after")
    return None if value is None else float(value)


_READERS: dict[str, Callable[[Mapping[str, Any]], Reply]] = {
    "welcome": _welcome,
    "event": _event,
    "error": _error,
    "history": _history,
    "reviewed": lambda data: Reviewed(str(data["id"]), str(data["review"])),
    "pong": lambda _: Pong(),
    "bye": lambda data: Bye(str(data["code"]), str(data["message"]), _seconds(data)),
}
