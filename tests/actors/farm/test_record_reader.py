"""Run folders are read by processes of their own, within bounds."""

from pathlib import Path

import pytest
import trio
import trio.testing

from actors.farm import record_reader
from actors.farm.record_reader import MAX_WAITING, RecordReader, Unreadable
from actors.farm.sending import read_picture
from tests.kit.run_folder import EPISODE, run_folder


async def test_what_cannot_be_read_is_told_in_words(tmp_path: Path) -> None:
    reader = RecordReader()
    with pytest.raises(Unreadable, match=r"run\.json cannot be read"):
        await reader.scan(folder=str(tmp_path), screens=[])
    with pytest.raises(Unreadable, match="KeyError"):
        await reader.look("nothing")
    (run_folder(tmp_path) / "episodes" / EPISODE / "episode.json").write_text('{"phone": "P", "faults": [7]}')
    with pytest.raises(Unreadable, match="cannot be read"):
        await reader.scan(folder=str(tmp_path / "run"), screens=[])


async def test_a_process_that_breaks_or_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = RecordReader()
    monkeypatch.setattr(record_reader, "PROGRAM", ("/bin/sh", "-c", "kill -9 $$"))
    with pytest.raises(Unreadable, match="-9"):
        await reader.look("film")
    monkeypatch.setattr(record_reader, "PROGRAM", ("/bin/sleep", "60"))
    monkeypatch.setattr(record_reader, "LOOK_SECONDS", 0.2)
    with pytest.raises(Unreadable, match="longer than"):
        await reader.look("film")
    monkeypatch.setattr(record_reader, "PROGRAM", ("/bin/cat", "/dev/zero"))
    monkeypatch.setattr(record_reader, "MAX_ANSWER_BYTES", 1 << 20)
    monkeypatch.setattr(record_reader, "LOOK_SECONDS", 30.0)
    with pytest.raises(Unreadable, match="1 MiB"):
        await reader.look("film")


async def test_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = RecordReader()
    monkeypatch.setattr(record_reader, "PROGRAM", ("/bin/sleep", "60"))
    async with trio.open_nursery() as nursery:
        for _ in range(1 + MAX_WAITING):
            nursery.start_soon(lambda: reader.export(folder="x"))
        await trio.testing.wait_all_tasks_blocked(0.05)
        with pytest.raises(Unreadable, match="ask again"):
            await reader.export(folder="x")
        nursery.cancel_scope.cancel()


def test_a_link_on_the_way_is_as_good_as_nothing(tmp_path: Path) -> None:
    (tmp_path / "real" / "frames").mkdir(parents=True)
    (tmp_path / "real" / "frames" / "one").write_bytes(b"\xff\xd8\xff1")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "frames").symlink_to(tmp_path / "real" / "frames")
    (tmp_path / "whole").symlink_to(tmp_path / "real")

    assert read_picture(tmp_path / "real", "frames", "one") == (b"\xff\xd8\xff1", "image/jpeg")
    assert read_picture(tmp_path / "linked", "frames", "one") is None
    assert read_picture(tmp_path / "whole", "frames", "one") is None
    for name in ("", ".", "..", "../one", "/etc/passwd", "one\0", "x" * 5000):
        assert read_picture(tmp_path / "real", "frames", name) is None
