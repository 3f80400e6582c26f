"""The trail finds what was done to it: a change, a cut, a gap, an insertion, a new trail in its place."""

import json
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlassist.audit import AuditEntry, AuditError, open_audit, read_audit, verify_audit

ROOT = Path(__file__).resolve().parents[2]
ENTRY = AuditEntry(
    tenant="alpha",
    user="ann",
    question="revenue yesterday?",
    draft="select 1",
    verdict="pass",
    code="",
    source="game",
    sql="SELECT 1",
    diff="",
    plan={"examined_rows": 1},
    rows=1,
    ms=2.5,
    retries=0,
)


def _trail(folder: Path, count: int = 6, size: int = 1000) -> list[Path]:
    trail = open_audit(folder, max_file_bytes=size)
    for number in range(count):
        trail.append(attrs.evolve(ENTRY, draft=f"select {number}"))
    trail.close()
    return sorted(folder.glob("audit-*.jsonl"))


def test_a_trail_is_whole_rotated_private_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "trail"
    files = _trail(folder)
    assert len(files) > 2
    assert {path.stat().st_mode & 0o777 for path in (*files, folder / "head")} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    first = verify_audit(folder)
    assert (first.records, first.problems) == (6, ())

    _trail(folder, 3)

    found = verify_audit(folder, first.head)
    assert (found.records, found.problems) == (9, ())
    assert [record.entry["draft"] for record in read_audit(folder, last=2)] == ["select 1", "select 2"]


def test_every_byte_counts(tmp_path: Path) -> None:
    files = _trail(tmp_path, 2, size=1 << 20)
    (path,) = files
    whole = path.read_bytes()
    for index in range(0, len(whole), 7):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :])
        assert verify_audit(tmp_path).problems, whole[index - 20 : index + 20]
    path.write_bytes(whole)
    assert not verify_audit(tmp_path).problems


def test_a_cut_end_is_found(tmp_path: Path) -> None:
    *_, last = _trail(tmp_path)
    last.unlink()
    assert "cut off" in verify_audit(tmp_path).problems[-1]


def test_a_cut_line_is_found(tmp_path: Path) -> None:
    (path,) = _trail(tmp_path, 3, size=1 << 20)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    assert "3 records, 2 are left" in verify_audit(tmp_path).problems[0]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_missing_file_is_found(tmp_path: Path, index: int) -> None:
    _trail(tmp_path)[index].unlink()
    assert verify_audit(tmp_path).problems


def test_a_rewritten_record_with_a_right_hash_is_found(tmp_path: Path) -> None:
    (path,) = _trail(tmp_path, 3, size=1 << 20)
    lines = path.read_text().splitlines()
    other = tmp_path / "other"
    trail = open_audit(other)
    trail.append(attrs.evolve(ENTRY, draft="select 'innocent'"))
    trail.close()
    forged = next(other.glob("audit-*.jsonl")).read_text().splitlines()[0]
    path.write_text("\n".join([forged, *lines[1:]]) + "\n")

    assert any("does not follow" in problem for problem in verify_audit(tmp_path).problems)


def test_a_new_trail_in_its_place_is_found_by_a_head_that_was_written_down(tmp_path: Path) -> None:
    _trail(tmp_path / "a")
    head = verify_audit(tmp_path / "a").head
    _trail(tmp_path / "b")

    assert verify_audit(tmp_path / "b").problems == ()
    assert "not in the trail" in verify_audit(tmp_path / "b", head).problems[0]


def test_an_open_trail_takes_no_second_writer(tmp_path: Path) -> None:
    trail = open_audit(tmp_path)
    with pytest.raises(AuditError, match="another process"):
        open_audit(tmp_path)
    trail.close()
    open_audit(tmp_path).close()


def test_half_a_line_that_a_crash_left_is_cut_and_nothing_else(tmp_path: Path) -> None:
    (path,) = _trail(tmp_path, 2, size=1 << 20)
    with path.open("ab") as file:
        file.write(b'{"v":1,"n":3,"at":"20')
    assert verify_audit(tmp_path).problems

    _trail(tmp_path, 1)

    assert verify_audit(tmp_path).problems == ()
    assert verify_audit(tmp_path).records == 3


def test_nothing_is_added_to_a_trail_that_is_not_whole(tmp_path: Path) -> None:
    path = _trail(tmp_path)[0]
    path.write_text(path.read_text().replace("ann", "bob"))
    with pytest.raises(AuditError, match="not whole"):
        open_audit(tmp_path)


def test_files_that_others_may_read_are_told(tmp_path: Path) -> None:
    _trail(tmp_path)[0].chmod(0o644)
    assert "others may read it" in verify_audit(tmp_path).problems[0]


@given(draft=st.text(st.characters(codec="utf-8"), max_size=50), question=st.text(max_size=20))
def test_any_text_is_kept_as_it_is(tmp_path_factory: pytest.TempPathFactory, draft: str, question: str) -> None:
    folder = tmp_path_factory.mktemp("trail")
    trail = open_audit(folder)
    trail.append(attrs.evolve(ENTRY, draft=draft, question=question))
    trail.close()
    assert not verify_audit(folder).problems
    (record,) = read_audit(folder)
    assert record.entry["draft"] == draft
    assert record.entry["question"] == question
    assert json.dumps(record.entry["plan"])


FULL_DISK = """
import resource, sys
from pathlib import Path
from sqlassist.audit import AuditEntry, AuditError, open_audit

ENTRY = AuditEntry("alpha", "ann", "revenue?", "select 1" * 40, "pass", "", "game", "SELECT 1", "", {}, 1, 2.5, 0)

folder = Path(sys.argv[1])
trail = open_audit(folder)
trail.append(ENTRY)
free = resource.getrlimit(resource.RLIMIT_FSIZE)
failed = 0
for room in (900, 0, 40):  # half a record fits (a whole one into the next file), none, a few bytes of one
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, free[1]))
    for _ in range(2):
        try:
            trail.append(ENTRY)
        except AuditError:
            failed += 1
resource.setrlimit(resource.RLIMIT_FSIZE, free)
trail.append(ENTRY)
print(failed)
"""


def test_a_disk_that_was_full_for_a_while_leaves_a_whole_trail_that_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "trail"
    # a limit of file sizes fails as a full disk does: after some of the bytes
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr
    found = verify_audit(folder)
    assert (found.records, found.problems) == (3, ())
    trail = open_audit(folder)
    trail.append(ENTRY)
    trail.close()
    assert verify_audit(folder).records == 4


def test_half_a_line_before_another_file_is_cut_too(tmp_path: Path) -> None:
    files = _trail(tmp_path)
    with files[0].open("ab") as file:
        file.write(b'{"v":1,"n":')
    assert verify_audit(tmp_path).problems

    open_audit(tmp_path).close()

    assert verify_audit(tmp_path).problems == ()
