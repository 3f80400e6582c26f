"""Where a server of ours listens, and whose tokens it takes: the same for the assistant and the farm."""

from collections.abc import Iterator

import attrs

ASSISTANT_PORT = 8765
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@attrs.frozen
class ListenConfig:
    """`[listen]`."""

    host: str = attrs.field(default="127.0.0.1", metadata={"nonempty": True})
    port: int = attrs.field(default=ASSISTANT_PORT, metadata={"min": 0, "max": 65535})
    """0: any free one, which is printed."""
    tls_certificate: str | None = None
    """PEM file with the chain. Needed for other hosts than this one, unless `plain` says that a proxy does TLS."""
    tls_key: str | None = None
    plain: bool = False
    """Tokens may cross the network unencrypted."""
    origins: tuple[str, ...] = ()
    """Web pages that may open the assistant's websocket, as `https://farm.example`."""


@attrs.frozen
class TokensFile:
    """`[tokens]`."""

    file: str = attrs.field(default="tokens.json", metadata={"nonempty": True})
    """From `corral token create`."""


def listen_problems(listen: ListenConfig) -> Iterator[tuple[str, str]]:
    """(message, path) of what no single key shows."""
    if listen.tls_key is not None and listen.tls_certificate is None:
        yield "'tls_key' needs 'tls_certificate'", "$.listen.tls_key"
    if listen.host not in LOOPBACK and listen.tls_certificate is None and not listen.plain:
        text = "tokens would cross the network unencrypted: give tls_certificate, or plain = true behind a proxy"
        yield f"{listen.host!r}: {text}", "$.listen.host"
