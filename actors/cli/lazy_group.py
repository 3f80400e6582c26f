"""A command group that imports its commands when they are asked for: `--help` is quick, extras stay optional."""

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group with commands of other modules beside its own.

    Args:
        lazy: Name → `module:attribute`.
        extras: Top-level modules that may be missing → the extra that brings them.
    """

    def __init__(
        self,
        *arguments: Any,
        lazy: Mapping[str, str] | None = None,
        extras: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._lazy = {} if lazy is None else lazy
        self._extras = {} if extras is None else extras

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, sorted."""
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, imported if need be; None where there is none of that name."""
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._lazy[cmd_name].partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            extra = self._extras.get(error.name or "")
            if extra is None:
                raise
            raise click.ClickException(f"this needs more packages: pip install 'corral[{extra}]' ({error})") from error
        assert isinstance(command, click.Command)
        return command
