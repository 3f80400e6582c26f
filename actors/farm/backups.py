"""A farm's backup: one SQLite file with its state as of one moment, and its tenants' findings in a table of their own.

The state is copied first: whatever it says was read is in the findings, which are written before the state says so.
A file of findings is renamed into place whole, so each is read as it was before a change or after it.
"""

import itertools
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import attrs

from actors.farm.database import BUSY_SECONDS, Database, StoreError, open_database
from actors.farm.findings_desk import FOLDER
from actors.results.findings_store import FindingsUnreadable, parse_findings
from runtime.ids import is_legal_id

NEEDED_TABLES = frozenset({"runs", "attempts", "reservations", "pauses", "audit"})  # of the first release
TABLE = "backup_findings"  # is in backups alone, and never in the state of a farm
MAX_WHY = 300  # characters; it may quote the file
_SUFFIX = ".json"


@attrs.frozen
class Restored:
    """What a restore has done."""

    kept_state: Path | None
    """Where the state that was there before is; None: there was none."""
    kept_findings: Path | None
    """And its findings."""
    has_findings: bool
    """False: the backup is of a release that put none into it, and those of the farm are as they were."""
    lacking: tuple[str, ...] = ()
    """Tenants whose findings were damaged when the backup was made, and are not in it."""


def back_up(database: Database, folder: Path, target: Path) -> dict[str, str]:
    """Write a backup; the farm may run meanwhile.

    Args:
        database: The farm's state.
        folder: The farm's.
        target: Appears whole, or not at all; there must be no such file yet.

    Returns:
        Tenant → why its findings are not in it; empty: all are.

    Raises:
        StoreError: it cannot be written, or is there already.
    """
    damaged: dict[str, str] = {}

    def add(copy: sqlite3.Connection) -> None:
        copy.execute(f"DROP TABLE IF EXISTS {TABLE}")
        copy.execute(f"CREATE TABLE {TABLE} (tenant TEXT PRIMARY KEY, content BLOB) STRICT")
        for tenant, content in _files(folder / FOLDER):
            why = _why_unusable(content, tenant)
            if why is not None:
                damaged[tenant] = why
            values = (tenant, content if why is None else None)
            copy.execute(f"INSERT INTO {TABLE} VALUES (?, ?)", values)  # noqa: S608  # ours

    database.back_up(target, add)
    return damaged


def restore(backup: Path, state: Path) -> Restored:
    """Put a backup in the place of the state and the findings of a farm that does not run.

    Args:
        backup: As `back_up` wrote it.
        state: The state's place; the findings are beside it.

    Raises:
        StoreError: it is no backup of a farm, or cannot be put there; what was there is there still.
    """
    draft = state.with_name(f".{state.name}.restored")
    fresh = state.with_name(f".{FOLDER}.restored")
    place = state.with_name(FOLDER)
    try:
        shutil.copyfile(backup, draft)
        draft.chmod(0o600)
        _check_is_state(draft)
        database = open_database(draft)  # complete, and of a version that is known
        try:
            found = _taken(database, backup)
        finally:
            database.close()
        suffix = _free_suffix(state, place)
        if found is None:
            return Restored(_swap_state(draft, state, suffix), None, has_findings=False)
        there = {tenant: content for tenant, content in found.items() if content is not None}
        lacking = tuple(sorted(set(found) - set(there)))
        if dict(_files(place)) == there:
            return Restored(_swap_state(draft, state, suffix), None, has_findings=True, lacking=lacking)
        _write(fresh, there)
        with _swapped(fresh, place, suffix) as kept:
            return Restored(_swap_state(draft, state, suffix), kept, has_findings=True, lacking=lacking)
    except StoreError as error:
        raise StoreError(str(error).replace(str(draft), str(backup))) from error
    except MemoryError as error:
        raise StoreError(f"{backup} does not fit into memory; nothing was restored") from error
    except OSError as error:
        raise StoreError(f"{backup} cannot be restored: {error.strerror or error}") from error
    finally:
        _unlink(draft)
        shutil.rmtree(fresh, ignore_errors=True)


def _files(folder: Path) -> Iterator[tuple[str, bytes | None]]:
    """Tenant → what its file holds; None: it cannot be read. Drafts of files that are being written are left out."""
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        tenant = file.name.removesuffix(_SUFFIX)
        if tenant == file.name or not is_legal_id(tenant) or not file.is_file():
            continue
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            continue
        except OSError:
            yield tenant, None
        else:
            yield tenant, content


def _taken(database: Database, backup: Path) -> dict[str, bytes | None] | None:
    """Take the findings out of the copy of a backup, which is a state then. None: it has none."""
    if not database.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (TABLE,)):
        return None
    found: dict[str, bytes | None] = {}
    for tenant, content in database.rows(f"SELECT tenant, content FROM {TABLE}", ()):  # noqa: S608  # ours
        if not isinstance(tenant, str) or not is_legal_id(tenant) or tenant in found:
            raise StoreError(f"{backup} has findings of {str(tenant)[:40]!r}, which is no tenant; nothing was restored")
        why = None if content is None else _why_unusable(content, tenant)
        if why is not None:
            raise StoreError(f"{backup} has findings that cannot be used, and nothing was restored: {why}")
        found[tenant] = content
    with database.changing() as db:
        db.execute(f"DROP TABLE {TABLE}")
    return found


def _why_unusable(content: object, tenant: str) -> str | None:
    name = f"{tenant}{_SUFFIX}"
    if not isinstance(content, bytes):
        return f"{name} cannot be read"
    try:
        found = parse_findings(content, name)
    except FindingsUnreadable as error:
        return "".join(one if one.isprintable() else "?" for one in str(error))[:MAX_WHY]
    seen = {run for one in found.findings.values() for run in (*one.counts, *(example.run for example in one.examples))}
    strange = sorted(run for run in (*found.runs, *seen) if not is_legal_id(run))
    return f"{name} names {strange[0][:40]!r}, which is no run" if strange else None


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    for tenant, content in files.items():
        descriptor = os.open(folder / f"{tenant}{_SUFFIX}", os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def _swapped(fresh: Path, place: Path, suffix: str) -> Iterator[Path | None]:
    """The fresh folder in its place while the block runs, and after it unless it raises; gives where the old one is.

    A kill in between leaves the old one there: with nothing in the place, a second restore does not touch it.
    """
    kept: Path | None = None
    if place.exists():
        kept = place.with_name(place.name + suffix)
        place.rename(kept)
    try:
        fresh.rename(place)
        yield kept
    except BaseException:
        if place.exists():
            place.rename(fresh)
        if kept is not None:
            kept.rename(place)
        raise


def _free_suffix(*places: Path) -> str:
    """For what is kept: one restore must not destroy what another one kept."""
    suffixes = (".before-restore" if number == 1 else f".before-restore-{number}" for number in itertools.count(1))
    return next(one for one in suffixes if not any(place.with_name(place.name + one).exists() for place in places))


def _check_is_state(draft: Path) -> None:
    """An empty file, or another program's, would be taken for a state that is still to be made."""
    try:
        with closing(sqlite3.connect(draft)) as opened:
            there = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        raise StoreError(f"{draft} is no state of a farm, or is damaged: {error}") from error
    if not there >= NEEDED_TABLES:
        raise StoreError(f"{draft} is no state of a farm: it has no table {min(NEEDED_TABLES - there)!r}")


def _swap_state(draft: Path, path: Path, suffix: str) -> Path | None:
    kept: Path | None = None
    if path.exists():
        _take_in_log(path)
        kept = path.with_name(path.name + suffix)
        path.replace(kept)
    for log in ("-wal", "-shm"):  # of the state that was there, and goes with it: the new one must not take it in
        left = path.with_name(path.name + log)
        if kept is not None and left.exists():
            left.replace(kept.with_name(kept.name + log))
        left.unlink(missing_ok=True)
    draft.replace(path)
    return kept


def _take_in_log(path: Path) -> None:
    """Have the write-ahead log of a state taken into it, if it can be read at all; a damaged one is kept as it is.

    Raises:
        StoreError: somebody reads it at the moment.
    """
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as opened:
            is_busy, *_ = opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error:
        return
    if is_busy:
        raise StoreError(f"{path} is being read by another process: end that first; nothing was restored")


def _unlink(draft: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)
