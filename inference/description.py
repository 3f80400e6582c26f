"""Asks an engine what its settings are: `/server_info` of SGLang."""

import json
from typing import Any

import httpcore
import trio

from inference.config import Dialect, EngineConfig
from inference.connections import Connections, ssl_context_for
from inference.errors import EngineLost, EngineTooSlow
from runtime.secret import Secret

MAX_DESCRIPTION_BYTES = 1 << 20  # SGLang tells 556 settings in 38 KB
ANSWER_SECONDS = 10.0  # it asks its scheduler, which answers between two batches


async def describe_engine(
    config: EngineConfig, url: str, api_key: Secret | None, *, network: httpcore.AsyncNetworkBackend | None = None
) -> dict[str, Any] | None:
    """An engine's own settings; None where it is of a kind that does not tell them, or tells no JSON object.

    Raises:
        EngineLost, EngineTooSlow: it does not answer.
        EngineRefused: its `ca_file` cannot be used.
    """
    if config.dialect is not Dialect.SGLANG:
        return None
    connections = Connections(
        url.rstrip("/"),
        network=network,
        connect_seconds=config.connect_seconds,
        max_idle=1,
        ssl_context=ssl_context_for(config),
    )
    headers = [("Accept", "application/json")]
    if api_key is not None:
        headers.append(("Authorization", f"Bearer {api_key.reveal()}"))
    status, received = 0, bytearray()
    try:
        with trio.fail_after(ANSWER_SECONDS):
            async with connections.open_response("GET", "/server_info", tuple(headers), None) as response:
                status = response.status
                while len(received) <= MAX_DESCRIPTION_BYTES and (chunk := await response.receive()):
                    received += chunk
    except trio.TooSlowError as error:
        raise EngineTooSlow(f"/server_info took more than {ANSWER_SECONDS:g} s", engine=config.id) from error
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
        raise EngineLost(f"/server_info broke: {type(error).__name__} {error}", engine=config.id) from error
    finally:
        with trio.CancelScope(shield=True):  # closing a socket does not wait for the other side
            await connections.aclose()
    if status != 200 or len(received) > MAX_DESCRIPTION_BYTES:
        return None
    try:
        said = json.loads(received)
    except (ValueError, RecursionError):  # an engine of another make has something else there
        return None
    return said if isinstance(said, dict) else None
