"""The shell language of simulated phones."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rehearsal.phone.commandline import LAST_EXIT_CODE, Run, ShellSyntaxError, parse_script


def words_of(script: str) -> list[tuple[str, ...]]:
    return [command.argv for pipeline in parse_script(script) for command in pipeline.commands]


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    assert words_of(shlex.join(words)) == [tuple(words)]


def test_operators_say_when_the_next_runs() -> None:
    runs = [(pipeline.run, pipeline.commands[0].argv) for pipeline in parse_script("a 1; b && c || d\ne")]

    assert runs == [
        (Run.ALWAYS, ("a", "1")),
        (Run.ALWAYS, ("b",)),
        (Run.IF_SUCCEEDED, ("c",)),
        (Run.IF_FAILED, ("d",)),
        (Run.ALWAYS, ("e",)),
    ]


def test_pipes_and_redirection() -> None:
    (pipeline,) = parse_script("dumpsys window 2>/dev/null | grep -E 'a|b' >> /sdcard/x 2>&1")

    left, right = pipeline.commands
    assert (left.argv, left.stderr) == (("dumpsys", "window"), "/dev/null")
    assert (right.argv, right.stdout, right.append, right.stderr) == (
        ("grep", "-E", "a|b"),
        "/sdcard/x",
        True,
        "&1",
    )


def test_digits_before_a_redirection_belong_to_the_word_they_end() -> None:
    ((argv,), command) = (words_of("echo x2>f"), parse_script("echo x2>f")[0].commands[0])

    assert argv == ("echo", "x2")
    assert command.stdout == "f"


def test_dollar_question_is_kept_for_the_run() -> None:
    assert words_of('echo "$?" $ a\\ b') == [("echo", LAST_EXIT_CODE, "$", "a b")]


@pytest.mark.parametrize(
    "script", ["echo 'x", 'echo "x', "a &&", "| a", "a > ", "a & b", "$(x)", "echo $HOME", "a; ; |"]
)
def test_what_is_not_understood_is_refused(script: str) -> None:
    with pytest.raises(ShellSyntaxError):
        parse_script(script)


def test_empty_scripts_run_nothing() -> None:
    assert parse_script("") == parse_script(" ; \n ;") == ()
