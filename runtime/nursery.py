"""A nursery that is an implementation detail: its single error comes out as it was raised."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_bare_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery for context managers whose callers need not know that there is one.

    A nursery wraps every error in a group, also that of the block. Here, an error that came alone is raised bare;
    only several at once come as a group.
    """
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        if len(group.exceptions) != 1:
            raise
        only = group.exceptions[0]
        raise only from only.__cause__
