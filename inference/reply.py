"""An engine's answer, from bytes to a completion's text and usage; and what its refusals mean."""

import json
from typing import Any

import attrs

from inference.errors import (
    EngineError,
    EngineGarbled,
    EngineLost,
    EngineNotReady,
    EngineRefused,
    EngineTooSlow,
    Overloaded,
)
from inference.messages import Delta, OnDelta, Usage
from inference.sse import SseParser, SseTooLong

MAX_REPLY_BYTES = 8 << 20  # a chunk of 5 actions is under 10 KiB as events; a long answer with thoughts under 1 MiB
MAX_ERROR_TEXT = 300  # characters of the engine's own words that an error repeats
MOST_TOKENS = 100_000_000  # of one request; the longest contexts have ten million, so more is a lie

_FINISH = {
    "stop": "stop",
    "length": "length",
    "abort": "abort",
    "eos": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
}


@attrs.frozen
class Reply:
    """A whole answer."""

    text: str
    finish_reason: str
    """`stop` or `length`."""
    usage: Usage
    usage_counted: bool
    """False: the engine gave no usage; `output_tokens` are then the pieces of text that came, the rest is 0."""


class ReplyReader:
    """Reads the event stream of one chat completion."""

    def __init__(self, engine: str, on_delta: OnDelta | None = None) -> None:
        self._engine = engine
        self._on_delta = on_delta
        self._parser = SseParser()
        self._size = 0
        self._texts: list[str] = []
        self._finish_reason: str | None = None
        self._usage: Usage | None = None
        self._usual: tuple[str, str] | None = None  # what stands around the text in an event that holds nothing else
        self.pieces = 0
        """Pieces of the answer that came, mostly tokens; thoughts count."""
        self.done = False
        """True once the end mark came."""

    def feed(self, chunk: bytes) -> None:
        """Take in bytes.

        Raises:
            EngineGarbled: they are not a completion's events, or far too many.
            EngineLost, EngineRefused, Overloaded, EngineTooSlow: the engine reported an error inside the stream.
        """
        self._size += len(chunk)
        if self._size > MAX_REPLY_BYTES:
            raise self._garbled(f"its answer is longer than {MAX_REPLY_BYTES} bytes")
        try:
            events = self._parser.feed(chunk)
        except SseTooLong as error:
            raise self._garbled(str(error)) from error
        for event in events:
            if self.done:
                return
            if event.data.strip() == "[DONE]":
                self.done = True
            else:
                self._take(event.data)

    def result(self) -> Reply:
        """The answer, once the stream has ended.

        Raises:
            EngineLost: it ended too early, or the engine aborted the request.
        """
        if self._finish_reason is None:
            if self.done:
                raise self._garbled("it said [DONE] without a finish_reason")
            raise EngineLost("its answer broke off", engine=self._engine, over=False)
        if self._finish_reason == "abort":
            raise EngineLost("it aborted the request by itself", engine=self._engine)
        usage = self._usage or Usage(0, 0, sum(1 for text in self._texts if text))
        return Reply("".join(self._texts), self._finish_reason, usage, self._usage is not None)

    def _take(self, data: str) -> None:
        if self._usual is not None and (text := _between(data, *self._usual)):
            self._texts.append(text)
            self.pieces += 1
            if self._on_delta is not None:
                self._on_delta(Delta(text))
            return
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._garbled(f"an event is no JSON: {_shortened(data)}") from error
        if not isinstance(chunk, dict):
            raise self._garbled(f"an event is no object: {_shortened(data)}")
        if chunk.get("error"):
            raise error_in_stream(chunk["error"], self._engine)
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage = self._read_usage(usage)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise self._garbled(f"an event has no choices: {_shortened(data)}")
        if choices:
            texts_before = len(self._texts)
            self._take_choice(choices[0], data)
            is_text_alone = len(self._texts) > texts_before and self._finish_reason is None and not usage
            self._usual = _around(data, self._texts[-1]) if is_text_alone else None

    def _take_choice(self, choice: Any, data: str) -> None:
        delta = choice.get("delta") if isinstance(choice, dict) else None
        delta = {} if delta is None else delta
        if not isinstance(choice, dict) or not isinstance(delta, dict):
            raise self._garbled(f"a choice is no object with a delta: {_shortened(data)}")
        text = delta.get("content")
        if text is not None and not isinstance(text, str):
            raise self._garbled(f"the content is no text: {_shortened(data)}")
        if text:
            self._texts.append(text)
        thought = delta.get("reasoning_content")
        if text or thought:
            self.pieces += 1
        if self._on_delta is not None:
            if isinstance(thought, str) and thought:
                self._on_delta(Delta(thought, "thought"))
            if text:
                self._on_delta(Delta(text))
        reason = choice.get("finish_reason")
        if reason is None:
            return
        if reason == "content_filter":
            raise EngineRefused("its content filter cut the answer", engine=self._engine)
        if not isinstance(reason, str) or reason not in _FINISH:
            raise self._garbled(f"it finished for an unknown reason {_shortened(str(reason))}")
        self._finish_reason = _FINISH[reason]

    def _read_usage(self, usage: dict[str, Any]) -> Usage:
        details = usage.get("prompt_tokens_details")
        details = details if isinstance(details, dict) else {}
        image_tokens = details.get("image_tokens")
        try:
            prompt_tokens = _count(usage.get("prompt_tokens"))
            return Usage(
                prompt_tokens=prompt_tokens,
                cached_tokens=min(
                    _count(details.get("cached_tokens")), prompt_tokens
                ),  # some count a retracted one twice
                output_tokens=_count(usage.get("completion_tokens")),
                image_tokens=None if image_tokens is None else _count(image_tokens),
            )
        except ValueError as error:
            raise self._garbled(f"its usage makes no sense: {error}") from error

    def _garbled(self, what: str) -> EngineGarbled:
        return EngineGarbled(what, engine=self._engine, over=False)


def error_for_status(status: int, body: bytes, engine: str) -> EngineError:
    """What an HTTP status other than 200 means; the body is only repeated, shortened."""
    words = _shortened(body.decode("utf-8", "replace"))
    what = f"HTTP {status}: {words}"
    if status == 429 or (status == 503 and "queue" in words.lower()):
        return Overloaded(what, engine=engine)
    if status == 503:
        return EngineNotReady(what, engine=engine)
    if status in {408, 504}:
        return EngineTooSlow(what, engine=engine)
    if status in {401, 403}:
        return EngineRefused(f"{what} (is `api_key_env` right?)", engine=engine)
    if 400 <= status < 500:
        return EngineRefused(what, engine=engine)
    if status >= 500:
        return EngineLost(what, engine=engine)
    return EngineGarbled(what, engine=engine)


def error_in_stream(error: Any, engine: str) -> EngineError:
    """What an error event inside a stream means: as its `code` would as a status; without one, the request is lost."""
    code = error.get("code") if isinstance(error, dict) else None
    words = error.get("message", error) if isinstance(error, dict) else error
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    if isinstance(code, int) and 400 <= code < 600:
        return error_for_status(code, str(words).encode(), engine)
    return EngineLost(f"it reported an error: {_shortened(str(words))}", engine=engine)


def _around(data: str, text: str) -> tuple[str, str] | None:
    """What stands before and behind an event's text, if it can be told for sure.

    An engine's events differ by their text alone, an event a token: one that begins and ends as another did, with a
    plain string between, says the same but for that string, and need not be parsed to know it.
    """
    before, found, rest = data.partition('"content":')
    opening = '"' if rest.startswith('"') else ' "'
    if not found or '"content":' in rest or not rest.startswith(f'{opening}{text}"') or not _is_plain(text):
        return None
    return (f"{before}{found}{opening}", rest[len(opening) + len(text) :])


def _between(data: str, before: str, behind: str) -> str:
    """The text of such an event; empty where it is another sort of event."""
    end = len(data) - len(behind)
    if end <= len(before) or not data.startswith(before) or not data.endswith(behind):
        return ""
    text = data[len(before) : end]
    return text if _is_plain(text) else ""


def _is_plain(text: str) -> bool:
    """True when a JSON string stands for itself: no quotes, no escapes, no control characters."""
    return '"' not in text and "\\" not in text and text.isprintable()


def _count(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TOKENS:
        told = f"a number of {value.bit_length()} bits" if isinstance(value, int) and value > 0 else repr(value)[:40]
        raise ValueError(f"{told} is no number of tokens")
    return value


def _shortened(text: str) -> str:
    """On one line, and with nothing in it that would steer a terminal."""
    text = " ".join(text[: 4 * MAX_ERROR_TEXT].split())
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return text if len(text) <= MAX_ERROR_TEXT else text[:MAX_ERROR_TEXT] + "..."
