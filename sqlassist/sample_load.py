"""Puts the synthetic data set into MariaDB or MySQL, or into DuckDB files, one a tenant."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pymysql
from numpy.typing import NDArray

from sqlassist.naming import qualified, quoted
from sqlassist.sample import DAYS, FIRST_DAY, SampleTable, tenant_part

ROWS_PER_INSERT = 2000  # a statement of about 150 kB: far below max_allowed_packet's smallest default


def load_server(connection: "pymysql.connections.Connection[Any]", schema: str, tables: tuple[SampleTable, ...]) -> int:
    """Create the schema and its tables anew and fill them; returns the number of rows."""
    total = 0
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {quoted(schema)} CHARACTER SET utf8mb4")
        for table in tables:
            cursor.execute(f"DROP TABLE IF EXISTS {qualified(schema, table.name)}")
            cursor.execute(_definition(schema, table))
            holes = ", ".join(["%s"] * len(table.columns))
            names = ", ".join(quoted(name) for name in table.columns)
            insert = f"INSERT INTO {qualified(schema, table.name)} ({names}) VALUES ({holes})"
            rows = list(zip(*(values.tolist() for values in table.columns.values()), strict=True))
            cursor.execute("START TRANSACTION")
            for begin in range(0, len(rows), ROWS_PER_INSERT):
                cursor.executemany(insert, rows[begin : begin + ROWS_PER_INSERT])
            cursor.execute("COMMIT")
            cursor.execute(f"ANALYZE TABLE {qualified(schema, table.name)}")
            cursor.fetchall()
            total += len(rows)
    return total


def _definition(schema: str, table: SampleTable) -> str:
    columns = [f"{quoted(name)} {kind} NOT NULL" for name, kind in table.types.items()]
    key = quoted(table.key) + (f", {quoted(table.partition)}" if table.partition else "")
    columns.append(f"PRIMARY KEY ({key})")
    if "tenant_id" in table.types:
        columns.append(f"INDEX (tenant_id, {quoted(table.partition or table.key)})")
    if "player_id" in table.types and table.key != "player_id":
        columns.append("INDEX (player_id)")
    text = f"CREATE TABLE {qualified(schema, table.name)} ({', '.join(columns)}) ENGINE=InnoDB"
    if not table.partition:
        return text
    months = np.arange(FIRST_DAY.astype("datetime64[M]") + 1, (FIRST_DAY + DAYS).astype("datetime64[M]") + 1)
    parts = [
        f"PARTITION p{str(month - 1).replace('-', '')} VALUES LESS THAN (TO_DAYS('{month}-01'))" for month in months
    ]
    parts.append("PARTITION later VALUES LESS THAN MAXVALUE")
    return f"{text} PARTITION BY RANGE (TO_DAYS({quoted(table.partition)})) ({', '.join(parts)})"


def load_duckdb(folder: Path, tables: tuple[SampleTable, ...], tenants: int, name: str = "tenant{}") -> int:
    """Write one DuckDB file a tenant, replacing what is there; returns the number of rows."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    total = 0
    for tenant in range(1, tenants + 1):
        path = folder / f"{name.format(tenant)}.duckdb"
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with duckdb.connect(str(fresh)) as connection:
            for table in tenant_part(tables, tenant):
                connection.register("given", {name: _known(values) for name, values in table.columns.items()})
                kinds = ", ".join(f'CAST("{column}" AS {kind}) AS "{column}"' for column, kind in table.types.items())
                connection.execute(f'CREATE TABLE "{table.name}" AS SELECT {kinds} FROM given')
                connection.unregister("given")
                total += len(table)
        fresh.replace(path)
    return total


def _known(values: NDArray[Any]) -> NDArray[Any]:
    """DuckDB reads moments of numpy, but not its days."""
    return values.astype("datetime64[s]") if values.dtype == np.dtype("datetime64[D]") else values
