"""What is typed at the prompt means one thing, or is told to mean nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.ask_lines import HelpLine, HistoryLine, Line, QuitLine, ReviewLine, ThinkLine, WrongLine, parse_line, typed
from actors.ask_view import Choice
from sqlassist.messages import Question, Verb

CHOICES = (Choice("c1", "by day"), Choice("c2", "by week"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("  每天多少? ", Question("q2", "每天多少?", think=True)),
        ("2", Question("q2", verb=Verb.CHOOSE, of="q1", choice="c2")),
        (r"\fix SELECT 1 -- it fails", Question("q2", "it fails", Verb.FIX, sql="SELECT 1")),
        (r"\fix SELECT 1", Question("q2", verb=Verb.FIX, sql="SELECT 1")),
        (r"\explain SELECT 1", Question("q2", verb=Verb.EXPLAIN, sql="SELECT 1")),
        (r"\explain", Question("q2", verb=Verb.EXPLAIN, of="q1")),
        (r"\review wrong day", ReviewLine("q1", "wrong day")),
        (r"\think off", ThinkLine(think=False)),
        (r"\think auto", ThinkLine(think=None)),
        (r"\history", HistoryLine()),
        (r"\help", HelpLine()),
        (r"\quit", QuitLine()),
    ],
)
def test_lines(text: str, line: Line | None) -> None:
    assert parse_line(text, "q2", last="q1", choices=CHOICES, think=True) == line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "choose 1 to 2"),
        ("0", "choose 1 to 2"),
        ("9" * 5000, "choose 1 to 2"),
        (r"\fix", "needs the statement"),
        (r"\fix -- it fails", "needs the statement"),
        (r"\think maybe", "is not known"),
        (r"\drop", "is not known"),
        ("x" * 4001, "at most 4000 characters"),
        (r"\explain " + "x" * 20_001, "at most 20000 characters"),
    ],
)
def test_what_cannot_be_done(text: str, message: str) -> None:
    line = parse_line(text, "q2", last="q1", choices=CHOICES)

    assert isinstance(line, WrongLine)
    assert message in line.message


def test_before_any_answer_there_is_nothing_to_look_at() -> None:
    for text in (r"\explain", r"\review bad"):
        assert parse_line(text, "q1") == WrongLine("nothing was answered yet")
    assert parse_line("2", "q1") == Question("q1", "2")


@given(st.text(max_size=50))
def test_no_line_raises(text: str) -> None:
    parse_line(text, "q2", last="q1", choices=CHOICES)


@pytest.mark.parametrize(
    ("seen", "meant"),
    [
        ("每天多少", "每天多少"),
        ("每天".encode().decode("ascii", "surrogateescape"), "每天"),  # a locale without UTF-8
        (b"\xff revenue".decode("utf-8", "surrogateescape"), "\ufffd revenue"),
    ],
)
def test_what_was_typed_is_text_whatever_the_locale(seen: str, meant: str) -> None:
    assert typed(seen) == meant
