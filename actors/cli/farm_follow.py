"""What `corral farm` shows while it goes on: a log that grows, a farm that works."""

import time
from typing import Any

import click
from rich.live import Live

from actors.cli.farm_show import farm_view, plain
from actors.farm.client import FarmClient, path_of

FOLLOW_SECONDS = 1.0
OVER = frozenset({"succeeded", "failed", "errored", "wrong", "cancelled"})


def log_text(body: bytes) -> str:
    """A log as it is printed: what phones and models said stands in it."""
    return plain(body.decode("utf-8", "replace"), keep="\n\t")


def follow_logs(client: FarmClient, run: str, attempt: int | None, offset: int) -> None:
    """Print what is added until the run has its result."""
    while True:
        is_over = client.call("GET", path_of("runs", run)).json["state"] in OVER  # before the last look at the log
        query = {"attempt": attempt, "offset": offset}
        answer = client.call("GET", path_of("runs", run, "logs"), query=query)
        click.echo(log_text(answer.body), nl=False)
        offset = int(answer.headers["x-next-offset"])
        if is_over and not answer.body:
            return
        if not answer.body:
            time.sleep(FOLLOW_SECONDS)


def look(client: FarmClient) -> dict[str, Any]:
    """The farm, what plays and what waits."""
    return {
        "farm": client.call("GET", path_of("farm")).json,
        "running": client.call("GET", path_of("runs"), query={"state": "running", "limit": 100}).json["runs"],
        "queued": client.call("GET", path_of("runs"), query={"state": "queued", "limit": 20}).json["runs"],
    }


def watch(client: FarmClient, every_seconds: float) -> None:
    """Until Ctrl-C."""
    with Live(farm_view(look(client)), auto_refresh=False) as live:
        while True:
            time.sleep(every_seconds)
            live.update(farm_view(look(client)), refresh=True)
