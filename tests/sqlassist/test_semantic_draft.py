"""A draft loads as it is, whatever the schema is like, and says what is guessed."""

import string

import attrs
from hypothesis import given
from hypothesis import strategies as st

from actors.configuration import read_toml, structured
from sqlassist.catalog import ColumnType, Dialect
from sqlassist.config import SourceConfig, TableConfig
from sqlassist.semantic import SemanticLayer, TimeKind
from sqlassist.semantic_checks import layer_problems
from sqlassist.semantic_draft import Magnitude, SeenColumn, SeenTable, draft_of

ORDERS = TableConfig(
    columns={
        "order_id": ColumnType.INTEGER,
        "role_id": ColumnType.INTEGER,
        "status": ColumnType.INTEGER,
        "amount": ColumnType.NUMBER,
        "product": ColumnType.TEXT,
        "created_at": ColumnType.INTEGER,
        "paid_ms": ColumnType.INTEGER,
        "day": ColumnType.DATE,
    }
)
ROLES = TableConfig(
    columns={
        "role_id": ColumnType.INTEGER,
        "nickname": ColumnType.TEXT,
        "status": ColumnType.INTEGER,
        "registered": ColumnType.DATETIME,
    }
)
SOURCE = SourceConfig(Dialect.MARIADB, {"orders": ORDERS, "roles": ROLES})
SEEN = {
    "orders": SeenTable(
        "订单表",
        {
            "order_id": SeenColumn("", is_unique=True),
            "role_id": SeenColumn("角色", refers_to="roles.role_id"),
            "status": SeenColumn('状态: 1=正常 2=封禁, "quoted"\n# x'),
            "amount": SeenColumn("订单金额(元)"),
            "created_at": SeenColumn("创建时间"),
            "paid_ms": SeenColumn("支付时间"),
        },
    ),
    "roles": SeenTable(
        "角色", {"role_id": SeenColumn(is_unique=True), "nickname": SeenColumn("昵称"), "status": SeenColumn("1=a 2=b")}
    ),
}


def layer_of(text: str, source: SourceConfig = SOURCE) -> SemanticLayer:
    """The draft, which loads with no problem."""
    layer, problems = structured(read_toml(text.encode()), SemanticLayer)
    assert problems == []
    assert layer is not None
    tables = {name: table.columns for name, table in source.tables.items()}
    assert list(layer_problems(layer, tables, ["t"], source.dialect)) == []
    return layer


def test_keys_references_comments_and_times() -> None:
    text = draft_of("game", SOURCE, SEEN, {"orders.created_at": Magnitude(1_780_000_000_000)})
    layer = layer_of(text)

    assert layer.references == {"orders.role_id": "role"}
    assert (layer.entities["role"].table, layer.entities["role"].key) == ("roles", "role_id")
    assert layer.metrics["orders"].expression == "COUNT(*)"
    assert "订单数" in layer.metrics["orders"].names.zh
    assert layer.metrics["total_amount"].expression == "SUM(amount)"
    assert layer.metrics["total_amount"].names.zh == ("总订单金额",)
    assert layer.times["orders.created_at"].kind is TimeKind.EPOCH_MILLISECONDS
    assert layer.times["orders.paid_ms"].kind is TimeKind.EPOCH_MILLISECONDS
    assert layer.times["orders.day"].kind is TimeKind.DATE
    assert layer.times["roles.registered"].kind is TimeKind.DATETIME
    status = layer.dimensions["status"]
    assert status.column == "orders.status"
    assert {value: names.every for value, names in status.values.items()} == {"1": ("正常",), "2": ("封禁",)}
    assert layer.dimensions["status_2"].column == "roles.status"
    assert "product" in layer.dimensions
    assert "role_id" not in layer.dimensions
    assert not any(dimension.enumerable for dimension in layer.dimensions.values()), "a person marks them"


def test_every_guess_is_marked_and_personal_columns_are_told() -> None:
    text = draft_of("game", SOURCE, SEEN, {})

    assert "it looks personal: leave it so" in text.split("[dimensions.nickname]")[1].split("[dimensions")[0]
    for line in text.splitlines():
        if line.startswith(("names =", "zone =", "enumerable =", "grain =", "day_start =", "values =")):
            assert "# guess:" in line, line
    assert '"orders.created_at" = { kind = "epoch_seconds" }  # guess: by its name alone' in text


def test_joins_of_the_configuration_become_references() -> None:
    source = attrs.evolve(SOURCE, joins=(("roles.role_id", "orders.role_id"),))
    seen = {"roles": SeenTable(columns={"role_id": SeenColumn(is_unique=True)})}

    known = draft_of("game", source, seen, {})
    guessed = draft_of("game", attrs.evolve(SOURCE, joins=(("orders.role_id", "roles.role_id"),)), {}, {})

    assert layer_of(known).references == {"orders.role_id": "role"}
    assert '"orders.role_id" = "role"\n' in known
    assert layer_of(guessed).references == {"orders.role_id": "role"}
    assert '"orders.role_id" = "role"  # guess: which of the two columns is unique' in guessed


NAMES = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=20).filter(
    lambda t: not t[0].isdigit()
)


@given(
    st.dictionaries(
        NAMES,
        st.dictionaries(NAMES, st.tuples(st.sampled_from(ColumnType), st.text(max_size=60)), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    ),
    st.text(max_size=60),
)
def test_a_draft_of_any_schema_loads(tables: dict[str, dict[str, tuple[ColumnType, str]]], comment: str) -> None:
    lowered = {name.lower(): {c.lower(): found for c, found in columns.items()} for name, columns in tables.items()}
    source = SourceConfig(
        Dialect.DUCKDB,
        {name: TableConfig(columns={c: kind for c, (kind, _) in columns.items()}) for name, columns in lowered.items()},
    )
    seen = {
        name: SeenTable(comment, {column: SeenColumn(text) for column, (_, text) in columns.items()})
        for name, columns in lowered.items()
    }

    layer_of(draft_of("game", source, seen, {}), source)
