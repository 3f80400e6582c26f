"""What a client says to the assistant: JSON texts → values, and back.

This is version 1, described in docs/assistant-protocol.md. Nothing that a client sends raises here: a text that is not
understood becomes a `Malformed`, with a code and a message. What the assistant says is in `sqlassist.protocol_replies`.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from sqlassist.messages import Question, Verb

VERSION = 1
PATH = "/assistant"
"""Where the websocket is served."""

MAX_MESSAGE_BYTES = (
    64 << 10
)  # a statement to be fixed may be long; the guard itself refuses more than 20,000 characters
MAX_TEXT = 4_000  # characters of a question or a comment
MAX_SQL = 20_000
MAX_TOKEN = 256
MAX_HISTORY = 200  # entries a request
MAX_SEQUENCE = 2**53 - 1  # beyond it a client that keeps numbers as doubles would not count by ones
ID_PATTERN = r"[A-Za-z0-9._-]{1,64}"

_ID = re.compile(ID_PATTERN)


@attrs.frozen
class Hello:
    """Must come first. With `session` and `after`, the session of a connection that was lost is taken up again."""

    version: int
    token: str = attrs.field(repr=False)
    session: str = ""
    after: int = 0
    """The highest `seq` that the client has seen."""


@attrs.frozen
class Ask:
    """`ask`, `choose`, `fix` or `explain`: the question's verb tells which."""

    question: Question


@attrs.frozen
class Cancel:
    """End a running question; its last event is `cancelled`, unless it was over already."""

    id: str


@attrs.frozen
class Review:
    """Ask for somebody to look at the answer to the question `of`."""

    id: str
    of: str
    text: str = ""
    """What is wrong with it, or why it is worth keeping."""
    sql: str = ""
    """What it should have been."""


@attrs.frozen
class HistoryRequest:
    """The newest questions of this user."""

    limit: int = 20


@attrs.frozen
class Ping:
    """A sign of life; `after` also says what has been seen, so that the server need not keep it any longer."""

    after: int = 0


@attrs.frozen
class Leave:
    """The session is over: nobody will come back for it. A closed connection alone does not always say so."""


Request = Hello | Ask | Cancel | Review | HistoryRequest | Ping | Leave


@attrs.frozen
class Malformed:
    """A text that is no message of this protocol."""

    code: str
    """`too_large`, `not_json`, `not_a_message`, `unknown_type`, `unknown_field`, `missing_field` or `bad_field`."""
    message: str
    id: str = ""
    """The id that the text itself gave, if it gave one."""


class _Wrong(Exception):
    """Inside this module: what is wrong with a message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def decode(text: str, *, max_bytes: int = MAX_MESSAGE_BYTES) -> Request | Malformed:
    """Read one message of a client. Never raises."""
    try:
        data = _object(text, max_bytes)
    except _Wrong as wrong:
        return Malformed(wrong.code, str(wrong))
    given = data.get("id")
    id_ = given if isinstance(given, str) and _ID.fullmatch(given) else ""
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in _READERS:
        return Malformed("unknown_type", f"'type' must be one of {', '.join(_READERS)}", id_)
    allowed, reader = _READERS[kind]
    unknown = sorted(set(data) - allowed - {"type"})
    if unknown:
        return Malformed("unknown_field", f"a {kind} message has no {shown(unknown[0])}", id_)
    try:
        return reader(data)
    except _Wrong as wrong:
        return Malformed(wrong.code, f"{kind}: {wrong}", id_)


def _object(text: str, max_bytes: int) -> dict[str, Any]:
    """The JSON object in a text; raises `_Wrong`, with the code for the client."""
    if len(text) > max_bytes or len(text.encode("utf-8", "surrogatepass")) > max_bytes:
        raise _Wrong("too_large", f"a message has at most {max_bytes} bytes")
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):  # a number of 5,000 digits is a ValueError too
        raise _Wrong("not_json", "a message is one JSON object") from None
    if not isinstance(data, dict):
        raise _Wrong("not_a_message", 'a message is one JSON object, {"type": ...}')
    return data


def encode_request(request: Request) -> str:
    """One message of a client as text; `decode` gives it back."""
    match request:
        case Hello(version, token, session, after):
            more = {"session": session, "after": after} if session else {}
            return _text("hello", v=version, token=token, **more)
        case Ask(question):
            return _text(question.verb.value, id=question.id, **_parts(question))
        case Cancel(id_):
            return _text("cancel", id=id_)
        case Review(id_, of, text, sql):
            return _text("review", id=id_, of=of, text=text, **({"sql": sql} if sql else {}))
        case HistoryRequest(limit):
            return _text("history", limit=limit)
        case Ping(after):
            return _text("ping", **({"after": after} if after else {}))
        case Leave():
            return _text("bye")


def shown(text: object) -> str:
    """A piece of what somebody sent, for a message about it."""
    quoted = ascii(text)
    return quoted if len(quoted) <= 40 else quoted[:37] + "..."


def _parts(question: Question) -> dict[str, Any]:
    match question.verb:
        case Verb.ASK:
            return {"text": question.text, **({} if question.think is None else {"think": question.think})}
        case Verb.CHOOSE:
            return {"of": question.of, "choice": question.choice}
        case Verb.FIX:
            return {"sql": question.sql, **({"text": question.text} if question.text else {})}
        case Verb.EXPLAIN:
            return {"sql": question.sql} if question.sql else {"of": question.of}


def _text(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields}, ensure_ascii=False, separators=(",", ":"))


def _hello(data: Mapping[str, Any]) -> Hello:
    session = _id(data, "session") if data.get("session", "") != "" else ""
    return Hello(_number(data, "v", 0), _words(data, "token", MAX_TOKEN), session, _number(data, "after", 0, default=0))


def _ask(data: Mapping[str, Any]) -> Ask:
    think = data.get("think")
    if think is not None and not isinstance(think, bool):
        raise _Wrong("bad_field", "'think' must be true, false or null")
    return Ask(Question(_id(data, "id"), _words(data, "text", MAX_TEXT), think=think))


def _choose(data: Mapping[str, Any]) -> Ask:
    return Ask(Question(_id(data, "id"), verb=Verb.CHOOSE, of=_id(data, "of"), choice=_id(data, "choice")))


def _fix(data: Mapping[str, Any]) -> Ask:
    text = _words(data, "text", MAX_TEXT, default="")
    return Ask(Question(_id(data, "id"), text, Verb.FIX, sql=_words(data, "sql", MAX_SQL)))


def _explain(data: Mapping[str, Any]) -> Ask:
    id_ = _id(data, "id")
    if ("sql" in data) == ("of" in data):
        raise _Wrong("bad_field", "it needs either 'sql' or 'of'")
    if "sql" in data:
        return Ask(Question(id_, verb=Verb.EXPLAIN, sql=_words(data, "sql", MAX_SQL)))
    return Ask(Question(id_, verb=Verb.EXPLAIN, of=_id(data, "of")))


def _cancel(data: Mapping[str, Any]) -> Cancel:
    return Cancel(_id(data, "id"))


def _review(data: Mapping[str, Any]) -> Review:
    text, sql = _words(data, "text", MAX_TEXT, default=""), _words(data, "sql", MAX_SQL, default="")
    return Review(_id(data, "id"), _id(data, "of"), text, sql)


def _history(data: Mapping[str, Any]) -> HistoryRequest:
    limit = _number(data, "limit", 1, default=HistoryRequest().limit)
    if limit > MAX_HISTORY:
        raise _Wrong("bad_field", f"'limit' must be at most {MAX_HISTORY}")
    return HistoryRequest(limit)


def _ping(data: Mapping[str, Any]) -> Ping:
    return Ping(_number(data, "after", 0, default=0))


def _id(data: Mapping[str, Any], key: str) -> str:
    value = _required(data, key)
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise _Wrong("bad_field", f"'{key}' must be 1 to 64 letters, digits, dots, dashes and underscores")
    return value


def _words(data: Mapping[str, Any], key: str, longest: int, default: str | None = None) -> str:
    if default is not None and key not in data:
        return default
    value = _required(data, key)
    if not isinstance(value, str):
        raise _Wrong("bad_field", f"'{key}' must be a text")
    if len(value) > longest:
        raise _Wrong("bad_field", f"'{key}' has at most {longest} characters, not {len(value)}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise _Wrong("bad_field", f"'{key}' holds half of a character (an unpaired surrogate)")
    if default is None and not value.strip():
        raise _Wrong("bad_field", f"'{key}' must not be empty")
    return value


def _number(data: Mapping[str, Any], key: str, least: int, default: int | None = None) -> int:
    if default is not None and key not in data:
        return default
    value = _required(data, key)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_SEQUENCE:
        raise _Wrong("bad_field", f"'{key}' must be a whole number from {least}")
    return value


def _required(data: Mapping[str, Any], key: str) -> Any:
    if key not in data:
        raise _Wrong("missing_field", f"it needs '{key}'")
    return data[key]


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


_READERS: dict[str, tuple[frozenset[str], Callable[[Mapping[str, Any]], Request]]] = {
    "hello": (frozenset({"v", "token", "session", "after"}), _hello),
    "ask": (frozenset({"id", "text", "think"}), _ask),
    "cancel": (frozenset({"id"}), _cancel),
    "choose": (frozenset({"id", "of", "choice"}), _choose),
    "fix": (frozenset({"id", "sql", "text"}), _fix),
    "explain": (frozenset({"id", "sql", "of"}), _explain),
    "review": (frozenset({"id", "of", "text", "sql"}), _review),
    "history": (frozenset({"limit"}), _history),
    "ping": (frozenset({"after"}), _ping),
    "bye": (frozenset(), lambda _: Leave()),
}
