"""Those who look on in `corral bench wall`, in a process of their own: `python -m actors.bench.wall_viewers`.

It is told in one line of JSON on its standard input, `{"url", "token", "viewers", "fps", "side"}`, prints a line when
all are let in, and watches every phone, acknowledging each picture, until that input ends. Then it prints a line
`{"at": [...], "ages_ms": [...], "size_bytes": N, "phones": N}`: when each picture came, by the system's monotonic
clock, and how old it was.
"""

import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import attrs
import trio
from trio_websocket import WebSocketConnection, wrap_client_stream

from actors.farm.events import PATH
from actors.farm.watching import EVERYTHING
from runtime.nursery import open_bare_nursery

SEEN_SECONDS = 0.1  # a page tells what it has drawn once a frame or so, not once a picture


@attrs.define
class Pictures:
    """What all viewers got."""

    at: list[float] = attrs.field(factory=list)
    ages_ms: list[float] = attrs.field(factory=list)
    size_bytes: int = 0
    phones: set[str] = attrs.field(factory=set)

    def take(self, message: bytes) -> None:
        """Note one, after a look into its header, as a page does."""
        length = int.from_bytes(message[:4], "big")
        header = json.loads(message[4 : 4 + length])
        self.at.append(round(time.monotonic(), 3))
        self.ages_ms.append(header["captured_ms_ago"])
        self.size_bytes += len(message)
        self.phones.add(header["phone"])

    def told(self) -> str:
        """As a line."""
        return json.dumps({**attrs.asdict(self), "phones": len(self.phones)})


async def watch(order: dict[str, Any], pictures: Pictures) -> None:
    """Until the standard input ends."""
    async with open_bare_nursery() as nursery:
        for _ in range(order["viewers"]):
            await nursery.start(_view, order, pictures)
        _say("ready")
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


async def _view(order: dict[str, Any], pictures: Pictures, task_status: trio.TaskStatus[None]) -> None:
    parts = urlsplit(order["url"])
    headers = [(b"authorization", f"Bearer {order['token']}".encode())]
    wanted = {"type": "watch", "phones": [EVERYTHING], "screens": {"fps": order["fps"], "side": order["side"]}}
    stream = await trio.open_tcp_stream(str(parts.hostname), int(parts.port or 80))
    async with stream, open_bare_nursery() as nursery:
        socket = await wrap_client_stream(nursery, stream, order["url"], PATH, extra_headers=headers)
        await socket.send_message(json.dumps({**wanted, "detail": None}))
        task_status.started()
        await _draw(socket, pictures)


async def _draw(socket: WebSocketConnection, pictures: Pictures) -> None:
    drawn, told_at = 0, trio.current_time()
    while True:
        message: str | bytes | None = None
        with trio.move_on_after(SEEN_SECONDS):
            message = await socket.get_message()
        if isinstance(message, bytes):
            pictures.take(message)
            drawn += 1
        if drawn and trio.current_time() - told_at >= SEEN_SECONDS:
            await socket.send_message(json.dumps({"type": "seen", "count": drawn}))
            drawn, told_at = 0, trio.current_time()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Until the standard input ends."""
    pictures = Pictures()
    trio.run(watch, json.loads(sys.stdin.readline()), pictures)
    _say(pictures.told())


if __name__ == "__main__":
    main()
