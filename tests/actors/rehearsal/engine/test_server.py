"""The engine's interface over real sockets: in this process where time may be real and short, and as a process."""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import httpcore
import pytest
import trio

from actors.rehearsal.apps.battler import Battler
from actors.rehearsal.engine.latency import LatencyModel
from actors.rehearsal.engine.options import RehearsalOptions, problems_in
from actors.rehearsal.engine.serve import bind_socket, serve_engine
from actors.rehearsal.engine.work import RehearsalEngine
from runtime.secret import Secret
from tests.kit.rehearsal_play import encoded_frame, moves_in

FAST = LatencyModel(total_seconds=0.0)
RUN = "from actors.cli.engine_rehearsal import rehearse; rehearse()"


@attrs.define
class Client:
    """Talks to one engine."""

    url: str
    http: httpcore.AsyncConnectionPool
    key: str | None = None

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = [("Authorization", f"Bearer {self.key}")] if self.key else []
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        answer = await self.http.request(method, self.url + path, headers=headers, content=content)
        try:
            return answer.status, json.loads(answer.content)
        except ValueError:
            return answer.status, answer.content.decode()

    async def chat(self, **fields: Any) -> tuple[int, Any]:
        fields.setdefault("messages", [{"role": "user", "content": "hello"}])
        return await self.call("POST", "/v1/chat/completions", fields)


@asynccontextmanager
async def open_engine(options: RehearsalOptions, key: str | None = None) -> AsyncIterator[Client]:
    stop = trio.Event()
    engine = RehearsalEngine(options)
    secret = None if key is None else Secret(key)
    async with trio.open_nursery() as nursery:
        sock = bind_socket("127.0.0.1", 0)
        url = await nursery.start(partial(serve_engine, engine, sock, key=secret, stop=stop))
        async with httpcore.AsyncConnectionPool(max_connections=32) as http:
            yield Client(url, http, key)
        stop.set()


def screen() -> bytes:
    return encoded_frame(Battler(seed=1, width=360, height=640, now=0.0).draw(1.5))


def looking_at(*frames: bytes, scheduled: str = "none") -> list[dict[str, Any]]:
    urls = ["data:image/jpeg;base64," + base64.b64encode(frame).decode() for frame in frames]
    return [
        {"role": "system", "content": "You play a mobile game." * 8},
        {
            "role": "user",
            "content": [
                *({"type": "image_url", "image_url": {"url": url}} for url in urls),
                {"type": "text", "text": f"Goal: win\nAlready scheduled: {scheduled}\nGive the actions that follow."},
            ],
        },
    ]


async def test_it_plays_what_it_is_shown() -> None:
    async with open_engine(RehearsalOptions(latency=FAST)) as client:
        status, answer = await client.chat(messages=looking_at(screen()), max_tokens=64, rid="r1", regex="[TSW].*")

    assert status == 200
    assert (answer["id"], answer["model"]) == ("r1", "rehearsal-7b")
    assert answer["choices"][0]["finish_reason"] == "stop"
    text = answer["choices"][0]["message"]["content"]
    assert len(moves_in(text)) >= 2
    assert answer["usage"]["completion_tokens"] == len(text)
    assert answer["usage"]["prompt_tokens_details"]["image_tokens"] == 360 * 640 // 784


async def test_streamed_pieces_are_the_whole_text() -> None:
    async with open_engine(RehearsalOptions(latency=LatencyModel(0.01, 0.001))) as client:
        _, whole = await client.chat(messages=looking_at(screen()))
        _, events = await client.chat(
            messages=looking_at(screen()), stream=True, stream_options={"include_usage": True}
        )

    data = [line.removeprefix("data: ") for line in events.split("\n\n") if line]
    assert data[-1] == "[DONE]"
    chunks = [json.loads(item) for item in data[:-1]]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])
    assert text == whole["choices"][0]["message"]["content"]
    assert len(chunks) > 4
    assert [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]][-1] == "stop"
    assert chunks[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


async def test_the_limit_of_tokens_holds() -> None:
    async with open_engine(RehearsalOptions(latency=FAST)) as client:
        _, answer = await client.chat(messages=looking_at(screen()), max_tokens=5)

    assert answer["choices"][0]["finish_reason"] == "length"
    assert len(answer["choices"][0]["message"]["content"]) == 5


async def test_cached_tokens_are_counted_by_salt() -> None:
    async with open_engine(RehearsalOptions(latency=FAST)) as client:
        cached = []
        for salt in ("a", "a", "b"):
            _, answer = await client.chat(messages=looking_at(screen()), cache_salt=salt)
            cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
        await client.call("POST", "/flush_cache")
        _, answer = await client.chat(messages=looking_at(screen()), cache_salt="a")

    assert cached == [0, answer["usage"]["prompt_tokens"] - 1, 0]
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


BAD = [
    (b"{", "Invalid JSON"),
    (b"[]", "JSON object"),
    ({"messages": []}, "empty"),
    ({"messages": [{"role": "king", "content": "x"}]}, "role"),
    ({"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}, "max_tokens"),
    ({"messages": [{"role": "user", "content": "x"}], "regex": "("}, "regex"),
    ({"messages": [{"role": "user", "content": "x" * 9000}]}, "longer than the model's context length (2000 tokens)"),
    ({"messages": looking_at(b"no picture")}, "Failed to load image"),
    ({"messages": looking_at(screen()[:300])}, "Failed to load image"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "/9j/4AAQ" * 99}}]}]},
        "data:",
    ),
    ({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}, "part"),
    ({"messages": [{"role": "user", "content": "x"}], "session_params": {"id": "nope"}}, "session id nope"),
]


async def test_what_is_wrong_is_refused_with_a_reason() -> None:
    async with open_engine(RehearsalOptions(latency=FAST, context_length=2000)) as client:
        for body, reason in BAD:
            status, answer = await client.call("POST", "/v1/chat/completions", body)
            assert (status, answer["object"], answer["code"]) == (400, "error", 400)
            assert reason in answer["message"]
        assert (await client.chat())[0] == 200


async def test_every_probe_answers() -> None:
    async with open_engine(RehearsalOptions(latency=FAST)) as client:
        await client.chat()
        for path in ("/ping", "/ready", "/health", "/health_generate"):
            assert (await client.call("GET", path))[0] == 200
        for path in ("/model_info", "/get_model_info", "/server_info", "/get_server_info"):
            assert (await client.call("GET", path))[1]["model_path"] == "rehearsal-7b"
        assert (await client.call("GET", "/v1/models"))[1]["data"][0]["id"] == "rehearsal-7b"
        assert (await client.call("GET", "/v1/loads"))[1]["loads"][0]["num_running_reqs"] == 0
        _, metrics = await client.call("GET", "/metrics")
        assert 'sglang:num_requests_total{engine_type="unified",model_name="rehearsal-7b"' in metrics
        assert (await client.call("GET", "/get_load"))[0] == 404


async def test_sessions_are_opened_once_and_closed() -> None:
    async with open_engine(RehearsalOptions(latency=FAST)) as client:
        assert await client.call("POST", "/open_session", {"session_id": "bot-7"}) == (200, "bot-7")
        assert (await client.call("POST", "/open_session", {"session_id": "bot-7"}))[0] == 400
        assert (await client.chat(session_params={"id": "bot-7"}))[0] == 200
        assert (await client.call("POST", "/close_session", {"session_id": "bot-7"}))[0] == 200
        assert (await client.chat(session_params={"id": "bot-7"}))[0] == 400


async def loads_of(client: Client) -> tuple[int, int]:
    row = (await client.call("GET", "/v1/loads"))[1]["loads"][0]
    return (row["num_running_reqs"], row["num_waiting_reqs"])


async def wait_loads(client: Client, expected: tuple[int, int]) -> None:
    with trio.fail_after(5):
        while await loads_of(client) != expected:
            await trio.sleep(0.01)


async def test_an_aborted_request_ends_at_once_whether_it_runs_or_waits() -> None:
    answers: dict[str, tuple[int, Any]] = {}

    async def ask(rid: str) -> None:
        answers[rid] = await client.chat(rid=rid)

    options = RehearsalOptions(latency=LatencyModel(0.05, 60.0), slots=1)
    async with open_engine(options) as client, trio.open_nursery() as nursery:
        nursery.start_soon(ask, "running")
        await wait_loads(client, (1, 0))
        nursery.start_soon(ask, "waiting")
        await wait_loads(client, (1, 1))
        with trio.fail_after(5):
            assert (await client.call("POST", "/abort_request", {"rid": "waiting"}))[0] == 200
            await wait_loads(client, (1, 0))
            await client.call("POST", "/abort_request", {"rid": "nobody"})
            await client.call("POST", "/abort_request", {"abort_all": True})
            await wait_loads(client, (0, 0))

    assert [a[0] for a in answers.values()] == [200, 200]
    assert all(a[1]["choices"][0]["finish_reason"] == "abort" for a in answers.values())


async def test_a_client_that_leaves_frees_its_slot() -> None:
    async with open_engine(RehearsalOptions(latency=LatencyModel(0.05, 60.0), slots=1)) as client:
        for stream in (False, True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(client.chat, stream=stream))
                await wait_loads(client, (1, 0))
                nursery.cancel_scope.cancel()
            await wait_loads(client, (0, 0))


async def test_more_than_the_queue_holds_are_refused() -> None:
    options = RehearsalOptions(latency=LatencyModel(60.0), slots=1, max_queued=0)
    async with open_engine(options) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.chat)
        await wait_loads(client, (1, 0))
        status, answer = await client.chat()
        nursery.cancel_scope.cancel()

    assert (status, answer["message"]) == (503, "The request queue is full.")


async def test_slots_bound_what_runs_at_once() -> None:
    async with open_engine(RehearsalOptions(latency=LatencyModel(total_seconds=0.1), slots=2)) as client:
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(client.chat)

    assert trio.current_time() - started >= 0.3


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
async def test_failures_come_at_the_rate_that_is_asked_for(rate: float) -> None:
    async with open_engine(RehearsalOptions(latency=FAST, fail_rate=rate, seed=1)) as client:
        statuses = [(await client.chat())[0] for _ in range(40)]

    assert set(statuses) <= {200, 500}
    assert statuses.count(500) == pytest.approx(40 * rate, abs=10 if 0 < rate < 1 else 0)


async def test_garbage_is_no_plan_and_blind_plans_are() -> None:
    async with open_engine(RehearsalOptions(latency=FAST, garbage_rate=1.0)) as client:
        garbage = [(await client.chat())[1]["choices"][0]["message"]["content"] for _ in range(5)]
    async with open_engine(RehearsalOptions(latency=FAST, blind=True)) as client:
        plans = [(await client.chat(max_tokens=64))[1]["choices"][0]["message"]["content"] for _ in range(10)]

    assert len(set(plans)) > 5
    assert all(";".join(move.encoded() for move in moves_in(plan)) == plan for plan in plans)
    assert not set(garbage) & set(plans)


async def test_the_key_is_required_where_there_is_one() -> None:
    async with open_engine(RehearsalOptions(latency=FAST), key="let-me-in-please") as client:
        assert (await client.chat())[0] == 200
        stranger = attrs.evolve(client, key="wrong")
        assert (await stranger.chat())[0] == 401
        assert (await attrs.evolve(client, key=None).call("GET", "/v1/models"))[0] == 401
        assert (await stranger.call("GET", "/ping"))[0] == 200


def start(*args: str, **environ: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
    )


def ready_url(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = json.loads(process.stdout.readline())
    assert line["ready"] is True
    return str(line["url"])


async def test_a_process_serves_until_it_is_asked_to_stop() -> None:
    process = start("--latency-ms", "300", "--model", "rehearsal-test")
    with process:
        try:
            url = ready_url(process)
            async with httpcore.AsyncConnectionPool() as http:
                client = Client(url, http)
                assert (await client.call("GET", "/v1/models"))[1]["data"][0]["id"] == "rehearsal-test"
                async with trio.open_nursery() as nursery:
                    answers: list[tuple[int, Any]] = []

                    async def ask() -> None:
                        answers.append(await client.chat())

                    nursery.start_soon(ask)
                    await wait_loads(client, (1, 0))
                    process.send_signal(signal.SIGTERM)
            assert await trio.to_thread.run_sync(partial(process.wait, 8)) == 0
        finally:
            process.kill()
    assert answers[0][0] == 200


async def test_it_dies_in_the_middle_of_the_completion_that_it_is_told_to() -> None:
    process = start("--latency-ms", "20", "--kill-after", "2")
    with process:
        try:
            url = ready_url(process)
            async with httpcore.AsyncConnectionPool() as http:
                client = Client(url, http)
                assert (await client.chat())[0] == 200
                with pytest.raises((httpcore.RemoteProtocolError, httpcore.ReadError)):
                    await client.chat()
            assert await trio.to_thread.run_sync(partial(process.wait, 8)) == -signal.SIGKILL
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--model", "qwen"], "--model must start with `rehearsal-`"),
        (["--api-key-env", "NO_SUCH_VARIABLE_HERE"], "NO_SUCH_VARIABLE_HERE is not set"),
    ],
)
def test_a_wrong_option_is_one_clear_line(args: list[str], reason: str) -> None:
    with start(*args) as process:
        _, errors = process.communicate(timeout=20)

    assert process.returncode == 2
    assert reason in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    "options",
    [
        RehearsalOptions(slots=0),
        RehearsalOptions(fail_rate=1.5),
        RehearsalOptions(garbage_rate=-0.1),
        RehearsalOptions(kill_after=0),
        RehearsalOptions(port=70000),
        RehearsalOptions(latency=LatencyModel(0.1, None, 0.3)),
        RehearsalOptions(latency=LatencyModel(-0.1)),
    ],
)
def test_every_option_is_checked(options: RehearsalOptions) -> None:
    assert len(problems_in(options)) == 1
    assert problems_in(RehearsalOptions()) == ()
