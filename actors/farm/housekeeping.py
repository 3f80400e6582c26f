"""Removes run folders that are too old or too many, as `actors.farm.retention` decides.

One that was not read for findings yet is read first.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import trio

from actors.farm.attempt import AttemptFiles
from actors.farm.config import RetentionConfig
from actors.farm.database import StoreError
from actors.farm.figures import tell_folders
from actors.farm.findings_desk import FindingsDesk
from actors.farm.retention import Removal, removals_for
from actors.farm.store import Store, StoreDesk
from runtime.telemetry import emit

RETENTION_SECONDS = 600.0
READ_SECONDS = 1800.0  # in all for reading what the disk budget takes, while more is written


async def run_retention(
    config: Callable[[], RetentionConfig],
    folder: Path,
    store: StoreDesk,
    findings: FindingsDesk,
    clock: Callable[[], float],
) -> None:
    """Now and then, for ever; what fails is tried again the next time."""
    while True:
        try:
            await retain(config(), folder, store, findings, clock())
        except (StoreError, OSError) as error:
            emit("actors.farm.retention_failed", level="error", error=str(error))
        await trio.sleep(RETENTION_SECONDS)


async def retain(
    config: RetentionConfig, folder: Path, store: StoreDesk, findings: FindingsDesk, now: float
) -> list[str]:
    """Do it once; returns the attempts whose folders went.

    Raises:
        OSError: a folder cannot be removed.
        StoreError: the state cannot be read or written.
    """
    removals = removals_for(await store.do(Store.stored), config, now)
    gone = await _remove([one for one in removals if one.scanned], folder, store)
    unread = [one.attempt for one in removals if not one.scanned]
    if unread:
        await findings.read_now(unread, READ_SECONDS)
        # somebody may have pinned one meanwhile, or made room
        removals = removals_for(await store.do(Store.stored), config, now)
        gone += await _remove([one for one in removals if one.scanned or one.attempt in unread], folder, store)
    kept = await store.do(Store.stored)
    tell_folders(sum(one.size_bytes for one in kept), config.disk_gb * 1e9)
    return gone


async def _remove(removals: Sequence[Removal], folder: Path, store: StoreDesk) -> list[str]:
    gone = []
    for removal in removals:
        if not await store.do(partial(Store.may_go, attempt=removal.attempt)):
            continue  # somebody pinned it, or removed it, while others were removed
        await trio.to_thread.run_sync(AttemptFiles(folder, removal.attempt).remove)
        await store.do(partial(Store.mark_removed, attempt=removal.attempt, why=removal.why))
        if removal.scanned:
            emit("actors.farm.folder_removed", attempt=removal.attempt, why=removal.why)
        else:
            why = f"{removal.why}, and it could not be read before: what went wrong in it is in no finding"
            emit("actors.farm.unread_folder_removed", level="warning", attempt=removal.attempt, why=why)
        gone.append(removal.attempt)
    return gone
