"""`corral warehouse`: what it prints, and one line for whatever is wrong."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.cli.warehouse import warehouse
from actors.warehouse.rows import row_for
from actors.warehouse.spool import SpoolWriter


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda _: 0)  # there is no way back for this process


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(warehouse, [str(argument) for argument in arguments])


def spooled(folder: Path) -> None:
    writing = SpoolWriter(folder / "spool" / "default", "r1", {"tenant": "default", "run_id": "r1", "scenario": "s"})
    writing.append([row_for("steps", 1, {"step": 1}), row_for("losses", 1, {"kind": "step", "lost_rows": 7})], 0.0)
    writing.seal()


def test_load_status_and_config(tmp_path: Path) -> None:
    spooled(tmp_path)
    waiting = run("status", tmp_path)
    loaded = run("load", tmp_path)
    again = run("load", tmp_path, "--json")
    status = run("status", tmp_path)
    as_json = run("status", tmp_path, "--json")
    config = run("config", tmp_path)

    assert "1 segments wait" in waiting.output
    assert loaded.output == "2 rows of 1 segments are in DuckDB files of default\n"
    assert json.loads(again.output) == {"tenants": ["default"], "segments": 0, "rows": 0, "damaged": 0, "removed": 0}
    assert "default: 1 steps, 1 losses" in status.output
    assert "7 rows were lost" in status.output
    assert json.loads(as_json.output)[0]["lost_rows"] == 7
    assert config.output.strip() == str(tmp_path / "databases.toml")


def test_damaged_lines_are_a_warning(tmp_path: Path) -> None:
    spooled(tmp_path)
    (segment,) = tmp_path.glob("spool/default/*.jsonl")
    with segment.open("ab") as file:
        file.write(b"\x00\n")

    done = run("load", tmp_path)

    assert done.exit_code == 0
    assert "1 lines of the spool were damaged" in done.output


@pytest.mark.parametrize("command", ["load", "status", "config"])
def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path, command: str) -> None:
    done = run(command, tmp_path / "nowhere")

    assert done.exit_code == 2
    assert done.output.startswith("Error: ")
    assert len(done.output.splitlines()) == 1


def test_nothing_published_yet_is_told(tmp_path: Path) -> None:
    assert run("status", tmp_path).output == "nothing yet: corral run writes here\n"
    done = run("config", tmp_path)
    assert done.exit_code == 3
    assert "nothing is published yet" in done.output


def test_a_file_that_is_no_database_is_one_line(tmp_path: Path) -> None:
    spooled(tmp_path)
    (tmp_path / "default.duckdb").write_text("nothing of the kind" * 500)

    for command in ("load", "status"):
        done = run(command, tmp_path)
        assert done.exit_code == 3
        assert len(done.output.splitlines()) == 1, done.output


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("folder = 3", 2, "'folder' must be a text"),
        ("not toml", 2, "not TOML"),
        (
            'folder = "{folder}"\n[server]\nuser = "u"\nschema = "m"\npassword_env = "CORRAL_NO_SUCH"',
            2,
            "CORRAL_NO_SUCH",
        ),
        (
            'folder = "{folder}"\n[server]\nuser = "u"\nschema = "m"\npassword_file = "{folder}/none"',
            2,
            "cannot be read",
        ),
        (
            'folder = "{folder}"\n[server]\nuser = "u"\nschema = "m"\npassword_env = "CORRAL_TEST_WAREHOUSE"\nport = 1',
            3,
            "nothing is lost",
        ),
    ],
)
def test_what_is_wrong_with_a_loaders_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: int, says: str
) -> None:
    monkeypatch.setenv("CORRAL_TEST_WAREHOUSE", "of-no-account-7f3a")
    spooled(tmp_path)
    file = tmp_path / "loader.toml"
    file.write_text(text.replace("{folder}", str(tmp_path)))

    done = run("load", file)

    assert says in done.output
    assert done.exit_code == code
    assert len(done.output.splitlines()) == 1, done.output
