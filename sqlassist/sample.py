"""A synthetic game-operations data set: the same rows from the same seed, for demos, benchmarks and tests.

Several tenants, half a year of days. The shapes are those of real games: few players pay, activity decays with age.
"""

import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from sqlassist.catalog import ColumnType, Dialect

FIRST_DAY = np.datetime64("2026-01-01")
DAYS = 181  # to 30 June
SERVERS_PER_TENANT = 6
CHANNELS = (("ios", "store"), ("android", "store"), ("web", "direct"), ("taptap", "store"), ("adnet", "advertising"))
REGIONS = ("eu", "us", "asia")
PRODUCTS = ("gems_100", "gems_500", "gems_2000", "season_pass", "starter_pack")
PRICES = (0.99, 4.99, 19.99, 9.99, 2.99)
ACTIVITY_KINDS = ("login_bonus", "double_drop", "tournament", "sale")
RETENTION_DAYS = (1, 3, 7, 14, 30)
PARTS = {"players": 0.10, "sessions": 0.60, "payments": 0.12, "levels": 0.18}
"""Of the number of rows that is asked for; the other tables are small."""

Array = NDArray[Any]
Rng = np.random.Generator


@attrs.frozen(eq=False)
class SampleTable:
    """One table, column by column; all columns have one length."""

    name: str
    types: Mapping[str, str]
    """Column → SQL type; all are known to MySQL, MariaDB and DuckDB."""
    key: str
    columns: Mapping[str, Array]
    partition: str = ""
    """A DATE column: on servers the table is partitioned by its month."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def of(self, keep: NDArray[np.bool_]) -> "SampleTable":
        """The rows where `keep` is true."""
        return attrs.evolve(self, columns={name: values[keep] for name, values in self.columns.items()})


def make_sample(rows: int, *, tenants: int = 3, seed: int = 1) -> tuple[SampleTable, ...]:
    """The data set.

    Args:
        rows: About how many rows in all, at least 1000.
        tenants: How many there are; their `tenant_id` counts from 1. The first has most rows.
        seed: Equal seeds give equal rows.
    """
    rng = np.random.default_rng(seed)
    servers = _servers(rng, tenants)
    players = _players(rng, max(tenants * 20, int(rows * PARTS["players"])), tenants)
    return (
        servers,
        _channels(),
        players,
        _sessions(rng, int(rows * PARTS["sessions"]), players),
        _payments(rng, int(rows * PARTS["payments"]), players),
        _levels(rng, int(rows * PARTS["levels"]), players),
        _retention(rng, servers),
        _activities(rng, tenants),
    )


def _servers(rng: Rng, tenants: int) -> SampleTable:
    count = tenants * SERVERS_PER_TENANT
    ids = np.arange(1, count + 1)
    return SampleTable(
        "servers",
        {
            "server_id": "INTEGER",
            "tenant_id": "INTEGER",
            "name": "VARCHAR(40)",
            "region": "VARCHAR(10)",
            "opened_on": "DATE",
        },
        "server_id",
        {
            "server_id": ids,
            "tenant_id": (ids - 1) // SERVERS_PER_TENANT + 1,
            "name": np.array([f"S{number:03d}" for number in ids], dtype=object),
            "region": np.array(REGIONS, dtype=object)[rng.integers(0, len(REGIONS), count)],
            "opened_on": FIRST_DAY - rng.integers(1, 400, count),
        },
    )


def _channels() -> SampleTable:
    return SampleTable(
        "channels",
        {"channel_id": "INTEGER", "name": "VARCHAR(20)", "kind": "VARCHAR(20)"},
        "channel_id",
        {
            "channel_id": np.arange(1, len(CHANNELS) + 1),
            "name": np.array([name for name, _ in CHANNELS], dtype=object),
            "kind": np.array([kind for _, kind in CHANNELS], dtype=object),
        },
    )


def _players(rng: Rng, count: int, tenants: int) -> SampleTable:
    weights = 1.0 / np.arange(1, tenants + 1)
    tenant = np.sort(rng.choice(np.arange(1, tenants + 1), count, p=weights / weights.sum()))
    tenant[:tenants] = np.arange(1, tenants + 1)  # nobody is without players
    registered = rng.integers(0, DAYS, count)
    return SampleTable(
        "players",
        {
            "player_id": "BIGINT",
            "tenant_id": "INTEGER",
            "server_id": "INTEGER",
            "channel_id": "INTEGER",
            "nickname": "VARCHAR(40)",
            "level": "INTEGER",
            "registered_at": "DATETIME",
        },
        "player_id",
        {
            "player_id": np.arange(1, count + 1),
            "tenant_id": tenant,
            "server_id": (tenant - 1) * SERVERS_PER_TENANT + rng.integers(1, SERVERS_PER_TENANT + 1, count),
            "channel_id": rng.integers(1, len(CHANNELS) + 1, count),
            "nickname": np.array([f"player_{number}" for number in range(1, count + 1)], dtype=object),
            "level": np.minimum(99, 1 + rng.geometric(0.06, count)),
            "registered_at": _moments(rng, registered),
        },
    )


def _moments(rng: Rng, day: Array) -> Array:
    seconds = rng.integers(0, 86400, len(day))
    moments: Array = (FIRST_DAY + day).astype("datetime64[s]") + seconds.astype("timedelta64[s]")
    return moments


def _events(rng: Rng, count: int, players: SampleTable) -> tuple[Array, dict[str, Array]]:
    """Days and the columns that every event has; days are sorted, so that keys grow with time, as they do in life."""
    who = rng.integers(0, len(players), count)
    joined = ((players.columns["registered_at"][who] - FIRST_DAY.astype("datetime64[s]")).astype(int) // 86400).astype(
        int
    )
    after = np.minimum(rng.geometric(0.04, count) - 1, DAYS - 1 - joined)
    order = np.argsort(joined + after, kind="stable")
    day = (joined + after)[order]
    shared = {name: players.columns[name][who[order]] for name in ("tenant_id", "player_id", "server_id", "channel_id")}
    return day, shared


def _sessions(rng: Rng, count: int, players: SampleTable) -> SampleTable:
    day, shared = _events(rng, count, players)
    return SampleTable(
        "sessions",
        {
            "session_id": "BIGINT",
            "tenant_id": "INTEGER",
            "player_id": "BIGINT",
            "server_id": "INTEGER",
            "channel_id": "INTEGER",
            "day": "DATE",
            "started_at": "DATETIME",
            "minutes": "INTEGER",
        },
        "session_id",
        {
            "session_id": np.arange(1, count + 1),
            **shared,
            "day": FIRST_DAY + day,
            "started_at": _moments(rng, day),
            "minutes": 1 + rng.geometric(0.05, count),
        },
        partition="day",
    )


def _payments(rng: Rng, count: int, players: SampleTable) -> SampleTable:
    day, shared = _events(rng, count, players)
    product = rng.choice(len(PRODUCTS), count, p=(0.35, 0.25, 0.08, 0.12, 0.20))
    cents = (np.array(PRICES)[product] * 100).round().astype(int)
    return SampleTable(
        "payments",
        {
            "payment_id": "BIGINT",
            "tenant_id": "INTEGER",
            "player_id": "BIGINT",
            "server_id": "INTEGER",
            "channel_id": "INTEGER",
            "day": "DATE",
            "paid_at": "DATETIME",
            "product": "VARCHAR(20)",
            "amount": "DECIMAL(10,2)",
        },
        "payment_id",
        {
            "payment_id": np.arange(1, count + 1),
            **shared,
            "day": FIRST_DAY + day,
            "paid_at": _moments(rng, day),
            "product": np.array(PRODUCTS, dtype=object)[product],
            "amount": cents / 100,
        },
        partition="day",
    )


def _levels(rng: Rng, count: int, players: SampleTable) -> SampleTable:
    day, shared = _events(rng, count, players)
    return SampleTable(
        "levels",
        {"event_id": "BIGINT", "player_id": "BIGINT", "level": "INTEGER", "reached_at": "DATETIME"},
        "event_id",
        {
            "event_id": np.arange(1, count + 1),
            "player_id": shared["player_id"],
            "level": np.minimum(99, 1 + rng.geometric(0.06, count)),
            "reached_at": _moments(rng, day),
        },
    )


def _retention(rng: Rng, servers: SampleTable) -> SampleTable:
    day, server, number = (
        part.ravel()
        for part in np.meshgrid(
            np.arange(0, DAYS, 7), servers.columns["server_id"].astype(int), np.array(RETENTION_DAYS), indexing="ij"
        )
    )
    cohort = rng.integers(50, 500, len(day))
    kept = (cohort * 0.45 / np.sqrt(number) * rng.uniform(0.8, 1.2, len(day))).astype(int)
    return SampleTable(
        "retention",
        {
            "row_id": "INTEGER",
            "tenant_id": "INTEGER",
            "server_id": "INTEGER",
            "cohort_day": "DATE",
            "day_number": "INTEGER",
            "players": "INTEGER",
            "retained": "INTEGER",
        },
        "row_id",
        {
            "row_id": np.arange(1, len(day) + 1),
            "tenant_id": (server - 1) // SERVERS_PER_TENANT + 1,
            "server_id": server,
            "cohort_day": FIRST_DAY + day,
            "day_number": number,
            "players": cohort,
            "retained": kept,
        },
    )


def _activities(rng: Rng, tenants: int) -> SampleTable:
    count = tenants * 12
    start = rng.integers(0, DAYS - 14, count)
    kind = np.array(ACTIVITY_KINDS, dtype=object)[rng.integers(0, len(ACTIVITY_KINDS), count)]
    return SampleTable(
        "activities",
        {
            "activity_id": "INTEGER",
            "tenant_id": "INTEGER",
            "name": "VARCHAR(40)",
            "kind": "VARCHAR(20)",
            "starts_on": "DATE",
            "ends_on": "DATE",
        },
        "activity_id",
        {
            "activity_id": np.arange(1, count + 1),
            "tenant_id": np.arange(count) // 12 + 1,
            "name": np.array([f"{name} {number}" for number, name in enumerate(kind, start=1)], dtype=object),
            "kind": kind,
            "starts_on": FIRST_DAY + start,
            "ends_on": FIRST_DAY + start + rng.integers(2, 14, count),
        },
    )


def tenant_part(tables: tuple[SampleTable, ...], tenant: int) -> tuple[SampleTable, ...]:
    """One tenant's rows, for databases that hold one tenant each."""
    by_name = {table.name: table for table in tables}
    own = by_name["players"].columns["tenant_id"] == tenant
    ids = by_name["players"].columns["player_id"][own]
    made = []
    for table in tables:
        if "tenant_id" in table.columns:
            table = table.of(table.columns["tenant_id"] == tenant)
        elif table.name == "levels":
            table = table.of(np.isin(table.columns["player_id"], ids))
        made.append(table)
    return tuple(made)


_KINDS = {
    "INTEGER": ColumnType.INTEGER,
    "BIGINT": ColumnType.INTEGER,
    "DATE": ColumnType.DATE,
    "DATETIME": ColumnType.DATETIME,
}
_JOINS = (
    ("sessions.player_id", "players.player_id"),
    ("payments.player_id", "players.player_id"),
    ("levels.player_id", "players.player_id"),
    ("players.server_id", "servers.server_id"),
    ("sessions.server_id", "servers.server_id"),
    ("payments.server_id", "servers.server_id"),
    ("retention.server_id", "servers.server_id"),
    ("players.channel_id", "channels.channel_id"),
    ("sessions.channel_id", "channels.channel_id"),
    ("payments.channel_id", "channels.channel_id"),
)


def sample_config(dialect: Dialect, settings: str, *, tenants: int = 3, semantic_file: str = "") -> str:
    """The configuration that fits the data set, as TOML.

    Args:
        dialect: Of the source.
        settings: TOML lines of `[sources.game]` that say where it is: `host = ...`, `credentials = ...`.
        tenants: As in `make_sample`.
        semantic_file: Where `sample_semantic_layer` is; by default it is written into the configuration.
    """
    lines = ["[sources.game]", f'dialect = "{dialect}"', settings.strip(), f"joins = {_toml_pairs()}"]
    lines += [f'semantic_file = "{semantic_file}"', ""] if semantic_file else [""]
    for table in make_sample(1000, tenants=1):
        columns = {
            name: _KINDS.get(kind, ColumnType.NUMBER if "DECIMAL" in kind else ColumnType.TEXT)
            for name, kind in table.types.items()
        }
        columns.pop("tenant_id", None)
        lines.append(f"[sources.game.tables.{table.name}]")
        lines.append("columns = { " + ", ".join(f'{name} = "{kind}"' for name, kind in columns.items()) + " }")
        lines.append(f"filter = {_toml_filter(table)}")
        if table.partition:
            lines.append(f'partition = "{table.partition}"')
        lines.append("")
    if not semantic_file:
        lines.append(sample_semantic_layer("sources.game.semantic.", with_rollups=dialect is not Dialect.DUCKDB))
    for number in range(1, tenants + 1):
        lines.append(f'[tenants.tenant{number}]\nkeys = {{ tenant = ["{number}"] }}\n')
    return "\n".join(lines)


def sample_semantic_layer(section: str = "", *, with_rollups: bool = True) -> str:
    """The semantic layer that fits the data set, as TOML.

    Args:
        section: Stands before the name of every table of TOML.
        with_rollups: Keep head metrics pre-aggregated; a DuckDB source has none.
    """
    text = (resources.files("sqlassist") / "sample.semantic.toml").read_text(encoding="utf-8")
    if not with_rollups:
        text = text[: text.index("[rollups.")]
        text = re.sub(r"^rollup(_expression)? = .*\n", "", text, flags=re.MULTILINE)
    return _moved(text, section) if section else text


def _moved(text: str, section: str) -> str:
    """Every table of a TOML text under another one; the keys before the first table get a header of their own."""
    moved = re.sub(r"^(\[\[?)", rf"\1{section}", text, flags=re.MULTILINE)
    return f"[{section.removesuffix('.')}]\n{moved}"


def _toml_pairs() -> str:
    return "[" + ", ".join(f'["{left}", "{right}"]' for left, right in _JOINS) + "]"


def _toml_filter(table: SampleTable) -> str:
    if "tenant_id" in table.types:
        return '{ kind = "equality", column = "tenant_id" }'
    if table.name == "levels":
        return '{ kind = "join", column = "player_id", table = "players", other_column = "player_id" }'
    return '{ kind = "everyone" }'
