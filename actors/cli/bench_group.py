"""Finds commands of `corral bench` by name, so that what one benchmark needs is imported when that one is asked for."""

import importlib

import click

_MORE: dict[str, str] = {
    "client": "actors.cli.bench_inference:client",
    "engine": "actors.cli.bench_engine:engine",
    "knee": "actors.cli.bench_inference:knee",
    "pool": "actors.cli.bench_inference:pool",
    "routing": "actors.cli.bench_inference:routing",
    "storm": "actors.cli.bench_storm:storm",
}


class BenchGroup(click.Group):
    """A group with commands of other modules beside its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, sorted."""
        return sorted({*super().list_commands(ctx), *_MORE})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command; the group's own ones first."""
        if cmd_name not in _MORE:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = _MORE[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command
