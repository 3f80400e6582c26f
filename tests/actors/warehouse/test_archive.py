import io
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli.main import corral
from actors.warehouse.archive import MARK, ArchiveFailed, back_up, restore
from actors.warehouse.config import LoaderConfig
from actors.warehouse.load import load_once
from actors.warehouse.rows import row_for
from actors.warehouse.spool import SpoolWriter
from actors.warehouse.state import state_of


def spooled(folder: Path, run: str, count: int = 3) -> None:
    writing = SpoolWriter(folder / "spool" / "t", run, {"tenant": "t", "run_id": run, "scenario": "s"})
    writing.append([row_for("steps", 1_000, {"step": number, "phone": "P"}) for number in range(count)], 0.0)
    writing.seal()


def test_what_was_backed_up_is_there_again_and_goes_on(tmp_path: Path) -> None:
    folder, target, again = tmp_path / "warehouse", tmp_path / "kept.tar", tmp_path / "new" / "warehouse"
    spooled(folder, "run-1", 3)
    load_once(LoaderConfig(str(folder)))
    spooled(folder, "run-2", 2)
    before = [(state.tenant, dict(state.rows), state.waiting) for state in state_of(folder)]
    assert back_up(folder, target) > 0
    assert restore(target, again) > 0
    assert [(state.tenant, dict(state.rows), state.waiting) for state in state_of(again)] == before
    load_once(LoaderConfig(str(again)))
    load_once(LoaderConfig(str(folder)))
    assert [dict(one.rows) for one in state_of(again)] == [dict(one.rows) for one in state_of(folder)]


def test_half_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    segment = tmp_path / "warehouse" / "spool" / "t" / "r-0.jsonl"
    segment.parent.mkdir(parents=True)
    segment.write_text('{"a": 1}\n{"b"')
    back_up(tmp_path / "warehouse", tmp_path / "kept.tar")
    restore(tmp_path / "kept.tar", tmp_path / "again")
    assert (tmp_path / "again" / "spool" / "t" / "r-0.jsonl").read_text() == '{"a": 1}\n'


def test_locks_links_and_hidden_files_are_not_taken_along(tmp_path: Path) -> None:
    folder = tmp_path / "warehouse"
    (folder / "spool").mkdir(parents=True)
    for name in ("duckdb.lock", ".t.duckdb.part", "databases.toml"):
        (folder / name).write_text("x")
    (folder / "secret.toml").symlink_to("/etc/passwd")
    back_up(folder, tmp_path / "kept.tar")
    restore(tmp_path / "kept.tar", tmp_path / "again")
    assert [path.name for path in (tmp_path / "again").iterdir()] == ["databases.toml"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "warehouse" / "spool").mkdir(parents=True)
    target = tmp_path / "kept.tar"
    back_up(tmp_path / "warehouse", target)
    with pytest.raises(ArchiveFailed, match="exists already"):
        back_up(tmp_path / "warehouse", target)
    with pytest.raises(ArchiveFailed, match="no folder"):
        back_up(tmp_path / "nothing", tmp_path / "other.tar")
    with pytest.raises(ArchiveFailed, match="not empty"):
        restore(target, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.tar", "warehouse"]


def _tar(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return path


def test_what_is_no_backup_changes_nothing(tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish"
    rubbish.write_bytes(b"rubbish" * 1000)
    whole = _tar(tmp_path / "whole", (MARK, b"1\n"), ("a.duckdb", b"x" * 100_000))
    cut = tmp_path / "cut"
    cut.write_bytes(whole.read_bytes()[:50_000])
    sources = {
        "no backup": [rubbish, _tar(tmp_path / "other", ("file", b"")), cut],
        "newer release": [_tar(tmp_path / "newer", (MARK, b"2\n"))],
        "damaged": [_tar(tmp_path / "outside", (MARK, b"1\n"), ("../outside", b"x"))],
    }
    for says, files in sources.items():
        for file in files:
            with pytest.raises(ArchiveFailed, match=says):
                restore(file, tmp_path / "place" / "warehouse")
    assert list((tmp_path / "place").iterdir()) == []
    assert not (tmp_path / "outside" / "x").exists()


def test_the_commands(tmp_path: Path) -> None:
    folder = tmp_path / "warehouse"
    spooled(folder, "run-1")
    run = CliRunner().invoke
    assert run(corral, ["warehouse", "backup", str(folder), str(tmp_path / "kept.tar")]).exit_code == 0
    again = run(corral, ["warehouse", "backup", str(folder), str(tmp_path / "kept.tar")])
    assert (again.exit_code, "exists already" in again.output) == (2, True)
    assert run(corral, ["warehouse", "restore", str(tmp_path / "kept.tar"), str(tmp_path / "new")]).exit_code == 0
    missing = run(corral, ["warehouse", "restore", str(tmp_path / "none"), str(tmp_path / "new2")])
    assert (missing.exit_code, "none" in missing.output) == (3, True)
