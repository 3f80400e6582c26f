"""`corral author`: opens what is to be looked at, and serves the page on loopback until it is stopped."""

import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config, Sockets
from hypercorn.trio.run import worker_serve

from actors.authoring.desk import Desk
from actors.authoring.frames import SUFFIXES, frames_in
from actors.authoring.sources import FrameSource, StoredSource, app_source, phone_source
from actors.authoring.web import app_for
from actors.configuration import Problem, ScenarioError
from actors.devices.adb.device import open_adb_device
from actors.devices.adb.server import AdbServerConfig, open_adb_server
from actors.rehearsal.apps.catalog import APPS
from runtime.nursery import open_bare_nursery
from runtime.secret import Secret
from runtime.signals import open_signal_drain

SIMULATED = "simulated"
GRACE_SECONDS = 2.0  # a request of the page takes less; its idle connection is not waited for
BACKLOG = 16
APP_SEED = 1
APP_SIZE = (720, 1280)


@asynccontextmanager
async def open_source(target: str) -> AsyncIterator[FrameSource]:
    """Frames of a run, a picture, a folder, a phone's serial or address, `simulated` or `simulated:APP`.

    Raises:
        ScenarioError: no such app, or a file without frames.
        DeviceError: the phone, or adb, cannot be had.
    """
    path = Path(target)
    kind, _, app_name = target.partition(":")
    if kind == SIMULATED:
        name = app_name or "battler"
        if name not in APPS:
            raise ScenarioError([Problem(f"no bundled app {name!r}; there are {', '.join(APPS)}", "$", target)])
        width, height = APP_SIZE
        yield app_source(APPS[name](seed=APP_SEED, width=width, height=height, now=0.0))
    elif "\0" in target:
        raise ScenarioError([Problem("no path or serial can hold a NUL", "$", repr(target))])
    elif await trio.Path(path).exists():
        frames = await trio.to_thread.run_sync(frames_in, path)
        await trio.to_thread.run_sync(frames[0].load)  # refused here rather than in the page
        yield StoredSource(target, frames)
    elif "/" in target or path.suffix.lower() in SUFFIXES:
        raise ScenarioError([Problem("no such file or folder, and no phone is called so", "$", target)])
    else:
        async with open_adb_server(AdbServerConfig()) as server, open_adb_device(server.client, target) as device:
            yield phone_source(device)


async def serve_page(
    desk: Desk, *, stop: trio.Event, port: int = 0, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve on 127.0.0.1 until `stop` is set; the page's address, token included, is the started value.

    Raises:
        OSError: the port cannot be had.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    token = Secret(secrets.token_urlsafe(24))
    config = Config()
    config.accesslog = config.errorlog = None
    config.graceful_timeout = GRACE_SECONDS
    config.alpn_protocols = ["http/1.1"]
    app = ASGIWrapper(cast("Any", app_for(desk, token)))  # Starlette and hypercorn type one protocol apart
    async with open_bare_nursery() as nursery:
        await nursery.start(
            partial(worker_serve, app, config, sockets=Sockets([], [sock], []), shutdown_trigger=stop.wait)
        )
        task_status.started(f"http://127.0.0.1:{sock.getsockname()[1]}/{token.reveal()}/")


async def run_author(target: str, file: Path | None, *, port: int, on_ready: Callable[[str], None]) -> None:
    """The whole command: until SIGTERM or Ctrl-C.

    Args:
        target: As `open_source` takes it.
        file: The rule file that grows.
        port: 0 for a free one.
        on_ready: Is told the page's address.

    Raises:
        ScenarioError: the target or the rule file is wrong.
        DeviceError: the phone cannot be had.
        OSError: the port cannot be had.
    """
    stop = trio.Event()

    async def drain() -> None:
        stop.set()

    async with open_signal_drain(drain), open_source(target) as source, open_bare_nursery() as nursery:
        desk = Desk(source, file)
        url = await nursery.start(partial(serve_page, desk, stop=stop, port=port))
        on_ready(url)
