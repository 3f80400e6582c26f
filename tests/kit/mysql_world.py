"""The synthetic data set on the tests' MySQL, provisioned."""

import contextlib
from functools import cache
from typing import Any

import attrs

from actors.sql_configuration import parse_sql_config
from sqlassist.administration import Refused, apply_steps, authentication_for, read_state
from sqlassist.catalog import Dialect
from sqlassist.config import SourceConfig, SqlConfig
from sqlassist.provision import Provisioning, Step
from sqlassist.sample import make_sample, sample_config
from sqlassist.sample_load import load_server
from tests.kit.mysql import MySql, mysql

ROWS = 6000


@attrs.frozen
class MySqlWorld:
    """A source `game` with two tenants."""

    server: MySql
    config: SqlConfig

    @property
    def source(self) -> SourceConfig:
        """The one source."""
        return self.config.sources["game"]

    def limited(self, **limits: Any) -> SqlConfig:
        """The configuration with other limits."""
        changed = attrs.evolve(self.source, limits=attrs.evolve(self.source.limits, **limits))
        return attrs.evolve(self.config, sources={"game": changed})

    def steps(self) -> tuple[Step, ...]:
        """What provisioning would do now."""
        plan = Provisioning(self.config, "game", authentication_for(self.config, "game", make=True))
        with contextlib.closing(self.server.admin()) as connection:
            return plan.steps(read_state(connection, self.source.prefix, self.source.account_host))

    def provision(self) -> list[Refused]:
        """Apply the plan."""
        with contextlib.closing(self.server.admin()) as connection:
            return apply_steps(connection, self.steps())


def mysql_world() -> MySqlWorld:
    """The session's world, made at the first call; skips where MySQL cannot be had."""
    return _made(mysql())


@cache
def _made(server: MySql) -> MySqlWorld:
    return make_mysql_world(server)


def make_mysql_world(server: MySql, *, rows: int = ROWS, tls_ca: str = "") -> MySqlWorld:
    """Fill a server and provision it."""
    where = "\n".join(
        [
            f'socket = "{server.socket}"\nport = {server.port}\nschema = "core"\nprefix = "corral"',
            f'credentials = {{ folder = "{server.folder}/secrets" }}\nadmin = {{ user = "root" }}',
            *([f'tls_ca = "{tls_ca}"'] if tls_ca else []),
        ]
    )
    config = parse_sql_config(sample_config(Dialect.MYSQL, where, tenants=2).encode(), "sql.toml")
    with contextlib.closing(server.admin()) as connection:
        load_server(connection, "core", make_sample(rows, tenants=2, seed=7))
    world = MySqlWorld(server, config)
    assert world.provision() == []
    return world
