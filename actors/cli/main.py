"""The `corral` command. Commands are imported when they are asked for, so that `corral --help` is quick."""

import importlib
import sys
from importlib import metadata

import click

_COMMANDS: dict[str, str] = {
    "audit": "actors.cli.audit:audit",
    "author": "actors.cli.author:author",
    "bench": "actors.cli.bench:bench",
    "check": "actors.cli.scenarios:check",
    "engine": "actors.cli.engine:engine",
    "model": "actors.cli.model:model",
    "phones": "actors.cli.phones:phones",
    "replay": "actors.cli.results:replay",
    "report": "actors.cli.results:report",
    "resume": "actors.cli.control:resume",
    "rules": "actors.cli.rules:rules",
    "run": "actors.cli.scenarios:run",
    "sql": "actors.cli.sql:sql",
    "status": "actors.cli.control:status",
}


class LazyGroup(click.Group):
    """Finds its commands by name in `_COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, sorted."""
        del ctx
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None where there is none of that name."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(metadata.version("corral"), prog_name="corral")
def corral() -> None:
    """Fleets of game bots on cloud phones: run, check, rehearse, report."""


def main() -> None:
    """Entry point; Ctrl-C outside a run ends with 130 and no traceback."""
    try:
        corral(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
