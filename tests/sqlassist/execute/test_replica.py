"""Where a read replica is configured, queries go there, and the primary is left alone."""

import attrs
import pytest

from actors.sql_configuration import parse_sql_config
from sqlassist.catalog import Dialect
from sqlassist.execute.errors import DatabaseLost
from sqlassist.execute.server import open_server_backend
from sqlassist.result import ResultSet
from sqlassist.sample import make_sample, sample_config
from sqlassist.sample_load import load_server
from tests.kit.mariadb import mariadb_marks, open_mariadb
from tests.kit.sql_world import ALPHA, provision, unguarded, world_settings

pytestmark = mariadb_marks


async def test_queries_go_to_the_replica() -> None:
    with open_mariadb() as primary, open_mariadb() as replica:
        text = sample_config(Dialect.MARIADB, world_settings(primary, schema="core", prefix="rep"), tenants=1)
        config = parse_sql_config(text.encode(), "sql.toml")
        for server, rows in ((primary, 1000), (replica, 3000)):
            load_server(connection := server.admin(), "core", make_sample(rows, tenants=1))
            connection.close()
            provision(server, config)
        source = attrs.evolve(config.sources["game"], replica_host="127.0.0.1", replica_port=replica.port)
        query = unguarded("SELECT @@port AS port")

        async with open_server_backend(attrs.evolve(config, sources={"game": source}), "game") as backend:
            answer = await backend.execute(ALPHA, query)

        assert isinstance(answer, ResultSet)
        assert answer.rows == ((replica.port,),)
        gone = attrs.evolve(source, replica_port=9)
        async with open_server_backend(attrs.evolve(config, sources={"game": gone}), "game") as backend:
            with pytest.raises(DatabaseLost):
                await backend.execute(ALPHA, query)
