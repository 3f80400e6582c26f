"""`corral engine`."""

import click

from actors.cli.engine_rehearsal import rehearse


@click.group()
def engine() -> None:
    """Inference engines."""


engine.add_command(rehearse)
