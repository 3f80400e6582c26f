"""The guard's benchmark in a short form: its numbers mean what they say."""

import json
from pathlib import Path

import pytest

from actors.bench.result import tell_nobody
from actors.bench.sql import AIM_P50_MS, AIM_P99_MS, bench_guard
from actors.configuration import ScenarioError
from sqlassist.catalog import Dialect
from tests.kit.sql import shared


def test_gold_queries_stay_within_the_aims(tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    queries.write_bytes(b"".join(shared("spider-dev.jsonl").read_bytes().splitlines(keepends=True)[::4]))

    result = bench_guard(
        schemas=shared("spider-schemas.jsonl"), queries=queries, dialects=[Dialect.MARIADB], rounds=3, tell=tell_nobody
    )

    numbers = result.summary["mariadb"]
    assert numbers["queries"] == numbers["passed"] == 259
    assert numbers["p50_ms"] <= numbers["p95_ms"] <= numbers["p99_ms"] <= numbers["max_ms"]
    if result.summary["parser_is_compiled"]:
        assert numbers["p50_ms"] <= AIM_P50_MS * 2  # a busy machine's caches are not the guard's fault
        assert numbers["p99_ms"] <= AIM_P99_MS * 2
    assert len(result.rows) == 20
    assert json.dumps(result.as_dict())


@pytest.mark.parametrize("text", ["", "{}", '{"sql": "SELECT 1", "db": "nosuch"}', "nonsense"])
def test_files_that_are_none_are_told(tmp_path: Path, text: str) -> None:
    queries = tmp_path / "queries.jsonl"
    queries.write_text(text, encoding="utf-8")
    schemas = tmp_path / "schemas.jsonl"
    schemas.write_text('{"db": "shop", "tables": {"items": [["id", "number"]]}}', encoding="utf-8")

    with pytest.raises(ScenarioError):
        bench_guard(schemas=schemas, queries=queries, dialects=[Dialect.MYSQL], rounds=1, tell=tell_nobody)
