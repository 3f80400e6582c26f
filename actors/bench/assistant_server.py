"""The real server as a process of its own: `python -m actors.bench.assistant_server TOKENS MODULE:FUNCTION`."""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path

import trio

from actors.analyst_desk import open_desk
from actors.analyst_limits import AssistantLimits
from actors.analyst_websocket import open_listeners, port_of, serve_desk
from actors.answering import Answering
from actors.token_store import TokenStore
from runtime.collector import collect_rarely
from runtime.telemetry import configure

MANY = 1_000_000
LIMITS = AssistantLimits(
    questions_per_minute=MANY,
    messages_per_minute=MANY,
    session_questions=MANY,
    tenant_questions=MANY,
    server_questions=MANY,
    tenant_sessions=MANY,
    server_sessions=MANY,
    newcomers=MANY,
    silent_seconds=3600.0,
)
"""None in the way of a measurement; the sizes of buffers are the usual ones."""

Opened = Callable[[], AbstractAsyncContextManager[Answering]]


def answering_named(name: str) -> Opened:
    """What `MODULE:FUNCTION` names: it is called without arguments, and gives a context manager of an `Answering`.

    Raises:
        ValueError: there is none.
    """
    module, _, function = name.partition(":")
    try:
        found: Opened = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{name!r} is not MODULE:FUNCTION: {error}") from error
    return found


async def _serve(tokens: Path, opened: Opened) -> None:
    store = TokenStore(tokens)
    store.load()
    listeners = await open_listeners("127.0.0.1", 0)
    async with (
        opened() as answering,
        open_desk(answering, store, limits=LIMITS) as desk,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(serve_desk, desk, listeners)
        sys.stdout.write(json.dumps({"port": port_of(listeners[0])}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    configure(json=True, level="error")
    collect_rarely()
    trio.run(_serve, Path(sys.argv[1]), answering_named(sys.argv[2]))
