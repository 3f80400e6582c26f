"""Prompts, completions, deltas and errors as bytes, for a pool that another process asks over a Unix socket.

A message is one line of JSON, followed by as many bytes as its `blobs` say: pictures travel as they are. Both sides
are of one installation and one user; what cannot be read all the same is a `DoorGarbled`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from inference import errors
from inference.errors import EngineError, TenantLimited
from inference.messages import Completion, Constraint, Delta, ImagePart, Message, Part, Prompt, TextPart, Usage
from runtime.ids import EngineId, TenantId

MAX_LINE_BYTES = 16 << 20
MAX_BLOB_BYTES = 64 << 20
_KINDS: Mapping[str, type[EngineError]] = {
    kind.__name__: kind
    for kind in (
        errors.EngineNotReady,
        errors.EngineLost,
        errors.EngineTooSlow,
        errors.EngineRefused,
        errors.EngineGarbled,
        errors.Overloaded,
        errors.TenantLimited,
        errors.LoadUnbelievable,
    )
}
T = TypeVar("T")


class DoorGarbled(Exception):
    """What came is no message of this protocol."""


@attrs.frozen
class DoorMessage:
    """One message."""

    kind: str
    body: Mapping[str, Any]
    blobs: tuple[bytes, ...] = ()


def encode(message: DoorMessage) -> bytes:
    """A message as bytes."""
    line = {"kind": message.kind, "body": message.body, "blobs": [len(blob) for blob in message.blobs]}
    return b"".join([json.dumps(line, ensure_ascii=False).encode(), b"\n", *message.blobs])


class DoorReader:
    """Bytes in, messages out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what has come."""
        self._buffer += data

    def next_message(self) -> DoorMessage | None:
        """The next whole message; None while it is not there.

        Raises:
            DoorGarbled: what came is none.
        """
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > MAX_LINE_BYTES:
                raise DoorGarbled("a line has no end")
            return None
        try:
            line = json.loads(bytes(self._buffer[:end]))
            kind, body, lengths = line["kind"], line["body"], line["blobs"]
            wanted = sum(int(length) for length in lengths)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DoorGarbled(f"a line is no message: {error}") from error
        if not isinstance(kind, str) or not isinstance(body, dict) or min([0, *lengths]) < 0:
            raise DoorGarbled("a line is no message")
        if wanted > MAX_BLOB_BYTES:
            raise DoorGarbled(f"{wanted} bytes of pictures are too many")
        if len(self._buffer) < end + 1 + wanted:
            return None
        blobs, at = [], end + 1
        for length in lengths:
            blobs.append(bytes(self._buffer[at : at + length]))
            at += length
        del self._buffer[:at]
        return DoorMessage(kind, body, tuple(blobs))


def ask_message(prompt: Prompt, *, client: str, seconds: float, streams: bool) -> DoorMessage:
    """A prompt.

    Args:
        prompt: What to complete.
        client: Whose it is: its episodes are forgotten when that one is gone.
        seconds: Until its deadline.
        streams: Pieces of the answer are wanted as they come.
    """
    blobs: list[bytes] = []

    def part(one: Part) -> dict[str, Any]:
        if isinstance(one, TextPart):
            return {"text": one.text}
        blobs.append(one.jpeg)
        return {"sha256": one.sha256, "width": one.width, "height": one.height}

    messages = [{"role": one.role, "parts": [part(each) for each in one.parts]} for one in prompt.messages]
    plain = attrs.asdict(prompt, filter=attrs.filters.exclude("messages"))
    body = {"prompt": {**plain, "messages": messages}, "client": client, "seconds": seconds, "streams": streams}
    return DoorMessage("ask", body, tuple(blobs))


def prompt_of(message: DoorMessage) -> Prompt:
    """The prompt of an `ask`.

    Raises:
        DoorGarbled: it is none.
    """
    blobs = list(reversed(message.blobs))

    def part(one: Mapping[str, Any]) -> Part:
        if "text" in one:
            return TextPart(str(one["text"]))
        return ImagePart(blobs.pop(), str(one["sha256"]), int(one["width"]), int(one["height"]))

    def read() -> Prompt:
        said = dict(message.body["prompt"])
        messages = tuple(
            Message(str(one["role"]), tuple(part(each) for each in one["parts"])) for one in said.pop("messages")
        )
        said["constraint"] = Constraint(**said["constraint"])
        said["stop"] = tuple(said["stop"])
        said["tenant"] = TenantId(said["tenant"])
        return Prompt(**said, messages=messages)

    return _read(read)


def ask_seconds(message: DoorMessage) -> float:
    """Seconds until the deadline of an `ask`.

    Raises:
        DoorGarbled: it has none.
    """
    return _read(lambda: float(message.body["seconds"]))


def completion_message(completion: Completion) -> DoorMessage:
    """The end of an answer."""
    return DoorMessage("completion", attrs.asdict(completion))


def completion_of(message: DoorMessage) -> Completion:
    """The same.

    Raises:
        DoorGarbled: it is none.
    """

    def read() -> Completion:
        said = dict(message.body)
        return Completion(**{**said, "usage": Usage(**said["usage"]), "engine": EngineId(said["engine"])})

    return _read(read)


def delta_message(delta: Delta) -> DoorMessage:
    """A piece of an answer."""
    return DoorMessage("delta", {"text": delta.text, "channel": delta.channel})


def delta_of(message: DoorMessage) -> Delta:
    """The same.

    Raises:
        DoorGarbled: it is none.
    """
    return _read(lambda: Delta(str(message.body["text"]), str(message.body["channel"])))


def error_message(error: EngineError) -> DoorMessage:
    """What went wrong, as the class that it is."""
    prefix = f"{error.engine}: " if error.engine else ""
    body: dict[str, Any] = {
        "type": type(error).__name__,
        "text": str(error).removeprefix(prefix),
        "engine": error.engine,
        "over": error.over,
    }
    if isinstance(error, TenantLimited):
        body["retry_after_seconds"] = error.retry_after_seconds
    return DoorMessage("error", body)


def error_of(message: DoorMessage) -> EngineError:
    """The same.

    Raises:
        DoorGarbled: it is none.
    """

    def read() -> EngineError:
        said = message.body
        text, kind = str(said["text"]), _KINDS.get(said["type"], EngineError)
        if kind is TenantLimited:
            return TenantLimited(text, retry_after_seconds=float(said["retry_after_seconds"]))
        return kind(text, engine=str(said["engine"]), over=bool(said["over"]))

    return _read(read)


def texts_of(message: DoorMessage, name: str) -> Sequence[str]:
    """A list of texts out of its body.

    Raises:
        DoorGarbled: there is none.
    """
    found = message.body.get(name)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise DoorGarbled(f"{name!r} must be a list of texts")
    return found


def _read(read: Callable[[], T]) -> T:
    try:
        return read()
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DoorGarbled(f"a message cannot be read: {type(error).__name__} {error}") from error
