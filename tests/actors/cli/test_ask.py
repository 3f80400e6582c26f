"""`corral ask` on the command line: exit codes, JSON lines and charts, with scripted answers."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from actors.asking import AskError
from actors.cli.ask import ask
from sqlassist.messages import Emit, Event, Question
from tests.kit.answering import ScriptedAnswering
from tests.kit.scripted_assistant import scripted_module


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(sys.modules, "actors.assistant", scripted_module())
    (tmp_path / "databases.toml").write_text("")
    path = tmp_path / "assistant.toml"
    path.write_text('[sql]\nfile = "databases.toml"\n')
    return path


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(ask, list(arguments))


@pytest.mark.parametrize(
    ("question", "code", "text"),
    [
        ("answer", 0, "42"),
        ("table", 0, "2026-01-02"),
        ("refuse", 1, "not yours"),
        ("clarify", 1, "2  by week"),
        ("fail", 3, "Again in 3 s."),
    ],
)
def test_the_exit_code_says_how_it_ended(config: Path, question: str, code: int, text: str) -> None:
    done = _run(question, f"--config={config}")

    assert done.exit_code == code, done.output
    assert text in done.output


def test_json_is_a_line_for_each_event(config: Path) -> None:
    done = _run("table", f"--config={config}", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]

    assert [event["stage"] for event in events] == ["intent", "rows", "chart", "summary", "answer"]
    assert [event["last"] for event in events] == [False] * 4 + [True]


def test_a_chart_is_written(config: Path, tmp_path: Path) -> None:
    written, none = tmp_path / "chart.json", tmp_path / "none.json"
    done = _run("table", f"--config={config}", f"--chart={written}")
    without = _run("answer", f"--config={config}", f"--chart={none}")

    assert done.exit_code == 0
    assert json.loads(written.read_text())["mark"] == "bar"
    assert (without.exit_code, none.exists()) == (2, False)
    assert "nothing in this answer can be drawn" in without.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--config={config}",), 2, "there is no question"),
        (("x" * 4001,), 2, "at most 4000 characters"),
        (("x", "--url=ftp://a"), 2, "must be like ws://"),
        (("x", "--url=ws://127.0.0.1:9"), 2, "an assistant wants a token"),
        (("x", "--url=ws://127.0.0.1:9", "--ca-file={config}"), 2, "for wss addresses"),
        (("x", "--url=ws://127.0.0.1:9", "--config={config}"), 2, "exclude each other"),
        (("x", "--url=ws://127.0.0.1:9", "--token-file={config}"), 2, "may be read by others"),
        (("x", "--config=/nowhere.toml"), 2, "cannot be read"),
        (("x", "--chart=a.gif"), 2, ".svg or .png"),
    ],
)
def test_what_is_wrong_is_one_line(
    config: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.delenv("CORRAL_TOKEN", raising=False)
    config.chmod(0o644)
    given = [argument.format(config=config) for argument in arguments]
    done = _run(*given, *([] if any("--" in argument for argument in given) else [f"--config={config}"]))

    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_nobody_there_is_infrastructure(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_TOKEN", "corral_something")
    done = _run("x", "--url=ws://127.0.0.1:9")

    assert done.exit_code == 3
    assert done.stderr.startswith("Error: ws://127.0.0.1:9/assistant: ")


def test_a_session_that_fails_is_one_line(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(ScriptedAnswering):
        async def answer(self, question: Question, conversation: Any, emit: Emit) -> Event:
            raise AskError("the session is gone: ask again")

    @asynccontextmanager
    async def opened(config: Any) -> AsyncIterator[Failing]:
        yield Failing()

    monkeypatch.setattr(sys.modules["actors.assistant"], "open_answering", opened)
    done = _run("x", f"--config={config}")

    assert (done.exit_code, done.stderr) == (3, "Error: the session is gone: ask again\n")
