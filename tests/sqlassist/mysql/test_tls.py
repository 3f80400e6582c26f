"""TLS to a MySQL with a certificate of a private CA."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from sqlassist.execute.errors import DatabaseDenied, DatabaseLost
from sqlassist.execute.server import open_server_backend
from sqlassist.result import ResultSet
from tests.kit.certificates import write_certificates
from tests.kit.mysql import mysql_marks, mysql_root, open_mysql
from tests.kit.mysql_world import MySqlWorld, make_mysql_world
from tests.kit.sql_world import ALPHA, unguarded

pytestmark = mysql_marks


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="corral-tls-"))
    folder.chmod(0o755)  # the server's own user must be able to read it
    write_certificates(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def world(certificates: Path) -> Iterator[MySqlWorld]:
    options = [
        f"--ssl-ca={certificates}/ca.pem",
        f"--ssl-cert={certificates}/server.pem",
        f"--ssl-key={certificates}/server.key",
    ]
    with open_mysql(mysql_root(), *options) as server:
        made = make_mysql_world(server, rows=500, tls_ca=f"{certificates}/ca.pem")
        over_tcp = attrs.evolve(made.source, socket="")
        yield attrs.evolve(made, config=attrs.evolve(made.config, sources={"game": over_tcp}))


def _with_ca(world: MySqlWorld, path: str) -> MySqlWorld:
    source = attrs.evolve(world.source, tls_ca=path)
    return attrs.evolve(world, config=attrs.evolve(world.config, sources={"game": source}))


async def test_queries_are_encrypted(world: MySqlWorld) -> None:
    account = world.config.sources["game"].prefix + "_tenant1"
    async with open_server_backend(world.limited(plan_gate=False), "game") as backend:
        result = await backend.execute(ALPHA, unguarded("SELECT CONNECTION_ID()"))
        assert isinstance(result, ResultSet), result
        thread = result.rows[0][0]
        cipher = world.server.run(
            "SELECT variable_value, processlist_user FROM performance_schema.status_by_thread"
            " JOIN performance_schema.threads USING (thread_id)"
            f" WHERE variable_name = 'Ssl_cipher' AND processlist_id = {thread}"
        )
    assert [user for _, user in cipher] == [account]
    assert str(cipher[0][0]).startswith(("TLS", "ECDHE"))


async def test_another_authority_is_not_trusted(world: MySqlWorld, certificates: Path) -> None:
    other = _with_ca(world, f"{certificates}/other.pem").limited(plan_gate=False)
    async with open_server_backend(other, "game") as backend:
        with pytest.raises(DatabaseLost):
            await backend.execute(ALPHA, unguarded("SELECT 1"))


async def test_the_server_lets_nobody_in_without_tls(world: MySqlWorld) -> None:
    async with open_server_backend(_with_ca(world, "").limited(plan_gate=False), "game") as backend:
        with pytest.raises(DatabaseDenied):
            await backend.execute(ALPHA, unguarded("SELECT 1"))
