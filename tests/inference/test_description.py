import json
import ssl
from pathlib import Path

import attrs
import pytest
import trio

from inference.config import Dialect, EngineConfig
from inference.description import describe_engine
from inference.errors import EngineLost, EngineRefused, EngineTooSlow
from runtime.ids import EngineId
from runtime.secret import Secret
from tests.kit.certificates import write_certificates

CONFIG = EngineConfig(EngineId("e1"))


async def serve(
    nursery: trio.Nursery, reply: bytes | None, context: ssl.SSLContext | None = None
) -> tuple[str, list[bytes]]:
    """A server that sends the same bytes to everybody; None: nothing ever. Its port is above the reserved ones."""
    heard: list[bytes] = []

    async def handle(stream: trio.SocketStream) -> None:
        end = stream if context is None else trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            heard.append(bytes(await end.receive_some(65536)))
            if reply is None:
                await trio.sleep_forever()
            await end.send_all(reply or b"")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    for port in range(26400, 26800):
        try:
            listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        except OSError:
            continue
        await nursery.start(trio.serve_listeners, handle, listeners)
        return f"http{'s' if context else ''}://127.0.0.1:{port}", heard
    raise AssertionError("no port is free")


def response(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def test_what_an_engine_says_of_itself() -> None:
    async with trio.open_nursery() as nursery:
        url, heard = await serve(nursery, response(json.dumps({"version": "0.5.23"}).encode()))
        assert await describe_engine(CONFIG, url, Secret("the-key-of-the-engine")) == {"version": "0.5.23"}
        nursery.cancel_scope.cancel()

    assert heard[0].startswith(b"GET /server_info HTTP/1.1")
    assert b"Authorization: Bearer the-key-of-the-engine" in heard[0]


@pytest.mark.parametrize(
    "reply", [response(b"{}", "404 Not Found"), response(b"?"), response(b"[1]"), response(b"[" * 50_000)]
)
async def test_one_that_does_not_say(reply: bytes) -> None:
    async with trio.open_nursery() as nursery:
        url, _ = await serve(nursery, reply)
        assert await describe_engine(CONFIG, url, None) is None
        nursery.cancel_scope.cancel()


async def test_another_kind_is_not_asked() -> None:
    assert await describe_engine(attrs.evolve(CONFIG, dialect=Dialect.VLLM), "http://127.0.0.1:1", None) is None


async def test_more_than_any_engine_would_say() -> None:
    async with trio.open_nursery() as nursery:
        url, _ = await serve(nursery, response(b'{"a": "' + b"x" * (2 << 20) + b'"}'))
        assert await describe_engine(CONFIG, url, None) is None
        nursery.cancel_scope.cancel()


async def test_one_that_is_gone() -> None:
    async with trio.open_nursery() as nursery:
        url, _ = await serve(nursery, b"")
        with pytest.raises(EngineLost, match="/server_info broke"):
            await describe_engine(CONFIG, url, None)
        nursery.cancel_scope.cancel()


async def test_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.description.ANSWER_SECONDS", 0.2)
    async with trio.open_nursery() as nursery:
        url, _ = await serve(nursery, None)
        with pytest.raises(EngineTooSlow, match="took more than"):
            await describe_engine(CONFIG, url, None)
        nursery.cancel_scope.cancel()


async def test_an_authority_of_ones_own(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    async with trio.open_nursery() as nursery:
        url, _ = await serve(nursery, response(b'{"version": "1"}'), context)
        known = attrs.evolve(CONFIG, url=url, ca_file=str(tmp_path / "ca.pem"))
        assert await describe_engine(known, url, None) == {"version": "1"}
        other = attrs.evolve(known, ca_file=str(tmp_path / "other.pem"))
        with pytest.raises(EngineLost):
            await describe_engine(other, url, None)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_an_authority_that_cannot_be_read(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content, "utf-8")
    with pytest.raises(EngineRefused, match=r"ca_file .* cannot be used"):
        await describe_engine(attrs.evolve(CONFIG, ca_file=str(file)), "https://127.0.0.1:1", None)
