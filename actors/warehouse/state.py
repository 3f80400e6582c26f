"""What a warehouse folder holds."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import attrs
import duckdb

from actors.warehouse.generations import LEDGER, PublicationFailed
from actors.warehouse.load import SPOOL, published_tenants
from actors.warehouse.spool import OPEN, SEALED
from actors.warehouse.tables import LOSSES, TABLES
from runtime.ids import is_legal_id


@attrs.frozen
class TenantState:
    """One tenant's part."""

    tenant: str
    waiting: int
    """Sealed segments that its DuckDB file does not hold yet."""
    open: int
    loaded: int
    """Segments that its file holds, those included that are no longer in the spool."""
    rows: Mapping[str, int]
    """Table → rows."""
    lost_rows: int


def state_of(folder: Path) -> list[TenantState]:
    """Every tenant's part.

    Raises:
        PublicationFailed: a DuckDB file cannot be read.
        OSError: the spool cannot be read.
    """
    spool = folder / SPOOL
    spooled = [path.name for path in spool.iterdir() if is_legal_id(path.name)] if spool.is_dir() else []
    return [_state(folder, tenant) for tenant in sorted({*spooled, *published_tenants(folder)})]


def _state(folder: Path, tenant: str) -> TenantState:
    spool, path = folder / SPOOL / tenant, folder / f"{tenant}.duckdb"
    rows: dict[str, int] = {}
    ledger: set[str] = set()
    lost = 0
    if path.exists():
        try:
            with contextlib.closing(duckdb.connect(str(path), read_only=True)) as file:
                ledger = {str(row[0]) for row in file.execute(f"SELECT segment FROM {LEDGER}").fetchall()}  # noqa: S608
                for name in TABLES:
                    (rows[name],) = file.execute(f"SELECT COUNT(*) FROM {name}").fetchall()[0]  # noqa: S608
                (lost,) = file.execute(f"SELECT COALESCE(SUM(lost_rows), 0) FROM {LOSSES}").fetchall()[0]  # noqa: S608
        except duckdb.Error as error:
            raise PublicationFailed(f"{path}: {' '.join(str(error).split())}") from error
    sealed = {one.stem for one in spool.glob(f"*{SEALED}")}
    return TenantState(
        tenant, len(sealed - ledger), sum(1 for _ in spool.glob(f"*{OPEN}")), len(ledger), rows, int(lost)
    )
