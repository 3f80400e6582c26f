"""A server that answers every request with the same event stream: what a client costs is measured against it.

Run as `python -m actors.bench.canned TOKENS`; it prints where it listens as a rehearsal engine does. It does as little
as it can, so that it is never what is waited for.
"""

import json
import sys
from functools import partial

import trio

READ_BYTES = 1 << 20


def events_for(tokens: int) -> list[bytes]:
    """The chunks of an answer: an event a token, as engines send them."""

    def chunk(fields: dict[str, object]) -> bytes:
        data = b"data: " + json.dumps({"id": "canned", "object": "chat.completion.chunk", **fields}).encode() + b"\n\n"
        return b"%x\r\n%s\r\n" % (len(data), data)

    def choice(delta: dict[str, str], finish: str | None = None) -> dict[str, object]:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    usage = {"prompt_tokens": 1200, "completion_tokens": tokens, "prompt_tokens_details": {"cached_tokens": 300}}
    done = b"data: [DONE]\n\n"
    return [
        chunk(choice({"role": "assistant", "content": ""})),
        *(chunk(choice({"content": "T447"})) for _ in range(tokens)),
        chunk(choice({}, "stop")),
        chunk({"choices": [], "usage": usage}),
        b"%x\r\n%s\r\n0\r\n\r\n" % (len(done), done),
    ]


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


async def serve(tokens: int, stream: trio.SocketStream) -> None:
    """One connection: read a request by its Content-Length, answer, and so on."""
    events = events_for(tokens)
    pieces = [HEAD + events[0], *events[1:]]
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            more = await stream.receive_some(READ_BYTES)
            if not more:
                return
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        left = _length_in(head) - len(rest)
        while left > 0:
            more = await stream.receive_some(READ_BYTES)
            if not more:
                return
            left -= len(more)
        data = b""
        if not head.startswith(b"POST /v1/chat"):
            await stream.send_all(PLAIN)
            continue
        for piece in pieces:
            await stream.send_all(piece)


def _length_in(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def run(tokens: int) -> None:
    """Serve for ever."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    print(json.dumps({"ready": True, "url": f"http://127.0.0.1:{port}"}), flush=True)  # noqa: T201  # the ready line

    async def handle(stream: trio.SocketStream) -> None:
        try:
            await serve(tokens, stream)
        except trio.BrokenResourceError:
            return  # the client has gone

    await trio.serve_listeners(handle, listeners)


if __name__ == "__main__":
    trio.run(partial(run, int(sys.argv[1])))
