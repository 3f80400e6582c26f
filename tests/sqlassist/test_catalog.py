"""What a tenant may name."""

import pytest

from sqlassist.catalog import (
    Catalog,
    CatalogError,
    Column,
    ColumnType,
    Dialect,
    JoinKey,
    Table,
    catalog_for_schema,
    did_you_mean,
)
from tests.kit.sql import game_catalog, passed, refused, spider


def test_names_are_found_whatever_their_case_and_given_as_spelled() -> None:
    catalog = game_catalog()
    table = catalog.table("SERVERS")

    assert table is not None
    assert table.name == "Servers"
    column = table.column("nAME")
    assert column is not None
    assert column.name == "Name"
    assert catalog.table("secret") is None


def test_what_is_hidden_is_not_there_and_no_hint_tells_of_it() -> None:
    catalog = game_catalog().restricted_to(hidden=["players.vip", "payments"])

    assert refused("SELECT vip FROM players", catalog).code == "unknown_column"
    assert "vip" not in refused("SELECT vi FROM players", catalog).hint
    assert "payments" not in refused("SELECT * FROM paymnts", catalog).hint
    assert "amount" not in passed("SELECT * FROM players", catalog).columns
    made = passed("SELECT *, p.* FROM players p WHERE EXISTS (SELECT * FROM players)", catalog)
    assert "vip" not in made.columns
    assert "vip" not in made.sql  # the view may have the column: the star is written out
    assert "*" not in made.sql
    assert all("payments" not in (key.table, key.other_table) for key in catalog.joins)


def test_hiding_the_partition_column_leaves_a_table_without_one() -> None:
    table = game_catalog().restricted_to(hidden=["payments.paid_at"]).table("payments")

    assert table is not None
    assert table.partition is None


@pytest.mark.parametrize("hidden", ["nosuch", "players.nosuch"])
def test_hiding_what_is_not_there_is_a_mistake(hidden: str) -> None:
    with pytest.raises(CatalogError, match="nosuch"):
        game_catalog().restricted_to(hidden=[hidden])


def test_tables_can_be_named_instead() -> None:
    assert game_catalog().restricted_to(["PLAYERS"]).table_names() == ["players"]
    with pytest.raises(CatalogError, match="did you mean 'players'"):
        game_catalog().restricted_to(["player"])


def test_the_version_changes_with_anything_that_sql_could_name() -> None:
    one = game_catalog()
    others = [one.restricted_to(hidden=["players.vip"]), one.restricted_to(["players"]), game_catalog(Dialect.DUCKDB)]

    assert len({one.version, *(other.version for other in others)}) == 4
    assert one.version == Catalog(one.name, one.dialect, one.tables, one.joins).version


def test_contradictions_are_found() -> None:
    column = Column("id", ColumnType.INTEGER)
    with pytest.raises(CatalogError, match="two columns of one name"):
        Table("t", (column, Column("ID")))
    with pytest.raises(CatalogError, match="no column that may be read"):
        Table("t", ())
    with pytest.raises(CatalogError, match="none of its columns"):
        Table("t", (column,), partition="day")
    with pytest.raises(CatalogError, match="two tables of one name"):
        Catalog("c", Dialect.MYSQL, (Table("t", (column,)), Table("T", (column,))))
    with pytest.raises(CatalogError, match="a join names"):
        Catalog("c", Dialect.MYSQL, (Table("t", (column,)),), (JoinKey("t", "id", "u", "id"),))


def test_a_schema_line_becomes_a_catalog() -> None:
    schema = {"db": "shop", "tables": {"Items": [["id", "number"], ["name", "text"], ["at", "time"], ["x", "others"]]}}

    catalog = catalog_for_schema(schema, Dialect.MYSQL)

    assert [column.type for column in catalog.tables[0].columns] == [
        ColumnType.NUMBER,
        ColumnType.TEXT,
        ColumnType.DATETIME,
        ColumnType.OTHER,
    ]


@pytest.mark.parametrize(
    "schema", [{}, {"db": 3, "tables": {}}, {"db": "a", "tables": {"t": "x"}}, {"db": "a", "tables": {"t": [["x"]]}}]
)
def test_what_is_no_schema_is_refused(schema: dict[str, object]) -> None:
    with pytest.raises(CatalogError):
        catalog_for_schema(schema, Dialect.MYSQL)


def test_shared_key_columns_become_joins() -> None:
    joins = spider(Dialect.MYSQL)["dog_kennels"].joins

    assert JoinKey("Dogs", "dog_id", "Treatments", "dog_id") in joins


def test_hints_name_what_looks_alike() -> None:
    assert did_you_mean("paymets", ["players", "payments"]) == ", did you mean 'payments' or 'players'?"
    assert did_you_mean("zzz", ["players"]) == ""
