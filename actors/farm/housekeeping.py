"""Removes run folders that are too old or too many, as `actors.farm.retention` decides."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import trio

from actors.farm.attempt import AttemptFiles
from actors.farm.config import RetentionConfig
from actors.farm.database import StoreError
from actors.farm.figures import tell_folders
from actors.farm.retention import removals_for
from actors.farm.store import Store, StoreDesk
from runtime.telemetry import emit

RETENTION_SECONDS = 600.0


async def run_retention(
    config: Callable[[], RetentionConfig], folder: Path, store: StoreDesk, clock: Callable[[], float]
) -> None:
    """Now and then, for ever; what fails is tried again the next time."""
    while True:
        try:
            await retain(config(), folder, store, clock())
        except (StoreError, OSError) as error:
            emit("actors.farm.retention_failed", level="error", error=str(error))
        await trio.sleep(RETENTION_SECONDS)


async def retain(config: RetentionConfig, folder: Path, store: StoreDesk, now: float) -> list[str]:
    """Do it once; returns the attempts whose folders went.

    Raises:
        OSError: a folder cannot be removed.
        StoreError: the state cannot be read or written.
    """
    stored = await store.do(Store.stored)
    kept = {one.attempt: one.size_bytes for one in stored}
    gone = []
    for removal in removals_for(stored, config, now):
        await trio.to_thread.run_sync(AttemptFiles(folder, removal.attempt).remove)
        await store.do(partial(Store.mark_removed, attempt=removal.attempt, why=removal.why))
        emit("actors.farm.folder_removed", attempt=removal.attempt, why=removal.why)
        gone.append(removal.attempt)
        del kept[removal.attempt]
    tell_folders(sum(kept.values()), config.disk_gb * 1e9)
    return gone
