"""What does a request cost us? The pool and all below it, beside a bare h11 loop with the same bytes."""

import gc
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import attrs
import cv2
import h11
import numpy as np
import trio

from actors.bench.engines import BenchUnavailable
from actors.bench.result import BenchResult, Tell, tell_nobody
from actors.engine import url_in_ready_line
from actors.pictures import encode_jpeg
from actors.results.intervals import median_interval
from inference.config import Dialect, EngineConfig
from inference.errors import EngineError
from inference.messages import ImagePart, Message, Prompt, TextPart
from inference.pool import EnginePool, open_pool
from inference.wire import ImageUrls, WireRequest, encode_completion
from policies.frame import Pixels
from runtime.ids import DEFAULT_TENANT, EngineId
from runtime.nursery import open_bare_nursery
from runtime.process import ProcessError, ProcessPlan, ReadyLine, open_process

OUTPUT_TOKENS = 32
CONCURRENCY = 8
IMAGE_BYTES = 100_000
TARGET_RATIO = 1.5
READ_BYTES = 64 << 10  # as our own client
HEIGHT, WIDTH = 1280, 720

Send = Callable[[int], Awaitable[None]]


def picture(number: int) -> Pixels:
    """A screen with so much in it that its JPEG has about 100 KB."""
    dice = np.random.default_rng(number)
    coarse = dice.integers(0, 256, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    return np.asarray(cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_NEAREST), np.uint8)


def encoded(number: int) -> ImagePart:
    """That picture as JPEG, at the quality that comes nearest to 100 KB."""
    pixels = picture(number)
    parts = [encode_jpeg(pixels, max_side=HEIGHT, quality=quality) for quality in range(30, 96, 5)]
    return min(parts, key=lambda part: abs(len(part.jpeg) - IMAGE_BYTES))


def prompt_for(image: ImagePart, number: int) -> Prompt:
    """A request with one frame."""
    return Prompt(
        f"client-{number}",
        DEFAULT_TENANT,
        f"phone-{number % CONCURRENCY}",
        (
            Message("system", (TextPart("You play a mobile game. " * 20),)),
            Message("user", (TextPart("Actions so far:"), image, TextPart(f"Goal: play. Step {number}."))),
        ),
        max_tokens=OUTPUT_TOKENS,
    )


def request_for(prompt: Prompt, urls: ImageUrls) -> WireRequest:
    """The bytes that our client sends of it."""
    return encode_completion(prompt, dialect=Dialect.SGLANG, model="canned", url_for=partial(urls.url_for, now=0.0))


class BareLoop:
    """h11 over trio's sockets and nothing else: sends bytes that are ready, reads events to the end, keeps the text."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._host, self._port = parts.hostname, parts.port
        self._idle: list[trio.SocketStream] = []

    async def send(self, request: WireRequest) -> bytes:
        """One exchange; returns the body of the response."""
        stream = self._idle.pop() if self._idle else await trio.open_tcp_stream(self._host, self._port)
        protocol = h11.Connection(h11.CLIENT)
        headers = [("Host", f"{self._host}:{self._port}"), *request.headers, ("Content-Length", str(len(request.body)))]
        out = protocol.send(h11.Request(method="POST", target=request.path, headers=headers)) or b""
        out += protocol.send(h11.Data(data=request.body)) or b""
        out += protocol.send(h11.EndOfMessage()) or b""
        await stream.send_all(out)
        body = bytearray()
        while True:
            event = protocol.next_event()
            if event is h11.NEED_DATA:
                protocol.receive_data(bytes(await stream.receive_some(READ_BYTES)))
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                self._idle.append(stream)
                return bytes(body)

    async def aclose(self) -> None:
        """Close its connections."""
        for stream in self._idle:
            await stream.aclose()


@attrs.frozen
class Measured:
    """One stretch of requests; CPU milliseconds of this thread a request."""

    bare: float
    pool: float


async def drive(count: int, send: Send) -> float:
    """CPU milliseconds of this thread a request, so many at a time."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await send(number)

    gc.collect()
    began = time.thread_time()
    async with open_bare_nursery() as nursery:  # its single error comes out as it was raised
        for _ in range(CONCURRENCY):
            nursery.start_soon(work)
    return (time.thread_time() - began) * 1000 / count


async def compare(images: Sequence[ImagePart], requests: int, repeats: int, tell: Tell = tell_nobody) -> list[Measured]:
    """Both ways over the same server, alternating; who begins alternates too.

    Every request has an image that was not sent before in its stretch, as every frame of a phone is a new one.

    Raises:
        BenchUnavailable: the server did not start, or did not answer.
    """
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="corral-client-") as folder:
        plan = ProcessPlan(
            "canned",
            (sys.executable, "-m", "actors.bench.canned", str(OUTPUT_TOKENS)),
            Path(folder) / "canned.log",
            ReadyLine(url_in_ready_line),
            start_seconds=60.0,
            stop_grace_seconds=2.0,
        )
        try:
            async with open_process(plan) as server:
                bare = BareLoop(server.address)
                wire = [request_for(prompt_for(images[n % len(images)], n), ImageUrls()) for n in range(requests)]
                config = EngineConfig(EngineId("canned"), url=server.address, model="canned", max_in_flight=CONCURRENCY)
                for repeat in range(repeats + 1):
                    tell(f"repeat {repeat}", repeat / (repeats + 1))
                    async with open_pool([config]) as pool:  # a new one: images that it encoded are not known to it
                        ways: list[tuple[str, Send]] = [
                            ("bare", partial(_send_bare, bare, wire)),
                            ("pool", partial(_send_pool, pool, images)),
                        ]
                        costs = {name: await drive(requests, send) for name, send in ways[:: 1 - 2 * (repeat % 2)]}
                    if repeat:  # the first one warms both up
                        found.append(Measured(costs["bare"], costs["pool"]))
                await bare.aclose()
        except (ProcessError, EngineError, OSError, trio.BrokenResourceError, h11.RemoteProtocolError) as error:
            raise BenchUnavailable(f"the server that is measured against: {error}") from error
    return found


async def _send_bare(bare: BareLoop, wire: Sequence[WireRequest], number: int) -> None:
    await bare.send(wire[number])


async def _send_pool(pool: EnginePool, images: Sequence[ImagePart], number: int) -> None:
    await pool(prompt_for(images[number % len(images)], number), deadline=trio.current_time() + 60.0)


def cost_of_encoding(images: Sequence[ImagePart], requests: int) -> dict[str, float]:
    """CPU milliseconds of the JPEG of a 720x1280 frame, and of base64 and JSON of a prompt with it."""
    pixels = picture(0)
    began = time.thread_time()
    for _ in range(20):
        encode_jpeg(pixels, max_side=HEIGHT, quality=60)
    jpeg = (time.thread_time() - began) * 1000 / 20
    prompts = [prompt_for(images[n % len(images)], n) for n in range(requests)]
    began = time.thread_time()
    for prompt in prompts:
        request_for(prompt, ImageUrls())
    return {"jpeg": jpeg, "base64_and_json": (time.thread_time() - began) * 1000 / requests}


def bench_client(*, requests: int, repeats: int, tell: Tell = tell_nobody) -> BenchResult:
    """The comparison.

    Raises:
        BenchUnavailable: see `compare`.
    """
    images = [encoded(number) for number in range(16)]
    # as many copies as requests: equal bytes under other names, so that none is taken from the cache of encoded images
    copies = [attrs.evolve(images[n % len(images)], sha256=f"{n:064x}") for n in range(requests)]
    found = trio.run(partial(compare, copies, requests, repeats, tell))
    encoding = cost_of_encoding(copies, min(requests, 200))
    ratio = median_interval([one.pool / one.bare for one in found])
    without = median_interval([(one.pool - encoding["base64_and_json"]) / one.bare for one in found])
    summary: dict[str, Any] = {
        "pool, CPU ms a request": round(median(one.pool for one in found), 4),
        "bare h11 loop, CPU ms a request": round(median(one.bare for one in found), 4),
        "ratio": round(without.value, 4),
        "ratio, 95 % interval": f"{without.low:.3f} to {without.high:.3f}",
        "ratio with base64 and JSON": round(ratio.value, 4),
        "base64 and JSON, CPU ms a request": round(encoding["base64_and_json"], 4),
        "JPEG of a 720x1280 frame, CPU ms": round(encoding["jpeg"], 3),
        "image bytes": round(sum(len(one.jpeg) for one in images) / len(images)),
        "met": without.value <= TARGET_RATIO,
    }
    notes = (
        "pool: admission, homing, metering, base64 and JSON of the prompt, sending, reading events, metrics; not the "
        "JPEG, which is made once a frame in another thread. base64 and JSON are taken off for the ratio, as the bare "
        "loop's bytes are ready; the ratio with them is told beside",
        f"bare: the same bytes, ready beforehand, sent and read by h11 over trio's sockets; {CONCURRENCY} at a time, "
        f"{OUTPUT_TOKENS} tokens an answer, each an event and a chunk of its own; CPU of this thread, paired by repeat",
    )
    command = f"corral bench client --requests {requests} --repeats {repeats}"
    return BenchResult("client", command, summary, [attrs.asdict(one) for one in found], notes)
