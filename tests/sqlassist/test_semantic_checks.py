from typing import Any

import attrs
import pytest

from actors.configuration import ScenarioError, read_toml, structured
from actors.sql_configuration import parse_sql_config
from sqlassist.catalog import ColumnType, Dialect
from sqlassist.sample import make_sample, sample_config, sample_semantic_layer
from sqlassist.semantic import Dimension, Disambiguation, Entity, Metric, Names, SemanticLayer, TimeColumn, TimeKind
from sqlassist.semantic_checks import layer_problems

TABLES = {
    "sales": {
        "id": ColumnType.INTEGER,
        "shop_id": ColumnType.INTEGER,
        "day": ColumnType.DATE,
        "amount": ColumnType.NUMBER,
    },
    "shops": {"shop_id": ColumnType.INTEGER, "name": ColumnType.TEXT},
}
RIGHT = SemanticLayer(
    times={"sales.day": TimeColumn(TimeKind.DATE)},
    entities={"shop": Entity("shops", "shop_id")},
    references={"sales.shop_id": "shop"},
    metrics={"turnover": Metric(Names(("turnover",)), "sales", "SUM(amount)", additive=True, time="day")},
    dimensions={"shop": Dimension(Names(("shop",), ("店",)), "shops.name")},
)


def problems(layer: SemanticLayer) -> list[str]:
    return [f"{at}: {message}" for message, at in layer_problems(layer, TABLES, ["acme"], Dialect.MARIADB)]


def with_metric(**fields: Any) -> SemanticLayer:
    return attrs.evolve(RIGHT, metrics={"turnover": attrs.evolve(RIGHT.metrics["turnover"], **fields)})


def with_dimension(**fields: Any) -> SemanticLayer:
    return attrs.evolve(RIGHT, dimensions={"shop": attrs.evolve(RIGHT.dimensions["shop"], **fields)})


def test_a_right_layer_has_no_problems() -> None:
    assert problems(RIGHT) == []


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (with_metric(table="sale"), "metrics.turnover.table: there is no table 'sale', did you mean 'sales'?"),
        (with_metric(expression="SUM(amout)"), "has no column 'amout', did you mean 'amount'?"),
        (with_metric(expression="amount"), "is no aggregate"),
        (with_metric(expression="SUM(amount) AS x"), "leave AS out"),
        (with_metric(expression="SUM(amount) + id"), "id stands outside any aggregate"),
        (with_metric(expression="SUM(amount"), "is no expression that can be read"),
        (with_metric(expression="SUM((SELECT 1))"), "holds a query or a window"),
        (with_metric(expression="SUM(shops.name)"), "an expression is about one table"),
        (with_metric(expression="COUNT(DISTINCT id)"), "does not sum up over parts"),
        (with_metric(expression="AVG(amount)"), "does not sum up over parts"),
        (with_metric(where="SUM(amount) > 1"), "decides about single rows"),
        (with_metric(where="colour = 'red'"), "has no column 'colour'"),
        (with_metric(time="id"), "is not among [times]"),
        (with_metric(rollup="daily", rollup_expression="SUM(x)"), "there is no rollup 'daily'"),
        (with_metric(ratio=("turnover", "turnover")), "a ratio has no table, expression"),
        (with_metric(names=Names()), "needs a name in a language"),
        (with_metric(names=Names(("x" * 61,))), "1 to 60 characters"),
        (with_dimension(column="shops.nam"), "no column 'nam', did you mean 'name'?"),
        (with_dimension(number_format="S"), "no place for the number"),
        (with_dimension(number_format="{0.__class__}"), "no place for the number"),
        (with_dimension(number_format="{x}"), "is no format of one number"),
        (with_dimension(number_format="{:999999999d}"), "is no format of one number"),
        (with_dimension(number_format="{}" + "x" * 100), "is no format of one number"),
        (attrs.evolve(RIGHT, references={"sales.shop": "shop"}), "no column 'shop'"),
        (attrs.evolve(RIGHT, references={"sales.shop_id": "store"}), "there is no entity 'store'"),
        (attrs.evolve(RIGHT, references={"shops.shop_id": "shop"}), "would refer to its own table"),
        (attrs.evolve(RIGHT, times={"sales.day": TimeColumn(TimeKind.DATETIME)}), "which is no datetime"),
        (
            attrs.evolve(RIGHT, times={"sales.day": TimeColumn(TimeKind.DATE, "Europe/Berlim")}),
            "no time zone 'Europe/Berlim', did you mean 'Europe/Berlin'",
        ),
        (attrs.evolve(RIGHT, disambiguations=(Disambiguation(Names(("x",)), ("turnover",)),)), "two meanings at least"),
        (
            attrs.evolve(RIGHT, disambiguations=(Disambiguation(Names(("x",)), ("turnover", "sale")),)),
            "there is no metric 'sale'",
        ),
    ],
)
def test_every_mistake_is_told_where_it_is(layer: SemanticLayer, said: str) -> None:
    assert any(said in problem for problem in problems(layer)), problems(layer)


def test_two_metrics_with_one_name_need_a_disambiguation() -> None:
    other = attrs.evolve(RIGHT.metrics["turnover"], expression="COUNT(*)")
    layer = attrs.evolve(RIGHT, metrics={**RIGHT.metrics, "count": other})
    assert problems(layer) == [
        "metrics.count: 'turnover' is a name of 'turnover' as well: settle it by a disambiguation"
    ]

    settled = attrs.evolve(layer, disambiguations=(Disambiguation(Names(("Turnover",)), ("turnover", "count")),))
    assert problems(settled) == []


def test_all_mistakes_come_at_once_with_their_lines() -> None:
    text = sample_semantic_layer()
    broken = (
        text.replace('expression = "AVG(amount)"', 'expression = "AVG(amnt)"')
        .replace('"levels.player_id" = "player"', '"levels.player_id" = "players"')
        .replace('column = "servers.region"', 'column = "servers.area"')
    )
    config = sample_config(
        Dialect.MARIADB, 'schema = "game"\ncredentials = { folder = "x" }', semantic_file="game.semantic.toml"
    )

    with pytest.raises(ScenarioError) as caught:
        parse_sql_config(config.encode(), "sql.toml", lambda name: (broken.encode(), name))

    found = [str(problem) for problem in caught.value.problems]
    assert len(found) == 3
    assert all(problem.startswith("game.semantic.toml:") for problem in found)
    lines = broken.splitlines()
    told = {lines[int(problem.split(":")[1]) - 1] for problem in found}
    assert told == {'expression = "AVG(amnt)"', '"levels.player_id" = "players"', 'column = "servers.area"'}


@pytest.mark.parametrize("dialect", list(Dialect))
def test_the_sample_layer_is_right_in_every_dialect(dialect: Dialect) -> None:
    text = sample_semantic_layer(with_rollups=dialect is not Dialect.DUCKDB).encode()
    layer, wrong = structured(read_toml(text), SemanticLayer, source=text)
    assert layer is not None, wrong
    tables = {
        table.name: {
            name: {
                "DATE": ColumnType.DATE,
                "DATETIME": ColumnType.DATETIME,
                "INTEGER": ColumnType.INTEGER,
                "BIGINT": ColumnType.INTEGER,
            }.get(kind, ColumnType.NUMBER if "DECIMAL" in kind else ColumnType.TEXT)
            for name, kind in table.types.items()
        }
        for table in make_sample(1000, tenants=1)
    }

    assert list(layer_problems(layer, tables, ["tenant1"], dialect)) == []
