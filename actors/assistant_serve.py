"""`corral assistant serve`: one assistant on one address, until SIGTERM."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import trio

from actors.analyst_desk import open_desk
from actors.analyst_websocket import open_listeners, port_of, serve_desk
from actors.answering import Answering
from actors.ask_socket import AssistantAddress
from actors.assistant_config import AssistantConfig
from actors.question_history import QuestionHistory
from actors.token_store import TokenStore
from runtime.collector import keep_tidy
from runtime.nursery import open_bare_nursery
from runtime.signals import open_signal_drain
from runtime.telemetry import emit

HISTORIES = "histories"  # below the state folder


def histories_of(config: AssistantConfig) -> Path:
    """Where histories of users are kept."""
    return Path(config.state.folder) / HISTORIES


async def serve_assistant(
    config: AssistantConfig,
    opened: Callable[[AssistantConfig], AbstractAsyncContextManager[Answering]],
    on_ready: Callable[[AssistantAddress], None],
) -> None:
    """Serve until the first SIGTERM or Ctrl-C, which lets running questions end; a second one cuts them.

    Args:
        config: As loaded.
        opened: Opens what answers.
        on_ready: Is told where clients may connect.

    Raises:
        TokenStoreError: the file of tokens cannot be used.
        ListenError: the address or the certificate cannot be used.
    """
    tokens = TokenStore(Path(config.tokens.file))
    tokens.load()
    listen = config.listen
    listeners = await open_listeners(listen.host, listen.port, certificate=listen.tls_certificate, key=listen.tls_key)
    try:
        history = QuestionHistory(histories_of(config))
        async with (
            opened(config) as answering,
            open_desk(answering, tokens, limits=config.limits, tenants=config.tenant_limits(), history=history) as desk,
        ):
            drained = trio.Event()

            async def drain() -> None:
                await desk.drain()
                drained.set()

            async with open_signal_drain(drain), open_bare_nursery() as nursery:
                nursery.start_soon(keep_tidy)
                await nursery.start(partial(serve_desk, desk, listeners, origins=listen.origins))
                address = AssistantAddress(
                    listen.host, port_of(listeners[0]), is_tls=listen.tls_certificate is not None
                )
                emit("actors.assistant.started", address=str(address))
                on_ready(address)
                await drained.wait()
                nursery.cancel_scope.cancel()
            emit("actors.assistant.stopped", asked=desk.statistics().asked)
    finally:
        for listener in listeners:
            await trio.aclose_forcefully(listener)
