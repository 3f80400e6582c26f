"""A server whose DBA allows no views: each tenant has a schema, the administrator no CREATE VIEW, rollups are files."""

import contextlib
import re
from pathlib import Path
from typing import Any, Protocol

import attrs
import pymysql

from actors.sql_configuration import parse_sql_config
from runtime.ids import TenantId
from sqlassist.catalog import Dialect
from sqlassist.config import SqlConfig
from sqlassist.naming import qualified
from sqlassist.sample import make_sample, sample_config
from sqlassist.sample_load import load_server
from sqlassist.views import ROW, condition_for
from tests.kit.sql_world import ALPHA, BETA

ROWS = 3000
BASE = "whole"
OWN = {ALPHA: "own_one", BETA: "own_two"}
DBA = "viewless_dba"


class Server(Protocol):
    """What MariaDB's and MySQL's stand-ins share."""

    @property
    def folder(self) -> Path: ...
    @property
    def socket(self) -> Path: ...
    @property
    def port(self) -> int: ...
    def admin(self) -> "pymysql.connections.Connection[Any]": ...
    def run(self, *statements: str) -> list[tuple[Any, ...]]: ...


@attrs.frozen
class ViewlessWorld:
    """The data are there, nothing is provisioned."""

    server: Server
    file: Path
    """The configuration: `views = false`, rollups in files."""
    with_views: Path
    """The same server, as it would be without that setting."""
    config: SqlConfig
    rollups: Path


def make_viewless_world(server: Server, dialect: Dialect, folder: Path) -> ViewlessWorld:
    """Fill the tenants' schemas and make the administrator."""
    prefix = "plain"
    secrets, rollups = folder / "secrets", folder / "rollups"
    rollups.mkdir(mode=0o700)
    password = folder / "dba.password"
    password.write_text("a-password-of-tests")
    password.chmod(0o600)
    where = "\n".join(
        [
            f'socket = "{server.socket}"\nport = {server.port}\nschema = "{BASE}"\nprefix = "{prefix}"',
            f'credentials = {{ folder = "{secrets}" }}\nadmin = {{ user = "{DBA}", file = "{password}" }}',
        ]
    )
    filtered = sample_config(dialect, where, tenants=2)
    with contextlib.closing(server.admin()) as connection:
        load_server(connection, BASE, make_sample(ROWS, tenants=2, seed=11))
    whole = parse_sql_config(filtered.encode(), "sql.toml")
    for tenant, own in OWN.items():
        server.run(f"DROP DATABASE IF EXISTS {own}", f"CREATE DATABASE {own}")
        for name, table in whole.sources["game"].tables.items():
            base = qualified(BASE, name)
            condition = condition_for(whole, "game", tenant, table)
            server.run(
                f"CREATE TABLE {own}.{name} LIKE {base}",
                f"INSERT INTO {own}.{name} SELECT {ROW}.* FROM {base} AS {ROW} WHERE {condition}",
                f"ANALYZE TABLE {own}.{name}",
            )
    server.run(f"DROP USER IF EXISTS {DBA}", f"CREATE USER {DBA} IDENTIFIED BY '{password.read_text()}'")
    server.run(f"GRANT CREATE USER, PROCESS, {_kill_right(dialect)} ON *.* TO {DBA} WITH GRANT OPTION")
    server.run(f"GRANT SELECT ON mysql.* TO {DBA}")
    for schema in (BASE, *OWN.values()):
        server.run(f"GRANT SELECT ON {schema}.* TO {DBA} WITH GRANT OPTION")
    file, with_views = folder / "viewless.toml", folder / "views.toml"
    with_views.write_text(filtered)
    text = re.sub(r"(?m)^filter = .*$", 'filter = { kind = "everyone" }', filtered)
    text = text.replace(
        "[sources.game]\n", f'[sources.game]\nviews = false\nwrites = false\nrollup_folder = "{rollups}"\n', 1
    )
    for tenant, own in OWN.items():
        text = text.replace(f"[tenants.{tenant}]\n", f'[tenants.{tenant}]\nschemas = {{ game = "{own}" }}\n', 1)
    text = text.replace(f"[tenants.{BETA}]\n", f'[tenants.{BETA}]\nhidden = ["players.nickname", "channels"]\n', 1)
    file.write_text(text)
    return ViewlessWorld(server, file, with_views, parse_sql_config(text.encode(), str(file)), rollups)


def remove_viewless_world(world: ViewlessWorld) -> None:
    """Leave the server as it was."""
    users = [row[0] for row in world.server.run("SELECT user FROM mysql.user WHERE user LIKE 'plain\\_%'")]
    for user in (*users, DBA):
        world.server.run(f"DROP USER IF EXISTS {user}")
    for schema in (BASE, *OWN.values()):
        world.server.run(f"DROP DATABASE IF EXISTS {schema}")


def rows_of(world: ViewlessWorld, tenant: TenantId, sql: str) -> list[tuple[str, ...]]:
    """What an administrator reads in the tenant's schema, as text."""
    rows = world.server.run(f"USE {OWN[tenant]}", sql)
    return [tuple(str(cell) for cell in row) for row in rows]


def _kill_right(dialect: Dialect) -> str:
    return "CONNECTION ADMIN" if dialect is Dialect.MARIADB else "CONNECTION_ADMIN"
