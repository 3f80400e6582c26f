"""The `corral` command."""

import sys
from importlib import metadata

import click

from actors.cli.control import resume, status
from actors.cli.engine_rehearsal import rehearse
from actors.cli.model import model
from actors.cli.phones import phones
from actors.cli.results import replay, report
from actors.cli.rules import rules
from actors.cli.scenarios import check, run


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(metadata.version("corral"), prog_name="corral")
def corral() -> None:
    """Fleets of game bots on cloud phones: run, check, rehearse, report."""


@corral.group()
def engine() -> None:
    """Inference engines."""


engine.add_command(rehearse)

corral.add_command(model)
corral.add_command(phones)
corral.add_command(run)
corral.add_command(check)
corral.add_command(report)
corral.add_command(replay)
corral.add_command(rules)
corral.add_command(status)
corral.add_command(resume)


def main() -> None:
    """Entry point; Ctrl-C outside a run ends with 130 and no traceback."""
    try:
        corral(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
