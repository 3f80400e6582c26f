"""Finds the subcommands of `corral sql` by name: what needs a database driver is imported when it is asked for."""

import importlib

import click

_MORE: dict[str, str] = {
    "provision": "actors.cli.sql_admin:provision",
    "refresh": "actors.cli.sql_admin:refresh",
    "run": "actors.cli.sql_run:run",
    "sample": "actors.cli.sql_admin:sample",
    "verify": "actors.cli.sql_admin:verify",
}
_DRIVERS = {"asyncmy", "duckdb", "pymysql", "trio_asyncio"}


class SqlGroup(click.Group):
    """A group with commands of other modules beside its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, sorted."""
        return sorted({*super().list_commands(ctx), *_MORE})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command; the group's own ones first."""
        if cmd_name not in _MORE:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = _MORE[cmd_name].partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name not in _DRIVERS:
                raise
            raise click.ClickException(
                f"this needs the database drivers: pip install 'corral[sql]' ({error})"
            ) from error
        assert isinstance(command, click.Command)
        return command
