"""Pre-aggregated head metrics, by day and a few dimensions, kept up to date by a watermark over the base table.

A refresh finds the days that have rows with numbers above the watermark, and aggregates those days anew and whole. So a
row that comes late, with an old day and a new number, changes its own day; a second refresh changes nothing.
"""

import re
import time
from typing import Any

import attrs
import pymysql

from runtime.telemetry import emit
from sqlassist.administration import open_connection
from sqlassist.config import Equality, SqlConfig, Within
from sqlassist.credentials import password_for
from sqlassist.naming import qualified, quoted, rollup_schema, service_account, text_literal
from sqlassist.semantic import RollupConfig
from sqlassist.views import base_of


class RollupFailed(Exception):
    """A refresh did not go through. What was there before is there still; the next refresh does it again."""


@attrs.frozen
class Refreshed:
    """What one refresh did."""

    rollup: str
    days: int
    """Days that were aggregated anew."""
    watermark: int
    seconds: float
    tenant: str = ""
    """Whose file, where each tenant has one."""


def refresh_rollups(config: SqlConfig, source: str) -> list[Refreshed]:
    """Bring every rollup of a server up to date. Blocks; a second refresh at the same time waits for the first.

    Raises:
        RollupFailed: a statement failed.
        ServerUnavailable: the server does not answer.
        CredentialError: the account's password cannot be had.
    """
    owner = config.sources[source]
    if not owner.rollups or not owner.writes:
        return []
    account = service_account(config, source, "rollup")
    with open_connection(owner, account, password_for(owner.credentials, account)) as connection:
        return [_refresh(connection, config, source, name) for name in owner.rollups]


def _refresh(connection: "pymysql.connections.Connection[Any]", config: SqlConfig, source: str, name: str) -> Refreshed:
    begun = time.monotonic()
    rollup = config.sources[source].rollups[name]
    base = qualified(*base_of(config, source, rollup.table))
    target, marks = (qualified(rollup_schema(config, source), table) for table in (name, "watermarks"))
    sequence, moment = quoted(rollup.sequence), f"DATE({quoted(rollup.moment)})"
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute(f"INSERT IGNORE INTO {marks} VALUES ({text_literal(name)}, -1, UTC_TIMESTAMP())")
            cursor.execute("START TRANSACTION")
            cursor.execute(f"SELECT watermark FROM {marks} WHERE rollup = {text_literal(name)} FOR UPDATE")
            row = cursor.fetchone()
            assert row is not None
            old = int(row[0])
            # READ COMMITTED locks no row of the base table. What commits meanwhile may be in already; its number is
            # above the new watermark, so its day is done again by the next refresh.
            cursor.execute(f"SELECT COALESCE(MAX({sequence}), -1) FROM {base}")
            top = cursor.fetchone()
            assert top is not None
            new = int(top[0])
            since = old - rollup.overlap if old >= 0 else -1
            days = [] if new == old else _touched(cursor, f"{moment} AS day FROM {base} WHERE {sequence} > {since}")
            if days:
                listed = ", ".join(text_literal(str(day)) for day in days)
                cursor.execute(f"DELETE FROM {target} WHERE day IN ({listed})")
                low, high = text_literal(str(days[0])), text_literal(str(days[-1]))
                # the range is for the partitions, the list for the days
                condition = (
                    f"{quoted(rollup.moment)} >= {low} AND {quoted(rollup.moment)} < {high} + INTERVAL 1 DAY"
                    f" AND {moment} IN ({listed})"
                )
                cursor.execute(_insert(config, source, rollup, target, base, moment, condition))
            cursor.execute(
                f"UPDATE {marks} SET watermark = {new}, refreshed_at = UTC_TIMESTAMP()"
                f" WHERE rollup = {text_literal(name)}"
            )
            cursor.execute("COMMIT")
    except pymysql.err.MySQLError as error:
        raise RollupFailed(f"rollup {name} of source {source}: {error}") from error
    seconds = time.monotonic() - begun
    emit("sqlassist.rollup.refreshed", source=source, rollup=name, days=len(days), seconds=round(seconds, 3))
    return Refreshed(name, len(days), new, seconds)


def _touched(cursor: Any, select: str) -> list[Any]:
    cursor.execute(f"SELECT DISTINCT {select} ORDER BY day")
    return [row[0] for row in cursor.fetchall() if row[0] is not None]


def _insert(
    config: SqlConfig, source: str, rollup: RollupConfig, target: str, base: str, moment: str, condition: str
) -> str:
    rule = config.sources[source].tables[rollup.table].filter
    assert isinstance(rule, Equality | Within)
    groups = [quoted(rule.column)] + [quoted(column) for column in rollup.dimensions if column != rule.column]
    columns = [*groups, quoted("day"), *(quoted(measure) for measure in rollup.measures)]
    measures = [measure_expression(measure) for measure in rollup.measures.values()]
    return (
        f"INSERT INTO {target} ({', '.join(columns)}) SELECT {', '.join([*groups, moment, *measures])} FROM {base}"
        f" WHERE {condition} GROUP BY {', '.join([*groups, moment])}"
    )


def measure_expression(measure: str) -> str:
    """The SQL of a measure."""
    if measure == "count":
        return "COUNT(*)"
    found = re.fullmatch(r"(sum|min|max)\((\w+)\)", measure)
    assert found is not None, "the configuration was checked"
    return f"{found.group(1).upper()}({quoted(found.group(2))})"
