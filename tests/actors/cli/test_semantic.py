"""`corral semantic`: a draft from a database, marks of a person, samples, and a check beside the data."""

import contextlib
import datetime as dt
import subprocess
import sys
from pathlib import Path

import attrs
import duckdb
import pytest
from click.testing import CliRunner, Result

from actors.cli.semantic import semantic
from actors.semantic_merge import MergeError, with_values
from actors.sql_configuration import load_sql_config
from runtime.ids import TenantId
from sqlassist.execute.sources import open_sources
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet
from sqlassist.semantic_live import live_problems, sampled
from tests.kit.mariadb import mariadb, mariadb_marks
from tests.kit.sql_world import ALPHA, provision, sql_world, world_settings

TABLES = """
[sources.shop.tables.orders]
columns = { order_id = "integer", role_id = "integer", status = "integer", channel = "text", amount = "number", \
created_at = "integer" }
filter = { kind = "everyone" }

[sources.shop.tables.roles]
columns = { role_id = "integer", nickname = "text" }
filter = { kind = "everyone" }

[tenants.north]
keys = {}
"""
DDL = (
    "CREATE TABLE roles (role_id INTEGER PRIMARY KEY, nickname VARCHAR(40){nick})",
    "CREATE TABLE orders (order_id INTEGER PRIMARY KEY, role_id INTEGER, status INTEGER{status}, channel VARCHAR(20),"
    " amount DECIMAL(10, 2), created_at BIGINT, FOREIGN KEY (role_id) REFERENCES roles (role_id))",
)
ROWS = (
    "INSERT INTO roles VALUES (1, 'ann'), (2, 'bob')",
    "INSERT INTO orders VALUES (1, 1, 1, 'ios', 5, 1780000000000), (2, 2, 2, 'web', 6, 1780000001000),"
    " (3, 2, 1, 'ios', 7, 1780000002000)",
)


def corral(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(semantic, [str(one) for one in arguments])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


def written(folder: Path, settings: str, more: str = "") -> Path:
    path = folder / "sql.toml"
    path.write_text(f"[sources.shop]\n{settings}\n{more}\n{TABLES}")
    return path


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A configuration of a DuckDB file with comments."""
    (tmp_path / "data").mkdir()
    with duckdb.connect(str(tmp_path / "data" / "north.duckdb")) as connection:
        for statement in (*DDL, *ROWS):
            connection.execute(statement.format(status="", nick=""))
        connection.execute("COMMENT ON TABLE orders IS '订单表'")
        connection.execute("COMMENT ON COLUMN orders.status IS '状态: 1=正常 2=退款'")
    return written(tmp_path, f'dialect = "duckdb"\nfolder = "{tmp_path / "data"}"')


def named(shop: Path) -> Path:
    """The same with its layer file named."""
    shop.write_text(shop.read_text().replace('dialect = "duckdb"', 'dialect = "duckdb"\nsemantic_file = "l.toml"'))
    return shop


def test_a_draft_is_marked_sampled_and_checked(shop: Path) -> None:
    layer_file = shop.parent / "l.toml"
    corral("draft", shop, "--tenant", "north", "--output", layer_file)
    text = layer_file.read_text()
    assert '"orders.role_id" = "role"\n' in text
    assert '"orders.created_at" = { kind = "epoch_milliseconds" }  # guess: its largest value is 1780000002000' in text
    assert '"1" = { zh = ["正常"] }' in text
    assert "订单数" in text
    assert "ios" not in text, "no value is read before somebody has marked its dimension"

    head, channel = text.split("[dimensions.channel]")
    channel = channel.replace("enumerable = false", "enumerable = true  # mine", 1)
    layer_file.write_text(f"{head}[dimensions.channel]{channel}# the end\n")
    named(shop)
    done = corral("draft", shop, "--sample", layer_file, "--tenant", "north")

    assert "channel: 2 values added" in done.output
    sampled = layer_file.read_text()
    assert "values = {ios = {}, web = {}}" in sampled
    assert "bob" not in sampled
    assert "# mine" in sampled
    assert "# the end" in sampled
    assert sampled.count("# guess:") == text.count("# guess:")
    assert "channel: 0 values added" in corral("draft", shop, "--sample", layer_file, "--tenant", "north").output
    assert layer_file.read_text() == sampled

    assert "shop: 3 metrics, 3 dimensions" in corral("check", shop).output
    assert "the data of 1 tenants bear it out" in corral("check", shop, "--live").output
    assert "3 metrics, 3 dimensions" in corral("check", layer_file).output


def test_a_draft_never_replaces_a_file(shop: Path) -> None:
    existing = shop.parent / "mine.toml"
    existing.write_text("mine")

    assert "exists" in corral("draft", shop, "--output", existing, code=2).output
    assert existing.read_text() == "mine"


def test_what_the_data_do_not_bear_out(shop: Path) -> None:
    (shop.parent / "l.toml").write_text(corral("draft", shop).output)
    named(shop)
    with duckdb.connect(str(shop.parent / "data" / "north.duckdb")) as connection:
        connection.execute("DROP TABLE orders")
        connection.execute("CREATE OR REPLACE TABLE roles (role_id INTEGER, nickname VARCHAR)")
        connection.execute("INSERT INTO roles VALUES (1, 'ann'), (1, 'bob')")
        connection.execute("CREATE TABLE orders (order_id INTEGER, role_id INTEGER, status VARCHAR, amount DOUBLE)")

    told = corral("check", shop, "--live", code=1).output

    assert "there is no orders.channel" in told
    assert "there is no orders.created_at" in told
    assert "orders.status is configured as integer, but holds text" in told
    assert "roles.role_id is no key of entity 'role': 2 rows have 1 values" in told
    assert "orders.amount" not in told


def test_every_mistake_of_a_layer_is_told_at_once(shop: Path) -> None:
    (shop.parent / "l.toml").write_text(
        '[metrics.a]\nnames = { en = ["a"] }\ntable = "nowhere"\nexpression = "COUNT(*)"\n'
        '[dimensions.b]\nnames = { en = ["b"] }\ncolumn = "orders.none"\n'
    )
    told = corral("check", named(shop), code=2).output

    assert "there is no table 'nowhere'" in told
    assert "has no column 'none'" in told
    (shop.parent / "l.toml").write_text("nonsense = 1")
    assert "nonsense" in corral("check", shop.parent / "l.toml", code=2).output


def test_the_document_is_shown_with_its_size(shop: Path) -> None:
    (shop.parent / "l.toml").write_text(corral("draft", shop).output)

    done = corral("show", named(shop), "--tenant", "north")

    assert "## Metrics" in done.stdout
    assert "bytes of at most 8192" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["draft", "sql.toml", "--source", "other"], "there is no source 'other'"),
        (["draft", "sql.toml", "--tenant", "south"], "does not use 'shop'"),
        (["draft", "sql.toml", "--sample", "l.toml"], "--sample needs --tenant"),
        (["draft", "sql.toml", "--sample", "l.toml", "--tenant", "north"], "does not name l.toml as semantic_file"),
        (["draft", "nowhere.toml"], "cannot be read"),
        (["check", "nowhere.toml"], "cannot be read"),
        (["show", "sql.toml", "--tenant", "south"], "has no database"),
        (["check", "sql.toml", "--live", "--tenant", "south"], "there is no tenant 'south'"),
    ],
)
def test_mistakes_are_clear(shop: Path, arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.parent)

    assert told in corral(*arguments, code=2).output


def test_a_database_that_is_not_there(shop: Path) -> None:
    (shop.parent / "data" / "north.duckdb").unlink()

    assert "there is no file" in corral("draft", shop, code=3).output


def test_merging_keeps_what_is_there() -> None:
    text = '# head\n[dimensions.a]\ncolumn = "t.a" # x\n[dimensions.a.values]\nios = { en = ["iPhone"] }\n# tail\n'

    merged, added = with_values(text, {"a": ["ios", "web", "it's"]})

    assert added == {"a": 2}
    assert 'ios = { en = ["iPhone"] }' in merged
    assert "# head" in merged
    assert "# tail" in merged
    assert "# x" in merged
    assert with_values(merged, {"a": ["web"]}) == (merged, {})
    with pytest.raises(MergeError, match="no dimension 'b'"):
        with_values(text, {"b": ["x"]})
    with pytest.raises(MergeError, match="no TOML"):
        with_values("=", {})


class TestOnMariaDb:
    """The same on a server: comments by the administrator, data as the tenant."""

    pytestmark = mariadb_marks

    def test_a_draft_and_a_live_check(self, tmp_path: Path) -> None:
        server = mariadb()
        server.run("DROP DATABASE IF EXISTS drafted", "CREATE DATABASE drafted CHARACTER SET utf8mb4")
        made = [one.format(status=" COMMENT '状态: 1=正常 2=退款'", nick=" COMMENT '昵称'") for one in DDL]
        server.run(*made, "ALTER TABLE orders COMMENT '订单表'", *ROWS, database="drafted")
        settings = world_settings(server, schema="drafted", prefix="draft")
        config_file = written(tmp_path, f'dialect = "mariadb"\n{settings}')
        provision_source(config_file)

        text = corral("draft", config_file, "--tenant", "north").output
        (tmp_path / "l.toml").write_text(text)
        config_file.write_text(
            config_file.read_text().replace('dialect = "mariadb"', 'dialect = "mariadb"\nsemantic_file = "l.toml"')
        )

        assert '"orders.role_id" = "role"\n' in text
        assert '"1" = { zh = ["正常"] }' in text
        assert "订单数" in text
        assert "epoch_milliseconds" in text
        assert "it looks personal" in text
        assert "the data of 1 tenants bear it out" in corral("check", config_file, "--live").output

        with contextlib.closing(server.admin("drafted")) as connection, connection.cursor() as cursor:
            cursor.execute("ALTER TABLE orders DROP COLUMN channel")
        told = corral("check", config_file, "--live", code=1).output
        assert "table orders cannot be read" in told
        assert "corral sql provision" in told
        assert "table roles" not in told

    async def test_partitioned_tables_are_looked_at_too(self) -> None:
        world = sql_world()
        today = dt.date(2026, 6, 30)
        async with open_sources(world.config) as sources:

            async def run(source: str, tenant: TenantId, query: CheckedQuery) -> ResultSet | Refusal:
                return await sources.execute(source, tenant, query)

            assert await live_problems(world.config, "game", ALPHA, run) == []
            found = await sampled(world.config, "game", ALPHA, today, run)

        product = found["product"]
        assert not isinstance(product, Refusal)
        assert "season_pass" in product
        assert found["region"]


def test_missing_packages_are_told() -> None:
    code = (
        "import sys; sys.modules['pymysql'] = None\n"
        "import actors.cli.semantic\n"  # DuckDB files do without
        "from actors.schema_look import look_at_server\n"
        "from sqlassist.execute.errors import ServerUnavailable\n"
        "try: look_at_server(None)\n"
        "except ServerUnavailable as error: sys.exit(str(error))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)

    assert "pip install 'corral[sql]'" in done.stderr
    assert "Traceback" not in done.stderr


def provision_source(config_file: Path) -> None:
    """Accounts and views for the tenant."""
    config = load_sql_config(config_file)
    provision(mariadb(), attrs.evolve(config, sources={"game": config.sources["shop"]}))
