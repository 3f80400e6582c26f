"""The engine's process: a socket, a ready line, and a graceful end."""

import json
import socket
import sys
from functools import partial
from typing import Any, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config, Sockets
from hypercorn.trio.run import worker_serve

from actors.rehearsal.engine.options import RehearsalOptions
from actors.rehearsal.engine.web import app_for
from actors.rehearsal.engine.work import RehearsalEngine
from runtime.secret import Secret
from runtime.signals import open_signal_drain
from runtime.telemetry import emit

BACKLOG = 512
KEEP_ALIVE_SECONDS = 3600.0  # a bot thinks for as long as it likes between two plans
DRAIN_SECONDS = 10.0  # running completions end by themselves within this; longer ones are cut


class PortUnavailable(OSError):
    """The address cannot be listened on: another process has it, or it is not ours."""


def bind_socket(host: str, port: int) -> socket.socket:
    """A bound socket, not listening yet.

    Raises:
        PortUnavailable: the system refuses the address.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise PortUnavailable(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return sock


async def serve_engine(
    engine: RehearsalEngine,
    sock: socket.socket,
    *,
    key: Secret | None = None,
    stop: trio.Event,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on a bound socket until `stop` is set; its URL is the started value.

    After `stop` no connection is accepted any more, requests that run have `DRAIN_SECONDS` to end.
    """
    config = Config()
    config.accesslog = config.errorlog = None
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.graceful_timeout = DRAIN_SECONDS
    config.alpn_protocols = ["http/1.1"]
    sock.listen(BACKLOG)
    host, port = sock.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(
                worker_serve,
                ASGIWrapper(cast("Any", app_for(engine, key))),  # Starlette and hypercorn type one protocol apart
                config,
                sockets=Sockets([], [sock], []),
                shutdown_trigger=stop.wait,
            )
        )
        task_status.started(url)
        await stop.wait()
        engine.draining = True


async def run_engine(options: RehearsalOptions, key: Secret | None) -> None:
    """The whole process: prints `{"ready": true, "url": ...}` and serves until SIGTERM or Ctrl-C.

    Raises:
        PortUnavailable: its address cannot be listened on.
    """
    sock = bind_socket(options.host, options.port)
    engine = RehearsalEngine(options)
    stop = trio.Event()

    async def drain() -> None:
        stop.set()

    async with open_signal_drain(drain), trio.open_nursery() as nursery:
        url = await nursery.start(partial(serve_engine, engine, sock, key=key, stop=stop))
        emit("actors.rehearsal_engine.started", url=url, model=options.model, slots=options.slots)
        sys.stdout.write(json.dumps({"ready": True, "url": url, "model": options.model}) + "\n")
        sys.stdout.flush()
    emit("actors.rehearsal_engine.stopped", url=url)
