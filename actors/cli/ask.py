"""`corral ask`: a question, and its answer as it is made."""

import getpass
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click
import trio
from rich.console import Console

from actors.ask_chart import ChartError, check_chart_path, write_chart
from actors.ask_interactive import LineHistory, history_path, run_interactive
from actors.ask_lines import typed
from actors.ask_remote import open_remote
from actors.ask_socket import AssistantAddress, BadUrl, parse_address
from actors.ask_view import JsonView, TerminalView
from actors.asking import AskError, Asking
from actors.cli.token_option import TOKEN_VARIABLE, token_of
from actors.configuration import ScenarioError
from actors.token_store import Role
from runtime.ids import DEFAULT_TENANT, TenantId
from runtime.nursery import open_bare_nursery
from runtime.process import ProcessError
from runtime.telemetry import configure
from sqlassist.audit import AuditError
from sqlassist.messages import Asker, Event, Question, Stage
from sqlassist.protocol import MAX_TEXT

if TYPE_CHECKING:
    from actors.assistant_config import AssistantConfig

EXIT_NOT_ANSWERED = 1
EXIT_WRONG = 2
EXIT_INFRASTRUCTURE = 3
EXIT_INTERRUPTED = 130

_CODES = {
    Stage.ANSWER: 0,
    Stage.CLARIFICATION: EXIT_NOT_ANSWERED,
    Stage.REFUSAL: EXIT_NOT_ANSWERED,
    Stage.FAILED: EXIT_INFRASTRUCTURE,
    Stage.CANCELLED: EXIT_INTERRUPTED,
}

Opened = Callable[[], AbstractAsyncContextManager[Asking]]


@attrs.frozen
class _Outputs:
    as_json: bool
    chart: Path | None


@click.command()
@click.argument("words", metavar="[QUESTION]...", nargs=-1)
@click.option("--url", help="An assistant that is served, as ws://127.0.0.1:8765 or wss://farm.example.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"Holds the token; else ${TOKEN_VARIABLE} does.",
)
@click.option("--ca-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Signed its certificate.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="As corral assistant serve takes it: answer in this process. Without it and --url, from the runs made here.",
)
@click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="Without --url: whose data is asked for.")
@click.option("--think/--no-think", default=None, help="Whether a model thinks before it answers; else it depends.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line for each event.")
@click.option("--chart", type=click.Path(dir_okay=False, path_type=Path), help="Write the chart: .json, .svg or .png.")
def ask(
    words: tuple[str, ...],
    url: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    config_file: Path | None,
    tenant: str,
    think: bool | None,
    as_json: bool,
    chart: Path | None,
) -> None:
    """Ask a QUESTION in English or Chinese; without one, ask at a prompt.

    \b
    corral ask "which phone dropped the most stale actions?"
    corral ask --url wss://farm.example "上周每天的新增玩家"

    Exit code: 0 answered, 1 refused or to be made clearer, 2 the command line or CONFIG is wrong, 3 the assistant, a
    database or a model failed.
    """  # noqa: D301  # \b is click's mark
    configure(level="error")
    text = typed(" ".join(words)).strip()
    if len(text) > MAX_TEXT:
        raise click.UsageError(f"a question has at most {MAX_TEXT} characters, not {len(text)}")
    if url is not None and config_file is not None:
        raise click.UsageError("--url and --config exclude each other")
    try:
        if chart is not None:
            check_chart_path(chart)
        opened = _remote(url, token_file, ca_file) if url is not None else _embedded(config_file, TenantId(tenant))
        if text:
            outputs = _Outputs(as_json, chart)
            sys.exit(trio.run(partial(_once, opened, Question("q1", text, think=think), outputs)))
        if not sys.stdin.isatty() or as_json or chart is not None:
            raise click.UsageError("there is no question; the prompt needs a terminal, without --json and --chart")
        with LineHistory(history_path()):
            run_interactive(opened, Console(highlight=False))
    except ScenarioError as error:
        for problem in error.problems:
            click.echo(f"Error: {problem}", err=True)
        sys.exit(EXIT_WRONG)
    except (BadUrl, ChartError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)
    except (AskError, ProcessError, AuditError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)


async def _once(opened: Opened, question: Question, outputs: _Outputs) -> int:
    """Ask one question; Ctrl-C cancels it."""
    console = Console(highlight=False)
    view = JsonView(console, question.id) if outputs.as_json else TerminalView(console)
    answered: list[Event] = []
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        async with opened() as asking, open_bare_nursery() as nursery:

            async def cancel() -> None:
                async for _ in received:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(cancel)
            answered.append(await asking.ask(question, view.take))
            nursery.cancel_scope.cancel()
    if not answered:
        return EXIT_INTERRUPTED
    last = answered[0]
    if outputs.chart is not None and last.stage is Stage.ANSWER:
        if view.seen.chart is None:
            raise ChartError(f"{outputs.chart} is not written: nothing in this answer can be drawn")
        write_chart(view.seen.chart, outputs.chart)
    return _CODES[last.stage]


def _remote(url: str, token_file: Path | None, ca_file: Path | None) -> Opened:
    address: AssistantAddress = parse_address(url)
    if ca_file is not None and not address.is_tls:
        raise BadUrl(f"--ca-file is for wss addresses, not {address}")
    token = token_of(token_file, "an assistant")
    return partial(open_remote, address, token, ca_file=ca_file)


def _embedded(config_file: Path | None, tenant: TenantId) -> Opened:
    """Its imports take a second or two, which a client of a served assistant does without."""
    from actors.assistant_config import load_assistant_config  # noqa: PLC0415

    if config_file is not None:
        return partial(_opened_here, load_assistant_config(config_file), tenant)
    from actors.assistant import default_config  # noqa: PLC0415

    return partial(_opened_here, default_config(), tenant)


@asynccontextmanager
async def _opened_here(config: "AssistantConfig", tenant: TenantId) -> AsyncIterator[Asking]:
    from actors.ask_embedded import EmbeddedAsking  # noqa: PLC0415
    from actors.assistant import open_answering  # noqa: PLC0415
    from actors.assistant_serve import histories_of  # noqa: PLC0415
    from actors.question_history import QuestionHistory  # noqa: PLC0415

    asker = Asker(getpass.getuser(), tenant, frozenset({Role.ADMIN.value}))  # the files are theirs
    async with open_answering(config) as answering:
        yield EmbeddedAsking(answering, asker, QuestionHistory(histories_of(config)))
