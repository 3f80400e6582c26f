from typing import Any

import attrs
import pytest

from sqlassist.chart import chart_for
from sqlassist.metric_query import Bucket, MetricQuery
from sqlassist.result import ResultColumn, ResultSet, ValueType
from sqlassist.semantic import Dimension, Metric, Names, SemanticLayer
from sqlassist.summary import numbers_not_in, summary_for

LAYER = SemanticLayer(
    metrics={
        "revenue": Metric(Names(("revenue",), ("收入",)), "p", "SUM(a)", additive=True, unit="USD"),
        "rate": Metric(Names(("rate",), ("付费率",)), "p", "AVG(a)", unit="%"),
    },
    dimensions={
        "server": Dimension(Names(("server",), ("服务器",)), "s.name", {"S1": Names(("One",), ("一服",))}),
        "level": Dimension(Names(("level",), ("等级",)), "s.level"),
    },
)


def result(columns: dict[str, ValueType], *rows: tuple[Any, ...], truncated: bool = False) -> ResultSet:
    return ResultSet(tuple(ResultColumn(n, k) for n, k in columns.items()), rows, truncated, 0.01)


REVENUE = {"server": ValueType.TEXT, "revenue": ValueType.DECIMAL}


@pytest.mark.parametrize(
    ("given", "language", "text"),
    [
        (result({"revenue": ValueType.DECIMAL}, ("1234567.5",)), "en", "1,234,567.50 USD."),
        (result({"rate": ValueType.FLOAT}, (0.1234,)), "en", "12.3 %."),
        (result({"revenue": ValueType.DECIMAL}, (None,)), "en", "no data."),
        (result({"revenue": ValueType.DECIMAL}), "zh", "没有数据。"),
        (
            result(REVENUE, ("S1", "30.00"), ("S2", "12.50"), ("S3", "7")),
            "en",
            "3 rows; highest: One (30.00 USD); lowest: S3 (7.00 USD); total 49.50 USD.",
        ),
        (
            result(REVENUE, ("S1", "30.00"), ("S2", "12.50"), truncated=True),
            "zh",
            "前 2 行（还有更多）；最高：一服 (30.00 USD)；最低：S2 (12.50 USD)。",
        ),
        (
            result(
                {
                    "revenue": ValueType.DECIMAL,
                    "revenue_previous": ValueType.DECIMAL,
                    "revenue_change": ValueType.DECIMAL,
                    "revenue_growth": ValueType.FLOAT,
                },
                ("30", "40", "-10", -0.25),
            ),
            "en",
            "revenue 30.00 USD, before 40.00 USD, change -10.00 USD, growth -25.0 %.",
        ),
    ],
)
def test_rows_in_words(given: ResultSet, language: str, text: str) -> None:
    assert summary_for(given, LAYER, language) == text


def test_a_top_list_has_no_total() -> None:
    query = MetricQuery(("revenue",), ("server",), limit=2)

    assert "total" not in summary_for(result(REVENUE, ("S1", "30"), ("S2", "12")), LAYER, "en", query)
    averages = MetricQuery(("revenue",), ("server",), average_per=Bucket.DAY)
    assert "total" not in summary_for(result(REVENUE, ("S1", "30"), ("S2", "12")), LAYER, "en", averages)


def test_numbers_that_a_model_made_up_are_found() -> None:
    rows = result({**REVENUE, "rate": ValueType.FLOAT}, ("S1", "1234.56", 0.4567), ("S002", "7", 0.1))

    assert numbers_not_in("S1 made 1,234.56, about 1,235, or 45.7 %; 2 rows", rows, "") == ()
    assert numbers_not_in("It made 1,300", rows, "") == ("1,300",)
    assert numbers_not_in("In 2026 it made 7", rows, "revenue in 2026") == ()
    assert numbers_not_in("In 2027 it made 7", rows, "revenue in 2026") == ("2027",)
    assert numbers_not_in("a growth of 12 %", rows, "") == ("12 %",)


def test_the_shape_of_a_result_chooses_the_chart() -> None:
    days = {"day": ValueType.DATE, "revenue": ValueType.DECIMAL}
    line = chart_for(result(days, ("2026-05-01", "1"), ("2026-05-02", "2.5")), LAYER, "en")
    assert line is not None
    assert line["mark"]["type"] == "line"
    assert line["encoding"]["x"]["type"] == "temporal"
    assert line["encoding"]["y"]["title"] == "revenue (USD)"
    assert line["data"]["values"][1] == {"day": "2026-05-02", "revenue": 2.5}

    bars = chart_for(result(REVENUE, ("S1", "1"), ("S2", "2")), LAYER, "zh")
    assert bars is not None
    assert bars["mark"]["type"] == "bar"
    assert bars["encoding"]["y"]["title"] == "服务器"

    levels = {"level": ValueType.INTEGER, "revenue": ValueType.DECIMAL}
    by_level = chart_for(result(levels, (1, "1"), (2, "2")), LAYER, "en")
    assert by_level is not None
    assert by_level["encoding"]["y"]["field"] == "level"

    two = chart_for(
        result({"day": ValueType.DATE, **REVENUE}, ("2026-05-01", "S1", "1"), ("2026-05-01", "S2", "2")), LAYER, "en"
    )
    assert two is not None
    assert two["encoding"]["color"]["field"] == "server"


def test_what_no_chart_makes_clearer_has_none() -> None:
    assert chart_for(result(REVENUE, ("S1", "1")), LAYER, "en") is None
    assert chart_for(result({"server": ValueType.TEXT}, ("S1",), ("S2",)), LAYER, "en") is None
    many = [(f"S{i}", "1") for i in range(60)]
    assert chart_for(result(REVENUE, *many), LAYER, "en") is None


@pytest.mark.parametrize(
    "text",
    ["It was 3 million.", "3M in all", "一共3万", "九百万", "three thousand", "twice as many", "涨了一半", "占三成"],
)
def test_a_number_that_a_model_scales_or_spells_out_is_made_up(text: str) -> None:
    rows = result(REVENUE, ("S1", "1"), ("S2", "2"), ("S3", "3"))

    assert numbers_not_in(text, rows, "revenue by server")


def test_metrics_called_like_columns_beside_others_keep_their_names_and_units() -> None:
    metrics = {**LAYER.metrics, "revenue_share": Metric(Names(("our part",)), "p", "SUM(b)", unit="USD")}
    columns = {"revenue": ValueType.DECIMAL, "revenue_share": ValueType.DECIMAL}

    text = summary_for(result(columns, ("5", "2")), attrs.evolve(LAYER, metrics=metrics), "en")

    assert text == "revenue 5.00 USD, our part 2.00 USD."


def test_of_several_numbers_that_nobody_named_none_is_called_the_highest() -> None:
    columns = {"payment_id": ValueType.INTEGER, "player_id": ValueType.INTEGER, "amount": ValueType.DECIMAL}

    assert summary_for(result(columns, (1, 397, "9.99"), (2, 1, "2.99")), LAYER, "en") == "2 rows."


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "5.00 USD. Each day without rows is left out of the mean."),
        ("zh", "5.00 USD。没有数据的日不计入平均。"),
    ],
)
def test_a_mean_says_what_it_leaves_out(language: str, text: str) -> None:
    query = MetricQuery(("revenue",), average_per=Bucket.DAY)

    assert summary_for(result({"revenue": ValueType.DECIMAL}, ("5",)), LAYER, language, query) == text
