"""Rollups of a server where nothing may be written: kept in DuckDB files, one a tenant, read through his own views.

Each file is filled under the tenant's own account, so it cannot hold what he may not read. The watermark is that of
`rollup.py`: days with new numbers are aggregated anew and whole. A refresh changes a copy and renames it into place.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pymysql

from runtime.ids import TenantId
from runtime.telemetry import emit
from sqlassist.administration import open_connection
from sqlassist.catalog import ColumnType
from sqlassist.config import SqlConfig, rollup_source
from sqlassist.credentials import password_for
from sqlassist.naming import account_name, qualified, quoted, schema_name, service_account, text_literal
from sqlassist.rollup import Refreshed, RollupFailed, measure_expression
from sqlassist.semantic import RollupConfig
from sqlassist.views import view_statement

DAYS_A_STATEMENT = 31  # the tenant's limits hold for a refresh too: a statement must be short
ROWS_A_FETCH = 1000
ROWS_AN_INSERT = 200
_TYPES = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.NUMBER: "DECIMAL(38,9)",
    ColumnType.DATE: "DATE",
    ColumnType.DATETIME: "TIMESTAMP",
    ColumnType.BOOLEAN: "BOOLEAN",
}


def refresh_rollup_files(config: SqlConfig, source: str) -> list[Refreshed]:
    """Bring the files of every tenant of a source up to date. Blocks; a second refresh of a file waits for the first.

    Raises:
        RollupFailed: a statement failed, or a file cannot be written. Every file is whole, old or new.
        ServerUnavailable: the server does not answer.
        CredentialError: a tenant's password cannot be had.
    """
    return [one for tenant in config.tenants_of(source) for one in _refresh_file(config, source, tenant)]


def _refresh_file(config: SqlConfig, source: str, tenant: TenantId) -> list[Refreshed]:
    owner = config.sources[source]
    folder = Path(owner.rollup_folder)
    path, fresh = folder / f"{tenant}.duckdb", folder / f"{tenant}.duckdb.new"
    names = config.catalog(rollup_source(source), tenant).table_names()
    account = account_name(config, source, tenant)
    views = {}
    try:
        with _locked(folder / f"{tenant}.lock"):
            for left_over in (fresh, fresh.with_name(f"{fresh.name}.wal")):
                left_over.unlink(missing_ok=True)
            if path.exists():
                shutil.copyfile(path, fresh)
            if owner.explainer and owner.views:
                views = _views_as_they_are(config, source, tenant)
            with (
                open_connection(owner, account, password_for(owner.credentials, account)) as connection,
                contextlib.closing(duckdb.connect(str(fresh))) as file,
                connection.cursor() as cursor,
            ):
                fresh.chmod(0o600)
                _prepare(cursor, owner.time_zone)
                _drop_others(file, names)
                done = [_Refresh(config, source, tenant, name, views).run(cursor, file) for name in names]
                cursor.execute("COMMIT")
                file.execute("CHECKPOINT")
            _put_in_place(fresh, path)
    except pymysql.err.MySQLError as error:
        raise RollupFailed(f"rollups of {tenant} from source {source}: {error}") from error
    except (duckdb.Error, OSError) as error:
        raise RollupFailed(f"{path}: {error}") from error
    for one in done:
        emit(
            "sqlassist.rollup.refreshed",
            source=source,
            rollup=one.rollup,
            tenant=tenant,
            days=one.days,
            seconds=round(one.seconds, 3),
        )
    return done


def _views_as_they_are(config: SqlConfig, source: str, tenant: TenantId) -> dict[str, str]:
    """The server's text of each of the tenant's views, which the explainer alone may see.

    A view that `provision` has not changed yet gives rows of the old filter; when it is changed, they are made anew.
    """
    owner, account = config.sources[source], service_account(config, source, "explainer")
    with (
        open_connection(owner, account, password_for(owner.credentials, account)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "SELECT TABLE_NAME, VIEW_DEFINITION FROM information_schema.VIEWS"
            f" WHERE TABLE_SCHEMA = {text_literal(schema_name(config, source, tenant))}"
        )
        return {str(name): str(definition) for name, definition in cursor.fetchall()}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _put_in_place(fresh: Path, path: Path) -> None:
    fresh.chmod(0o400)
    _sync(fresh)
    fresh.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _prepare(cursor: Any, time_zone: str) -> None:
    cursor.execute(f"SET SESSION time_zone = {text_literal(time_zone)}")
    cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")


def _drop_others(file: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
    """What the tenant does not see any more must not stay in his file."""
    file.execute(
        "CREATE TABLE IF NOT EXISTS watermarks (rollup VARCHAR PRIMARY KEY, definition VARCHAR, watermark BIGINT)"
    )
    for (name,) in file.execute("SELECT rollup FROM watermarks").fetchall():
        if name not in names:
            file.execute(f"DROP TABLE {_quoted(name)}")
            file.execute("DELETE FROM watermarks WHERE rollup = ?", [name])


class _Refresh:
    """One rollup of one tenant."""

    def __init__(self, config: SqlConfig, source: str, tenant: TenantId, name: str, views: Mapping[str, str]) -> None:
        owner = config.sources[source]
        self.name, self.tenant = name, tenant
        seen = config.catalog(rollup_source(source), tenant).table(name)
        assert seen is not None
        # what is hidden from him is not in his file; days are, as they say what a refresh replaces
        self.columns = {"day": ColumnType.DATE} | {column.name: column.type for column in seen.columns}
        whole = owner.rollups[name]
        self.rollup: RollupConfig = attrs.evolve(
            whole,
            dimensions=tuple(column for column in whole.dimensions if column in self.columns),
            measures={key: measure for key, measure in whole.measures.items() if key in self.columns},
        )
        self.view = qualified(schema_name(config, source, tenant), self.rollup.table)
        # what the rows mean, and whose they are: with another filter or other measures they are made anew
        meaning = [
            owner.host,
            owner.port,
            owner.socket,
            owner.time_zone,
            view_statement(config, source, tenant, self.rollup.table) if owner.views else self.view,
            views.get(self.rollup.table, ""),
            self.rollup.sequence,
            self.rollup.moment,
            list(self.rollup.dimensions),
            dict(self.rollup.measures),
            self.columns,
        ]
        self.definition = hashlib.sha256(json.dumps(meaning).encode()).hexdigest()

    def run(self, cursor: Any, file: duckdb.DuckDBPyConnection) -> Refreshed:
        begun = time.monotonic()
        old = self._watermark(file)
        sequence, moment = quoted(self.rollup.sequence), f"DATE({quoted(self.rollup.moment)})"
        cursor.execute(f"SELECT COALESCE(MAX({sequence}), -1) FROM {self.view}")
        new = int(cursor.fetchone()[0])
        days: list[Any] = []
        if new != old:
            since = old - self.rollup.overlap if old >= 0 else -1
            cursor.execute(f"SELECT DISTINCT {moment} AS day FROM {self.view} WHERE {sequence} > {since} ORDER BY day")
            days = [row[0] for row in cursor.fetchall() if row[0] is not None]
        file.execute("BEGIN")
        for begin in range(0, len(days), DAYS_A_STATEMENT):
            self._aggregate(cursor, file, days[begin : begin + DAYS_A_STATEMENT])
        file.execute("UPDATE watermarks SET watermark = ? WHERE rollup = ?", [new, self.name])
        file.execute("COMMIT")
        return Refreshed(self.name, len(days), new, time.monotonic() - begun, self.tenant)

    def _watermark(self, file: duckdb.DuckDBPyConnection) -> int:
        found = file.execute(
            "SELECT watermark FROM watermarks WHERE rollup = ? AND definition = ?", [self.name, self.definition]
        ).fetchone()
        if found is not None:
            return int(found[0])
        columns = ", ".join(f"{_quoted(name)} {_TYPES.get(kind, 'VARCHAR')}" for name, kind in self.columns.items())
        file.execute(f"CREATE OR REPLACE TABLE {_quoted(self.name)} ({columns})")
        file.execute("INSERT OR REPLACE INTO watermarks VALUES (?, ?, -1)", [self.name, self.definition])
        return -1

    def _aggregate(self, cursor: Any, file: duckdb.DuckDBPyConnection, days: list[Any]) -> None:
        holes = ", ".join("?" * len(days))
        file.execute(f"DELETE FROM {_quoted(self.name)} WHERE day IN ({holes})", days)
        moment, dimensions = quoted(self.rollup.moment), [quoted(column) for column in self.rollup.dimensions]
        measures = [measure_expression(measure) for measure in self.rollup.measures.values()]
        groups = [f"DATE({moment})", *dimensions]
        listed = ", ".join(text_literal(str(day)) for day in days)
        low, high = text_literal(str(days[0])), text_literal(str(days[-1]))
        # the range is for the partitions, the list for the days
        cursor.execute(
            f"SELECT {', '.join([*groups, *measures])} FROM {self.view}"
            f" WHERE {moment} >= {low} AND {moment} < {high} + INTERVAL 1 DAY AND DATE({moment}) IN ({listed})"
            f" GROUP BY {', '.join(groups)}"
        )
        names = ["day", *self.rollup.dimensions, *self.rollup.measures]
        target = f"{_quoted(self.name)} ({', '.join(_quoted(name) for name in names)})"
        row_holes = f"({', '.join('?' * len(names))})"
        while rows := cursor.fetchmany(ROWS_A_FETCH):
            for begin in range(0, len(rows), ROWS_AN_INSERT):
                part = rows[begin : begin + ROWS_AN_INSERT]
                values = [value for row in part for value in row]
                file.execute(f"INSERT INTO {target} VALUES {', '.join([row_holes] * len(part))}", values)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
