"""The short form of the execution benchmark: it runs, cancels leave nothing, and nothing of it stays on the server."""

from pathlib import Path

import pytest

from actors.bench.result import tell_nobody
from actors.bench.sql_execution import run_from_file
from actors.configuration import ScenarioError
from tests.kit.mariadb import mariadb_marks
from tests.kit.sql_world import sql_world


@pytest.mark.parametrize("mark", [pytest.param(0, marks=mariadb_marks)])
def test_it_measures_and_leaves_nothing(tmp_path: Path, mark: int) -> None:
    world = sql_world()
    path = tmp_path / "sql.toml"
    path.write_text(world.text)

    result = run_from_file(path, "game", "tenant1", seconds=1, cancels=30, seed=2, tell=tell_nobody)

    summary = result.summary
    assert summary["queries_per_second"] > 50
    assert 100 <= summary["mean_alone_ms"] < 400
    assert (summary["wrong_answers"], summary["late"], summary["lost_kills"]) == (0, 0, 0)
    assert summary["cancelled"] == 30
    assert summary["cancels_tried"] >= 30
    assert summary["connections_after"] <= summary["pool"]
    assert summary["stopped_after_ms_max"] < 2000
    assert result.rows[0]["metric"] == "revenue by day"
    assert world.server.run("SELECT COUNT(*) FROM mysql.user WHERE user LIKE 'cbench%'") == [(0,)]
    assert world.server.run("SHOW DATABASES LIKE 'cbench%'") == []


def test_an_unknown_tenant_is_told(tmp_path: Path) -> None:
    path = tmp_path / "sql.toml"
    path.write_text('[sources.game]\ndialect = "duckdb"\nfolder = "x"\ntables = {}\n[tenants.a]\nkeys = {}\n')
    with pytest.raises(ScenarioError, match="no server 'game'"):
        run_from_file(path, "game", "a", seconds=1, cancels=0, seed=1, tell=tell_nobody)
