"""`corral farm serve`: a farm and its API on one address, until SIGTERM, which drains; SIGHUP reads its file again."""

import signal
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config, Sockets
from hypercorn.trio.run import worker_serve
from starlette.routing import BaseRoute

from actors.analyst_asgi import assistant_route, bound_slow_readers
from actors.analyst_desk import AnalystDesk, Credentials, open_desk
from actors.analyst_websocket import ListenError, tls_context
from actors.assistant_config import load_assistant_config
from actors.assistant_serve import histories_of
from actors.configuration import ScenarioError
from actors.farm.access import Gate
from actors.farm.api import Api
from actors.farm.callers import callers_for
from actors.farm.config import FarmConfig, FarmListen, restart_needed
from actors.farm.daemon import PROGRAM, Farm, open_farm
from actors.farm.engines_api import EnginesApi
from actors.farm.events import EventsDesk
from actors.farm.loading import load_farm_config
from actors.farm.pages import wall_routes
from actors.farm.pin_desk import PinDesk
from actors.farm.records import AttemptRecord
from actors.farm.routes import farm_app
from actors.farm.systemd import Notifier
from actors.farm.telling import attempt_notice, rollout_notice, run_telling, webhook_for
from actors.farm.ticketing import ticket_key
from actors.login_limits import FailedLogins
from actors.notice_sender import NoticeSender, open_notice_sender
from actors.question_history import QuestionHistory
from actors.token_store import TokenStore
from runtime.collector import keep_tidy
from runtime.nursery import open_bare_nursery
from runtime.signals import open_signal_drain
from runtime.telemetry import emit

BACKLOG = 256
SLOW_SECONDS = 30.0  # a client that takes nothing for so long is cut
GRACE_SECONDS = 2.0  # for requests under way when the daemon ends
KEEP_ALIVE_SECONDS = 10.0  # hypercorn keeps the socket of a client that has hung up open for so long, too
HEADER_BYTES = 32 << 10
ASSISTANT_PATH = "/assistant"


async def serve_farm(
    file: Path,
    config: FarmConfig,
    *,
    notifier: Notifier,
    on_ready: Callable[[str], None],
    program: tuple[str, ...] = PROGRAM,
) -> None:
    """Serve until the first SIGTERM or Ctrl-C, which lets runs end; a second one cuts them, to be queued again.

    Args:
        file: The configuration, to be read again.
        config: As loaded of it.
        notifier: Tells systemd.
        on_ready: Is told the address, once clients may connect.
        program: What `run` is a command of.

    Raises:
        TokenStoreError: the file of tokens cannot be used.
        ListenError: the address or the certificate cannot be used.
        StoreError: the farm's folder is in use, or its state cannot be opened.
        ScenarioError: the assistant's databases are wrong.
        SecretMissing: a webhook's variable is not set.
    """
    tokens = TokenStore(Path(config.tokens.file))
    tokens.load()
    with open_socket(config.listen) as sock:
        async with AsyncExitStack() as stack:
            webhooks = [webhook_for(one) for one in config.webhooks]
            sender = await stack.enter_async_context(open_notice_sender(webhooks))
            tell = partial(_tell_attempt, sender)
            opened = open_farm(
                config, program=program, tell=tell, tell_rollout=lambda one: sender.tell(rollout_notice(one))
            )
            farm = await stack.enter_async_context(opened)
            logins = FailedLogins(config.limits.failed_logins_per_minute)
            callers = callers_for(tokens, logins, ticket_key(Path(config.farm.folder)))
            desk = await _open_assistant(stack, farm, callers.tickets)
            extra: tuple[BaseRoute, ...] = wall_routes(config.listen.origins)
            if desk is not None:
                extra = (
                    *extra,
                    assistant_route(desk, origins=config.listen.origins, path=ASSISTANT_PATH),
                )
            gate = Gate(callers)
            pins = None
            if desk is not None:
                is_draining = partial(_is_draining, desk)
                pins = PinDesk(
                    farm.store, desk.answering, desk.admission, tokens, sender, farm.clock, is_draining=is_draining
                )
            api = Api(farm, pins)
            stack.callback(api.live.close)
            events = EventsDesk(api.live, gate, EnginesApi(farm).view_for)
            app = ASGIWrapper(cast("Any", farm_app(api, gate, events, extra)))
            stop, drained = trio.Event(), trio.Event()

            async def drain() -> None:
                notifier.stopping("draining")
                await farm.drain()
                if desk is not None:
                    await desk.drain()
                events.end()
                drained.set()

            async with open_signal_drain(drain) as signals, open_bare_nursery() as nursery:
                nursery.start_soon(keep_tidy)
                nursery.start_soon(run_telling, farm, sender)
                if pins is not None:
                    nursery.start_soon(pins.run)
                nursery.start_soon(_reload_on_signal, farm, file, notifier)
                nursery.start_soon(notifier.run_watchdog, partial(_is_alive, farm))
                sockets = Sockets([sock], [], []) if config.listen.tls_certificate else Sockets([], [sock], [])
                serve = partial(worker_serve, app, _server_config(config.listen), sockets=sockets)
                async with open_bare_nursery() as server:
                    await server.start(partial(serve, shutdown_trigger=stop.wait))
                    url = _url(config.listen, sock)
                    emit("actors.farm.started", url=url, phones=len(config.farm_phones()))
                    notifier.ready(f"serving {url}")
                    on_ready(url)
                    await drained.wait()
                    stop.set()
                nursery.cancel_scope.cancel()
            emit("actors.farm.stopped", signal=signals.asked, cut=signals.cut)


def _tell_attempt(sender: NoticeSender, attempt: AttemptRecord) -> None:
    notice = attempt_notice(attempt)
    if notice is not None:
        sender.tell(notice)


def open_socket(listen: FarmListen) -> socket.socket:
    """A listening socket.

    Raises:
        ListenError: the address is taken or not ours, or the certificate cannot be used.
    """
    if listen.tls_certificate is not None:
        tls_context(listen.tls_certificate, listen.tls_key)  # says what is wrong with it, before anything is started
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenError(f"cannot listen on {listen.host}: {error.strerror or error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        bound_slow_readers(sock, SLOW_SECONDS)
    except OSError as error:
        sock.close()
        where = f"{listen.host} port {listen.port}"
        raise ListenError(f"cannot listen on {where}: {error.strerror or error}") from error
    return sock


def reload(farm: Farm, file: Path) -> None:
    """Read the file again; a wrong one changes nothing, and every mistake is an event."""
    try:
        found = load_farm_config(file)
    except ScenarioError as error:
        for problem in error.problems:
            emit("actors.farm.reload_refused", level="error", problem=str(problem))
        return
    old = farm.config
    for name in restart_needed(old, found):
        emit("actors.farm.restart_needed", level="warning", table=name)
    farm.reload(
        attrs.evolve(
            found, farm=old.farm, listen=old.listen, tokens=old.tokens, assistant=old.assistant, webhooks=old.webhooks
        )
    )
    emit("actors.farm.reloaded", phones=len(found.farm_phones()), engines=len(found.engines))


async def _reload_on_signal(farm: Farm, file: Path, notifier: Notifier) -> None:
    with trio.open_signal_receiver(signal.SIGHUP) as received:
        async for _ in received:
            notifier.reloading()
            reload(farm, file)
            notifier.ready("reloaded")


async def _open_assistant(stack: AsyncExitStack, farm: Farm, tokens: Credentials) -> AnalystDesk | None:
    config = farm.config
    if config.assistant is None:
        return None
    from actors.assistant import open_answering  # noqa: PLC0415  # sqlglot and duckdb take a while to load
    from actors.assistant_models import model_of  # noqa: PLC0415

    found = load_assistant_config(Path(config.assistant.file))
    models = [model_of(farm.engines.pool)] if config.assistant.share_engines else None
    answering = await stack.enter_async_context(open_answering(found, models))
    history = QuestionHistory(histories_of(found))
    return await stack.enter_async_context(
        open_desk(answering, tokens, limits=found.limits, tenants=found.tenant_limits(), history=history)
    )


def _server_config(listen: FarmListen) -> Config:
    config = Config()
    config.accesslog = config.errorlog = None
    config.graceful_timeout = GRACE_SECONDS
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.h11_max_incomplete_size = HEADER_BYTES
    config.include_server_header = False
    config.alpn_protocols = ["http/1.1"]
    config.certfile, config.keyfile = listen.tls_certificate, listen.tls_key or listen.tls_certificate
    return config


def _url(listen: FarmListen, sock: socket.socket) -> str:
    scheme = "https" if listen.tls_certificate is not None else "http"
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    return f"{scheme}://{host}:{sock.getsockname()[1]}"


def _is_draining(desk: AnalystDesk) -> bool:
    return desk.is_draining


def _is_alive(farm: Farm) -> bool:
    return farm.is_alive
