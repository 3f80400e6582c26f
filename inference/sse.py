"""Server-sent events, cut out of a byte stream that arrives in any pieces (WHATWG HTML, section 9.2)."""

from collections.abc import Iterator

import attrs

MAX_EVENT_BYTES = 1 << 20  # an event of a completion holds one token or one error; 1 MiB is another server's fault

_BOM = b"\xef\xbb\xbf"


@attrs.frozen
class SseEvent:
    """One event; fields other than these are ignored."""

    data: str
    """The data lines, joined by line feeds."""
    event: str = ""


class SseTooLong(Exception):
    """A line or an event is longer than the limit."""


class SseParser:
    r"""Feed it bytes, get whole events.

    Lines end in LF, CR or CRLF; bytes that are no UTF-8 become U+FFFD, as the standard says.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._pending = bytearray()  # the beginning of a line whose end has not come
        self._data: list[str] = []
        self._data_bytes = 0
        self._event = ""
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that end within `chunk`.

        Raises:
            SseTooLong: a line or event exceeds the limit; the parser is of no use afterwards.
        """
        events: list[SseEvent] = []
        if self._first and chunk and not self._pending and chunk[0] != _BOM[0]:
            self._first = False
        if self._first or self._after_cr or self._pending or self._data or self._event or not chunk.endswith(b"\n\n"):
            self._feed_lines(chunk, events)
            return events
        for block in chunk[:-2].split(b"\n\n"):  # whole events and nothing else, as engines send them
            if block.startswith(b"data: ") and len(block) <= self._max and b"\n" not in block and b"\r" not in block:
                events.append(SseEvent(str(block[6:], "utf-8", "replace"), ""))
            else:
                self._feed_lines(block + b"\n\n", events)
        return events

    def _feed_lines(self, chunk: bytes, events: list[SseEvent]) -> None:
        for line in self._lines(chunk):
            if not line:
                if self._data:
                    text = self._data[0] if len(self._data) == 1 else "\n".join(self._data)
                    events.append(SseEvent(text, self._event))
                    self._data, self._data_bytes = [], 0
                self._event = ""
                continue
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                self._data_bytes += len(value) + 1
                if self._data_bytes > self._max:
                    raise SseTooLong(f"an event is longer than {self._max} bytes")
                self._data.append(value.decode("utf-8", "replace"))
            elif name == b"event":
                self._event = value.decode("utf-8", "replace")

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        if not chunk:
            return
        ends_in_cr = chunk.endswith(b"\r")
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")  # the second half of a CRLF that was torn apart
        self._after_cr = ends_in_cr
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        pieces = chunk.split(b"\n")
        for piece in pieces[:-1]:
            line = piece
            if self._pending:
                line = bytes(self._pending) + piece
                self._pending.clear()
            if len(line) > self._max:
                raise SseTooLong(f"a line is longer than {self._max} bytes")
            if self._first:
                self._first = False
                line = line.removeprefix(_BOM)
            yield line
        self._pending += pieces[-1]
        if len(self._pending) > self._max:
            raise SseTooLong(f"a line is longer than {self._max} bytes")
