"""The loader: what is kept of the spool, what it writes beside it, and its patience with a server that is away."""

import json
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from actors.configuration import ScenarioError
from actors.sql_configuration import load_sql_config
from actors.warehouse import load
from actors.warehouse.config import LoaderConfig, parse_loader_config
from actors.warehouse.load import Loaded, TargetAway, follow, load_once
from actors.warehouse.rows import row_for
from actors.warehouse.spool import SpoolWriter
from actors.warehouse.state import state_of

NOW = 1_800_000_000.0


def spooled(folder: Path, run: str, count: int = 3, tenant: str = "default") -> Path:
    about = {"tenant": tenant, "run_id": run, "scenario": "s"}
    writing = SpoolWriter(folder / "spool" / tenant, run, about)
    writing.append([row_for("steps", 1_000, {"step": number, "phone": "P"}) for number in range(count)], 0.0)
    writing.seal()
    return folder / "spool" / tenant / f"{run}-00000.jsonl"


def test_every_tenant_is_loaded_and_the_configuration_for_questions_is_written(tmp_path: Path) -> None:
    spooled(tmp_path, "r1", 3, "alpha")
    spooled(tmp_path, "r2", 4, "beta")

    loaded = load_once(LoaderConfig(str(tmp_path)))

    assert (loaded.tenants, loaded.segments, loaded.rows) == (("alpha", "beta"), 2, 7)
    config = load_sql_config(tmp_path / "databases.toml")
    assert (sorted(config.tenants), list(config.sources)) == (["alpha", "beta"], ["farm"])
    assert len(config.sources["farm"].semantic.metrics) >= 30
    assert [(s.tenant, s.rows["steps"], s.waiting, s.loaded) for s in state_of(tmp_path)] == [
        ("alpha", 3, 0, 1),
        ("beta", 4, 0, 1),
    ]
    assert load_once(LoaderConfig(str(tmp_path))).rows == 0


def test_an_empty_folder_is_no_error(tmp_path: Path) -> None:
    assert load_once(LoaderConfig(str(tmp_path))) == Loaded((), 0, 0, 0, 0)
    assert list(tmp_path.iterdir()) == []


def test_loaded_segments_go_when_they_are_old_or_too_many(tmp_path: Path) -> None:
    paths = [spooled(tmp_path, f"r{number}") for number in range(4)]
    for hours, path in enumerate(paths):
        os.utime(path, (NOW - hours * 3600, NOW - hours * 3600))
    size = paths[0].stat().st_size

    by_age = LoaderConfig(str(tmp_path), keep_loaded_hours=2.5)
    assert load_once(by_age, now=lambda: NOW).removed == 1
    assert not paths[3].exists()
    by_size = LoaderConfig(str(tmp_path), keep_loaded_megabytes=1.5 * size / 1e6)
    assert load_once(by_size, now=lambda: NOW).removed == 2
    assert [path.exists() for path in paths] == [True, False, False, False]

    assert state_of(tmp_path)[0].rows["steps"] == 12, "rows stay"


def test_a_segment_stays_until_every_target_holds_it(tmp_path: Path) -> None:
    path = spooled(tmp_path, "r1")
    other = path.parent / "metrics@db1:3306.loaded"
    other.write_text("")
    config = LoaderConfig(str(tmp_path), keep_loaded_hours=0)

    load_once(config)
    assert path.exists()
    other.write_text("r1-00000\n")
    load_once(config)

    assert not path.exists()


def test_a_server_that_is_away_is_waited_for_longer_and_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Loaded | Exception] = [*([TargetAway("gone")] * 4), Loaded(("default",), 1, 2, 0, 0)]
    pauses: list[float] = []

    def answer(_: LoaderConfig) -> Loaded:
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    monkeypatch.setattr(load, "load_once", answer)
    with capture_logs() as logs:
        loaded = next(follow(LoaderConfig(str(tmp_path)), sleep=pauses.append))

    assert loaded.rows == 2
    assert len(pauses) == 4
    assert all(0.5 <= pause / 2**n <= 1.0 for n, pause in enumerate(pauses, start=1))
    assert [entry["event"] for entry in logs] == ["actors.warehouse.server_lost", "actors.warehouse.server_returned"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'folder'"),
        ('folder = "x"\nevery_seconds = 0', "every_seconds"),
        ('folder = "x"\n[server]\nuser = "u"\nschema = "m"', "exactly one of 'password_file' and 'password_env'"),
        ('folder = "x"\n[server]\nuser = "u"\nschema = "m; DROP"\npassword_env = "P"', "plain name"),
        ('folder = "x"\nkeep_days = 3\n[server]\nuser = "u"\nschema = "m"\npassword_env = "P"', "'keep_days'"),
        ('folder = "x"\n[server]\nuser = "u"\nschema = "m"\npassword = "hunter2"', "unknown key 'password'"),
    ],
)
def test_mistakes_in_the_loaders_file_are_told_with_their_place(text: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says) as told:
        parse_loader_config(text.encode(), "loader.toml")

    assert all(str(problem).startswith("loader.toml") for problem in told.value.problems)


def test_a_configuration_for_a_moved_folder_can_be_written_again(tmp_path: Path) -> None:
    spooled(tmp_path / "a", "r1")
    load_once(LoaderConfig(str(tmp_path / "a")))
    (tmp_path / "a").rename(tmp_path / 'b "quoted"')

    load.write_databases(tmp_path / 'b "quoted"')

    config = load_sql_config(tmp_path / 'b "quoted"' / "databases.toml")
    assert json.dumps(config.sources["farm"].folder) == json.dumps(str(tmp_path / 'b "quoted"'))
