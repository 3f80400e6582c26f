"""The `corral` command. Commands are imported when they are asked for, so that `corral --help` is quick."""

import errno
import os
import select
import sys
import traceback
from contextlib import suppress
from importlib import metadata
from typing import Any

import click

from actors.cli.lazy_group import LazyGroup

EXIT_USAGE = 2
EXIT_OUTPUT = 3
EXIT_INTERNAL = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141  # what a shell shows for a program that SIGPIPE ended
DEBUG_VARIABLE = "CORRAL_DEBUG"
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

_COMMANDS: dict[str, str] = {
    "ask": "actors.cli.ask:ask",
    "assistant": "actors.cli.assistant:assistant",
    "audit": "actors.cli.audit:audit",
    "author": "actors.cli.author:author",
    "bench": "actors.cli.bench:bench",
    "check": "actors.cli.scenarios:check",
    "compare": "actors.cli.compare:compare_command",
    "devices": "actors.cli.devices:devices",
    "doctor": "actors.cli.doctor:doctor",
    "engine": "actors.cli.engine:engine",
    "farm": "actors.cli.farm:farm",
    "export": "actors.cli.export:export_command",
    "findings": "actors.cli.findings:findings",
    "evaluate": "actors.cli.evaluate:evaluate",
    "model": "actors.cli.model:model",
    "phones": "actors.cli.phones:phones",
    "plan": "actors.cli.plan:plan",
    "replay": "actors.cli.results:replay",
    "report": "actors.cli.results:report",
    "resume": "actors.cli.control:resume",
    "rules": "actors.cli.rules:rules",
    "run": "actors.cli.scenarios:run",
    "semantic": "actors.cli.semantic:semantic",
    "sql": "actors.cli.sql:sql",
    "status": "actors.cli.control:status",
    "token": "actors.cli.token:token",
    "verified": "actors.cli.verified:verified",
    "warehouse": "actors.cli.warehouse:warehouse",
}


class MainGroup(LazyGroup):
    """Every command, and what becomes of an output that nobody reads any more."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; click would end a broken pipe, whosever it is, with 1, and Ctrl-C too."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            sys.exit(_last_words(error))
        except KeyboardInterrupt:
            sys.exit(EXIT_INTERRUPTED)
        except BaseExceptionGroup as group:  # nurseries were open when Ctrl-C came
            if group.subgroup(KeyboardInterrupt) is None:
                raise
            sys.exit(EXIT_INTERRUPTED)


@click.command(
    cls=MainGroup,
    lazy=_COMMANDS,
    extras=dict.fromkeys(("asyncmy", "pymysql", "trio_asyncio"), "sql"),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(metadata.version("corral"), prog_name="corral")
@click.option("--debug", is_flag=True, help=f"Show the traceback of an internal error; also with {DEBUG_VARIABLE}=1.")
def corral(debug: bool) -> None:
    """Fleets of game bots on cloud phones: run, check, rehearse, report."""
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"


def main() -> None:
    """Entry point. Whatever happens ends in an exit code and at most one line.

    Ctrl-C outside a run is 130; a closed pipe is 141, quietly; an output that cannot be written is 3; anything that
    nobody foresaw is 70.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")  # a phone's words may not fit the terminal's encoding
    code: int | str | None
    try:
        corral(standalone_mode=True)
        code = 0
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001  # the last resort: nothing above it would show one line
        code = _last_words(error)
    sys.exit(_flushed(code))


def _flushed(code: int | str | None) -> int | str | None:
    """The exit code, once what was printed is out: else the interpreter would complain when it ends."""
    if sys.stdout is None:  # started with it closed
        return code
    try:
        sys.stdout.flush()
    except OSError as error:
        # what is left in the buffer must go somewhere, or the interpreter tries again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return code or EXIT_BROKEN_PIPE
        return code or _last_words(error)
    return code


def _last_words(error: Exception) -> int:
    """One line about an error that no command handled; the exit code."""
    first: BaseException = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, BrokenPipeError) and _output_is_closed():
        return EXIT_BROKEN_PIPE
    if isinstance(first, OSError) and first.filename is None and first.errno in _OUTPUT_ERRORS:
        _complain(f"Error: standard output cannot be written: {first.strerror}")
        return EXIT_OUTPUT
    if isinstance(first, UnicodeEncodeError) and any(_is_no_text(argument) for argument in sys.argv):
        _complain("Error: the command line holds bytes that are no text in UTF-8")
        return EXIT_USAGE
    text = " ".join(str(first).split())
    _complain(f"internal error: {type(first).__name__}: {text}; please report it with the log above")
    if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
        _complain("".join(traceback.format_exception(error)))
    return EXIT_INTERNAL


def _is_no_text(argument: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in argument)


def _complain(text: str) -> None:
    with suppress(OSError):  # where standard error is gone too, the exit code has to say it
        click.echo(text, err=True)


def _output_is_closed() -> bool:
    """Whether the reader of standard output went away."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)  # errors are told without being asked for
    except (OSError, ValueError):
        return False
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


if __name__ == "__main__":
    main()
