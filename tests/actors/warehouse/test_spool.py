"""Segments: what was acknowledged is there, what was torn is cut off, and who is alive is left alone."""

import errno
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from actors.warehouse.rows import Row
from actors.warehouse.spool import SpoolWriter, adopt_abandoned, is_sound, loadable_segments, read_header, read_rows

ABOUT = {"tenant": "default", "run_id": "r1", "scenario": "s"}


def writer(folder: Path, prefix: str = "r1", **bounds: float) -> SpoolWriter:
    return SpoolWriter(folder / "default", prefix, ABOUT, **bounds)  # type: ignore[arg-type]


def rows(*numbers: int) -> list[Row]:
    return [{"t": "steps", "at_ms": number, "step": number} for number in numbers]


def numbers_in(folder: Path) -> list[int]:
    found = [row for path in loadable_segments(folder / "default") for row in read_rows(path)]
    assert all(row is not None for row in found)
    return [row["step"] for row in found if row is not None]


def test_what_was_appended_is_read_back_once_it_is_sealed(tmp_path: Path) -> None:
    spooling = writer(tmp_path)
    spooling.append(rows(1, 2), 0.0)
    spooling.append(rows(3), 1.0)
    assert loadable_segments(tmp_path / "default") == []

    spooling.seal()

    assert numbers_in(tmp_path) == [1, 2, 3]
    (segment,) = loadable_segments(tmp_path / "default")
    assert read_header(segment) == ABOUT
    assert segment.stat().st_mode & 0o777 == 0o600


def test_a_segment_is_sealed_when_it_is_large_or_old(tmp_path: Path) -> None:
    large, old = writer(tmp_path, "large", max_bytes=200), writer(tmp_path, "old", max_age_seconds=10)
    for number in range(10):
        large.append(rows(number), 0.0)
    old.append(rows(100), 0.0)
    old.seal_if_old(9.0)
    assert not list(tmp_path.glob("*/old*.jsonl"))

    old.seal_if_old(10.0)

    assert len(list(tmp_path.glob("*/large*.jsonl"))) >= 2
    assert len(list(tmp_path.glob("*/old*.jsonl"))) == 1
    large.seal()


def test_the_torn_end_of_a_dead_writer_is_cut_off(tmp_path: Path) -> None:
    spooling = writer(tmp_path)
    spooling.append(rows(1, 2), 0.0)
    (path,) = (tmp_path / "default").glob("*.open")
    with path.open("ab") as file:
        file.write(b'{"t":"steps","at_ms":3,"st')
    assert adopt_abandoned(tmp_path / "default") == [], "its writer lives"
    _die(spooling)

    assert adopt_abandoned(tmp_path / "default") == ["r1-00000"]
    assert numbers_in(tmp_path) == [1, 2]
    assert adopt_abandoned(tmp_path / "default") == []


def _die(spooling: SpoolWriter) -> None:
    """As a kill does: the descriptor is closed, and its lock is gone with it."""
    assert spooling._file is not None
    spooling._file.close()


def test_a_segment_in_which_nothing_is_whole_vanishes(tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "r1-00000.open").write_bytes(b'{"vers')

    assert adopt_abandoned(tmp_path / "default") == []
    assert list((tmp_path / "default").iterdir()) == []


def test_a_batch_that_the_disk_refuses_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spooling = writer(tmp_path)
    spooling.append(rows(1), 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", _full)
        with pytest.raises(OSError, match="No space"):
            spooling.append(rows(2), 0.0)
    adopt_abandoned(tmp_path / "default")

    spooling.append(rows(3), 0.0)
    spooling.seal()

    assert numbers_in(tmp_path) == [1, 3]


def _full(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_folder_that_cannot_be_written_is_an_error_of_each_batch(tmp_path: Path) -> None:
    (tmp_path / "default").write_text("a file is in the way")
    spooling = writer(tmp_path)

    for _ in range(2):
        with pytest.raises(OSError, match="exists"):
            spooling.append(rows(1), 0.0)


def test_two_writers_with_one_prefix_take_other_names(tmp_path: Path) -> None:
    first, second = writer(tmp_path), writer(tmp_path)
    first.append(rows(1), 0.0)
    second.append(rows(2), 0.0)
    first.seal()
    second.seal()

    assert sorted(numbers_in(tmp_path)) == [1, 2]


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\x00\x00\n",
        b"[1]\n",
        b'{"t":"nothing","at_ms":1}\n',
        b'{"t":"steps","at_ms":"x"}\n',
        b'{"t":"steps"}\n',
        b'{"t":"steps","at_ms":1,"latency_ms":NaN}\n',
        b'{"t":"steps","at_ms":1,"step":true}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_damaged_line_is_told_and_the_others_are_kept(tmp_path: Path, line: bytes) -> None:
    spooling = writer(tmp_path)
    spooling.append(rows(1), 0.0)
    spooling.seal()
    (path,) = loadable_segments(tmp_path / "default")
    with path.open("ab") as file:
        file.write(line + b'{"t":"steps","at_ms":2,"step":2}\n')

    assert [None if row is None else row["step"] for row in read_rows(path)] == [1, None, 2]


@pytest.mark.parametrize(
    "header", [b"", b"no json\n", b'{"version":99}\n', b'{"version":1,"tenant":"other","run_id":"r","scenario":"s"}\n']
)
def test_a_segment_of_another_version_or_tenant_is_put_aside(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "default").mkdir()
    path = tmp_path / "default" / "r1-00000.jsonl"
    path.write_bytes(header + b'{"t":"steps","at_ms":1,"step":1}\n')

    with capture_logs() as logs:
        assert loadable_segments(tmp_path / "default") == []
        assert loadable_segments(tmp_path / "default") == []

    assert [entry["event"] for entry in logs] == ["actors.warehouse.segment_refused"]
    assert [one.suffix for one in (tmp_path / "default").iterdir()] == [".unreadable"]


def test_columns_of_a_later_version_are_no_damage() -> None:
    assert is_sound({"t": "steps", "at_ms": 1, "colour": ["red"]})
