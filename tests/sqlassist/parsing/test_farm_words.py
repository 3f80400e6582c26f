"""The farm's own layer is read by the same parser, which knows none of its words."""

from pathlib import Path

import pytest

from actors.sql_configuration import load_sql_config
from actors.warehouse.config import LoaderConfig
from actors.warehouse.databases import SOURCE
from actors.warehouse.load import load_once
from actors.warehouse.rows import row_for
from actors.warehouse.spool import SpoolWriter
from runtime.ids import DEFAULT_TENANT
from sqlassist.catalog import Catalog
from sqlassist.metric_query import Order
from sqlassist.parsing.understand import understand
from sqlassist.semantic import SemanticLayer
from sqlassist.understanding import Understood
from tests.kit.questions import TODAY


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> tuple[SemanticLayer, Catalog]:
    folder: Path = tmp_path_factory.mktemp("farm")
    row = row_for("runs", 1_800_000_000_000, {"state": "ended", "ended_ms": 1_800_000_000_000, "seconds": 60.0})
    writing = SpoolWriter(folder / "spool" / "default", "r1", {"tenant": "default", "run_id": "r1", "scenario": "s"})
    writing.append([row], 0.0)
    writing.seal()
    load_once(LoaderConfig(str(folder)))
    config = load_sql_config(folder / "databases.toml")
    return config.sources[SOURCE].semantic, config.catalog(SOURCE, DEFAULT_TENANT)


def test_which_phone_dropped_the_most_stale_actions(farm: tuple[SemanticLayer, Catalog]) -> None:
    found = understand("which phone dropped the most stale actions?", *farm, today=TODAY)

    assert isinstance(found, Understood)
    assert (found.query.metrics, found.query.dimensions) == (("stale_actions",), ("phone",))
    assert (found.query.order, found.query.limit, found.query.compared) == (Order("stale_actions"), 1, None)


@pytest.mark.parametrize(
    ("question", "metric", "dimensions"),
    [
        ("每台手机的平均步延迟是多少", "step_latency", ("phone",)),
        ("哪台手机崩溃次数最多", "crashes", ("phone",)),
        ("success rate by app today", "success_rate", ("app",)),
    ],
)
def test_questions_about_a_farm(
    farm: tuple[SemanticLayer, Catalog], question: str, metric: str, dimensions: tuple[str, ...]
) -> None:
    found = understand(question, *farm, today=TODAY)

    assert isinstance(found, Understood)
    assert (found.query.metrics, found.query.dimensions) == ((metric,), dimensions)
