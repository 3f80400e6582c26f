"""The caches' benchmark in a short form: no layer that is on by default gives a question another one's answer."""

import json

import pytest
from click.testing import CliRunner

from actors.bench.cache import SAFE_LAYERS, TODAY, CacheBench, bench_cache, sample_databases
from actors.bench.near_misses import LANGUAGES, near_misses
from actors.bench.result import tell_nobody
from actors.cli.bench_cache import cache
from actors.configuration import ScenarioError
from runtime.ids import TenantId
from sqlassist.cache import SEMANTIC_THRESHOLD
from tests.kit.questions import clinic


def test_no_near_miss_is_answered_with_another_questions_answer() -> None:
    result = bench_cache(CacheBench(30, thresholds=(SEMANTIC_THRESHOLD,)), *sample_databases(), tell_nobody)

    assert result.summary["held"]
    for layer in SAFE_LAYERS:
        numbers = result.summary[layer]
        assert numbers["false_hits"] == 0
        assert numbers["asked"] > 500
        assert numbers["hits"] >= numbers["reworded_hits"] > 0
    assert result.summary["semantic"]["reworded_hits"] >= result.summary["exact"]["reworded_hits"]
    asked = {(row["language"], row["differs"]) for row in result.rows if "language" in row}
    for language in LANGUAGES:
        assert {"period", "metric", "value", "split", "number", "bucket", "direction", "negation", "words"} <= {
            differs for spoken, differs in asked if spoken == language
        }
    assert {differs for spoken, differs in asked if spoken == "any"} == {"tenant", "role", "schema", "layer", "day"}
    assert json.dumps(result.as_dict())


def test_a_layer_that_confuses_questions_is_found_out() -> None:
    result = bench_cache(CacheBench(30, thresholds=(0.0,)), *sample_databases(), tell_nobody)

    loose = result.summary["semantic at 0"]
    assert loose["hits"] > result.summary["exact"]["hits"]


def test_questions_can_be_made_of_any_layer() -> None:
    layer, catalog = clinic()

    asked = near_misses(layer, catalog, TODAY, 20, seed=1)

    texts = {one.text for one in asked}
    assert any("waiting time" in text for text in texts)
    assert any("就诊量" in text for text in texts)
    assert asked == near_misses(layer, catalog, TODAY, 20, seed=1)
    assert asked != near_misses(layer, catalog, TODAY, 20, seed=2)


def test_a_tenant_without_a_layer_is_told() -> None:
    config, _ = sample_databases()

    with pytest.raises(ScenarioError, match="no metric with a time"):
        bench_cache(CacheBench(5), config, TenantId("nobody"), tell_nobody)


def test_the_command() -> None:
    done = CliRunner().invoke(cache, ["--questions", "3"])

    assert done.exit_code == 0, done.output
    assert "held" in done.output
