"""Memory of a process of many long-lived small objects: the garbage collector's pace, and what is given back."""

import ctypes
import gc
from collections.abc import Callable

import trio

# Of 700 actors, the collector's default pace (700, 10, 10) took 11 % of the CPU, and its full passes held every actor
# up for 20 to 200 ms. Reference cycles are rare here, so a slower pace keeps no more memory.
THRESHOLDS = (50_000, 20, 50)


def collect_rarely() -> None:
    """Slow the collector of this process down; called once, before its main loop."""
    gc.set_threshold(*THRESHOLDS)


TIDY_SECONDS = 60.0  # a full pass takes 30 ms with 64 phones: one in a thousand of the time at most


async def keep_tidy(every_seconds: float = TIDY_SECONDS, trim: Callable[[], None] | None = None) -> None:
    """Collect garbage and give free memory back to the system now and then, until cancelled.

    An error that is kept holds the frames that it passed, and with them pictures of phones, in cycles that a slow
    collector finds late; and what is free then lies in pieces that the C library keeps. A storm of faults on 64 phones
    grew from 180 to 690 MB in ten minutes without this.

    Args:
        every_seconds: Between two times.
        trim: Gives free memory back; None: as the C library does.
    """
    give_back = trim or trim_heap
    while True:
        await trio.sleep(every_seconds)
        gc.collect()
        give_back()


def trim_heap() -> None:
    """Give what the C library keeps of free memory back to the system, where it can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
