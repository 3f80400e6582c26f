"""What the command does when nothing else does: closed pipes, full disks, errors that nobody foresaw."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.cli.main import EXIT_BROKEN_PIPE, EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_OUTPUT
from tests.kit.run_folder import run_folder

CORRAL = [sys.executable, "-m", "actors.cli.main"]
WITH_ODD_COMMAND = """
import click, sys, actors.cli.main as main
@click.command()
@click.argument("kind")
def odd(kind):
    if kind == "group":
        raise ExceptionGroup("two", [ExceptionGroup("one", [RuntimeError("odd\\nthing")])])
    if kind == "pipe":
        raise BrokenPipeError(32, "a phone went")
    if kind == "words":
        print("Zähler ▶ \\ud800")
        return
    if not kind.isprintable():
        kind.encode()
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "interrupted-nursery":
        raise BaseExceptionGroup("one", [BaseExceptionGroup("two", [KeyboardInterrupt()])])
    raise RuntimeError("odd\\nthing")
main.odd = odd
main._COMMANDS["odd"] = "actors.cli.main:odd"
main.main()
"""


def odd(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITH_ODD_COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environ},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_folder(tmp_path_factory.mktemp("main"), steps=3)


def test_a_closed_pipe_ends_it_quietly(run: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*CORRAL, "replay", str(run)], stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False
        )
    finally:
        os.close(writing)

    assert (done.stderr, done.returncode) == (b"", EXIT_BROKEN_PIPE)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", [["replay"], ["report"]])
def test_a_full_output_is_one_line(run: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*CORRAL, *arguments, str(run)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )

    assert done.returncode == EXIT_OUTPUT
    assert done.stderr == "Error: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize("kind", ["plain", "group"])
def test_an_unforeseen_error_is_one_line_and_exit_code_70(kind: str) -> None:
    done = odd("odd", kind, CORRAL_DEBUG="")

    assert done.returncode == EXIT_INTERNAL
    assert done.stderr == "internal error: RuntimeError: odd thing; please report it with the log above\n"


@pytest.mark.parametrize("kind", ["interrupt", "interrupted-nursery"])
def test_ctrl_c_ends_quietly_also_while_nurseries_are_open(kind: str) -> None:
    done = odd("odd", kind, CORRAL_DEBUG="")

    assert (done.stdout, done.stderr, done.returncode) == ("", "", EXIT_INTERRUPTED)


def test_a_broken_pipe_that_is_not_the_output_is_no_quiet_end() -> None:
    done = odd("odd", "pipe", CORRAL_DEBUG="")

    assert done.returncode == EXIT_INTERNAL
    assert "BrokenPipeError" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "environ"), [(["--debug", "odd", "x"], ""), (["odd", "x"], "1")], ids=["option", "variable"]
)
def test_the_traceback_is_shown_to_who_asks(arguments: list[str], environ: str) -> None:
    done = odd(*arguments, CORRAL_DEBUG=environ)

    assert done.returncode == EXIT_INTERNAL
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.startswith("internal error: RuntimeError")


def test_words_that_the_terminal_cannot_show_are_escaped() -> None:
    done = odd("odd", "words", PYTHONIOENCODING="ascii")

    assert (done.stdout, done.returncode) == ("Z\\xe4hler \\u25b6 \\ud800\n", 0)


def test_an_interrupt_outside_a_run_is_130() -> None:
    done = odd("odd", "interrupt")

    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_usage_errors_and_help_keep_their_codes() -> None:
    assert odd("--help").returncode == 0
    assert odd("nonsense").returncode == 2
    assert odd("odd").returncode == 2


def test_arguments_that_are_no_text_end_in_one_line_and_are_nobodys_mistake() -> None:
    done = odd("odd", "a\udcff")  # a byte that is no UTF-8

    assert (done.returncode, done.stderr) == (2, "Error: the command line holds bytes that are no text in UTF-8\n")
