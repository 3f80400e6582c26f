"""A private port for a server that cannot choose its own: below those that Linux takes for outgoing connections."""

import os
import socket

FIRST_PORT, LAST_PORT = 20000, 32767
SPREAD = 8000


def free_port(offset: int = 0) -> int:
    """One that nobody listens on.

    Args:
        offset: Servers of different kinds begin at different ones, as they look at the same time.
    """
    start = FIRST_PORT + offset + (os.getpid() * 11) % SPREAD  # processes of one machine rarely try the same first
    for port in range(start, LAST_PORT):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")
