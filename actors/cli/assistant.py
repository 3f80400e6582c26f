"""`corral assistant`: questions of many people over websockets."""

import json
import sys
from functools import partial
from pathlib import Path

import click
import trio

from actors.analyst_websocket import ListenError
from actors.ask_socket import AssistantAddress
from actors.asking import AskError
from actors.assistant_config import AssistantConfig, load_assistant_config
from actors.assistant_serve import serve_assistant
from actors.configuration import Problem, ScenarioError
from actors.token_store import TokenStoreError
from runtime.collector import collect_rarely
from runtime.process import ProcessError
from runtime.telemetry import configure
from sqlassist.audit import AuditError

EXIT_WRONG = 2
EXIT_INFRASTRUCTURE = 3


@click.group()
def assistant() -> None:
    """Questions in English or Chinese, answered from databases."""


@assistant.command()
@click.argument("config_file", metavar="CONFIG", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--log-json/--log-text", "log_json", default=True, show_default=True, help="How standard error looks.")
def serve(config_file: Path, log_json: bool) -> None:
    """Serve the assistant of CONFIG on its address, until SIGTERM or Ctrl-C (docs/assistant-protocol.md).

    Prints one line, {"ready": true, "url": ...}, once clients may connect. The first signal lets running questions
    end; a second one cuts them.

    Exit code: 0 ended as asked, 2 CONFIG is wrong, 3 the executor, the audit trail or the address cannot be had.
    """
    configure(json=log_json)
    collect_rarely()
    try:
        config = load_assistant_config(config_file)
        trio.run(partial(_serve, config))
    except ScenarioError as error:
        _print_problems(error.problems)
        sys.exit(EXIT_WRONG)
    except TokenStoreError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)
    except (ListenError, ProcessError, AuditError, AskError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)


@assistant.command()
@click.argument("config_file", metavar="CONFIG", type=click.Path(dir_okay=False, path_type=Path))
def check(config_file: Path) -> None:
    """Check CONFIG; nothing is started. Exit code: 0 sound, 2 every mistake was printed."""
    try:
        load_assistant_config(config_file)
    except ScenarioError as error:
        _print_problems(error.problems)
        sys.exit(EXIT_WRONG)
    click.echo(f"{config_file}: sound")


async def _serve(config: AssistantConfig) -> None:
    from actors.assistant import open_answering  # noqa: PLC0415  # sqlglot and duckdb take a while to load

    await serve_assistant(config, open_answering, _tell_ready)


def _print_problems(problems: tuple[Problem, ...]) -> None:
    """As `actors.cli.scenarios` does, which would bring all of the fleet into this process."""
    for problem in problems:
        click.echo(f"Error: {problem}", err=True)


def _tell_ready(address: AssistantAddress) -> None:
    sys.stdout.write(json.dumps({"ready": True, "url": str(address)}) + "\n")
    sys.stdout.flush()
