"""The body of a response in HTTP/1.1's chunked coding (RFC 9112, section 7.1), in whatever pieces it arrives.

An engine sends every token as a chunk of its own. h11 makes an event of each part of each, which costs more than all
else that is done with an answer; so it reads heads, and this reads bodies.
"""

import functools

KNOWN_SIZES = 512  # lines whose meaning is remembered: an engine's events are of a few hundred lengths
MAX_SIZE_DIGITS = 8  # of a chunk: 4 GB; an answer ends long before
MAX_LINE_BYTES = 4096  # a chunk's extensions, or a trailer
MAX_TRAILER_BYTES = 16 << 10


class BadChunk(ValueError):
    """The bytes are no chunks."""


class ChunkedReader:
    """Feed it bytes, get the body's."""

    def __init__(self) -> None:
        self._pending = b""  # the beginning of a line whose end has not come
        self._left = 0  # bytes of the chunk that are still to come, with its line end
        self._trailer = 0  # bytes of the trailer so far, once the last chunk has come
        self._in_trailer = False
        self.done = False
        """True once the body is whole; nothing may follow."""

    def feed(self, data: bytes) -> bytes:
        """What `data` holds of the body.

        Raises:
            BadChunk: it is no chunk, or something follows the end.
        """
        if self._pending:
            data, self._pending = self._pending + data, b""
        pieces: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if self.done:
                raise BadChunk("something follows the end of the body")
            if self._left:
                at = self._take_chunk(data, at, pieces)
                continue
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                if end - at > MAX_LINE_BYTES:
                    raise BadChunk(f"a line is longer than {MAX_LINE_BYTES} bytes")
                self._pending = data[at:]
                break
            line, at = data[at:line_end], line_end + 2
            if self._in_trailer:
                self._take_trailer(line)
                continue
            size = _size_in(line)
            stop = at + size
            if size and data[stop : stop + 2] == b"\r\n":  # it is here as a whole, as nearly all are
                pieces.append(data[at:stop])
                at = stop + 2
                continue
            self._in_trailer = size == 0
            self._left = 0 if size == 0 else size + 2
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take_chunk(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Its last two bytes are its line end."""
        if self._left > 2:
            piece = data[at : at + self._left - 2]
            pieces.append(piece)
            self._left -= len(piece)
            at += len(piece)
        while self._left and self._left <= 2 and at < len(data):
            if data[at] != (13 if self._left == 2 else 10):
                raise BadChunk("a chunk does not end where it should")
            self._left -= 1
            at += 1
        return at

    def _take_trailer(self, line: bytes) -> None:
        self._trailer += len(line) + 2
        if self._trailer > MAX_TRAILER_BYTES:
            raise BadChunk(f"the trailer is longer than {MAX_TRAILER_BYTES} bytes")
        self.done = not line


@functools.lru_cache(maxsize=KNOWN_SIZES)
def _size_in(line: bytes) -> int:
    """The size that a chunk's first line states.

    Raises:
        BadChunk: it states none.
    """
    digits = line.partition(b";")[0].rstrip(b" \t")
    if not 0 < len(digits) <= MAX_SIZE_DIGITS or digits.strip(b"0123456789abcdefABCDEF"):
        raise BadChunk(f"{line[:40]!r} is no size of a chunk")
    return int(digits, 16)
