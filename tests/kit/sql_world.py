"""The synthetic data set on the tests' MariaDB, provisioned: what tests of execution stand on."""

import contextlib
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from actors.sql_configuration import parse_sql_config
from runtime.ids import TenantId
from sqlassist.administration import apply_steps, authentication_for, read_state
from sqlassist.catalog import Dialect
from sqlassist.config import SourceConfig, SqlConfig
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.provision import Provisioning
from sqlassist.sample import make_sample, sample_config
from sqlassist.sample_load import load_server
from tests.kit.mariadb import MariaDb, mariadb

ROWS = 6000
ALPHA, BETA = TenantId("tenant1"), TenantId("tenant2")


@attrs.frozen
class SqlWorld:
    """A provisioned source `game` with two tenants."""

    server: MariaDb
    config: SqlConfig
    text: str
    """The configuration as TOML."""

    @property
    def source(self) -> SourceConfig:
        """The one source."""
        return self.config.sources["game"]

    def limited(self, **limits: Any) -> SqlConfig:
        """The configuration with other limits."""
        changed = attrs.evolve(self.source, limits=attrs.evolve(self.source.limits, **limits))
        return attrs.evolve(self.config, sources={"game": changed})


def world_settings(server: MariaDb, *, schema: str, prefix: str) -> str:
    """Where the source is, as TOML."""
    return "\n".join(
        [
            f'socket = "{server.socket}"\nport = {server.port}\nschema = "{schema}"\nprefix = "{prefix}"',
            f'credentials = {{ folder = "{server.folder}/secrets-{prefix}" }}\nadmin = {{ user = "root" }}',
        ]
    )


@cache
def sql_world(schema: str = "core", prefix: str = "corral") -> SqlWorld:
    """The session's world, made at the first call."""
    server = mariadb()
    text = sample_config(Dialect.MARIADB, world_settings(server, schema=schema, prefix=prefix), tenants=2)
    config = parse_sql_config(text.encode(), "sql.toml")
    with contextlib.closing(server.admin()) as connection:
        load_server(connection, schema, make_sample(ROWS, tenants=2, seed=7))
        provision(server, config)
    return SqlWorld(server, config, text)


def provision(server: MariaDb, config: SqlConfig) -> int:
    """Apply the plan; returns how many grants and creations it had."""
    source = config.sources["game"]
    plan = Provisioning(config, "game", authentication_for(config, "game", make=True))
    with contextlib.closing(server.admin()) as connection:
        steps = plan.steps(read_state(connection, source.prefix, source.account_host))
        assert apply_steps(connection, steps) == []
    return len(steps)


def secrets_folder(world: SqlWorld) -> Path:
    """Where the accounts' passwords are."""
    return Path(world.source.credentials.folder)


def checked(world: SqlWorld, sql: str, tenant: TenantId = ALPHA) -> CheckedQuery:
    """What the guard makes of a statement that it must accept."""
    query = check(sql, world.config.catalog("game", tenant))
    assert isinstance(query, CheckedQuery), query
    return query


def unguarded(sql: str, *, max_rows: int = 1000) -> CheckedQuery:
    """A statement that nobody has checked, in the form that backends take: the guard switched off."""
    made = CheckedQuery._make(
        sql=sql,
        source=sql,
        dialect=Dialect.MARIADB,
        catalog_version="",
        tables=(),
        columns=(),
        max_rows=max_rows,
        is_clamped=False,
        bounds=(),
    )
    assert isinstance(made, CheckedQuery)
    return made
