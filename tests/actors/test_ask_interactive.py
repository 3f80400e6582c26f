"""The prompt: answers, choices by number, Ctrl-C, and texts of databases that do not steer the terminal."""

import io
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from rich.console import Console

from actors.ask_background import Background
from actors.ask_embedded import EmbeddedAsking
from actors.ask_interactive import run_interactive
from actors.ask_view import JsonView, TerminalView
from actors.asking import AskError
from actors.question_history import QuestionHistory
from runtime.ids import TenantId
from runtime.nursery import open_bare_nursery
from sqlassist.messages import Asker, Event, Question, Stage, Verb
from tests.kit.answering import ScriptedAnswering


def _talk(answering: ScriptedAnswering, *lines: str | Callable[[], str]) -> str:
    """What a terminal shows of a talk."""
    given = iter(lines)

    def read_line(prompt: str) -> str:
        del prompt
        try:
            line = next(given)
        except StopIteration:
            raise EOFError from None
        return line if isinstance(line, str) else line()

    @asynccontextmanager
    async def opened() -> AsyncIterator[EmbeddedAsking]:
        yield EmbeddedAsking(answering, Asker("ann", TenantId("north")), QuestionHistory(None))

    console = Console(file=io.StringIO(), width=100, highlight=False)
    run_interactive(opened, console, read_line)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_talk() -> None:
    answering = ScriptedAnswering()
    shown = _talk(
        answering, "table", "", "clarify", "2", r"\explain", r"\fix SELECT 1 -- bad", r"\review good", r"\history"
    )

    asked = [question for _, question in answering.asked]
    assert [question.verb for question in asked] == [Verb.ASK, Verb.ASK, Verb.CHOOSE, Verb.EXPLAIN, Verb.FIX]
    assert (asked[2].of, asked[2].choice, asked[3].of) == ("q2", "c2", "q3")
    for text in ("2026-01-02", "████", "8 plays", "  2  by week", "taken down as review-1", "ann of north"):
        assert text in shown
    assert [one[:2] for one in answering.reviews] == [("q5", "good")]


def test_ctrl_c_cancels_the_question_and_not_the_program() -> None:
    answering = ScriptedAnswering()

    def interrupt() -> str:
        def press() -> None:
            while not answering.emitted.get("q1"):
                pressed.wait(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        pressed = threading.Event()
        threading.Thread(target=press).start()
        return "wait"

    def at_the_prompt() -> str:
        raise KeyboardInterrupt

    shown = _talk(answering, interrupt, at_the_prompt, "table", r"\quit", "never")

    assert answering.cancelled == ["q1"]
    assert "cancelled" in shown
    assert "8 plays" in shown
    assert len(answering.asked) == 2


def test_what_cannot_be_opened_is_raised_and_a_failure_later_too() -> None:
    @asynccontextmanager
    async def closed() -> AsyncIterator[str]:
        await trio.lowlevel.checkpoint()
        if trio.current_time() > 0:
            raise AskError("nobody is there")
        yield ""

    @asynccontextmanager
    async def failing() -> AsyncIterator[str]:
        async with open_bare_nursery() as nursery:
            nursery.start_soon(_fail)
            yield "open"

    async def _fail() -> None:
        raise AskError("it is over")

    with pytest.raises(AskError, match="nobody"), Background(closed):
        pass
    with pytest.raises(AskError, match="it is over"), Background(failing):
        _wait_for_thread("ask")


def _wait_for_thread(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(30)


async def test_texts_of_others_do_not_steer_the_terminal() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    view = TerminalView(console)
    nasty = "\x1b[2J[red]x[/red]\r\x9b31m\u202e\n"
    rows: Mapping[str, Any] = {"columns": [nasty], "types": ["text"], "rows": [[nasty]], "truncated": True}
    events = [
        Event(Stage.RESOLVED, {"text": nasty}),
        Event(Stage.INTENT, {"route": nasty, "why": nasty}),
        Event(Stage.SCOPE, {"source": nasty, "tables": [{"name": nasty, "why": nasty}]}),
        Event(Stage.DELTA, {"text": nasty, "channel": "sql"}),
        Event(Stage.SQL, {"sql": nasty}),
        Event(Stage.CHECK, {"verdict": "refuse", "code": nasty, "hint": nasty}),
        Event(Stage.ROWS, rows),
        Event(Stage.SUMMARY, {"text": nasty}),
        Event(Stage.CLARIFICATION, {"text": nasty, "choices": [{"id": "c1", "label": nasty}]}),
        Event(Stage.REFUSAL, {"code": nasty, "text": nasty}),
        Event(Stage.FAILED, {"code": nasty, "text": nasty, "retry_after": 2.0}),
    ]
    for event in events:
        await view.take(event)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()

    assert not set(shown) & set("\r\x9b\u202e")
    assert "\x1b[2J" not in shown
    assert "[red]x[/red]" in shown


async def test_rows_in_pieces_are_one_table() -> None:
    console = Console(file=io.StringIO(), width=100)
    view = TerminalView(console)
    head = {"columns": ["n"], "types": ["integer"], "truncated": False}
    await view.take(Event(Stage.ROWS, {**head, "rows": [[1], [2]], "offset": 0, "more": True}))
    await view.take(Event(Stage.ROWS, {**head, "rows": [[3]], "offset": 2, "more": False}))
    assert isinstance(console.file, io.StringIO)

    assert view.seen.rows == ([1], [2], [3])
    assert console.file.getvalue().split() == ["n", "1", "2", "3"]


async def test_programs_get_a_json_line_for_each_event() -> None:
    console = Console(file=io.StringIO())
    await JsonView(console, "q1").take(Event(Stage.REFUSAL, {"text": "不行"}))
    assert isinstance(console.file, io.StringIO)

    assert console.file.getvalue() == '{"id": "q1", "stage": "refusal", "data": {"text": "不行"}, "last": true}\n'


async def test_an_embedded_question_that_is_cancelled_is_in_the_history() -> None:
    asking = EmbeddedAsking(ScriptedAnswering(), Asker("ann", TenantId("north")), QuestionHistory(None))

    async def nobody(event: Event) -> None:
        scope.cancel()

    with trio.CancelScope() as scope:
        await asking.ask(Question("q1", "wait"), nobody)

    assert [(entry["text"], entry["stage"]) for entry in await asking.history(5)] == [("wait", "cancelled")]
