"""Histories of users: newest first, apart, bounded, and never a reason for a question to fail."""

from pathlib import Path

import pytest
import structlog

from actors import question_history
from actors.question_history import QuestionHistory
from runtime.ids import TenantId
from sqlassist.messages import Asker

ANN = Asker("ann", TenantId("north"))


@pytest.mark.parametrize("in_memory", [True, False])
async def test_the_newest_come_first_and_users_are_apart(tmp_path: Path, in_memory: bool) -> None:
    history = QuestionHistory(None if in_memory else tmp_path)
    others = [Asker("ann", TenantId("south")), Asker("a/nn", ANN.tenant), Asker("a-nn", ANN.tenant)]
    for number in range(5):
        await history.append(ANN, {"id": f"q{number}", "text": "多少?\n"})
    for other in others:
        await history.append(other, {"id": other.user})

    assert [entry["id"] for entry in await history.newest(ANN, 3)] == ["q4", "q3", "q2"]
    assert [[dict(entry) for entry in await history.newest(other, 9)] for other in others] == [
        [{"id": other.user}] for other in others
    ]
    assert await history.newest(Asker("new", ANN.tenant), 3) == ()


async def test_files_are_private_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_history, "MOST_BYTES", 1000)
    history = QuestionHistory(tmp_path / "histories")
    for number in range(100):
        await history.append(ANN, {"id": f"q{number}", "text": "x" * 30})
    (path,) = (tmp_path / "histories" / "north").iterdir()

    assert path.stat().st_size <= 1000
    assert path.stat().st_mode & 0o777 == 0o600
    assert (await history.newest(ANN, 1))[0]["id"] == "q99"


async def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    history = QuestionHistory(tmp_path)
    await history.append(ANN, {"id": "q1"})
    (path,) = (tmp_path / "north").iterdir()
    with path.open("ab") as file:
        file.write(b'[]\n{"id": "q2", "te')
    await history.append(ANN, {"id": "q3"})

    assert [entry["id"] for entry in await history.newest(ANN, 9)] == ["q3", "q1"]


async def test_what_cannot_be_written_is_told_and_lost(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = QuestionHistory(tmp_path / "file")

    with structlog.testing.capture_logs() as logs:
        await history.append(ANN, {"id": "q1"})
        found = await history.newest(ANN, 9)

    assert found == ()
    assert [log["event"] for log in logs] == ["actors.history.lost", "actors.history.unreadable"]
