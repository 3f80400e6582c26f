"""The first SIGINT or SIGTERM asks for a drain, the second one ends at once."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import trio

from runtime.nursery import open_bare_nursery
from runtime.telemetry import emit


@attrs.define(eq=False)
class SignalDrain:
    """What the signals asked for so far."""

    asked: str | None = None
    """Name of the first signal; None if there was none."""
    cut: bool = False
    """True when a second signal came, and the block was cancelled."""


@asynccontextmanager
async def open_signal_drain(
    drain: Callable[[], Awaitable[None]],
    *,
    signals: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM),
) -> AsyncIterator[SignalDrain]:
    """Within the block, the first signal runs `drain`, and a second one cancels the block and the drain.

    The block ends by itself once the drain has let its work end; this does not cancel it. After a second signal
    the block is left without an exception: see `SignalDrain.cut`. Works in the main thread only.
    """
    asked = SignalDrain()
    with trio.open_signal_receiver(*signals) as received:
        async with open_bare_nursery() as nursery:

            async def listen() -> None:
                async for number in received:
                    name = signal.Signals(number).name
                    if asked.asked is None:
                        asked.asked = name
                        emit("runtime.drain.requested", signal=name)
                        nursery.start_soon(_run, drain)
                    else:
                        asked.cut = True
                        emit("runtime.drain.cut", level="warning", signal=name)
                        nursery.cancel_scope.cancel()

            nursery.start_soon(listen)
            yield asked
            nursery.cancel_scope.cancel()


async def _run(drain: Callable[[], Awaitable[None]]) -> None:
    await drain()
