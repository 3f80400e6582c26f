"""The shipped semantic layer: every metric, split by everything that it can be split by, runs on a published file."""

import pytest

from actors.sql_configuration import load_sql_config
from actors.warehouse.config import LoaderConfig
from actors.warehouse.databases import SOURCE
from actors.warehouse.load import load_once
from actors.warehouse.rows import Row, row_for
from actors.warehouse.spool import SpoolWriter
from actors.warehouse.tables import LOSSES, RUNS, TABLES
from runtime.ids import DEFAULT_TENANT
from sqlassist.config import SqlConfig
from sqlassist.execute.embedded import open_embedded_backend
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.metric_compile import compiled
from sqlassist.metric_query import Bucket, MetricQuery, Order
from sqlassist.references import reachable_dimensions
from sqlassist.result import ResultSet

NOW = 1_800_000_000_000


def about(phone: str, **columns: object) -> dict[str, object]:
    return {"episode_id": f"e-{phone}", "phone": phone, "app": "game", "bot": "planned", **columns}


def rows() -> list[Row]:
    made: list[Row] = [row_for("runs", NOW, {"state": "ended", "ended_ms": NOW, "seconds": 60.0, "phones": 2})]
    for phone, stale, latency, success in (("P1", 1, 40.0, 1), ("P2", 3, 60.0, 0)):
        made += [
            row_for("actions", NOW, about(phone, kind="planned", outcome="stale", reason="age")) for _ in range(stale)
        ]
        made += [row_for("actions", NOW, about(phone, kind="planned", outcome="effective", dispatch_ms=5.0))] * 3
        made += [row_for("steps", NOW, about(phone, step=n, latency_ms=latency + n)) for n in range(3)]
        plan = {"outcome": "completed", "latency_ms": 300.0, "prompt_tokens": 1000, "cached_tokens": 900}
        made.append(row_for("plans", NOW, about(phone, engine="e0", output_tokens=20, **plan)))
        outcome = "succeeded" if success else "failed"
        episode = {"outcome": outcome, "is_success": success, "seconds": 30.0, "stall_seconds": 3.0}
        made.append(row_for("episodes", NOW, about(phone, **episode)))
        health = {"interval_seconds": 5.0, "offline_seconds": 1.0, "is_online": 1}
        made.append(row_for("phone_health", NOW, {"phone": phone, "app": "game", **health}))
    made.append(row_for("faults", NOW, about("P2", fault="crash", cause="boom")))
    made.append(row_for("engine_health", NOW, {"engine": "e0", "state": "ready", "down_seconds": 0.0}))
    return made


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> SqlConfig:
    folder = tmp_path_factory.mktemp("farm")
    ids = {"tenant": "default", "run_id": "r1", "scenario": "quickstart"}
    writing = SpoolWriter(folder / "spool" / "default", "r1", ids)
    writing.append(rows(), 0.0)
    writing.seal()
    load_once(LoaderConfig(str(folder)))
    return load_sql_config(folder / "databases.toml")


async def answers(config: SqlConfig, *queries: MetricQuery) -> list[ResultSet]:
    layer, catalog = config.sources[SOURCE].semantic, config.catalog(SOURCE, DEFAULT_TENANT)
    results = []
    async with open_embedded_backend(config, SOURCE) as backend:
        for query in queries:
            sql = compiled(query, layer, catalog)
            assert not isinstance(sql, Refusal), (query, sql)
            checked = check(sql, catalog)
            assert isinstance(checked, CheckedQuery), (sql, checked)
            result = await backend.execute(DEFAULT_TENANT, checked)
            assert isinstance(result, ResultSet), (sql, result)
            results.append(result)
    return results


def test_there_are_enough_metrics_and_each_has_names_in_both_languages(farm: SqlConfig) -> None:
    layer = farm.sources[SOURCE].semantic

    assert len(layer.metrics) >= 30
    names = [*(one.names for one in layer.metrics.values()), *(one.names for one in layer.dimensions.values())]
    assert all(one.en and one.zh for one in names)


async def test_every_metric_runs_over_all_over_time_and_by_the_scenario(farm: SqlConfig) -> None:
    metrics = farm.sources[SOURCE].semantic.metrics
    whole = [MetricQuery((name,)) for name in metrics]
    by_scenario = [MetricQuery((name,), ("scenario",)) for name in metrics]
    times = [MetricQuery((name,), bucket=Bucket.HOUR_OF_DAY) for name, metric in metrics.items() if metric.table]

    results = await answers(farm, *whole, *by_scenario, *times)

    assert {len(result.rows) for result in results[: len(whole)]} == {1}


@pytest.mark.parametrize("table", [name for name in TABLES if name not in (RUNS, LOSSES)])
async def test_a_table_can_be_split_by_everything_that_it_reaches(farm: SqlConfig, table: str) -> None:
    layer = farm.sources[SOURCE].semantic
    metric = next(name for name, one in layer.metrics.items() if one.table == table)
    splits = reachable_dimensions(layer, table)

    await answers(farm, *(MetricQuery((metric,), (one,)) for one in splits))

    everywhere = {"scenario", "run"} if table == "engine_health" else {"phone", "app", "scenario", "run"}
    assert everywhere <= set(splits)


async def test_the_questions_of_every_morning(farm: SqlConfig) -> None:
    stalest, latency, success, crashes, cached = await answers(
        farm,
        MetricQuery(("stale_actions",), ("phone",), order=Order("stale_actions"), limit=1),
        MetricQuery(("step_latency",), ("phone",), order=Order("step_latency")),
        MetricQuery(("success_rate",), ("scenario", "app")),
        MetricQuery(("crashes",), ("phone",)),
        MetricQuery(("cached_share", "tokens"), ("engine",)),
    )

    assert stalest.rows == (("P2", 3),)
    assert latency.rows == (("P2", 61.0), ("P1", 41.0))
    assert success.rows == (("quickstart", "game", 0.5),)
    assert crashes.rows == (("P2", 1),)
    assert [row[:2] for row in cached.rows] == [("e0", 0.9)]


async def test_a_share_is_over_the_actions_that_came_up(farm: SqlConfig) -> None:
    (shares,) = await answers(
        farm, MetricQuery(("stale_share",), ("phone",), order=Order("stale_share", descending=False))
    )

    assert shares.rows == (("P1", 0.25), ("P2", 0.5))
