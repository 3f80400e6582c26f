"""TLS to a server with a certificate of a private CA: used where it is configured, refused where it does not fit."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from actors.sql_configuration import parse_sql_config
from sqlassist.administration import open_connection
from sqlassist.catalog import Dialect
from sqlassist.config import SqlConfig
from sqlassist.credentials import password_for
from sqlassist.execute.errors import DatabaseDenied, DatabaseLost, ServerUnavailable
from sqlassist.execute.server import open_server_backend
from sqlassist.result import ResultSet
from sqlassist.sample import make_sample, sample_config
from sqlassist.sample_load import load_server
from tests.kit.certificates import write_certificates
from tests.kit.mariadb import mariadb_marks, open_mariadb
from tests.kit.sql_world import ALPHA, provision, unguarded, world_settings

pytestmark = mariadb_marks

_CIPHER = "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'Ssl_cipher'"


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="corral-tls-"))  # the server's own user must be able to read it
    folder.chmod(0o755)
    write_certificates(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def config(certificates: Path) -> Iterator[SqlConfig]:
    options = [
        f"--ssl-ca={certificates}/ca.pem",
        f"--ssl-cert={certificates}/server.pem",
        f"--ssl-key={certificates}/server.key",
    ]
    with open_mariadb(*options) as server:
        settings = world_settings(server, schema="core", prefix="tls") + f'\ntls_ca = "{certificates}/ca.pem"'
        config = parse_sql_config(sample_config(Dialect.MARIADB, settings, tenants=1).encode(), "sql.toml")
        load_server(connection := server.admin(), "core", make_sample(1000, tenants=1))
        connection.close()
        provision(server, config)
        source = attrs.evolve(
            config.sources["game"], socket="", limits=attrs.evolve(config.sources["game"].limits, plan_gate=False)
        )
        yield attrs.evolve(config, sources={"game": source})


def _with_ca(config: SqlConfig, path: str) -> SqlConfig:
    return attrs.evolve(config, sources={"game": attrs.evolve(config.sources["game"], tls_ca=path)})


async def test_queries_are_encrypted(config: SqlConfig) -> None:
    async with open_server_backend(config, "game") as backend:
        result = await backend.execute(ALPHA, unguarded(_CIPHER))
    assert isinstance(result, ResultSet), result
    assert str(result.rows[0][0]).startswith(("TLS", "ECDHE"))


async def test_another_authority_is_not_trusted(config: SqlConfig, certificates: Path) -> None:
    async with open_server_backend(_with_ca(config, f"{certificates}/other.pem"), "game") as backend:
        with pytest.raises(DatabaseLost):
            await backend.execute(ALPHA, unguarded("SELECT 1"))


async def test_the_server_lets_nobody_in_without_tls(config: SqlConfig) -> None:
    async with open_server_backend(_with_ca(config, ""), "game") as backend:
        with pytest.raises(DatabaseDenied):
            await backend.execute(ALPHA, unguarded("SELECT 1"))


def test_commands_use_it_too(config: SqlConfig, certificates: Path) -> None:
    source = config.sources["game"]
    password = password_for(source.credentials, "tls_tenant1")
    with open_connection(source, "tls_tenant1", password) as connection, connection.cursor() as cursor:
        cursor.execute(_CIPHER)
        row = cursor.fetchone()
        assert row is not None
        assert row[0]
    wrong = _with_ca(config, f"{certificates}/other.pem").sources["game"]
    with pytest.raises(ServerUnavailable), open_connection(wrong, "tls_tenant1", password):
        pytest.fail("another authority was trusted")
