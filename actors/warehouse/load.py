"""The loader: a process of its own, the only one that writes to databases.

Ended at any moment, it loses and doubles nothing: `corral warehouse load CONFIG|FOLDER [--follow]`.
"""

import contextlib
import fcntl
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import resources
from pathlib import Path

import attrs

from actors.warehouse.config import LoaderConfig
from actors.warehouse.databases import CONFIG_FILE, LAYER_FILE, databases_toml
from actors.warehouse.generations import publish
from actors.warehouse.spool import adopt_abandoned, loadable_segments
from runtime.ids import is_legal_id
from runtime.telemetry import emit

SPOOL = "spool"
LOADED = ".loaded"  # lists of what targets hold, beside the segments
MAX_PAUSE_SECONDS = 60.0  # between attempts at a server that is away
FIRST_PAUSE_SECONDS = 1.0


class LoadFailed(Exception):
    """The server refuses what must be done. The text says what; trying again does not help."""


class TargetAway(Exception):
    """The server is not there; nothing is lost, and the next attempt goes on where this one ended."""


@attrs.frozen
class Loaded:
    """What one round did."""

    tenants: tuple[str, ...]
    segments: int
    rows: int
    damaged: int
    """Lines that could not be read."""
    removed: int
    """Loaded segments that were kept for long enough."""


def load_once(config: LoaderConfig, *, now: Callable[[], float] = time.time) -> Loaded:
    """Load everything that is sealed, of every tenant; and remove what was kept for long enough. Blocks.

    Raises:
        PublicationFailed: a DuckDB file cannot be read or written.
        TargetAway: the server does not answer.
        LoadFailed: the server refuses.
        CredentialError: the password's file is not fit.
        SecretMissing: the password's variable is not set.
        OSError: the spool cannot be read or written.
    """
    folder = Path(config.folder)
    tenants = _tenants_in(folder)
    if not tenants:
        return Loaded((), 0, 0, 0, 0)
    with _locked(folder / f"{_target_name(config)}.lock"):
        total = _load_all(config, folder, tenants, now)
    if total.segments:
        emit("actors.warehouse.rows_loaded", **attrs.asdict(total))
    return total


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """A second loader of the same target waits for the first."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _load_all(config: LoaderConfig, folder: Path, tenants: list[str], now: Callable[[], float]) -> Loaded:
    total = Loaded((), 0, 0, 0, 0)
    for tenant in tenants:
        spool = folder / SPOOL / tenant
        adopt_abandoned(spool)
        segments = loadable_segments(spool)
        done, counts = _load_tenant(config, tenant, segments, int(now() * 1000))
        mine = _write_loaded_list(spool, config, done, segments)
        removed = _prune(spool, config, mine, segments, now())
        total = Loaded(
            (*total.tenants, tenant),
            total.segments + counts[0],
            total.rows + counts[1],
            total.damaged + counts[2],
            total.removed + removed,
        )
    if config.server is None:
        write_databases(folder)
    return total


def follow(config: LoaderConfig, *, sleep: Callable[[float], None] = time.sleep) -> Iterator[Loaded]:
    """Load again and again, for ever; a server that is away is waited for. Raises as `load_once` otherwise."""
    failures = 0
    while True:
        try:
            loaded = load_once(config)
        except TargetAway as error:
            failures += 1
            pause = random.uniform(0.5, 1.0) * min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(failures, 10))
            if failures == 1:
                emit("actors.warehouse.server_lost", level="warning", error=str(error))
            sleep(pause)
            continue
        if failures:
            emit("actors.warehouse.server_returned", attempts=failures)
            failures = 0
        yield loaded
        sleep(config.every_seconds)


def published_tenants(folder: Path) -> list[str]:
    """Tenants that have a DuckDB file in a warehouse folder."""
    return sorted(path.stem for path in folder.glob("*.duckdb") if is_legal_id(path.stem))


def write_databases(folder: Path) -> Path | None:
    """Write the configuration of databases that fits the folder's files, with the semantic layer beside it.

    Returns:
        Its path; None where there is no file yet.

    Raises:
        OSError: the folder cannot be written.
    """
    tenants = published_tenants(folder)
    if not tenants:
        return None
    layer = resources.files("actors.warehouse").joinpath(LAYER_FILE).read_text("utf-8")
    _replace_text(folder / LAYER_FILE, layer)
    path = folder / CONFIG_FILE
    _replace_text(path, databases_toml(str(folder.resolve()), tenants))
    return path


def _tenants_in(folder: Path) -> list[str]:
    spool = folder / SPOOL
    return (
        sorted(path.name for path in spool.iterdir() if path.is_dir() and is_legal_id(path.name))
        if spool.is_dir()
        else []
    )


def _load_tenant(
    config: LoaderConfig, tenant: str, segments: list[Path], now_ms: int
) -> tuple[frozenset[str], tuple[int, int, int]]:
    """(names of the segments that the target holds, (segments, rows, damaged lines) that were new)."""
    if config.server is None:
        done = publish(Path(config.folder), tenant, segments, now_ms=now_ms, keep_days=config.keep_days)
        return done.done, (done.segments, done.rows, done.damaged)
    # here, as pymysql is of the extra `sql`
    from actors.warehouse.server import ServerAway, ServerRefused, load_segments  # noqa: PLC0415

    try:
        loaded = load_segments(config.server, segments, now_ms=now_ms)
    except ServerAway as error:
        raise TargetAway(str(error)) from error
    except ServerRefused as error:
        raise LoadFailed(str(error)) from error
    return loaded.done, (loaded.segments, loaded.rows, loaded.damaged)


def _write_loaded_list(spool: Path, config: LoaderConfig, done: frozenset[str], segments: Iterable[Path]) -> Path:
    """What this target holds durably. A segment goes only when every target that ever loaded here has it."""
    path = spool / f"{_target_name(config)}{LOADED}"
    _replace_text(path, "".join(f"{one.stem}\n" for one in segments if one.stem in done))
    return path


def _target_name(config: LoaderConfig) -> str:
    """As a part of a file's name."""
    server = config.server
    name = "duckdb" if server is None else f"{server.schema}@{server.socket or f'{server.host}:{server.port}'}"
    return "".join(c if c.isalnum() or c in ".@-_" else "_" for c in name)


def _prune(spool: Path, config: LoaderConfig, mine: Path, segments: list[Path], now: float) -> int:
    lists = [set(path.read_text("utf-8").split()) for path in {mine, *spool.glob(f"*{LOADED}")}]
    loaded = [one for one in segments if all(one.stem in some for some in lists)]
    ages = []
    for one in loaded:
        with contextlib.suppress(FileNotFoundError):  # a loader of another target removed it
            found = one.stat()
            ages.append((found.st_mtime, found.st_size, one))
    kept, removed = 0.0, 0
    for written_at, size, one in sorted(ages, reverse=True):
        kept += size
        if now - written_at <= config.keep_loaded_hours * 3600 and kept <= config.keep_loaded_megabytes * 1e6:
            continue
        one.unlink(missing_ok=True)
        removed += 1
    return removed


def _replace_text(path: Path, text: str) -> None:
    if path.is_file() and path.read_text("utf-8") == text:
        return
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    partial.write_text(text, "utf-8")
    partial.chmod(0o600)
    partial.replace(path)
