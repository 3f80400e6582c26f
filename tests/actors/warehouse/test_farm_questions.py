"""What operators ask, in English and Chinese, is read by the shipped semantic layer without any model."""

import datetime as dt
from importlib import resources

import pytest

from actors.sql_configuration import parse_sql_config
from actors.warehouse.databases import SOURCE, databases_toml
from runtime.ids import DEFAULT_TENANT
from sqlassist.metric_query import Order
from sqlassist.parsing.understand import understand
from sqlassist.understanding import Understood


def shipped(name: str) -> tuple[bytes, str]:
    return resources.files("actors.warehouse").joinpath(name).read_bytes(), name


@pytest.mark.parametrize(
    ("question", "metric", "dimension", "limit"),
    [
        ("which phone dropped the most stale actions?", "stale_actions", "phone", 1),
        ("哪台手机丢弃的过期动作最多", "stale_actions", "phone", 1),
        ("每台手机的平均步延迟是多少", "step_latency", "phone", None),
        ("average step latency by phone", "step_latency", "phone", None),
        ("success rate by scenario", "success_rate", "scenario", None),
        ("各应用的成功率", "success_rate", "app", None),
        ("tokens by engine", "tokens", "engine", None),
        ("faults by kind", "faults", "fault", None),
        ("which phone was offline the longest?", "offline_time", "phone", 1),
        ("离线时间最长的手机", "offline_time", "phone", 1),
        ("which app crashes the most?", "crashes", "app", 1),
        ("哪条规则触发的反射最多", "reflexes", "rule", 1),
    ],
)
def test_questions_of_operators_are_understood(question: str, metric: str, dimension: str, limit: int | None) -> None:
    config = parse_sql_config(databases_toml("/nowhere", [DEFAULT_TENANT]).encode(), "databases.toml", shipped)
    layer, catalog = config.sources[SOURCE].semantic, config.catalog(SOURCE, DEFAULT_TENANT)

    read = understand(question, layer, catalog, today=dt.date(2026, 11, 30))

    assert isinstance(read, Understood), read
    assert (read.query.metrics, read.query.dimensions, read.query.limit) == ((metric,), (dimension,), limit)
    if limit is not None:
        assert read.query.order == Order(metric)
